"""What is read from requests and from responses: plain bytes, no server."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec
import pytest

from headway.core.model import Estimate, Kind, Usage
from headway.sdk.request_info import RequestInfo, read_request
from headway.sdk.response_reader import ResponseReader

EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
HELLO = [{"role": "user", "content": "hello"}]


def request(path: str, body: Any = None, key: str = "sk-one", host: str = "api.openai.com") -> RequestInfo:
    made = httpx2.Request(
        "POST", f"https://{host}{path}", json=body, headers={"Authorization": f"Bearer {key}"}
    )
    return read_request(made, made.read())


CHAT = {"model": "gpt-x", "messages": HELLO, "max_tokens": 20}


# -- requests -----------------------------------------------------------------------------------------------------


def test_a_lane_is_the_api_the_host_the_key_and_the_model() -> None:
    first = request("/v1/chat/completions", CHAT)
    kind, host, account, model = first.lane.split("|")
    assert (kind, host, model) == ("openai", "api.openai.com", "gpt-x")
    assert "sk-one" not in first.lane
    assert len(account) == 10
    assert request("/v1/chat/completions", CHAT).lane == first.lane
    assert request("/v1/chat/completions", CHAT, key="sk-two").lane != first.lane
    assert request("/v1/chat/completions", {**CHAT, "model": "gpt-y"}).lane != first.lane
    assert request("/v1/chat/completions", CHAT, host="127.0.0.1:8900").lane.split("|")[1] == "127.0.0.1:8900"


@pytest.mark.parametrize(
    ("path", "body", "chars", "most"),
    [
        ("/v1/chat/completions", CHAT, 5, 20),
        ("/v1/chat/completions", {**CHAT, "n": 3}, 5, 60),
        ("/openai/deployments/d/chat/completions", {"messages": HELLO, "max_completion_tokens": 7}, 5, 7),
        ("/v1/completions", {"model": "m", "prompt": "hello!"}, 6, 0),
        ("/v1/responses", {"model": "m", "input": "hello", "max_output_tokens": 9}, 5, 9),
        ("/v1/embeddings", {"model": "m", "input": ["hello", "you"]}, 8, 0),
        ("/v1/messages", {"model": "m", "system": "be", "messages": HELLO, "max_tokens": 8}, 7, 8),
        ("/v1/chat/completions", {"model": "m", "messages": [17]}, 29, 0),  # As long as the whole of it.
    ],
)
def test_the_size_of_a_request(path: str, body: Any, chars: int, most: float) -> None:
    unit = request(path, body).unit
    assert unit["chars"] == chars
    assert unit["estimate"] == Estimate(max_output_tokens=most)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/threads/t/messages", {"role": "user", "content": "x"}),
        ("/v1/files", None),
        ("/v1/chat/completions", [1]),
    ],
)
def test_an_unknown_request_has_a_lane_and_no_size(path: str, body: Any) -> None:
    found = request(path, body)
    assert found.endpoint is None
    assert found.unit == {}
    assert found.lane


def test_the_model_may_be_in_the_path() -> None:
    found = request("/v1beta/models/gemini-x:generateContent", {"contents": []})
    assert found.model == "gemini-x"


# -- answers in one piece -----------------------------------------------------------------------------------------


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


GOOD = encoded({"choices": [{}], "usage": {"prompt_tokens": 3, "completion_tokens": 2}})


def whole(status: int, body: bytes, headers: dict[str, str] | None = None) -> Any:
    return ResponseReader(
        request("/v1/chat/completions", CHAT), status, {**JSON, **(headers or {})}
    ).body_outcome(body)


def test_usage_and_limits_of_a_good_answer() -> None:
    headers = {"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "599"}
    outcome = whole(200, GOOD, headers)
    assert outcome.kind is None
    assert outcome.usage == Usage(3, 2)
    assert outcome.hint is not None
    assert [report.limit for report in outcome.hint.reports] == [600]


@pytest.mark.parametrize(
    ("status", "body", "headers", "kind"),
    [
        (429, b"{}", {}, Kind.RATE),
        (429, encoded({"error": {"code": "insufficient_quota"}}), {}, Kind.INVALID),  # Passed on at once.
        (401, b"{}", {}, Kind.INVALID),
        (400, b"{}", {}, Kind.INVALID),
        (400, encoded({"error": {"code": "context_length_exceeded"}}), {}, Kind.TOO_LARGE),
        (500, b"", {}, Kind.TRANSIENT),
        (500, b"", {"x-should-retry": "false"}, Kind.INVALID),
        (429, b"{}", {"x-should-retry": "false"}, Kind.RATE),
        (503, b"", {}, Kind.OVERLOAD),
        (200, b'{"choices": [', {}, Kind.TRANSIENT),
        (200, b"<html>", {"content-type": "text/html"}, Kind.TRANSIENT),
        (200, encoded({"error": {"code": 429, "message": "slow down"}}), {}, Kind.RATE),
        (200, GOOD, {}, None),
        (200, encoded({"choices": [], "usage": {"prompt_tokens": "many"}}), {}, None),
        (200, b"[]", {}, None),
    ],
)
def test_the_outcome_of_a_whole_answer(
    status: int, body: bytes, headers: dict[str, str], kind: Kind | None
) -> None:
    assert whole(status, body, headers).kind is kind


def test_an_answer_of_an_unknown_endpoint_is_passed_on() -> None:
    assert ResponseReader(request("/v1/files", {"a": 1}), 200, JSON).mode == "plain"
    assert ResponseReader(request("/v1/files", {"a": 1}), 429, JSON).mode == "whole"
    assert ResponseReader(request("/v1/files", {"a": 1}), 302, {}).mode == "plain"


# -- streams ------------------------------------------------------------------------------------------------------


def stream(path: str, body: Any, *events: Any, cut: int = 7) -> ResponseReader:
    """Fed in pieces of a few bytes."""
    answer = ResponseReader(request(path, body), 200, EVENTS)
    assert answer.mode == "stream"
    text = b"".join(_event(event) for event in events)
    for start in range(0, len(text), cut):
        answer.feed(text[start : start + cut])
    return answer


def _event(event: Any) -> bytes:
    if isinstance(event, bytes):
        return event
    name = b"event: " + event["type"].encode() + b"\n" if "type" in event else b""
    return name + b"data: " + encoded(event) + b"\n\n"


def test_usage_of_a_streamed_chat() -> None:
    answer = stream(
        "/v1/chat/completions",
        CHAT,
        {"choices": [{"delta": {"content": 'the "usage" of'}}], "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 4}},
        b"data: [DONE]\n\n",
    )
    assert answer.begun
    assert answer.stream_outcome().kind is None
    assert answer.stream_outcome().usage == Usage(5, 4)


@pytest.mark.parametrize("count", [10**12, -1])
def test_impossible_usage_is_unknown(count: int) -> None:
    used = {"prompt_tokens": 5, "completion_tokens": count}
    outcome = whole(200, encoded({"choices": [{}], "usage": used}), {})
    assert (outcome.kind, outcome.usage) == (None, None)
    assert outcome.disbelieved is not None
    answer = stream("/v1/chat/completions", CHAT, {"choices": [], "usage": used}, b"data: [DONE]\n\n")
    assert answer.usage is None
    outcome = answer.stream_outcome()
    assert (outcome.kind, outcome.usage) == (None, None)
    assert outcome.disbelieved is not None
    assert answer.broken_outcome("gone").usage is None


def test_usage_of_a_streamed_response() -> None:
    answer = stream(
        "/v1/responses",
        {"model": "m", "input": "hello"},
        {"type": "response.created", "response": {"usage": None}},
        {
            "type": "response.completed",
            "response": {"output": [], "usage": {"input_tokens": 5, "output_tokens": 4}},
        },
    )
    assert answer.stream_outcome().usage == Usage(5, 4)


def test_usage_of_a_streamed_message() -> None:
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 5, "cache_read_input_tokens": 2}}}
    answer = ResponseReader(request("/v1/messages", {"model": "m", "messages": HELLO}), 200, EVENTS)
    before = answer.counted
    answer.feed(_event(start))
    assert (before, answer.counted) == (False, True)
    assert answer.usage == Usage(7, 0, 2, partial=True)
    answer.feed(_event({"type": "content_block_delta", "index": 0, "delta": {"text": "hi"}}))
    answer.feed(_event({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9}}))
    assert answer.stream_outcome().usage == Usage(7, 9, 2)


def test_an_error_in_a_stream_is_read() -> None:
    said = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    answer = stream("/v1/messages", {"model": "m", "messages": HELLO}, said)
    assert answer.refused is not None
    assert answer.refused.kind is Kind.OVERLOAD
    assert answer.stream_outcome().kind is Kind.OVERLOAD
    failed = {
        "type": "response.failed",
        "response": {"error": {"code": "server_error", "message": "no"}, "usage": None},
    }
    answer = stream("/v1/responses", {"model": "m", "input": "hello"}, failed)
    assert answer.stream_outcome().kind is Kind.TRANSIENT


def test_a_broken_stream_keeps_the_usage_so_far() -> None:
    used = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    outcome = stream("/v1/chat/completions", CHAT, used).broken_outcome("reset")
    assert outcome.kind is Kind.TRANSIENT
    assert outcome.usage == Usage(5, 1)


def test_invalid_events_are_passed_on_to_the_caller() -> None:
    answer = stream("/v1/chat/completions", CHAT, b'data: {"usage": nonsense\n\n')
    assert answer.stream_outcome().kind is None
    assert answer.usage is None
