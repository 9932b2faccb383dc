"""Which requests are the same, and which would be answered the same again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headway.engine.cache_keys import CacheUse, ModelAddress, deterministic

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
GEMINI, CONVERSE = "/v1beta/models/m:generateContent", "/model/m/converse"
ALPHA = ModelAddress("openai", "https://api.example/v1", "m")
USE = CacheUse("deterministic", {1: ALPHA, 2: ALPHA})
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "temperature": 0}


def key(body: dict[str, Any], use: CacheUse = USE, route: int = 1, path: str = CHAT) -> bytes | None:
    return use.key(route, path, msgspec.json.encode(body))


def test_the_same_request_has_the_same_key_however_it_is_written() -> None:
    again = {"temperature": 0, "messages": [{"content": "Hi", "role": "user"}], "model": "m"}
    assert key(BODY) == key(again)
    spaced = b'{ "model": "m",\n "messages": [ {"role":"user","content":"H\\u0069"} ], "temperature": 0 }'
    assert USE.key(1, CHAT, spaced) == key(BODY)
    assert key(BODY) == key(BODY, route=2), "whichever account pays"


@pytest.mark.parametrize("carriage", [
    {"stream": True}, {"stream": False}, {"stream": True, "stream_options": {"include_usage": True}},
])  # fmt: skip
def test_how_an_answer_is_carried_does_not_matter(carriage: dict[str, Any]) -> None:
    assert key({**BODY, **carriage}) == key(BODY)


@pytest.mark.parametrize("other", [
    {"model": "n"},
    {"messages": [{"role": "user", "content": "hi"}]},
    {"messages": [{"role": "system", "content": "Hi"}]},
    {"messages": [{"role": "user", "content": "Hi"}] * 2},
    {"max_tokens": 5},
    {"seed": 1},
    {"user": "somebody"},
    {"tools": []},
])  # fmt: skip
def test_anything_else_does(other: dict[str, Any]) -> None:
    assert key({**BODY, **other}) not in (None, key(BODY))


@pytest.mark.parametrize("place", [
    ModelAddress("anthropic", ALPHA.root, "m"),
    ModelAddress("openai", "https://elsewhere.example/v1", "m"),
    ModelAddress("openai", ALPHA.root, "n"),
])  # fmt: skip
def test_the_provider_is_part_of_the_key(place: ModelAddress) -> None:
    elsewhere = CacheUse("deterministic", {1: place})
    assert key(BODY, elsewhere) != key(BODY)
    assert elsewhere.basis() != CacheUse("deterministic", {1: ALPHA}).basis()


def test_where_it_is_sent_matters() -> None:
    assert key(BODY, path="/v1/responses") != key(BODY)


@pytest.mark.parametrize(("path", "body", "sure"), [
    (CHAT, {"temperature": 0}, True),
    (GEMINI, {"generationConfig": {"temperature": 0}}, True),
    (GEMINI, {"generation_config": {"temperature": 0.0}}, True),
    (GEMINI, {"generationConfig": {"seed": 7, "temperature": 1}}, True),
    (GEMINI, {"generationConfig": {"temperature": 1}}, False),
    (GEMINI, {"generationConfig": "temperature"}, False),
    (GEMINI, {"temperature": 0}, False),
    (CONVERSE, {"inferenceConfig": {"temperature": 0}}, True),
    (CONVERSE, {"inferenceConfig": {"temperature": 0.5}}, False),
    (CONVERSE, {}, False),
    (CHAT, {"temperature": 0.0}, True),
    (CHAT, {"temperature": 0.01}, False),
    (CHAT, {"temperature": None}, False),
    (CHAT, {"temperature": False}, False),
    (CHAT, {"temperature": "0"}, False),
    (CHAT, {}, False),
    (CHAT, {"seed": 0}, True),
    (CHAT, {"seed": 7, "temperature": 1}, True),
    (CHAT, {"seed": None}, False),
    (EMBEDDINGS, {"input": "x"}, True),
    ("/v1/messages", {"temperature": 0}, True),
])  # fmt: skip
def test_deterministic_requests_are_recognised(path: str, body: dict[str, Any], sure: bool) -> None:
    assert deterministic(path, body) is sure


def test_a_request_that_may_be_answered_otherwise_has_a_key_only_where_all_are_taken() -> None:
    warm = {**BODY, "temperature": 1}
    everything = CacheUse("all", {1: ALPHA})
    assert key(warm) is None
    assert key(warm, everything) is not None
    assert key(BODY, everything) == key(BODY), "both ways of using it share what is kept"
    assert everything.basis() != CacheUse("deterministic", {1: ALPHA}).basis()
