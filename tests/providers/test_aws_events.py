"""AWS's event stream: cut anywhere, damaged, and against AWS's own parser."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.wire import Call, asked, http

from headway.core.model import Kind
from headway.fake.apis.aws_frames import STREAM_TYPE, event_frame, exception_frame
from headway.providers.adapter import Request
from headway.providers.dialects.answer_errors import AnswerTooLong, StreamedError, UnreadableAnswer
from headway.providers.dialects.aws_events import AwsEventParser
from headway.providers.dialects.bedrock import ConverseDraft

EVENTS: list[tuple[str, Any]] = [
    ("messageStart", {"role": "assistant", "p": "abc"}),
    ("contentBlockDelta", {"delta": {"reasoningContent": {"text": "hm"}}, "contentBlockIndex": 0}),
    ("contentBlockDelta", {"delta": {"text": "Hé"}, "contentBlockIndex": 1}),
    ("contentBlockDelta", {"delta": {"text": "llo"}, "contentBlockIndex": 1}),
    ("contentBlockStart", {"start": {"toolUse": {"toolUseId": "t", "name": "f"}}, "contentBlockIndex": 2}),
    ("contentBlockDelta", {"delta": {"toolUse": {"input": '{"a"'}}, "contentBlockIndex": 2}),
    ("contentBlockDelta", {"delta": {"toolUse": {"input": ": 1}"}}, "contentBlockIndex": 2}),
    ("contentBlockStop", {"contentBlockIndex": 2}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": {"inputTokens": 7, "outputTokens": 3}, "metrics": {"latencyMs": 9}}),
]
STREAM = b"".join(event_frame(name, body) for name, body in EVENTS)
CONVERSE = Request("/model/claude-x/converse", b'{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}')


def test_aws_own_parser_reads_the_same() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(STREAM)
    theirs = [(one.headers[":event-type"], one.payload) for one in buffer]
    ours = [(event.name.decode(), event.data) for event in AwsEventParser().feed(STREAM)]
    assert ours == theirs
    assert len(ours) == len(EVENTS)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_pieces_make_no_difference(places: list[int]) -> None:
    parser = AwsEventParser()
    edges = [0, *sorted(places), len(STREAM)]
    events = [event for start, end in pairwise(edges) for event in parser.feed(STREAM[start:end])]
    assert events == AwsEventParser().feed(STREAM)


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255))
def test_a_damaged_message_is_noticed(place: int, flip: int) -> None:
    damaged = bytearray(STREAM)
    damaged[place] ^= flip
    with pytest.raises((UnreadableAnswer, AnswerTooLong)):
        AwsEventParser().feed(bytes(damaged))


@given(st.binary(min_size=12, max_size=200))
def test_garbage_is_an_error_of_ours(garbage: bytes) -> None:
    with pytest.raises((UnreadableAnswer, AnswerTooLong)):
        AwsEventParser().feed(garbage)


def test_a_message_above_the_ceiling_is_refused() -> None:
    with pytest.raises(AnswerTooLong):
        AwsEventParser(50).feed(STREAM)


def test_an_exception_names_its_type() -> None:
    with pytest.raises(StreamedError) as raised:
        AwsEventParser().feed(exception_frame("throttlingException", {"message": "Too many requests"}))
    assert json.loads(raised.value.body) == {"__type": "throttlingException", "message": "Too many requests"}


def test_events_become_the_answer_of_the_plain_call() -> None:
    draft, pieces = ConverseDraft(), list[str]()
    draft.on_text = pieces.append
    for event in AwsEventParser().feed(STREAM):
        draft.add(event)
    assert pieces == ["Hé", "llo"]
    assert draft.whole
    assert draft.ended
    assert draft.usage is not None
    assert (draft.usage.input_tokens, draft.usage.output_tokens) == (7, 3)
    assert json.loads(draft.body()) == {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm"}}},
                    {"text": "Héllo"},
                    {"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}},
                ],
            }
        },
        "stopReason": "end_turn",
        "usage": {"inputTokens": 7, "outputTokens": 3},
        "metrics": {"latencyMs": 9},
    }


def streamed(*frames: bytes) -> bytes:
    return http(b"".join(frames), 200, **{"Content-Type": STREAM_TYPE})


async def test_a_request_with_on_text_is_streamed() -> None:
    pieces: list[str] = []
    paths: list[str] = []

    async def script(call: Call) -> None:
        paths.append(call.path)
        await call.write(streamed(STREAM))

    sent = msgspec.structs.replace(CONVERSE, on_text=pieces.append)
    answer = await asked(script, sent, kind="bedrock", region="us-east-1")
    assert paths == ["/model/claude-x/converse-stream"]
    assert pieces == ["Hé", "llo"]
    assert answer.outcome.kind is None


async def test_a_throttled_stream_is_a_rate_limit() -> None:
    sent = msgspec.structs.replace(CONVERSE, on_text=lambda piece: None)
    frames = exception_frame("throttlingException", {"message": "Too many requests, please wait."})
    answer = await asked(streamed(frames), sent, kind="bedrock", region="us-east-1")
    assert answer.outcome.kind is Kind.RATE


async def test_a_key_that_may_not_stream_answers_whole_the_next_time() -> None:
    from tests.providers.wire import Admissions, opened, serving

    paths: list[str] = []

    async def script(call: Call) -> None:
        paths.append(call.path)
        if call.path.endswith("-stream"):
            await call.write(
                http({"message": "not authorized to perform: bedrock:InvokeModelWithResponseStream"}, 403)
            )
        else:
            body = {
                "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
                "stopReason": "end_turn",
            }
            await call.write(http(body))

    sent = msgspec.structs.replace(CONVERSE, on_text=lambda piece: None)
    async with serving(script) as wire, opened(wire.url, "bedrock", region="us-east-1") as adapter:
        first = await adapter.send(sent, 10.0, Admissions())
        second = await adapter.send(sent, 10.0, Admissions())
    assert first.outcome.kind is Kind.TRANSIENT
    assert second.outcome.kind is None
    assert paths == ["/model/claude-x/converse-stream", "/model/claude-x/converse"]
