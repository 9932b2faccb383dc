"""Which requests have more input than their own text: files, images and sounds, searches, what lies at the provider.

How many tokens such input has is known only once it was answered; a budget lets few of them out until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Fields that bring in something that the body does not hold.
_ELSEWHERE: Final = (
    "previous_response_id",
    "conversation",
    "cachedContent",
    "cached_content",
    "web_search_options",
    "mcp_servers",
)
#: Parts that are texts, or calls of tools and what those gave.
_TEXTS: Final = frozenset(
    ("text", "input_text", "output_text", "summary_text", "refusal", "thinking", "redacted_thinking", "reasoning", "message",
     "tool_use", "tool_result", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")
)  # fmt: skip
#: The same in Gemini's and Bedrock's words, which have no type.
_NAMED_TEXTS: Final = frozenset(
    ("text", "content", "role", "functionCall", "functionResponse", "toolUse", "toolResult", "reasoningContent", "guardContent",
     "cachePoint")
)  # fmt: skip
_OWN_TOOLS: Final = ("function", "custom")


def has_open_input(body: Mapping[str, Any]) -> bool:
    """Whether something goes in whose size the body does not tell."""
    if any(body.get(name) is not None for name in _ELSEWHERE) or isinstance(body.get("prompt"), Mapping):
        return True
    if any(map(_open_tool, _listed(body.get("tools")))):
        return True
    return any(_open(body.get(name)) for name in ("messages", "contents", "input"))


def _open_tool(tool: object) -> bool:
    """Whether a tool is the provider's own: what it finds goes in, too."""
    if not isinstance(tool, Mapping):
        return False
    if "type" in tool:
        return tool["type"] not in _OWN_TOOLS
    return not ({"name", "functionDeclarations", "function_declarations", "toolSpec"} & tool.keys())


def _open(content: object) -> bool:
    """Whether a part of a content is no text: of a message, of a message's parts, of what a tool gave."""
    for part in _listed(content):
        if not isinstance(part, Mapping):
            continue
        kind = part.get("type")
        known = (
            kind in _TEXTS if isinstance(kind, str) else not _NAMED_TEXTS.isdisjoint(part) or "parts" in part
        )
        inner = (part.get("content"), part.get("parts"), part.get("output"), _inner(part.get("toolResult")))
        if not known or any(map(_open, inner)):
            return True
    return False


def _inner(value: object) -> object:
    return value.get("content") if isinstance(value, Mapping) else None


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
