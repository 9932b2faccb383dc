"""Gemini's dialect: streams become the bodies that unstreamed calls give; usage; blocked prompts; the key in its header."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.test_openai import TEXTS, fed
from tests.providers.wire import KEY, LAST, Call, asked, chunk, event, http, stream_head

from headway.core.model import Kind, Usage
from headway.providers.adapter import Request
from headway.providers.dialects.answer_errors import StreamedError
from headway.providers.dialects.gemini import ContentDraft, GeminiDialect

PATH = "/v1beta/models/gemini-x:generateContent"
CONTENT = GeminiDialect().endpoint(PATH)
USAGE = {
    "promptTokenCount": 10,
    "cachedContentTokenCount": 4,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 30,
    "toolUsePromptTokenCount": 2,
    "totalTokenCount": 49,
    "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}],
}
BLOCKED = {
    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
    "responseId": "r9",
    "usageMetadata": {"promptTokenCount": 5},
}


def answer(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An answer as it comes unstreamed."""
    candidate = {"content": {"parts": list(parts), "role": "model"}, "finishReason": "STOP", "index": 0}
    return {
        "candidates": [candidate],
        "usageMetadata": USAGE,
        "modelVersion": "gemini-x",
        "responseId": "r1",
    } | more


def chunks(body: dict[str, Any], size: int) -> list[dict[str, Any]]:
    """The answer taken apart: texts in pieces, other parts whole; the end has the reason."""
    found = []
    for part in body["candidates"][0]["content"]["parts"]:
        text = part.get("text")
        pieces = (
            [part]
            if text is None
            else [part | {"text": text[at : at + size]} for at in range(0, len(text), size)]
        )
        found += [{"content": {"parts": [piece], "role": "model"}, "index": 0} for piece in pieces]
    found.append({"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "STOP", "index": 0})
    rest = {name: value for name, value in body.items() if name != "candidates"}
    return [{"candidates": [candidate], **rest} for candidate in found]


def request() -> Request:
    return Request(PATH, json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}).encode())


@given(TEXTS.filter(bool), st.integers(1, 7))
def test_a_stream_gives_what_the_call_gives(text: str, size: int) -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "sig"}
    whole = answer({"text": "hm", "thought": True}, {"text": text}, call)
    draft = ContentDraft()
    fed(draft, b"".join(event(piece) for piece in chunks(whole, size)))
    assert draft.whole
    told = json.loads(draft.body())
    parts = [part for part in told["candidates"][0]["content"]["parts"] if part != {"text": ""}]
    assert parts == whole["candidates"][0]["content"]["parts"]
    assert told["candidates"][0]["finishReason"] == "STOP"
    assert {name: told[name] for name in whole if name != "candidates"} == {
        name: whole[name] for name in whole if name != "candidates"
    }
    assert draft.usage == Usage(12.0, 37.0, 4.0)


def test_a_stream_that_ends_too_early_is_not_whole() -> None:
    draft = ContentDraft()
    fed(draft, event(chunks(answer({"text": "Hello"}), 2)[0]))
    assert not draft.whole


@pytest.mark.parametrize("said", [BLOCKED, {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}])
def test_a_stream_may_refuse(said: dict[str, Any]) -> None:
    with pytest.raises(StreamedError):
        fed(ContentDraft(), event(said))


def test_usage_and_a_name() -> None:
    shape = msgspec.json.decode(json.dumps(answer({"text": "x"})).encode(), type=CONTENT.shape)
    assert (shape.error, shape.counted()) == (None, Usage(12.0, 37.0, 4.0))
    assert GeminiDialect().named_in(json.dumps(answer()).encode()) == "r1"
    assert GeminiDialect().named_in(b"not JSON") == ""


