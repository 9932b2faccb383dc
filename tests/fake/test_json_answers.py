"""Requests for JSON by a schema: the fake's answer fits it, in every API; configured answers still win."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from tests.fake.virtual_server import CHAT, MESSAGES, ask, serving

from headway.fake.apis.schema_instance import MOST_ITEMS, fitting_value

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["good", "bad", "mixed"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "why": {"type": "string", "minLength": 50, "maxLength": 60},
    },
    "required": ["mood", "score", "why"],
    "additionalProperties": False,
}
RESPONSES = "/v1/responses"
TURN = {"role": "user", "content": "how was it?"}
NAMED = {"name": "answer", "schema": SCHEMA, "strict": True}
TOOL = {"name": "give", "input_schema": SCHEMA}
FUNCTION = {"name": "give", "parameters": SCHEMA}
WORDS = f"Answer with JSON alone. It must fit this JSON Schema:\n{json.dumps(SCHEMA)}"
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "how was it?"}]}]}
GEMINI = "/v1beta/models/gemini-x:generateContent"
CONVERSE = "/model/amazon.nova-pro-v1%3A0/converse"
BLOCKS = {"messages": [{"role": "user", "content": [{"text": "how was it?"}]}]}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": [TURN], "response_format": {"type": "json_schema", "json_schema": NAMED}}),
    "chat, in words": (CHAT, {"messages": [{"role": "system", "content": WORDS}, TURN]}),
    "chat, function": (
        CHAT,
        {"messages": [TURN], "tools": [{"type": "function", "function": FUNCTION}], "tool_choice": "required"},
    ),
    "responses": (RESPONSES, {"input": "how was it?", "text": {"format": {"type": "json_schema", **NAMED}}}),
    "responses, function": (
        RESPONSES,
        {
            "input": "how was it?",
            "instructions": "Be brief.",
            "tools": [{"type": "function", **FUNCTION}],
            "tool_choice": {"type": "function", "name": "give"},
        },
    ),
    "messages": (
        MESSAGES,
        {"max_tokens": 500, "messages": [TURN], "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    ),
    "messages, tool": (
        MESSAGES,
        {"max_tokens": 500, "messages": [TURN], "tools": [TOOL], "tool_choice": {"type": "tool", "name": "give"}},
    ),
    "messages, in words": (MESSAGES, {"max_tokens": 500, "messages": [TURN], "system": WORDS}),
    "gemini": (
        GEMINI,
        {**CONTENTS, "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
    ),
    "converse": (
        CONVERSE,
        {
            **BLOCKS,
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "give", "inputSchema": {"json": SCHEMA}}}],
                "toolChoice": {"any": {}},
            },
        },
    ),
    "converse, in words": (CONVERSE, {**BLOCKS, "system": [{"text": WORDS}]}),
}  # fmt: skip


def answer_of(body: dict[str, Any]) -> Any:
    """The answer in a body of any API: the text as JSON, or the input of a tool."""
    if "choices" in body:
        message = body["choices"][0]["message"]
        calls = message.get("tool_calls")
        return json.loads(calls[0]["function"]["arguments"] if calls else message["content"])
    if "candidates" in body:
        return json.loads(body["candidates"][0]["content"]["parts"][0]["text"])
    if isinstance(body.get("output"), list):
        item = body["output"][0]
        return json.loads(
            item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        )
    block = (body["output"]["message"] if "output" in body else body)["content"][0]
    used = block.get("toolUse") or (block if block.get("type") == "tool_use" else None)
    return used["input"] if used else json.loads(block["text"])


def key(path: str) -> dict[str, str]:
    return {"x-goog-api-key": "k", "Authorization": "Bearer k"}


@pytest.mark.parametrize("name", REQUESTS)
async def test_the_answer_fits_the_schema_of_the_request(name: str) -> None:
    path, body = REQUESTS[name]
    async with serving() as server:
        answers = [(await ask(server, path, {"model": "m", **body}, headers=key(path))) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    first, second = (answer_of(answer.json) for answer in answers)
    jsonschema_rs.validate(SCHEMA, first)
    assert first == second
    assert first["why"].startswith("echo: how was it?")


@pytest.mark.parametrize("name", [name for name in REQUESTS if not name.endswith((", tool", ", function"))])
async def test_a_configured_answer_wins(name: str) -> None:
    path, body = REQUESTS[name]
    async with serving(answers=[{"contains": "how was", "turns": [{"mood": 3}]}]) as server:
        answer = await ask(server, path, {"model": "m", **body}, headers=key(path))
    assert answer_of(answer.json) == {"mood": 3}


async def test_json_without_a_schema_is_an_echo_in_an_object() -> None:
    chat = {"model": "m", "messages": [TURN], "response_format": {"type": "json_object"}}
    gemini = {**CONTENTS, "generationConfig": {"responseMimeType": "application/json"}}
    plain = {"model": "m", "messages": [TURN], "response_format": {"type": "text"}}
    async with serving() as server:
        answers = [
            answer_of((await ask(server, CHAT, chat)).json),
            answer_of((await ask(server, GEMINI, gemini, headers=key(GEMINI))).json),
        ]
        text = (await ask(server, CHAT, plain)).json["choices"][0]["message"]["content"]
    assert answers == [{"echo": "how was it?"}] * 2
    assert text == "echo: how was it?"


async def test_max_tokens_cuts_the_json() -> None:
    path, body = REQUESTS["chat"]
    async with serving() as server:
        answer = (await ask(server, path, {"model": "m", "max_tokens": 2, **body})).json["choices"][0]
    assert (len(answer["message"]["content"]), answer["finish_reason"]) == (8, "length")


TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "left": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
            "required": ["name", "left", "children"],
        }
    },
    "$ref": "#/$defs/node",
}
SCHEMAS: list[Any] = [
    {"const": 7},
    {"type": "null"},
    {"type": ["null", "integer"], "minimum": 3},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {"type": "number", "minimum": 0.2, "maximum": 0.3},
    {"type": "integer", "maximum": -3},
    {"type": "integer", "minimum": 10, "multipleOf": 7},
    {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": False, "minItems": 2},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 0},
    {"type": "string", "maxLength": 3},
    *({"type": "string", "format": form} for form in ("date", "date-time", "email", "uuid", "uri", "ipv4", "time")),
    {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer"}}}]},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 2},
    {"properties": {"a": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}, "required": ["a"]},
    TREE,
    True,
    {},
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
def test_values_fit(schema: Any) -> None:
    for text in ("", "one", "two", "three", "a longer text, longer than the forty characters of an echo"):
        jsonschema_rs.validate(schema, fitting_value(schema, text), validate_formats=True)


def test_texts_choose_different_values() -> None:
    assert {fitting_value({"enum": [1, 2, 3]}, f"text {number}") for number in range(50)} == {1, 2, 3}


def test_bounds_in_a_description_and_types_of_gemini() -> None:
    described = {"type": "integer", "description": "The year. (maximum: 2030, minimum: 2020)"}
    assert 2020 <= fitting_value(described, "x") <= 2030
    gemini = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]}
    assert fitting_value(gemini, "x") == {"n": 0}


def test_the_size_of_an_answer_is_bounded() -> None:
    assert len(fitting_value({"type": "array", "minItems": 10**9, "items": {}}, "x")) == MOST_ITEMS
    endless = {
        "properties": {str(n): {"$ref": "#"} for n in range(9)},
        "required": [str(n) for n in range(9)],
    }
    assert len(json.dumps(fitting_value(endless, "x"))) < 1_000_000
    assert fitting_value({"$ref": "#"}, "x") is not None
