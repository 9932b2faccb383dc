"""What templates reach with a dot or in brackets: fields, items, `length`, and a few methods of JavaScript. PURE.

Nothing of Python is reachable: attributes of Python's objects are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headway.evals.template_language.js_values import (
    UNDEFINED,
    identical,
    is_number,
    text_length,
    text_of_value,
    to_number,
)


class Method(msgspec.Struct, frozen=True):
    """A method of a value, ready to be called."""

    value: Any
    name: str
    call: Callable[..., Any]


def member(value: Any, key: Any) -> Any:
    """`value[key]`; UNDEFINED if there is none."""
    if isinstance(value, dict):
        return _field(value, key)
    if isinstance(value, str | list | tuple):
        if key == "length":
            return text_length(value) if isinstance(value, str) else len(value)
        if is_number(key) or (isinstance(key, str) and key.isdecimal()):
            return _item(value, to_number(key))
        methods = TEXT_METHODS if isinstance(value, str) else LIST_METHODS
        if isinstance(key, str) and key in methods:
            return Method(value, key, methods[key])
    return UNDEFINED


def _field(value: dict[Any, Any], key: Any) -> Any:
    if isinstance(key, str | int | float) and key in value:
        return value[key]
    return value.get(text_of_value(key), UNDEFINED)


def _item(value: str | list[Any] | tuple[Any, ...], index: float) -> Any:
    if isinstance(index, int) and 0 <= index < len(value):
        return value[index]
    return UNDEFINED


def _slice(value: Any, start: Any = 0, end: Any = UNDEFINED) -> Any:
    first = to_number(start)
    last = len(value) if end is UNDEFINED else to_number(end)
    return value[int(first) : int(last)] if isinstance(first, int) and isinstance(last, int) else value[:0]


def _split(value: str, mark: Any = UNDEFINED) -> list[str]:
    if mark is UNDEFINED:
        return [value]
    return value.split(text_of_value(mark)) if mark != "" else list(value)


def _join(value: Any, mark: Any = ",") -> str:
    return text_of_value(mark).join("" if item is None else text_of_value(item) for item in value)


def _index_of(value: Any, sought: Any) -> int:
    if isinstance(value, str):
        return value.find(text_of_value(sought))
    return next((i for i, item in enumerate(value) if identical(item, sought)), -1)


def _includes(value: Any, sought: Any) -> bool:
    return _index_of(value, sought) >= 0


TEXT_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "toUpperCase": lambda value: value.upper(),
    "toLowerCase": lambda value: value.lower(),
    "toString": lambda value: value,
    "trim": lambda value: value.strip(),
    "includes": _includes,
    "indexOf": _index_of,
    "startsWith": lambda value, start: value.startswith(text_of_value(start)),
    "endsWith": lambda value, end: value.endswith(text_of_value(end)),
    "replace": lambda value, old, new: value.replace(text_of_value(old), text_of_value(new), 1),
    "slice": _slice,
    "substring": lambda value, start, end=UNDEFINED: _slice(value, max(start, 0), end),
    "split": _split,
}
LIST_METHODS: Final[Mapping[str, Callable[..., Any]]] = {
    "includes": _includes,
    "indexOf": _index_of,
    "slice": _slice,
    "join": _join,
    "concat": lambda value, *more: [
        *value,
        *(item for other in more for item in (other if isinstance(other, list | tuple) else [other])),
    ],
}
