"""Cheap checks of single fields, before anything is sent. The provider checks the rest.

Each check raises a `UsageError` that names the field and says what it must be. A null means the same as a missing field.
`at` is the path of the fields in messages: "" in a short row, "body." in a Batch row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headway.errors import UsageError

Fields = Mapping[str, Any]

#: No model writes more. A larger number is a mistake, and would not fit the integers of a database.
MOST_TOKENS: Final = 1_000_000_000
#: A name that a row stores its answer under, and that later rows have in braces.
STORED_NAME: Final = re.compile(r"[^\W\d]\w*")
#: PostgreSQL's integer.
LARGEST_PRIORITY: Final = 2**31 - 1


def custom_id(value: object, number: int, name: str) -> str:
    """The id of a row; by default it is made from the line number."""
    if value is None:
        return f"row-{number}"
    if type(value) is int or type(value) is float:
        return str(value)
    if type(value) is not str or not value or "\0" in value:
        raise UsageError(f'"{name}" must be a string or a number')
    return value


def priority(value: object) -> int:
    """The priority; higher goes first, 0 by default."""
    if value is None:
        return 0
    if type(value) is not int or abs(value) > LARGEST_PRIORITY:
        raise UsageError('"priority" must be a whole number')
    return value


def serial(value: object) -> bool:
    """Whether a unit runs alone, before all others."""
    if value is None:
        return False
    if type(value) is not bool:
        raise UsageError('"serial" must be true or false')
    return value


def conversation(value: object) -> str:
    """The conversation of a row; "" without one."""
    if value is None:
        return ""
    if type(value) is not str or not value:
        raise UsageError('"conversation" must be a string that is not empty: the name of a conversation')
    return value


def store_as(value: object) -> str:
    """The name under which later rows find the text of the answer; "" without one."""
    if value is None:
        return ""
    if type(value) is not str or not STORED_NAME.fullmatch(value):
        raise UsageError('"store_as" must be a name of letters, digits and "_", such as "summary"')
    return value


def model(value: object, at: str) -> str | None:
    """The model as the row names it; None without one."""
    if value is not None and (type(value) is not str or not value):
        raise UsageError(f'"{at}model" must be a string')
    return value


def whole(body: Fields, name: str, at: str) -> int:
    """A whole number above 0; 0 if the field is missing."""
    value = body.get(name)
    if value is None:
        return 0
    if type(value) is not int or value < 1:
        raise UsageError(f'"{at}{name}" must be a whole number above 0')
    if value > MOST_TOKENS:
        raise UsageError(f'"{at}{name}" must be a whole number up to {MOST_TOKENS:,}')
    return value


def messages(value: object, at: str) -> None:
    """A conversation: a list of objects, each with a role."""
    if type(value) is not list or not value:
        raise UsageError(f'"{at}messages" must be a list of at least one message')
    for place, message in enumerate(value):
        if type(message) is not dict or type(message.get("role")) is not str:
            raise UsageError(f'"{at}messages[{place}]" must be an object with a "role"')


def texts(value: object, at: str) -> None:
    """The input of embeddings and of the Responses API: a text or a list."""
    if (type(value) is not str and type(value) is not list) or not value:
        raise UsageError(f'"{at}input" must be a string or a list, and not empty')


def contents(value: object, at: str) -> None:
    """Gemini's conversation: a list of objects, each with its parts."""
    if type(value) is not list or not value:
        raise UsageError(f'"{at}contents" must be a list of at least one content')
    for place, content in enumerate(value):
        if type(content) is not dict or type(content.get("parts")) is not list:
            raise UsageError(f'"{at}contents[{place}]" must be an object with "parts"')


def anything(value: object, at: str) -> None:
    """Accepts every body: its format depends on the model."""


def within(body: Fields, name: str, at: str) -> tuple[Fields, str]:
    """The object in the body that has the settings, and its path."""
    if not name:
        return body, at
    inner = body.get(name)
    if inner is not None and type(inner) is not dict:
        raise UsageError(f'"{at}{name}" must be an object')
    return inner or {}, f"{at}{name}."


def most_output(body: Fields, names: tuple[str, ...], at: str, answers: str = "n") -> float:
    """The most output tokens: the first of these limits, times the number of answers; 0.0: no limit."""
    most = 0
    for name in names:
        most = most or whole(body, name, at)
    return float(most * (whole(body, answers, at) or 1)) if answers in body else float(most)
