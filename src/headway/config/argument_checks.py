"""Checks of arguments of Python functions. An error names the argument and shows its value in one line."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Final

from headway.errors import UsageError
from headway.safe_text import has_lone_surrogate

#: Characters of a value that a message shows.
_LONGEST: Final = 60


def brief(thing: object) -> str:
    """Its repr, shortened."""
    text = text_of(thing)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def text_of(thing: object) -> str:
    """Its repr; its type if the repr raises."""
    try:
        return repr(thing)
    except BaseException:
        return f"a {type(thing).__name__}"


def named(thing: object) -> str:
    """A short description of a value that may be large or private: its type and name, never its contents."""
    if isinstance(thing, str | int | float | None):
        text = repr(thing)
        return text if len(text) <= 40 else f"{text[:39]}…"
    name = getattr(thing, "__name__", None)
    return f"the {type(thing).__name__} {name}" if name else f"a {type(thing).__name__}"


def must_be_whole(value: object, name: str, least: int, hint: str) -> None:
    """Require an integer; True is not one."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is {brief(value)}", hint=hint)


def must_be_number(value: object, name: str, hint: str) -> None:
    """Require a number of 0 or more; neither True nor NaN is one."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise UsageError(f"{name} is {brief(value)}", hint=hint)


def must_be_function(value: object, name: str, hint: str) -> None:
    """Require a callable, or None."""
    if value is not None and not callable(value):
        raise UsageError(f"{name} is {brief(value)}", hint=hint)


def must_be_text(value: object, name: str, hint: str) -> None:
    """Require a string, or None."""
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is {brief(value)}", hint=hint)


def must_be_recordable(text: str, what: str) -> None:
    """Require a text that can be recorded: half of a surrogate pair cannot be encoded, and no database compares U+0000."""
    if "\0" in text:
        raise UsageError(
            f"{what} {brief(text)} has the character U+0000, and cannot be recorded", hint="remove it"
        )
    if has_lone_surrogate(text):
        raise UsageError(
            f"{what} {brief(text)} has half of a surrogate pair, and cannot be recorded",
            hint="remove it: it comes from a character cut in two, or from bytes that are not UTF-8",
        )


def path_of(value: str | PathLike[str] | None, name: str) -> str | None:
    """A path as a string."""
    given: object = fspath(value) if isinstance(value, PathLike) else value
    if given is None or (isinstance(given, str) and given):
        must_be_recordable(given or "", name)
        return given
    raise UsageError(f"{name} is {brief(value)}", hint=f'use the path of a file: {name}="work.db"')
