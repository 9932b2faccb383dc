"""Answers and tool outputs that mention limits are not limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.hints.row import NOW

from headway.providers.limits.hints import RawResponse, understand
from headway.providers.limits.profiles import PROFILES

ANSWERS = [
    json.loads(line)
    for line in (Path(__file__).parent / "ordinary_answers.jsonl").read_text("utf-8").splitlines()
]
TEXTS = [answer["text"] for answer in ANSWERS]


def events(*items: dict[str, Any]) -> RawResponse:
    return RawResponse(body="\n".join(json.dumps(item) for item in items), origin="cli")


def said(text: str) -> dict[str, Any]:
    return {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}


def tool_said(text: str) -> dict[str, Any]:
    return {
        "type": "user",
        "message": {"content": [{"type": "tool_result", "content": text, "is_error": True}]},
    }


def test_there_are_two_hundred_different_answers() -> None:
    assert len(set(TEXTS)) == len(TEXTS) >= 200
    assert len({answer["kind"] for answer in ANSWERS}) >= 7


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_as_the_body_of_a_200(profile: Any) -> None:
    for text in TEXTS:
        for body in (text, text.encode(), json.dumps({"choices": [{"message": {"content": text}}]})):
            facts = understand(RawResponse(200, {}, body, text), profile, now_utc=NOW)
            assert facts.kind is None, text
            assert facts.hint.retry_after_s is None


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_as_the_answer_of_an_agent(text: str) -> None:
    claude = events(
        said(text),
        tool_said(text),
        {"type": "result", "subtype": "success", "is_error": False, "result": text},
    )
    codex = events(
        {"type": "item.completed", "item": {"type": "agent_message", "text": text}},
        {
            "type": "item.completed",
            "item": {"type": "command_execution", "aggregated_output": text, "exit_code": 1},
        },
        {"type": "turn.completed", "usage": {}},
    )
    gemini = events({"session_id": "s", "response": text, "stats": {}})
    for name, seen in {"claude": claude, "codex": codex, "gemini-cli": gemini}.items():
        assert understand(seen, PROFILES[name], now_utc=NOW).kind is None


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_as_part_of_a_run_that_has_not_ended(text: str) -> None:
    for name in ("claude", "codex", "gemini-cli"):
        assert understand(events(said(text), tool_said(text)), PROFILES[name], now_utc=NOW).kind is None


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_as_the_plain_output_of_a_command(text: str) -> None:
    assert understand(RawResponse(body=text, origin="cli"), PROFILES["generic"], now_utc=NOW).kind is None
