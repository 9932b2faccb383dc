"""Streams are put together in time that grows with their length, whatever a server puts into them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.providers.growth import LINEAR, growth

from headway.providers.dialects.anthropic import MessageDraft
from headway.providers.dialects.gemini import ContentDraft
from headway.providers.dialects.openai import ChatDraft
from headway.providers.dialects.sse import Draft, SseEvent

LETTERS = "x" * 500


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def block(**delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def assembled(
    draft: Draft, events: int, event: Callable[[int], dict[str, Any]], *first: dict[str, Any]
) -> Any:
    for told in first:
        draft.add(SseEvent(b"", json.dumps(told).encode()))
    for place in range(events):
        draft.add(SseEvent(b"", json.dumps(event(place)).encode()))
    return json.loads(draft.body())


MESSAGE = (
    {"type": "message_start", "message": {"id": "m"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)
PARTS = {"candidates": [{"content": {"parts": [{"text": LETTERS}]}}]}

WAYS: dict[str, Callable[[int], Any]] = {
    "text": lambda n: assembled(ChatDraft(), n, lambda _: chat(content=LETTERS)),
    "calls": lambda n: assembled(ChatDraft(), n, lambda i: chat(tool_calls=[{"index": i, "id": str(i)}])),
    "calls of one number": lambda n: assembled(
        ChatDraft(), n, lambda i: chat(tool_calls=[{"index": 0, "id": str(i)}])
    ),
    "a name": lambda n: assembled(
        ChatDraft(), n, lambda _: chat(tool_calls=[{"index": 0, "function": {"name": LETTERS}}])
    ),
    "choices": lambda n: assembled(ChatDraft(), n, lambda i: {"choices": [{"index": i, "delta": {}}]}),
    "fields": lambda n: assembled(ChatDraft(), n, lambda i: chat(**{f"f{i}": "x"})),
    "logprobs": lambda n: assembled(
        ChatDraft(), n, lambda _: {"choices": [{"index": 0, "logprobs": {"content": [1]}}]}
    ),
    "blocks": lambda n: assembled(MessageDraft(), n, lambda _: block(text=LETTERS), *MESSAGE),
    "citations": lambda n: assembled(MessageDraft(), n, lambda _: block(citation={"a": 1}), *MESSAGE),
    "tool input": lambda n: assembled(MessageDraft(), n, lambda _: block(partial_json="[1,"), *MESSAGE),
    "parts": lambda n: assembled(ContentDraft(), n, lambda _: PARTS),
}


#: Four times this is the most that is measured, and an answer has no more parts than `MOST_PARTS`.
SIZE = 1000


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_is_assembled_in_linear_time(way: str) -> None:
    assert growth(WAYS[way], SIZE, tries=3) < LINEAR


def test_what_is_assembled() -> None:
    assert WAYS["parts"](3)["candidates"][0]["content"]["parts"] == [{"text": LETTERS * 3}]
    assert WAYS["citations"](2)["content"][0]["citations"] == [{"a": 1}, {"a": 1}]
    calls = WAYS["calls of one number"](3)["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["0", "1", "2"]
