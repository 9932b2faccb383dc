"""How long a request's input is, in characters: what token estimates start from. Nothing here refuses anything.

Counted are the texts of messages and of their parts, system prompts, the arguments of tool calls, and as JSON the
tools and the answer's schema. What is no text (an image, a sound, a file) counts a fixed number; so does every part
of a kind that is not known. A token of an input that comes as tokens counts as four characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headway.core.lanes.estimate import FIRST_RATIO

#: About 1000 tokens: an image of a megapixel costs 765 at OpenAI and 1400 at Anthropic.
IMAGE_CHARS: Final = 4000
TOKEN_CHARS: Final = int(FIRST_RATIO)

#: Where a part keeps its text, for kinds that do not keep it in "text".
_TEXT_OF: Final = {"thinking": "thinking", "refusal": "refusal", "function_call": "arguments"}
_JSON_FIELDS: Final = ("tools", "functions", "response_format", "output_config", "toolConfig")
#: What a part of Gemini's or Bedrock's is called that is JSON.
_JSON_PARTS: Final = ("functionCall", "functionResponse", "toolUse", "toolResult")


def of_chat(body: Mapping[str, Any]) -> int:
    """A chat's or a message request's input."""
    total = of_content(body["system"]) if "system" in body else 0
    for message in body["messages"]:
        content = message.get("content")
        total += len(content) if type(content) is str else of_content(content)
        if "tool_calls" in message:
            total += _json(message["tool_calls"])
    for name in _JSON_FIELDS:
        if name in body:
            total += _json(body[name])
    return total


def of_response(body: Mapping[str, Any]) -> int:
    """The input of a request to the Responses API."""
    total = of_content(body["input"]) + of_content(body.get("instructions"))
    for name in ("tools", "text"):
        if name in body:
            total += _json(body[name])
    return total


def of_contents(body: Mapping[str, Any]) -> int:
    """Gemini's input."""
    total = 0
    for content in (body.get("systemInstruction") or body.get("system_instruction"), *body["contents"]):
        if isinstance(content, dict):
            total += of_content(content.get("parts"))
    config = body.get("generationConfig")
    if isinstance(config, dict):
        total += _json(config.get("responseSchema")) + _json(config.get("responseJsonSchema"))
    return total + _json(body.get("tools"))


def of_json(body: Mapping[str, Any]) -> int:
    """A body in words that nobody here knows: all of it, unless it is a chat."""
    return of_chat(body) if isinstance(body.get("messages"), list) else _json(body)


def of_embedding(body: Mapping[str, Any]) -> int:
    """Texts, or tokens, to be embedded."""
    return _embedded(body["input"])


def of_content(content: object) -> int:
    """A text, or a list of parts."""
    if type(content) is str:
        return len(content)
    if type(content) is not list:
        return 0
    return sum(_part(part) for part in content)


def _part(part: object) -> int:
    if type(part) is str:
        return len(part)
    if type(part) is not dict:
        return 0
    kind = part.get("type")
    text = part.get(_TEXT_OF.get(kind, "text") if type(kind) is str else "text")
    if type(text) is str:
        return len(text)
    if kind is None:
        for name in _JSON_PARTS:
            if name in part:
                return _json(part[name])
    if kind == "tool_use":
        return _json(part.get("input"))
    if kind in ("tool_result", "message") or "content" in part:
        return of_content(part.get("content"))
    if kind == "function_call_output":
        return of_content(part.get("output"))
    return IMAGE_CHARS


def _embedded(value: object) -> int:
    if type(value) is str:
        return len(value)
    if type(value) is list:
        return sum(map(_embedded, value))
    return TOKEN_CHARS


def _json(value: object) -> int:
    return len(msgspec.json.encode(value)) if value is not None else 0
