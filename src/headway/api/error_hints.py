"""Errors that were worded for the command line, for who wrote an argument instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headway.errors import HeadwayError

_SAID: Final = (
    ("'headway resume'", "the same program"),
    ("watch it with", "wait for it, give this one another name, or watch it with"),
)


@contextmanager
def in_python(db: str) -> Iterator[None]:
    """Errors of the records speak of `db=` (or whatever the argument is called), not of `--db`."""
    try:
        yield
    except HeadwayError as error:
        reworded(error, db)
        raise


def reworded(error: Exception, db: str) -> None:
    """The same error in the words of a program."""
    if isinstance(error, HeadwayError) and error.hint:
        for flag, argument in (("--db", f"{db}="), *_SAID):
            error.hint = error.hint.replace(flag, argument)
