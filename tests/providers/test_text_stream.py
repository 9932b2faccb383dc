"""The text of an answer while it arrives: the same text in the end, in pieces, and never a key."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.wire import KEY, asked, completion, event, http, request, stream_head

from headway.providers.dialects.anthropic import MessageDraft
from headway.providers.dialects.gemini import ContentDraft
from headway.providers.dialects.openai import ChatDraft, ResponseDraft
from headway.providers.dialects.sse import Draft, SseEvent
from headway.providers.scrubber import Scrubber
from headway.providers.text_stream import TextStream

SECRET = "sk-abcabcabd-12345"


def told(draft: Draft, *events: tuple[str, Any]) -> list[str]:
    """The pieces that a draft tells."""
    pieces: list[str] = []
    draft.on_text = pieces.append
    for name, data in events:
        draft.add(SseEvent(name.encode(), json.dumps(data).encode()))
    return pieces


def test_chat_completions_tell_the_first_choice() -> None:
    chunks = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{"index": 0, "delta": {"content": "He"}}, {"index": 1, "delta": {"content": "No"}}]},
        {"choices": [{"index": 0, "delta": {"content": "llo"}, "finish_reason": "stop"}]},
    ]
    assert told(ChatDraft(2), *(("", chunk) for chunk in chunks)) == ["He", "llo"]


@pytest.mark.parametrize("name", ["response.output_text.delta", ""])
def test_responses_tell_their_text(name: str) -> None:
    pieces = [{"type": "response.output_text.delta", "delta": piece} for piece in ("He", "llo")]
    assert told(ResponseDraft(), *((name, piece) for piece in pieces)) == ["He", "llo"]


def test_messages_tell_texts_and_no_thoughts() -> None:
    def delta(index: int, **fields: str) -> tuple[str, Any]:
        return "content_block_delta", {"type": "content_block_delta", "index": index, "delta": fields}

    events = [
        ("message_start", {"type": "message_start", "message": {"id": "m", "role": "assistant"}}),
        ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}}),
        delta(0, type="thinking_delta", thinking="hm"),
        ("content_block_start", {"type": "content_block_start", "index": 1, "content_block": {"type": "text"}}),
        delta(1, type="text_delta", text="Hello"),
    ]  # fmt: skip
    assert told(MessageDraft(), *events) == ["Hello"]


def test_gemini_tells_texts_and_no_thoughts() -> None:
    parts = [{"text": "hm", "thought": True}, {"text": "Hello"}]
    assert told(ContentDraft(), ("", {"candidates": [{"content": {"parts": parts}}]})) == ["Hello"]


@given(st.text("skabcd-12345 x", max_size=60), st.lists(st.integers(0, 80), max_size=12))
def test_pieces_join_to_the_scrubbed_text(text: str, places: list[int]) -> None:
    text = text + SECRET + text
    pieces: list[str] = []
    stream = TextStream(Scrubber([SECRET]), pieces.append)
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    for start, end in pairwise(edges):
        stream.add(text[start:end])
    stream.end()
    assert SECRET not in "".join(pieces)
    assert "".join(pieces) == text.replace(SECRET, "***")


def test_text_that_is_no_secret_is_not_held_back() -> None:
    pieces: list[str] = []
    stream = TextStream(Scrubber([SECRET]), pieces.append)
    stream.add("plain text")
    assert pieces == ["plain text"]


async def test_a_request_with_on_text_is_streamed() -> None:
    chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in ("He", "llo")]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    body = b"".join(map(event, [*chunks, last])) + b"data: [DONE]\n\n"
    pieces: list[str] = []
    sent = msgspec.structs.replace(request(), on_text=pieces.append)
    streams: list[Any] = []

    async def script(call: Any) -> None:
        streams.append(call.said.get("stream"))
        await call.write(stream_head(), b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    answer = await asked(script, sent)
    assert streams == [True]
    assert pieces == ["He", "llo"]
    assert json.loads(answer.body)["choices"][0]["message"]["content"] == "Hello"


async def test_a_provider_that_must_not_stream_answers_whole() -> None:
    pieces: list[str] = []
    sent = msgspec.structs.replace(request(), on_text=pieces.append)
    answer = await asked(http(completion(f"Hello {KEY}")), sent, stream=False)
    assert answer.outcome.kind is None
    assert pieces == []
