"""The plain text of an answer: at the same place for every provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.batch.answer_text import plain_text, text_of

HELLO = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hello"}}]},
        {"choices": [{"message": {"content": "hello"}}, {"message": {"content": None}}]},
        {"choices": [{"message": {"content": HELLO}}]},
        {"choices": [{"text": "hello"}]},
        {"output": [{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}]},
        {"content": HELLO},
        {"candidates": [{"content": {"parts": [{"text": "hmm", "thought": True}, {"text": "hello"}]}}]},
        {"output": {"message": {"content": [{"text": "hello"}]}}},
        "hello",
    ],
)
def test_the_text_of_every_dialect(answer: Any) -> None:
    assert plain_text(json.dumps(answer).encode()) == "hello"
    assert plain_text(json.dumps(answer, indent=2).encode()) == "hello"


@pytest.mark.parametrize(
    "answer",
    [
        {"object": "list", "data": [{"embedding": [0.1, 0.2]}]},
        {"choices": []},
        {"choices": [{"message": {"content": None, "tool_calls": []}}]},
        {"content": 4},
        {"text": "a function's own key"},
        [1, "text"],
        4,
        None,
    ],
)
def test_an_answer_without_a_text_has_none(answer: Any) -> None:
    assert plain_text(json.dumps(answer).encode()) is None
    assert not isinstance(answer, dict) or text_of(answer) is None


@pytest.mark.parametrize("body", [b"", b'{"content', b'"half', b"\xff\xfe", b'{"text": ' + b"[" * 5000])
def test_a_broken_body_has_none(body: bytes) -> None:
    assert plain_text(body) is None
