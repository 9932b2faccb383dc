"""The form of a node's answers: whether they are JSON, the schema that a request can carry, and what each field takes. PURE.

An agent's answer is a text. It is read as JSON if the node has a schema or writes several fields, or if the type of its only field
asks for it. The answers of tools and of people are always JSON values.

An iteration of `for_each` that writes a field with `merge: array_append` gives one element of it; a node without `for_each` gives a list
of elements, or one.
"""

from __future__ import annotations

from typing import Any

from headway.flows.spec import FlowSpec, NodeSpec, StateField


def appends(flow: FlowSpec, node: NodeSpec, name: str) -> bool:
    """Whether a write of this field adds elements."""
    return field_of(flow, name).merge == "array_append"


def field_of(flow: FlowSpec, name: str) -> StateField:
    """The field, also one that the file does not declare."""
    return flow.fields.get(name) or StateField(name=name, declared=False)


def is_json_answer(flow: FlowSpec, node: NodeSpec) -> bool:
    """Whether the text of an agent's answer is read as JSON."""
    if node.kind != "agent":
        return True
    if node.schema is not None or len(node.writes) > 1:
        return True
    if not node.writes or appends(flow, node, node.writes[0]):
        return False
    return field_of(flow, node.writes[0]).type not in ("any", "string")


def request_schema(flow: FlowSpec, node: NodeSpec) -> dict[str, Any] | None:
    """The JSON Schema that the request of an agent carries; None: its answer is a text."""
    if not is_json_answer(flow, node):
        return None
    if node.schema is not None:
        return node.schema
    fields = {name: field_schema(flow, node, name) for name in node.writes}
    if len(fields) == 1:
        return next(iter(fields.values()))
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def field_schema(flow: FlowSpec, node: NodeSpec, name: str) -> dict[str, Any]:
    """The JSON Schema of what a node writes to a field."""
    field = field_of(flow, name)
    own = field.schema or {}
    if appends(flow, node, name):
        items = element_schema(field) or {}
        return items if node.for_each is not None or node.group else {"type": "array", "items": items}
    return own if field.type == "any" else {"type": field.type, **own}


def element_schema(field: StateField) -> dict[str, Any] | None:
    """The JSON Schema of one element of a list; None without one."""
    items = (field.schema or {}).get("items")
    return items if isinstance(items, dict) and items else None
