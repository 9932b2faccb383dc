"""The types of state fields: whether a value has one. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headway.flows.spec import FieldType

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
}


def fits(wanted: FieldType, value: Any) -> bool:
    """Whether a JSON value has this type."""
    if wanted == "any":
        return True
    if wanted == "array":
        return isinstance(value, Sequence) and not isinstance(value, str)
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])


def type_name(value: Any) -> str:
    """The type of a JSON value, as a flow file names it."""
    if value is None:
        return "null"
    kinds: tuple[FieldType, ...] = ("boolean", "integer", "number", "string", "object", "array")
    return next((kind for kind in kinds if fits(kind, value)), type(value).__name__)
