"""Regular expressions that are compiled when they are first used.

Most runs meet no error with a text. The patterns that read one took 5 ms of every start.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """A `re.Pattern` in the making: the first method that is called compiles it."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)  # Found without this method from now on.
        return value


def lazy_pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Like `re.compile`. An error in the pattern is raised at the first use."""
    return cast(re.Pattern[str], _LazyPattern(text, flags))
