"""The page of a unit: its conversation in one form for every API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.reports.unit_pages.turns import (
    CalledTool,
    SpokenTurn,
    answer_turns,
    message_turns,
    request_turns,
)

ASKED = [SpokenTurn("system", "Be brief."), SpokenTurn("user", "What is the weather?")]
CALL = CalledTool("weather", {"city": "Rome"})
TOOL_USE = {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Rome"}}
CHAT_CALL = {"id": "t", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "request_body",
    [
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What is the weather?"},
            ]
        },
        {
            "system": "Be brief.",
            "messages": [{"role": "user", "content": [{"type": "text", "text": "What is the weather?"}]}],
        },
        {
            "system": [{"text": "Be brief."}],
            "messages": [{"role": "user", "content": [{"text": "What is the weather?"}]}],
        },
        {
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
            "contents": [{"role": "user", "parts": [{"text": "What is the weather?"}]}],
        },
        {"instructions": "Be brief.", "input": "What is the weather?"},
        {
            "instructions": "Be brief.",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "What is the weather?"}]}],
        },
    ],
    ids=["chat", "anthropic", "converse", "gemini", "responses text", "responses items"],
)
def test_requests_of_every_api_read_the_same(request_body: dict[str, Any]) -> None:
    assert request_turns(body(request_body)) == ASKED


@pytest.mark.parametrize(
    "answer",
    [
        {
            "choices": [
                {"message": {"role": "assistant", "content": "Let me see.", "tool_calls": [CHAT_CALL]}}
            ]
        },
        {"content": [{"type": "text", "text": "Let me see."}, TOOL_USE]},
        {
            "output": {
                "message": {
                    "content": [
                        {"text": "Let me see."},
                        {"toolUse": {"name": "weather", "input": {"city": "Rome"}}},
                    ]
                }
            }
        },
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "Let me see."},
                            {"functionCall": {"name": "weather", "args": {"city": "Rome"}}},
                        ],
                    }
                }
            ]
        },
    ],
    ids=["chat", "anthropic", "converse", "gemini"],
)
def test_answers_of_every_api_read_the_same(answer: dict[str, Any]) -> None:
    assert answer_turns(body(answer)) == [SpokenTurn("assistant", "Let me see.", (CALL,))]


def test_items_of_responses_and_results_of_tools_are_turns() -> None:
    items = [
        {"type": "message", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "name": "weather", "arguments": '{"city": "Rome"}'},
    ]
    assert answer_turns(body({"output": items})) == [
        SpokenTurn("assistant", "Let me see."),
        SpokenTurn("assistant", "", (CALL,)),
    ]
    results: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": "t", "content": "sunny"},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "sunny"}]}
            ],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": "sunny"}}]},
        {"type": "function_call_output", "output": "sunny"},
    ]
    for message in results:
        assert message_turns(message) == [SpokenTurn("tool", "", tool_result="sunny")], message


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\xff\xfe",
        b"[1,2]",
        b"null",
        b'{"messages":3}',
        b'{"messages":[null,3]}',
        b'{"choices":[[],{"message":7}]}',
        b'{"content":[[["a"]]]}',
    ],
)
def test_nothing_in_a_body_raises(hostile: bytes) -> None:
    request_turns(hostile)
    answer_turns(hostile)


def test_control_characters_are_escaped_everywhere() -> None:
    evil = "a\x1b]0;title\x07b\u202e<script>"
    call = {"role": "assistant", "content": evil, "tool_calls": [{"name": evil, "arguments": {evil: [evil]}}]}
    turns = [
        *request_turns(body({"messages": [{"role": "user", "content": evil}, call]})),
        *answer_turns(body({"content": evil})),
    ]
    text = json.dumps(
        [[one.text, [[c.name, c.arguments] for c in one.tool_calls]] for one in turns], ensure_ascii=False
    )
    assert "<script>" in text
    assert not any(mark in text for mark in "\x1b\x07\u202e")
