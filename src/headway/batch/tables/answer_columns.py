"""An answer's fields as columns of their own: which a schema has, and of what kind they are."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

Kind = Literal["string", "integer", "number", "boolean"]
_KINDS: Final[dict[str, Kind]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
_OF_VALUES: Final[dict[type, Kind]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class Field(msgspec.Struct, frozen=True):
    """A property of the answer that holds one plain value."""

    name: str
    kind: Kind


def fields_of(schema: Any) -> list[Field]:
    """The plain properties of an object's schema, in their order; none where the answer is no object."""
    if not isinstance(schema, dict):
        return []
    top = _resolved(schema, schema)
    properties = top.get("properties")
    if top.get("type") != "object" or not isinstance(properties, dict):
        return []
    found = ((name, _kind(_resolved(part, schema))) for name, part in properties.items())
    return [Field(name, kind) for name, kind in found if kind is not None]


def _resolved(part: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """What a local reference leads to."""
    if not isinstance(part, dict):
        return {}
    where = part.get("$ref")
    if not isinstance(where, str) or not where.startswith("#/"):
        return part
    found: Any = schema
    for step in where[2:].split("/"):
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if isinstance(found, dict) and "$ref" not in found else {}


def _kind(part: dict[str, Any]) -> Kind | None:
    """The kind of a property that is one plain value, or one or null; None of any other."""
    if "type" in part:
        told = part["type"] if isinstance(part["type"], list) else [part["type"]]
        kinds = [_KINDS.get(each) for each in told if each != "null"]
    elif "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        kinds = [_OF_VALUES.get(type(value)) for value in values if value is not None]
    else:
        choices = part.get("anyOf") or part.get("oneOf") or []
        others = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
        kinds = [_kind(each) if isinstance(each, dict) else None for each in others]
    return kinds[0] if len(set(kinds)) == 1 else None
