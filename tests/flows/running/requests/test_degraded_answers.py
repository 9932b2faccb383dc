"""Responses that are no answers: refused, filtered, cut short or empty ones are failed attempts of an agent, in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.flows.conftest import FlowFile

from headway.engine.run_spec import RouteAnswerCheck
from headway.flows.flow_file import load_flow
from headway.flows.running.flow_form import FlowForm
from headway.flows.running.requests.answer_check import route_check
from headway.flows.value_of_answer import answer_text
from headway.providers.adapter import Answer, Complaint, Request
from headway.stores.records import StoredRoute

AGENT = "graph:\n  nodes:\n    - {id: say, kind: agent, prompt: ./prompts/plain.md, writes: [said]%s}\n"
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI, CONVERSE = "/v1beta/models/m:generateContent", "/model/m/converse"
NO_TEXT = "the answer has no text"
CUT = "the answer was cut short by max_tokens"
CONTEXT = "the answer was cut short by the context window of the model"
FILTERED = "the provider filtered the answer: "


def chat(content: Any, finish: str = "stop", **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content, **more}, "finish_reason": finish}]}


def responses(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"object": "response", "output": [{"type": "message", "content": list(parts)}], **more}


def message(stop: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts), "stop_reason": stop}


def converse(stop: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"output": {"message": {"content": list(parts)}}, "stopReason": stop}


def gemini(finish: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}]}


TEXT = {"text": "cut of"}
OUTPUT = {"type": "output_text", "text": "cut of"}
BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("openai", CHAT, chat("cut of", "length"), CUT),
    ("openai", CHAT, chat("", "length"), CUT),
    ("openai", CHAT, chat("cut of", "content_filter"), FILTERED + "content_filter"),
    ("openai", CHAT, chat(None, refusal="not that"), "the model refused: not that"),
    ("openai", CHAT, chat(None), NO_TEXT),
    ("openai", CHAT, chat(" \n"), NO_TEXT),
    ("azure", "/openai/deployments/d/chat/completions", chat("cut of", "length"), CUT),
    ("openai", "/v1/completions", {"choices": [{"text": "cut of", "finish_reason": "length"}]}, CUT),
    ("openai", RESPONSES, responses(OUTPUT, incomplete_details={"reason": "max_output_tokens"}), CUT),
    (
        "openai",
        RESPONSES,
        responses(OUTPUT, incomplete_details={"reason": "content_filter"}),
        FILTERED + "content_filter",
    ),
    ("openai", RESPONSES, responses({"type": "refusal", "refusal": "no"}), "the model refused: no"),
    ("openai", RESPONSES, responses(), NO_TEXT),
    ("anthropic", MESSAGES, message("max_tokens", {"type": "text", **TEXT}), CUT),
    ("anthropic", MESSAGES, message("refusal"), "the model refused: it gave no reason"),
    ("anthropic", MESSAGES, message("model_context_window_exceeded", {"type": "text", **TEXT}), CONTEXT),
    ("anthropic", MESSAGES, message("end_turn"), NO_TEXT),
    ("bedrock", CONVERSE, converse("max_tokens", TEXT), CUT),
    ("bedrock", CONVERSE, converse("guardrail_intervened", TEXT), FILTERED + "guardrail_intervened"),
    ("bedrock", CONVERSE, converse("content_filtered", TEXT), FILTERED + "content_filtered"),
    ("bedrock", CONVERSE, converse("end_turn"), NO_TEXT),
    ("gemini", GEMINI, gemini("MAX_TOKENS", TEXT), CUT),
    ("gemini", GEMINI, gemini("SAFETY"), FILTERED + "SAFETY"),
    ("gemini", GEMINI, {"promptFeedback": {"blockReason": "OTHER"}}, FILTERED + "OTHER"),
    ("gemini", GEMINI, gemini("STOP"), NO_TEXT),
]
GOOD: list[tuple[str, str, dict[str, Any]]] = [
    ("openai", CHAT, chat("all of it")),
    ("openai", RESPONSES, responses(OUTPUT)),
    ("anthropic", MESSAGES, message("end_turn", {"type": "text", **TEXT})),
    ("bedrock", CONVERSE, converse("end_turn", TEXT)),
    ("gemini", GEMINI, gemini("STOP", TEXT)),
]


def check_for(flow_file: FlowFile, kind: str, more: str = "") -> RouteAnswerCheck:
    """The check of a flow with one agent."""
    spec = load_flow(flow_file(AGENT % more))
    return route_check(FlowForm(spec=spec), [StoredRoute("p", kind, "m", 1, label="say")])


@pytest.mark.parametrize("schema", ["", ", schema: {type: object}"])
@pytest.mark.parametrize(("kind", "path", "response", "message"), BAD)
def test_a_degraded_answer_is_a_failed_attempt(
    flow_file: FlowFile, kind: str, path: str, response: dict[str, Any], message: str, schema: str
) -> None:
    check = check_for(flow_file, kind, schema)
    answer = check(1, Request(path, b"{}"), Answer(body=json.dumps(response).encode()))
    assert answer.complaint == Complaint(message)


@pytest.mark.parametrize(("kind", "path", "response"), GOOD)
def test_an_answer_with_a_text_is_one(
    flow_file: FlowFile, kind: str, path: str, response: dict[str, Any]
) -> None:
    check = check_for(flow_file, kind)
    assert check(1, Request(path, b"{}"), Answer(body=json.dumps(response).encode())).complaint is None


@pytest.mark.parametrize("body", [b'{"a": 1}', b'""', b'"said"'])
def test_a_function_may_answer_any_value(flow_file: FlowFile, body: bytes) -> None:
    check = check_for(flow_file, "python")
    assert check(1, Request("", b"{}"), Answer(body=body)).complaint is None


@pytest.mark.parametrize(
    "response", [chat(None), gemini("STOP"), responses(), message("end_turn"), converse("x")]
)
def test_a_response_without_text_is_never_a_text(response: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=NO_TEXT):
        answer_text(json.dumps(response).encode())
