"""The fields of an answer that get columns of their own, from the schema of the answers."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

FieldKind = Literal["string", "integer", "number", "boolean"]
_KINDS: Final[dict[str, FieldKind]] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
_OF_VALUES: Final[dict[type, FieldKind]] = {str: "string", int: "integer", float: "number", bool: "boolean"}


class AnswerField(msgspec.Struct, frozen=True):
    """A property of the answer that holds one plain value."""

    name: str
    kind: FieldKind


def fields_of(schema: Any) -> list[AnswerField]:
    """The plain properties of an object schema, in order; none if the answer is not an object."""
    if not isinstance(schema, dict):
        return []
    top = _resolved(schema, schema)
    properties = top.get("properties")
    if top.get("type") != "object" or not isinstance(properties, dict):
        return []
    kinds = ((name, _kind(_resolved(part, schema))) for name, part in properties.items())
    return [AnswerField(name, kind) for name, kind in kinds if kind is not None]


def _resolved(part: Any, schema: dict[str, Any]) -> dict[str, Any]:
    """The target of a local reference."""
    if not isinstance(part, dict):
        return {}
    where = part.get("$ref")
    if not isinstance(where, str) or not where.startswith("#/"):
        return part
    target: Any = schema
    for step in where[2:].split("/"):
        target = target.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(target, dict) else None
    return target if isinstance(target, dict) and "$ref" not in target else {}


def _kind(part: dict[str, Any]) -> FieldKind | None:
    """The kind of a property that is one plain value, or that value or null; None for any other property."""
    if "type" in part:
        types = part["type"] if isinstance(part["type"], list) else [part["type"]]
        kinds = [_KINDS.get(each) for each in types if each != "null"]
    elif "enum" in part or "const" in part:
        values = part.get("enum", [part.get("const")])
        kinds = [_OF_VALUES.get(type(value)) for value in values if value is not None]
    else:
        choices = part.get("anyOf") or part.get("oneOf") or []
        others = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
        kinds = [_kind(each) if isinstance(each, dict) else None for each in others]
    return kinds[0] if len(set(kinds)) == 1 else None