async def test_the_key_is_in_a_header_and_never_in_the_address() -> None:
    seen: list[Call] = []

    async def script(call: Call) -> None:
        seen.append(call)
        await call.write(http(answer({"text": "x"})))

    got = await asked(script, request(), kind="gemini")
    assert got.outcome.kind is None
    assert (got.request_id, got.outcome.usage) == ("r1", Usage(12.0, 37.0, 4.0))
    [call] = seen
    assert call.headers["x-goog-api-key"] == KEY
    assert "authorization" not in call.headers
    assert call.path == PATH
    assert KEY not in call.path


async def test_streams_have_an_address_of_their_own() -> None:
    seen: list[Call] = []

    async def script(call: Call) -> None:
        seen.append(call)
        pieces = [chunk(event(piece)) for piece in chunks(answer({"text": "Hello"}), 2)]
        await call.write(stream_head(), *pieces, LAST)

    got = await asked(script, request(), kind="gemini", stream=True)
    assert got.outcome.kind is None, got
    assert seen[0].path == "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert json.loads(got.body)["candidates"][0]["content"]["parts"] == [{"text": "Hello"}]
    assert got.request_id == "r1"


async def test_a_blocked_prompt_fails_its_unit_and_says_why() -> None:
    got = await asked(http(BLOCKED), request(), kind="gemini")
    assert got.outcome.kind is Kind.INVALID
    assert got.outcome.message == "the prompt was blocked: PROHIBITED_CONTENT (response r9)"
    assert got.outcome.usage == Usage(5.0, 0.0, 0.0)


async def test_a_candidate_that_was_cut_off_for_safety_is_an_answer() -> None:
    body = answer({"text": "so far"})
    body["candidates"][0]["finishReason"] = "SAFETY"
    assert (await asked(http(body), request(), kind="gemini")).outcome.kind is None


@pytest.mark.parametrize("body", [{}, {"candidates": []}, {"usageMetadata": USAGE}])
async def test_an_answer_without_an_answer_is_tried_again(body: dict[str, Any]) -> None:
    got = await asked(http(body), request(), kind="gemini")
    assert got.outcome.kind is Kind.TRANSIENT
    assert "the body has no generated content" in got.outcome.message


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({}, None),
        ({"serviceTier": "standard"}, None),
        ({"totalTokenCount": 9}, None),
        ({"promptTokenCount": 5}, Usage(5.0)),  # Zeros are left out: a blocked prompt has no output.
        ({"candidatesTokenCount": 5}, Usage(0.0, 5.0, partial=True)),  # But no prompt is empty.
    ],
)
def test_counts_that_are_missing_are_not_free(usage: dict[str, Any], counted: Usage | None) -> None:
    body = answer({"text": "x"}, usageMetadata=usage)
    assert msgspec.json.decode(json.dumps(body).encode(), type=CONTENT.shape).counted() == counted
    assert fed(ContentDraft(), event(body)).usage == counted


async def test_odd_numbers_cost_no_answer() -> None:
    body = answer({"text": "x"}, usageMetadata=USAGE | {"promptTokenCount": -3})
    got = await asked(http(body), request(), kind="gemini")
    assert (got.outcome.kind, got.outcome.usage) == (None, None)


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("https://h", "https://h/v1beta/models/gemini-x:generateContent"),
        ("https://h/v1beta", "https://h/v1beta/models/gemini-x:generateContent"),
        ("https://h/gateway/v1/", "https://h/gateway/v1/models/gemini-x:generateContent"),
    ],
)
def test_addresses(base_url: str, url: str) -> None:
    gemini = GeminiDialect()
    assert str(gemini.url(gemini.address(base_url), PATH)) == url


def test_both_as_messages() -> None:
    told = CONTENT.conversation(
        {
            "systemInstruction": {"parts": [{"text": "s"}]},
            "contents": [{"role": "user", "parts": [{"text": "q"}]}],
        },
        answer({"text": "a"}),
    )
    assert [(m["role"], m["content"]) for m in told] == [
        ("system", [{"text": "s"}]),
        ("user", [{"text": "q"}]),
        ("assistant", [{"text": "a"}]),
    ]
