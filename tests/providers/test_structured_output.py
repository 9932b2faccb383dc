"""How each API is asked for JSON that fits a schema, and asked again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.providers.dialects.structured_output import (
    TOOL,
    SchemaDialect,
    SchemaRequests,
    follow_up,
    schema_dialect,
)

CLOSED = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"n": {"type": "number", "minimum": 0}, "who": {"$ref": "#/$defs/person"}},
    "required": ["n", "who"],
    "additionalProperties": False,
    "$defs": {
        "person": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}
RECURSIVE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}},
    "required": ["next"],
    "additionalProperties": False,
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["next"],
            "additionalProperties": False,
        }
    },
}


def dialect(kind: str, path: str) -> SchemaDialect:
    found = schema_dialect(kind, path)
    assert found is not None
    return found


CHAT = dialect("openai", "/v1/chat/completions")
RESPONSES = dialect("openai", "/v1/responses")
MESSAGES = dialect("anthropic", "/v1/messages")


def asked(schema: dict[str, Any], how: SchemaDialect, **body: Any) -> dict[str, Any]:
    SchemaRequests(schema).put(how, body)
    return body


def strict(schema: dict[str, Any]) -> bool:
    told: bool = asked(schema, CHAT, messages=[])["response_format"]["json_schema"]["strict"]
    return told


# -- OpenAI -----------------------------------------------------------------------------------------------------------


def test_chat_completions_have_it_as_a_response_format() -> None:
    told = asked(CLOSED, CHAT, messages=[])["response_format"]
    assert told["type"] == "json_schema"
    assert (told["json_schema"]["name"], told["json_schema"]["strict"]) == ("answer", True)
    assert told["json_schema"]["schema"] == {key: CLOSED[key] for key in CLOSED if key != "$schema"}


def test_responses_have_it_as_the_format_of_their_text() -> None:
    told = asked(CLOSED, RESPONSES, input="x")["text"]["format"]
    assert (told["type"], told["name"], told["strict"]) == ("json_schema", "answer", True)


@pytest.mark.parametrize(
    "change",
    [
        {"additionalProperties": True},
        {"required": ["n"]},
        {"minProperties": 1},
        {"properties": {"n": {"type": "string", "default": ""}, "who": {}}},
        {"properties": {"n": {"type": "object"}, "who": {}}},
        {"allOf": []},
    ],
)
def test_strictly_only_where_strict_mode_takes_the_schema(change: dict[str, Any]) -> None:
    assert strict(CLOSED)
    assert strict(RECURSIVE)
    assert not strict({**CLOSED, **change})


@pytest.mark.parametrize("how", [CHAT, RESPONSES])
def test_a_schema_that_is_not_an_object_goes_into_the_instructions(how: SchemaDialect) -> None:
    body = asked({"enum": ["yes", "no"]}, how, messages=[{"role": "user", "content": "?"}], input="?")
    assert how.field not in body
    words = body["messages"][0]["content"] if how is CHAT else body["instructions"]
    assert words.endswith('{"enum":["yes","no"]}')


def test_words_come_behind_a_system_prompt_that_is_there() -> None:
    for role in ("system", "developer"):
        messages = [{"role": role, "content": "Be brief."}, {"role": "user", "content": "?"}]
        body = asked({"enum": [1]}, CHAT, messages=messages)
        assert [message["role"] for message in body["messages"]] == [role, "user"]
        assert body["messages"][0]["content"].startswith("Be brief.\n\nAnswer with JSON alone")
        assert messages[0]["content"] == "Be brief."
    body = asked({"enum": [1]}, RESPONSES, input="?", instructions="Be brief.")
    assert body["instructions"].startswith("Be brief.\n\nAnswer")


@pytest.mark.parametrize(
    ("how", "own"),
    [
        (CHAT, {"response_format": {"type": "json_object"}}),
        (RESPONSES, {"text": {"format": {"type": "text"}}}),
        (MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": {}}}}),
        (MESSAGES, {"output_format": {"type": "json_schema", "schema": {}}}),
        (CHAT, {"response_format": "whatever"}),
    ],
)
def test_a_body_that_says_itself_how_it_is_answered_keeps_to_that(
    how: SchemaDialect, own: dict[str, Any]
) -> None:
    assert asked(CLOSED, how, **own) == own
    assert asked({"enum": [1]}, how, **own) == own


def test_what_else_stands_in_the_same_place_stays() -> None:
    body = asked(CLOSED, RESPONSES, input="x", text={"verbosity": "low"})
    assert body["text"].keys() == {"verbosity", "format"}
    body = asked(CLOSED, MESSAGES, messages=[], output_config={"effort": "high"})
    assert body["output_config"].keys() == {"effort", "format"}


# -- Anthropic --------------------------------------------------------------------------------------------------------


def test_messages_have_it_as_the_format_of_their_output() -> None:
    told = asked(CLOSED, MESSAGES, messages=[])["output_config"]["format"]
    assert told["type"] == "json_schema"
    assert told["schema"]["$defs"] == CLOSED["$defs"]
    assert "$schema" not in told["schema"]


def test_bounds_that_anthropic_refuses_go_into_the_description() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "number", "minimum": 0, "maximum": 1, "description": "How sure."},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3},
        },
    }
    told = asked(schema, MESSAGES, messages=[])["output_config"]["format"]["schema"]
    assert told["properties"]["n"] == {"type": "number", "description": "How sure. (maximum: 1, minimum: 0)"}
    assert told["properties"]["tags"] == {
        "type": "array",
        "items": {"type": "string", "description": "(maxLength: 9)"},
        "description": "(maxItems: 3)",
    }
    assert told["additionalProperties"] is False
    assert "additionalProperties" not in schema


@pytest.mark.parametrize(
    "schema",
    [
        RECURSIVE,
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {}, "b": {"$ref": "#/properties/a"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"x": {"not": {"type": "string"}}}},
        {"enum": [{"a": 1}]},
        {"allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"type": "string"}}},
    ],
)
def test_a_schema_that_anthropic_refuses_goes_into_the_instructions(schema: dict[str, Any]) -> None:
    body = asked(schema, MESSAGES, messages=[])
    assert "output_config" not in body
    assert json.loads(body["system"].partition("\n")[2]) == schema
    assert asked(schema, MESSAGES, system="Be brief.")["system"].startswith("Be brief.\n\n")
    blocks = asked(schema, MESSAGES, system=[{"type": "text", "text": "a"}])["system"]
    assert [block["type"] for block in blocks] == ["text", "text"]


def test_one_of_several_is_said_as_any_of_them() -> None:
    told = asked({"oneOf": [{"type": "string"}, {"type": "null"}]}, MESSAGES)["output_config"]["format"]
    assert told["schema"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


# -- again ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [CHAT, MESSAGES])
def test_a_conversation_grows_by_two_turns(how: SchemaDialect) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}], "user": "me"}).encode()
    told = json.loads(follow_up(how, body, "b", "c"))
    assert [(turn["role"], turn["content"]) for turn in told["messages"]] == [
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert (told["model"], told["user"]) == ("m", "me")


@pytest.mark.parametrize("asks", ["a", [{"role": "user", "content": "a"}]])
def test_responses_grow_by_two_items(asks: Any) -> None:
    told = json.loads(follow_up(RESPONSES, json.dumps({"input": asks}).encode(), "", "c"))
    assert [(turn["role"], turn["content"]) for turn in told["input"]] == [
        ("user", "a"),
        ("assistant", "(no text)"),
        ("user", "c"),
    ]


# -- Gemini -------------------------------------------------------------------------------------------------------

GEMINI = dialect("gemini", "/v1beta/models/gemini-x:generateContent")
CLAUDE = dialect("bedrock", "/model/eu.anthropic.claude-x-v1%3A0/converse")
NOVA = dialect("bedrock", "/model/us.amazon.nova-pro-v1%3A0/converse")
LLAMA = dialect("bedrock", "/model/meta.llama3-1-70b-instruct-v1%3A0/converse")
PLAIN: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"n": {"type": "number", "exclusiveMinimum": 0}, "kind": {"const": "a"}},
    "required": ["n"],
    "additionalProperties": False,
}


def test_gemini_has_it_in_its_settings_with_bounds_as_words() -> None:
    body = asked(PLAIN, GEMINI, contents=[], generationConfig={"temperature": 0})
    config = body["generationConfig"]
    assert (config["temperature"], config["responseMimeType"]) == (0, "application/json")
    told = config["responseJsonSchema"]
    assert "$schema" not in told
    assert told["properties"] == {
        "n": {"type": "number", "description": "(exclusiveMinimum: 0)"},
        "kind": {"enum": ["a"]},
    }
    assert PLAIN["properties"]["n"] == {"type": "number", "exclusiveMinimum": 0}, "the schema itself stays"


@pytest.mark.parametrize(
    "more",
    [
        {"not": {"type": "null"}},
        {"patternProperties": {"^x": {"type": "string"}}},
        {"properties": {"n": {"$ref": "#/$defs/x", "title": "N"}}, "$defs": {"x": {"type": "string"}}},
        {"properties": {"n": {"enum": [{"a": 1}]}}},
    ],
)
def test_keywords_that_gemini_ignores_go_into_the_instructions(more: dict[str, Any]) -> None:
    body = asked({**PLAIN, **more}, GEMINI, contents=[], systemInstruction={"parts": [{"text": "Be brief."}]})
    assert body["generationConfig"] == {"responseMimeType": "application/json"}
    first, second = body["systemInstruction"]["parts"]
    assert first == {"text": "Be brief."}
    assert "JSON Schema" in second["text"]


@pytest.mark.parametrize("config", ["generationConfig", "generation_config"])
@pytest.mark.parametrize("key", ["responseMimeType", "response_mime_type"])
def test_a_body_of_geminis_that_says_itself_how_it_is_answered(config: str, key: str) -> None:
    body = {config: {key: "text/plain"}}
    assert asked(PLAIN, GEMINI, contents=[], **body) == {"contents": [], **body}
    written = asked(PLAIN, GEMINI, contents=[], **{config: {"temperature": 0}})
    assert list(written) == ["contents", config], "what is there is not written in two ways"


def test_gemini_is_asked_again_by_contents() -> None:
    body = json.loads(
        follow_up(GEMINI, b'{"contents": [{"role": "user", "parts": [{"text": "x"}]}]}', "y", "z")
    )
    assert [(turn["role"], turn["parts"][0]["text"]) for turn in body["contents"]] == [
        ("user", "x"),
        ("model", "y"),
        ("user", "z"),
    ]


# -- Bedrock ------------------------------------------------------------------------------------------------------


def test_claude_at_bedrock_must_use_a_tool() -> None:
    config = asked(CLOSED, CLAUDE, messages=[])["toolConfig"]
    [tool] = config["tools"]
    assert config["toolChoice"] == {"any": {}}
    assert tool["toolSpec"]["name"] == TOOL
    told = tool["toolSpec"]["inputSchema"]["json"]
    assert told == {key: value for key, value in CLOSED.items() if key != "$schema"}


def test_nova_takes_simple_schemas_only() -> None:
    [tool] = asked(PLAIN, NOVA, messages=[])["toolConfig"]["tools"]
    assert set(tool["toolSpec"]["inputSchema"]["json"]) == {"type", "properties", "required"}
    assert "toolConfig" not in asked(CLOSED, NOVA, messages=[]), "nothing can be referred to"


@pytest.mark.parametrize(
    ("how", "schema", "body"),
    [
        (LLAMA, PLAIN, {}),
        (CLAUDE, {"type": "array", "items": {"type": "string"}}, {}),
        (CLAUDE, {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}),
        (CLAUDE, PLAIN, {"additionalModelRequestFields": {"thinking": {"type": "enabled"}}}),
        (dialect("bedrock", "/model/anthropic.claude-v2%3A1/converse"), PLAIN, {}),
        (dialect("bedrock", "/model/arn%3Aaws%3Abedrock%3Aus-east-1/converse"), PLAIN, {}),
    ],
)
def test_where_no_tool_can_be_demanded_words_must_do(
    how: SchemaDialect, schema: dict[str, Any], body: dict[str, Any]
) -> None:
    told = asked(schema, how, messages=[], system=[{"text": "Be brief."}], **body)
    assert "toolConfig" not in told
    assert told["system"][0] == {"text": "Be brief."}
    assert "JSON Schema" in told["system"][1]["text"]


def test_tools_of_a_row_stay_its_own() -> None:
    own = {"tools": [{"toolSpec": {"name": "search", "inputSchema": {"json": {"type": "object"}}}}]}
    assert asked(PLAIN, CLAUDE, messages=[], toolConfig=own) == {"messages": [], "toolConfig": own}


def test_bedrocks_own_bodies_are_not_asked() -> None:
    assert schema_dialect("bedrock", "/model/anthropic.claude-x/invoke") is None
    assert schema_dialect("gemini", "/v1beta/models/m:embedContent") is None


def test_embeddings_have_no_text() -> None:
    assert schema_dialect("openai", "/v1/embeddings") is None


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/deployments/mine/chat/completions", "/v1/responses"]
)
def test_azure_is_asked_as_openai_is_below_the_name_of_a_deployment_too(path: str) -> None:
    plain = path.replace("/deployments/mine/", "/v1/")
    assert schema_dialect("azure", path) is schema_dialect("openai", plain) is not None
