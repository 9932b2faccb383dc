"""How long a request's input is, in characters: the start of token estimates. Nothing here rejects a request.

Counted are the texts of messages and of their parts, system prompts, the arguments of tool calls, and the tools and the
answer's schema as JSON. Anything that is not text (an image, a sound, a file) counts a fixed number, and so does a part of an
unknown type. A token of an input that consists of tokens counts as four characters.

Some requests have more input than their own text: files, images and sounds, searches, data stored at the provider. That is an
*open input*: its tokens are known only from the answer. Until such an answer arrives, a budget starts few of these requests.
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
#: Parts of Gemini and Bedrock whose content is JSON.
_JSON_PARTS: Final = ("functionCall", "functionResponse", "toolUse", "toolResult")
#: Fields that refer to input outside the body.
_ELSEWHERE: Final = (
    "previous_response_id",
    "conversation",
    "cachedContent",
    "cached_content",
    "web_search_options",
    "mcp_servers",
)
#: Types of parts that are texts, tool calls or results of tool calls.
_TEXTS: Final = frozenset(
    ("text", "input_text", "output_text", "summary_text", "refusal", "thinking", "redacted_thinking", "reasoning", "message",
     "tool_use", "tool_result", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
)  # fmt: skip
#: The same for Gemini and Bedrock, whose parts have no type.
_NAMED_TEXTS: Final = frozenset(
    ("text", "content", "role", "functionCall", "functionResponse", "toolUse", "toolResult", "reasoningContent", "guardContent",
     "cachePoint")
)  # fmt: skip
_OWN_TOOLS: Final = ("function", "custom")
#: Nearly all messages have these keys and a text.
_PLAIN_MESSAGE: Final = frozenset(("role", "content"))


def of_chat(body: Mapping[str, Any]) -> int:
    """Chat completions, Anthropic messages, Converse."""
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
    """The Responses API."""
    total = of_content(body["input"]) + of_content(body.get("instructions"))
    for name in ("tools", "text"):
        if name in body:
            total += _json(body[name])
    return total


def of_contents(body: Mapping[str, Any]) -> int:
    """Gemini's generateContent."""
    total = 0
    for content in (body.get("systemInstruction") or body.get("system_instruction"), *body["contents"]):
        if isinstance(content, dict):
            total += of_content(content.get("parts"))
    config = body.get("generationConfig")
    if isinstance(config, dict):
        total += _json(config.get("responseSchema")) + _json(config.get("responseJsonSchema"))
    return total + _json(body.get("tools"))


def of_json(body: Mapping[str, Any]) -> int:
    """A body of an unknown format: all of it, unless it has messages."""
    return of_chat(body) if isinstance(body.get("messages"), list) else _json(body)


def of_embedding(body: Mapping[str, Any]) -> int:
    """Embeddings: texts or tokens."""
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


# -- open input -----------------------------------------------------------------------------------------------------


def has_open_input(body: Mapping[str, Any]) -> bool:
    """Whether the request has input whose size is not known from its body."""
    if any(body.get(name) is not None for name in _ELSEWHERE) or type(body.get("prompt")) is dict:
        return True
    tools = body.get("tools")
    if type(tools) is list and any(map(_open_tool, tools)):
        return True
    return any(has_open_parts(body.get(name)) for name in ("messages", "contents", "input"))


def _open_tool(tool: object) -> bool:
    """Whether a tool runs at the provider: its results are input, too."""
    if type(tool) is not dict:
        return False
    if "type" in tool:
        return tool["type"] not in _OWN_TOOLS
    return not ({"name", "functionDeclarations", "function_declarations", "toolSpec"} & tool.keys())


def has_open_parts(content: object) -> bool:
    """Whether a content has a part that is not text, at any depth: messages, their parts, results of tools."""
    if type(content) is list:
        for part in content:
            if type(part) is dict and _open_part(part):
                return True
    return False


def _open_part(part: dict[str, Any]) -> bool:
    if part.keys() == _PLAIN_MESSAGE and type(part["content"]) is str:
        return False
    kind = part.get("type")
    is_text = kind in _TEXTS if type(kind) is str else not _NAMED_TEXTS.isdisjoint(part) or "parts" in part
    if not is_text:
        return True
    result = part.get("toolResult")
    inner = result.get("content") if type(result) is dict else None
    return any(map(has_open_parts, (part.get("content"), part.get("parts"), part.get("output"), inner)))
