"""Pydantic's models as JSON and back, by their own methods. Pydantic itself is not imported: it may not be there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from headway.providers.error_messages import describe_exception

#: Values that an encoder knows itself, but for a dictionary's keys.
_NO_KEYS: Final = (tuple, list, dict, set, frozenset)


def dumped(value: Any, *, round_trip: bool = False) -> Any:
    """A model in builtin types, as JSON has them. `round_trip`: only what a model can be made of again.

    Raises TypeError for what is no model.
    """
    if callable(getattr(type(value), "model_dump", None)):
        try:
            return value.model_dump(mode="json", round_trip=round_trip, warnings=False)
        except Exception:  # It has bytes that are no text, or an object that only the encoder knows.
            return _with_objects(value)
    if callable(getattr(type(value), "parse_obj", None)):  # Version 1.
        return value.dict()
    kind = type(value)
    where = " as a key" if kind in _NO_KEYS else ""
    raise TypeError(f"JSON has no {kind.__name__}{where}")


def _with_objects(value: Any) -> Any:
    try:
        return value.model_dump()
    except Exception as error:
        raise TypeError(f"its model_dump() fails: {describe_exception(error)}") from error


def loaded(kind: Any, plain: Any) -> Any:
    """A model of this type, from what `dumped` gave. Raises TypeError for a type that is no model."""
    if callable(getattr(kind, "model_validate_json", None)):
        try:
            return _read(kind.model_validate_json, json.dumps(plain))
        except (TypeError, ValueError):  # Bytes, which JSON has not.
            return _read(kind.model_validate, plain)
    if callable(getattr(kind, "parse_obj", None)):  # Version 1.
        return kind.parse_obj(plain)
    raise TypeError(f"expected {getattr(kind, '__name__', kind)}, got {type(plain).__name__}")


def is_model(kind: Any) -> bool:
    """Whether `loaded` can make one of this type."""
    return any(callable(getattr(kind, name, None)) for name in ("model_validate_json", "parse_obj"))


def _read(validate: Callable[..., Any], given: Any) -> Any:
    """By the names of fields, under which they are kept, and by their aliases."""
    try:
        return validate(given, by_alias=True, by_name=True)
    except TypeError:  # Older than 2.11.
        return validate(given)
