"""Anthropic's dialect: streams become the bodies that unstreamed calls give; usage; conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.test_openai import TEXTS, fed, split
from tests.providers.test_sse import JSON
from tests.providers.wire import event

from headway.core.model import Usage
from headway.providers.dialects.answer_errors import StreamedError, UnreadableAnswer
from headway.providers.dialects.anthropic import AnthropicDialect, MessageDraft

MESSAGES = AnthropicDialect().endpoint("/v1/messages")
USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 300,
    "cache_creation": {"ephemeral_5m_input_tokens": 20},
    "output_tokens": 42,
    "service_tier": "standard",
}


def message(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A message as it comes unstreamed."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-x",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    } | more


def events(body: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """The message taken apart the way that Anthropic does."""
    begun = body | {"content": [], "stop_reason": None, "stop_sequence": None}
    begun["usage"] = body["usage"] | {"output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(body["content"]):
        start, deltas = taken_apart(block, size)
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {name: body[name] for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": body["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def taken_apart(block: dict[str, Any], size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            start = block | {"text": ""} | ({"citations": []} if "citations" in block else {})
            told = [{"type": "citations_delta", "citation": one} for one in block.get("citations", ())]
            return start, [
                *told,
                *({"type": "text_delta", "text": piece} for piece in split(block["text"], size)),
            ]
        case "thinking":
            told = [{"type": "thinking_delta", "thinking": piece} for piece in split(block["thinking"], size)]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return block | {"thinking": "", "signature": ""}, [*told, signature]
        case "tool_use" | "server_tool_use":
            text = json.dumps(block["input"]) if block["input"] else ""
            told = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *split(text, size)]]
            return block | {"input": {}}, told
        case _:
            return block, []


BLOCKS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("text"), "text": TEXTS},
        optional={"citations": st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=2)},
    ),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": TEXTS, "signature": TEXTS}),
    st.fixed_dictionaries({"type": st.just("redacted_thinking"), "data": TEXTS}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["tool_use", "server_tool_use"]),
            "id": st.uuids().map(str),
            "name": st.just("look"),
            "input": st.dictionaries(TEXTS, JSON, max_size=3),
        }
    ),
    st.fixed_dictionaries({"type": st.just("web_search_tool_result"), "content": st.lists(JSON, max_size=2)}),
)
BODIES = st.builds(
    lambda blocks, end: message(*blocks, **end),
    st.lists(BLOCKS, max_size=4),
    st.sampled_from(
        [
            {"stop_reason": "end_turn"},
            {"stop_reason": "stop_sequence", "stop_sequence": "\n"},
            {"stop_reason": "tool_use", "container": None},
        ]
    ),
)


@given(BODIES, st.integers(1, 7), st.lists(st.integers(0, 10_000), max_size=12), st.booleans())
def test_a_streamed_message_is_the_unstreamed_one(
    body: dict[str, Any], size: int, places: list[int], named: bool
) -> None:
    stream = b"".join(event(told, told["type"] if named else "") for told in events(body, size))
    draft = fed(MessageDraft(), stream, places)
    assert draft.whole
    assert draft.ended
    assert json.loads(draft.body()) == body
    assert draft.usage == Usage(330.0, 42.0, 300.0, cache_write_tokens=20.0)


def test_usage_in_one_piece() -> None:
    shape = msgspec.json.decode(json.dumps(message()), type=MESSAGES.shape)
    assert shape.counted() == Usage(330.0, 42.0, 300.0, cache_write_tokens=20.0)
    shape = msgspec.json.decode(b'{"content": [], "usage": {"input_tokens": 5, "cache_read_input_tokens": null}}', type=MESSAGES.shape)  # fmt: skip
    assert shape.counted() == Usage(5.0, partial=True)


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"service_tier": "standard"}, None),
        ({"input_tokens": None, "output_tokens": None}, None),
        ({"output_tokens": 3}, Usage(0.0, 3.0, partial=True)),
        ({"cache_read_input_tokens": 4}, Usage(4.0, 0.0, 4.0, partial=True)),
        ({"input_tokens": 0, "output_tokens": 0}, Usage()),
    ],
)
def test_counts_that_are_missing_are_not_free(usage: dict[str, Any], counted: Usage | None) -> None:
    body = json.dumps({"content": [], "usage": usage}).encode()
    assert msgspec.json.decode(body, type=MESSAGES.shape).counted() == counted
    told = {"type": "message_start", "message": {"content": [], "usage": usage}}
    assert fed(MessageDraft(), event(told, "message_start")).usage == counted


def parts(*kinds: str) -> bytes:
    body = message({"type": "text", "text": "Hello"})
    return b"".join(event(told, told["type"]) for told in events(body, 9) if told["type"] in kinds)


def test_what_is_known_when() -> None:
    draft = MessageDraft()
    assert (draft.begun, draft.whole, draft.usage) == (False, False, None)
    fed(draft, parts("message_start"))
    assert (draft.begun, draft.whole, draft.usage) == (
        True,
        False,
        Usage(330.0, 1.0, 300.0, cache_write_tokens=20.0),
    )
    fed(draft, parts("content_block_start", "content_block_delta"))
    assert not draft.whole
    fed(draft, parts("message_delta"))
    assert (draft.whole, draft.ended) == (True, False)
    fed(draft, parts("message_stop"))
    assert draft.ended


def test_fields_of_the_last_events_are_kept() -> None:
    draft = fed(MessageDraft(), parts("message_start"))
    last = {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "container": {"id": "c"}},
        "context_management": {"applied_edits": []},
        "usage": {"output_tokens": 7, "server_tool_use": {"web_search_requests": 1}, "input_tokens": None},
    }
    body = json.loads(fed(draft, event(last)).body())
    assert body["container"] == {"id": "c"}
    assert body["context_management"] == {"applied_edits": []}
    assert body["usage"] == USAGE | {"output_tokens": 7, "server_tool_use": {"web_search_requests": 1}}


@pytest.mark.parametrize(
    ("pieces", "value"),
    [
        ([], {}),
        (["", ""], {}),
        (['{"a"', ": 1}"], {"a": 1}),
        (['{"a": "cut'], {"INVALID_JSON": '{"a": "cut'}),
    ],
)
def test_a_tools_input(pieces: list[str], value: Any) -> None:
    draft = fed(MessageDraft(), parts("message_start"))
    start = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    fed(draft, event({"type": "content_block_start", "index": 0, "content_block": start}))
    for piece in pieces:
        delta = {"type": "input_json_delta", "partial_json": piece}
        fed(draft, event({"type": "content_block_delta", "index": 0, "delta": delta}))
    assert json.loads(draft.body())["content"][0]["input"] == value


@pytest.mark.parametrize("name", ["", "error"])
def test_an_error_event_is_the_providers_word(name: str) -> None:
    told = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(StreamedError) as refused:
        fed(MessageDraft(), event(told, name))
    assert json.loads(refused.value.body) == told


@pytest.mark.parametrize(
    "told",
    [
        {"type": "message_start"},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "x"}},
        [],
    ],
)
def test_malformed_events_are_unreadable(told: Any) -> None:
    with pytest.raises(UnreadableAnswer):
        fed(MessageDraft(), event(told))


@given(st.lists(JSON | st.fixed_dictionaries({"type": st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "ping"])},
    optional={"message": JSON | st.fixed_dictionaries({"usage": JSON, "content": JSON}), "index": JSON,
              "delta": JSON | st.fixed_dictionaries({}, optional={
                  "text": JSON, "partial_json": JSON, "citation": JSON, "stop_reason": JSON}),
              "content_block": JSON, "usage": JSON, "error": JSON}), max_size=6))  # fmt: skip
def test_no_event_breaks_more_than_the_stream(told: list[Any]) -> None:
    draft = MessageDraft()
    try:
        fed(draft, b"".join(map(event, told)))
    except (UnreadableAnswer, StreamedError):
        return
    assert draft.usage is None or draft.usage.input_tokens >= 0
    if draft.whole:
        json.loads(draft.body())


@pytest.mark.parametrize(
    ("request_", "streamed"),
    [
        ({"max_tokens": 5}, {"max_tokens": 5, "stream": True}),
        ({"stream": True}, {"stream": True}),
        ({"stream": False}, None),
        ([], None),
    ],
)
def test_what_becomes_a_stream(request_: Any, streamed: Any) -> None:
    body = MESSAGES.streamed(json.dumps(request_).encode())
    assert (None if body is None else json.loads(body)) == streamed


def test_other_paths_are_plain() -> None:
    other = AnthropicDialect().endpoint("/v1/messages/count_tokens")
    assert other.streamed(b"{}") is None
    assert other.draft(b"{}") is None
    assert AnthropicDialect().endpoint("/v1/messages?beta=true") is MESSAGES


def test_headers() -> None:
    assert dict(AnthropicDialect().headers("k")) == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert dict(AnthropicDialect().headers("")) == {"anthropic-version": "2023-06-01"}


def test_a_conversation() -> None:
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "42"}]}
    asked = {"system": "Be brief.", "messages": [{"role": "user", "content": "Hi"}, called, result]}
    text = {"type": "text", "text": "It is 42"}
    assert MESSAGES.conversation(asked, message(text)) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        called,
        result,
        {"role": "assistant", "content": [text]},
    ]


@given(asked=JSON, told=JSON)
def test_no_conversation_breaks_anything(asked: Any, told: Any) -> None:
    assert isinstance(MESSAGES.conversation(asked, told), list)
