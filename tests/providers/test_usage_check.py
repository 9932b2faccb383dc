"""Usage that cannot be: it counts as unknown, whatever API says it, and the answer is an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.providers.wire import (
    CHAT,
    LAST,
    Admissions,
    asked,
    chunk,
    completion,
    event,
    http,
    request,
    stream_head,
)

from headway.core.model import Usage
from headway.providers.adapter import Answer, Request
from headway.providers.usage_check import MOST_INPUT, MOST_OUTPUT, checked_usage

HUGE = 10**12
MESSAGES = "/v1/messages"
CONVERSE = "/model/x/converse"
GENERATE = "/v1beta/models/x:generateContent"


# -- the rule -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "usage",
    [
        Usage(HUGE, 5.0),
        Usage(5.0, HUGE),
        Usage(MOST_INPUT + 1, 5.0),
        Usage(5.0, MOST_OUTPUT + 1),
        Usage(float("inf"), 5.0),
        Usage(-1.0, 5.0),
        Usage(5.0, -1.0),
        Usage(HUGE, 5.0, partial=True),
    ],
)
def test_an_impossible_usage_is_unknown(usage: Usage) -> None:
    assert checked_usage(usage) == (None, usage)


def test_a_usage_that_is_not_a_number_is_unknown() -> None:
    believed, disbelieved = checked_usage(Usage(5.0, float("nan")))
    assert believed is None
    assert disbelieved is not None


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(),
        Usage(MOST_INPUT, MOST_OUTPUT),
        Usage(1_048_576.0, 131_072.0, 1_000_000.0),
        Usage(12.5, 3.0, partial=True),
        Usage(30.0, 4.0, 20.0, cache_write_tokens=10.0),
    ],
)
def test_a_possible_usage_is_unchanged(usage: Usage | None) -> None:
    believed, disbelieved = checked_usage(usage)
    assert believed is usage
    assert disbelieved is None


@pytest.mark.parametrize("cached", [11.0, HUGE, float("inf"), -5.0])
def test_more_cached_input_than_input_makes_nothing_cheaper(cached: float) -> None:
    """Cached input is subtracted from the rest: a cost below nothing would raise the budget."""
    assert checked_usage(Usage(10.0, 3.0, cached)) == (Usage(10.0, 3.0), None)
    assert checked_usage(Usage(10.0, 3.0, cache_write_tokens=cached)) == (Usage(10.0, 3.0), None)


# -- in every API's words -----------------------------------------------------------------------------------------


def openai(sent: Any, received: Any) -> dict[str, Any]:
    return completion(usage={"prompt_tokens": sent, "completion_tokens": received})


def anthropic(sent: Any, received: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "Hello"}]
    return {"type": "message", "content": content, "usage": {"input_tokens": sent, "output_tokens": received}}


def gemini(sent: Any, received: Any) -> dict[str, Any]:
    candidates = [{"content": {"parts": [{"text": "Hello"}]}, "finishReason": "STOP"}]
    usage = {"promptTokenCount": sent, "candidatesTokenCount": received, "totalTokenCount": 6}
    return {"candidates": candidates, "usageMetadata": usage}


def bedrock(sent: Any, received: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"text": "Hello"}]}
    return {"output": {"message": message}, "usage": {"inputTokens": sent, "outputTokens": received}}


def invoked(sent: Any, received: Any) -> dict[str, Any]:
    return {"generation": "Hello", "prompt_token_count": sent, "generation_token_count": received}


KINDS = {
    "openai": ("openai", CHAT, openai),
    "anthropic": ("anthropic", MESSAGES, anthropic),
    "gemini": ("gemini", GENERATE, gemini),
    "bedrock": ("bedrock", CONVERSE, bedrock),
    "llama on bedrock": ("bedrock", "/model/x/invoke", invoked),
}


async def answer_to(name: str, body: bytes) -> Answer:
    kind, path, _ = KINDS[name]
    return await asked(http(body), Request(path, b"{}"), kind=kind, region="us-east-1")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("sent", "received"),
    [(HUGE, 3), (3, HUGE), (10**40, 3), (3, 1e300), (-7, 3), (3, -7), (-7, -7), (3, "1e999")],
)
async def test_an_impossible_usage_is_rejected_for_every_api(name: str, sent: Any, received: Any) -> None:
    body = json.dumps(KINDS[name][2](sent, received)).replace('"1e999"', "1e999").encode()
    answer = await answer_to(name, body)
    outcome = answer.outcome
    assert (outcome.kind, outcome.usage) == (None, None), outcome
    assert outcome.disbelieved is not None
    assert b"Hello" in answer.body


@pytest.mark.parametrize("name", KINDS)
async def test_a_count_that_is_not_there_is_not_nothing(name: str) -> None:
    """NaN is no number in JSON: the answer is read as if nothing stood there."""
    for sent, received, partial in (("NaN", 3, True), (3, "NaN", True), ("NaN", "NaN", None)):
        body = json.dumps(KINDS[name][2](sent, received)).replace('"NaN"', "NaN").encode()
        usage = (await answer_to(name, body)).outcome.usage
        assert (None if usage is None else usage.partial) == partial, (sent, received)


@pytest.mark.parametrize("name", KINDS)
async def test_fractions_and_large_counts_that_can_be_are_believed(name: str) -> None:
    for sent, received in ((1.5, 2.0), (900_000, 300_000)):
        outcome = (await answer_to(name, json.dumps(KINDS[name][2](sent, received)).encode())).outcome
        assert outcome.usage == Usage(sent, received)
        assert outcome.disbelieved is None


async def test_geminis_zeros_are_left_out() -> None:
    body = gemini(5, 0)
    body["usageMetadata"] = {"promptTokenCount": 5, "totalTokenCount": 5}
    assert (await answer_to("gemini", json.dumps(body).encode())).outcome.usage == Usage(5.0)
    body["usageMetadata"] = {"promptTokenCount": 5, "totalTokenCount": 9}
    assert (await answer_to("gemini", json.dumps(body).encode())).outcome.usage == Usage(5.0, partial=True)


# -- streams and errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [HUGE, -3])
async def test_a_stream_is_not_believed_either(count: int) -> None:
    whole = completion()
    delta = {"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": whole["usage"] | {"completion_tokens": count}}
    said = stream_head() + chunk(event(delta), event(usage), event("[DONE]")) + LAST
    outcome = (await asked(said, stream=True)).outcome
    assert (outcome.kind, outcome.usage) == (None, None)
    assert outcome.disbelieved is not None


async def test_input_that_cannot_be_is_not_charged_at_the_first_words_of_a_stream() -> None:
    """Anthropic's streams open with it: a meter would wait for it for a million years."""
    for count, early in ((HUGE, None), (-3, None), (None, None), (7, 7.0)):
        start = {
            "type": "message_start",
            "message": {"content": [], "usage": {"input_tokens": count, "output_tokens": 1}},
        }
        end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}
        said = stream_head() + chunk(event(start), event(end), event({"type": "message_stop"})) + LAST
        admissions = Admissions()
        answer = await asked(said, request(MESSAGES), kind="anthropic", stream=True, admitted=admissions)
        assert answer.outcome.kind is None
        [(_, usage)] = admissions.told
        assert (None if usage is None else usage.input_tokens) == early


async def test_an_error_that_says_what_it_took_is_not_believed_either() -> None:
    body = completion(usage={"prompt_tokens": HUGE, "completion_tokens": 3})
    answer = await asked(http(body | {"error": {"message": "no", "code": "server_error"}}))
    assert answer.outcome.kind is not None
    assert answer.outcome.usage is None
    assert answer.outcome.disbelieved is not None
