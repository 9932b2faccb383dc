"""Arguments that are not what they should be, in one line that names them."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Final

from headway.errors import UsageError

#: No argument takes more of a message than so many characters.
_LONGEST: Final = 60


def brief(thing: object) -> str:
    """Its repr, shortened; one that cannot say itself by its type."""
    try:
        text = repr(thing)
    except Exception:
        text = f"a {type(thing).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
