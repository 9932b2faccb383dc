"""Requests that want JSON: the schema that they name, each API in its own place, or in the words of a system prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from headway.fake.apis.message_content import Tool
from headway.fake.apis.schema_instance import fitting_value

#: The start of a schema in a text: the words "JSON Schema", and then an object.
_SCHEMA_IN_TEXT = re.compile(r"JSON Schema[^{}\n]*\n?\s*(?=\{)")
_read_value = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """JSON is wanted; `schema` is None if any JSON will do, `tool` is the tool whose input it must be."""

    schema: Mapping[str, Any] | None = None
    tool: str = ""

    def answer(self, text: str) -> str:
        """The answer to a request with this text."""
        value = {"echo": text} if self.schema is None else fitting_value(self.schema, text)
        return msgspec.json.encode(value).decode()


def named_format(described: Any) -> AnswerFormat | None:
    """`response_format` and `text.format` of OpenAI, `output_config.format` and `output_format` of Anthropic."""
    if not isinstance(described, Mapping):
        return None
    kind = described.get("type")
    if kind == "json_object":
        return AnswerFormat()
    if kind != "json_schema":
        return None
    holder = described.get("json_schema", described)
    schema = holder.get("schema") if isinstance(holder, Mapping) else None
    return AnswerFormat(schema if isinstance(schema, Mapping) else None)


def forced_tool(tools: list[Tool] | None, choice: Any) -> AnswerFormat | None:
    """The input of the tool that a request of OpenAI or Anthropic must use; None if it need not use one."""
    if not tools or choice in (None, "auto", "none"):
        return None
    wanted = choice if isinstance(choice, Mapping) else {"type": choice}
    if wanted.get("type") not in ("required", "any", "tool", "function"):
        return None
    function = wanted.get("function")
    name = function.get("name") if isinstance(function, Mapping) else wanted.get("name")
    tool = next((tool for tool in tools if name in (None, tool.tool_name)), None)
    return AnswerFormat(tool.input_fields or {"type": "object"}, tool.tool_name) if tool else None


def format_or_text(given: AnswerFormat | None, system: str) -> AnswerFormat | None:
    """The format of a request; without a schema of its own, the one that its system prompt has as text."""
    if (given is not None and given.schema is not None) or "JSON Schema" not in system:
        return given
    found = _SCHEMA_IN_TEXT.search(system)
    if found is None:
        return given
    try:
        schema, _ = _read_value(system, found.end())
    except (ValueError, RecursionError):
        return given
    return AnswerFormat(schema)
