"""Rewrites CLI hints for Python callers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headway.errors import HeadwayError

_REPLACEMENTS: Final = (
    ("'headway resume'", "the same program"),
    ("watch it with", "wait for it, give this one another name, or watch it with"),
)


@contextmanager
def python_hints(db: str) -> Iterator[None]:
    """Rewrite the hints of errors raised in this block. `db` is the name of the argument that stands for `--db`."""
    try:
        yield
    except HeadwayError as error:
        rewrite_hint(error, db)
        raise


def rewrite_hint(error: Exception, db: str) -> None:
    """Replace command-line words in the hint of an error, in place."""
    if isinstance(error, HeadwayError) and error.hint:
        for flag, argument in (("--db", f"{db}="), *_REPLACEMENTS):
            error.hint = error.hint.replace(flag, argument)
