"""The parts of a request's address: cursors, limits, choices. What cannot be read is an error with the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

#: The rows of a page where none is asked for, and at most.
ROWS: Final = 100
MOST_ROWS: Final = 500
#: The longest text of a search, and of any other value.
_LONGEST: Final = 500


class BadRequest(Exception):
    """A request that cannot be answered as it is. Its text says what is wrong."""


class Page(NamedTuple):
    """Which part of a list: what follows the cursor `after`, at most `limit` rows."""

    after: str | None
    limit: int


def page_of(query: Mapping[str, str], rows: int = ROWS) -> Page:
    """The page that a request asks for."""
    return Page(query.get("after") or None, min(MOST_ROWS, whole_number(query, "limit", rows, least=1)))


def cursor_number(cursor: str) -> int:
    """A cursor that is a number inside."""
    if not cursor.isascii() or not cursor.isdecimal() or len(cursor) > 15:
        raise BadRequest("'after' is not a cursor: use the 'next' of the page before")
    return int(cursor)


def whole_number(query: Mapping[str, str], name: str, default: int, *, least: int = 0) -> int:
    """A whole number of the query."""
    if not (text := query.get(name, "")):
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 9 or int(text) < least:
        raise BadRequest(f"'{name}' is a whole number from {least} on")
    return int(text)


def instant(query: Mapping[str, str], name: str) -> float | None:
    """An instant of the query, in seconds."""
    if not (text := query.get(name, "")):
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e12:
        raise BadRequest(f"'{name}' is a time in seconds since 1970")
    return value


def choice(query: Mapping[str, str], name: str, among: Collection[str]) -> str | None:
    """One of a few words."""
    if not (text := query.get(name, "")):
        return None
    if text not in among:
        raise BadRequest(f"'{name}' is one of: {', '.join(among)}")
    return text


def bounded(query: Mapping[str, str], name: str) -> str:
    """A text of the query; "" if there is none."""
    text = query.get(name, "")
    if len(text) > _LONGEST:
        raise BadRequest(f"'{name}' is longer than {_LONGEST} characters")
    return text
