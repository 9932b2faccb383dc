"""Values as JSON: floats and texts that JSON cannot hold, and Pydantic's models.

JSON has no NaN and no infinities: they become the texts "NaN", "Infinity" and "-Infinity", as in the JSON forms of Protocol
Buffers and Pydantic; `float()` reads them. msgspec writes `null` for each, which loses them. Half of a surrogate pair, which
no encoding can write, is written out (`\\ud800`).

Models are dumped and loaded by their own methods. Pydantic itself is not imported: it may not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf, isfinite
from typing import Any, Final

import msgspec

from headway.providers.error_messages import describe_exception
from headway.safe_text import escape_lone_surrogates

#: Types that the encoder knows, except as keys of a dictionary.
_NO_KEYS: Final = (tuple, list, dict, set, frozenset)


def encode_json(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """JSON, with texts for non-finite floats. `default` converts what the encoder does not know."""
    try:
        encoded = msgspec.json.encode(value, enc_hook=default)
    except UnicodeEncodeError:
        plain = _whole_texts(msgspec.to_builtins(value, str_keys=True, enc_hook=default))
    else:
        if b"null" not in encoded:
            return encoded  # The usual case: no float was lost.
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=default)
    return msgspec.json.encode(non_finite_as_text(plain), enc_hook=default)


def is_non_finite(plain: Any) -> bool:
    """Whether it is a float that JSON cannot hold."""
    return isinstance(plain, float) and not isfinite(plain)


def non_finite_as_text(plain: Any) -> Any:
    """The same value (of builtin types) with texts for non-finite floats."""
    if is_non_finite(plain):
        return "Infinity" if plain == inf else "-Infinity" if plain == -inf else "NaN"
    if isinstance(plain, dict):
        return {key: non_finite_as_text(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple | set | frozenset):
        return [non_finite_as_text(value) for value in plain]
    return plain


def _whole_texts(plain: Any) -> Any:
    if isinstance(plain, str):
        return escape_lone_surrogates(plain)
    if isinstance(plain, dict):
        return {_whole_texts(key): _whole_texts(value) for key, value in plain.items()}
    if isinstance(plain, list | tuple | set | frozenset):
        return [_whole_texts(value) for value in plain]
    return plain


# -- models --------------------------------------------------------------------------------------------------------


def dump_model(value: Any, *, round_trip: bool = False) -> Any:
    """A model as builtin types that JSON has. `round_trip`: only what a model can be made of again.

    Raises TypeError for a value that is not a model.
    """
    if callable(getattr(type(value), "model_dump", None)):
        try:
            return value.model_dump(mode="json", round_trip=round_trip, warnings=False)
        except Exception:  # It holds bytes that are not text, or an object that only the encoder knows.
            return _dump_with_objects(value)
    if callable(getattr(type(value), "parse_obj", None)):  # Version 1.
        return value.dict()
    kind = type(value)
    where = " as a key" if kind in _NO_KEYS else ""
    raise TypeError(f"JSON has no {kind.__name__}{where}")


def _dump_with_objects(value: Any) -> Any:
    try:
        return value.model_dump()
    except Exception as error:
        raise TypeError(f"its model_dump() fails: {describe_exception(error)}") from error


def load_model(kind: Any, plain: Any) -> Any:
    """A model of this type, from the result of `dump_model`. Raises TypeError for a type that is not a model."""
    if callable(getattr(kind, "model_validate_json", None)):
        try:
            return _validated(kind.model_validate_json, json.dumps(plain))
        except (TypeError, ValueError):  # Bytes, which JSON cannot hold.
            return _validated(kind.model_validate, plain)
    if callable(getattr(kind, "parse_obj", None)):  # Version 1.
        return kind.parse_obj(plain)
    raise TypeError(f"expected {getattr(kind, '__name__', kind)}, got {type(plain).__name__}")


def is_model_type(kind: Any) -> bool:
    """Whether `load_model` can make a value of this type."""
    return any(callable(getattr(kind, name, None)) for name in ("model_validate_json", "parse_obj"))


def _validated(validate: Callable[..., Any], plain: Any) -> Any:
    """Fields may be given by their names, under which they are stored, and by their aliases."""
    try:
        return validate(plain, by_alias=True, by_name=True)
    except TypeError:  # Older than 2.11.
        return validate(plain)
