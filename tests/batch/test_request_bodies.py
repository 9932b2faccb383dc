"""Short rows in the words of Gemini, Bedrock and Azure; Batch rows for them; what cannot be said there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headway.batch.rows import BadRow, Row, parse
from headway.config import Config, ProviderConfig
from headway.config.routing import Router

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}


def config() -> Config:
    def provider(name: str, kind: Any, **more: Any) -> ProviderConfig:
        return ProviderConfig(name, kind, "https://h", "KEY", **more)

    made = [
        provider("a", "azure", model="gpt-x", api_version="2024-10-21"),
        provider("g", "gemini", model="gemini-x"),
        provider("b", "bedrock", model="eu.claude-x:0", region="eu-central-1"),
    ]
    return Config(None, Path("/"), "x.db", {one.name: one for one in made})


ROUTER = Router(config())


def row(**said: Any) -> Row:
    parsed = parse(1, json.dumps(said).encode(), ROUTER)
    assert isinstance(parsed, Row), parsed
    return parsed


def body(**said: Any) -> dict[str, Any]:
    converted: dict[str, Any] = json.loads(row(**said).body)
    return converted


def wrong(**said: Any) -> str:
    parsed = parse(1, json.dumps(said).encode(), ROUTER)
    assert isinstance(parsed, BadRow), parsed
    return parsed.message


def test_a_prompt_for_gemini() -> None:
    made = row(prompt="hi", model="g/gemini-x", system="be brief", max_tokens=9, n=2, metadata={"k": 1})
    assert made.path == "/v1beta/models/gemini-x:generateContent"
    assert json.loads(made.body) == {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "systemInstruction": {"parts": [{"text": "be brief"}]},
        "generationConfig": {"maxOutputTokens": 9, "candidateCount": 2},
    }
    assert (made.max_tokens, made.chars, made.model) == (18.0, 10, "gemini-x")


def test_settings_for_gemini() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    converted = body(
        model="g/gemini-x",
        messages=[
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, IMAGE]},
            {"role": "assistant", "content": "seen"},
            {"role": "user", "content": "and?"},
        ],
        temperature=0.5,
        top_p=0.9,
        top_k=4,
        stop="END",
        seed=7,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        generationConfig={"thinkingConfig": {"thinkingBudget": 0}, "topK": 8},
        safetySettings=[{"category": "C", "threshold": "BLOCK_NONE"}],
    )
    assert converted["contents"] == [
        {
            "role": "user",
            "parts": [{"text": "look"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}],
        },
        {"role": "model", "parts": [{"text": "seen"}]},
        {"role": "user", "parts": [{"text": "and?"}]},
    ]
    assert converted["systemInstruction"] == {"parts": [{"text": "s"}]}
    assert converted["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 8,
        "stopSequences": ["END"],
        "seed": 7,
        "thinkingConfig": {"thinkingBudget": 0},
        "responseMimeType": "application/json",
        "responseJsonSchema": schema,
    }
    assert converted["safetySettings"] == [{"category": "C", "threshold": "BLOCK_NONE"}]
    assert converted.keys() == {"contents", "systemInstruction", "generationConfig", "safetySettings"}


def test_a_conversation_for_bedrock() -> None:
    made = row(
        model="b/eu.claude-x:0",
        messages=[{"role": "user", "content": [{"type": "text", "text": "hi"}, IMAGE]}],
        system="be brief",
        max_completion_tokens=30,
        temperature=0,
        stop=["a", "b"],
        additionalModelRequestFields={"top_k": 5},
    )
    assert made.path == "/model/eu.claude-x%3A0/converse"
    assert json.loads(made.body) == {
        "messages": [
            {
                "role": "user",
                "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": "aGk="}}}],
            }
        ],
        "system": [{"text": "be brief"}],
        "inferenceConfig": {"maxTokens": 30, "temperature": 0, "stopSequences": ["a", "b"]},
        "additionalModelRequestFields": {"top_k": 5},
    }
    assert (made.max_tokens, made.model) == (30.0, "eu.claude-x:0")


def test_azure_uses_openai_bodies_at_other_paths() -> None:
    made = row(prompt="hi", model="a/my gpt", max_tokens=5)
    assert made.path == "/deployments/my%20gpt/chat/completions"
    assert json.loads(made.body) == {
        "model": "my gpt",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 5,
    }
    assert row(input="text", model="a/emb").path == "/deployments/emb/embeddings"
    batch = row(custom_id="r", url="/v1/responses", body={"model": "a/gpt-x", "input": "hi"})
    assert batch.path == "/v1/responses"


@pytest.mark.parametrize(
    ("said", "path", "model"),
    [
        ({"url": "/v1beta/models/gemini-y:generateContent", "model": "g/gemini-y"}, "/v1beta/models/gemini-y:generateContent", "gemini-y"),
        ({"url": "/v1beta/models/{model}:generateContent", "model": "g/gemini-y"}, "/v1beta/models/gemini-y:generateContent", "gemini-y"),
        ({"url": "/models/gemini-y:generateContent", "model": "g/gemini-y"}, "/v1beta/models/gemini-y:generateContent", "gemini-y"),
    ],
)  # fmt: skip
def test_batch_rows_for_gemini(said: dict[str, str], path: str, model: str) -> None:
    content = {"contents": [{"parts": [{"text": "hi"}]}], "generationConfig": {"maxOutputTokens": 7}}
    made = row(custom_id="x", method="POST", url=said["url"], body={"model": said["model"], **content})
    assert (made.path, made.model, json.loads(made.body), made.max_tokens) == (path, model, content, 7.0)


@pytest.mark.parametrize("act", ["converse", "invoke"])
def test_batch_rows_for_bedrock(act: str) -> None:
    asked = {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}
    made = row(custom_id="x", url=f"/model/c%3A0/{act}", body={"model": "b/c:0", **asked})
    assert (made.path, made.model, json.loads(made.body)) == (f"/model/c%3A0/{act}", "c:0", asked)


def test_the_model_may_be_only_in_the_url() -> None:
    only = Config(None, Path("/"), "x.db", {"g": config().providers["g"]})
    line = {
        "custom_id": "x",
        "url": "/v1beta/models/gemini-z:generateContent",
        "body": {"contents": [{"parts": []}]},
    }
    made = parse(1, json.dumps(line).encode(), Router(only))
    assert isinstance(made, Row)
    assert (made.model, made.raw_model) == ("gemini-z", "gemini-z")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"prompt": "x", "model": "g/m", "max_tokens": 0}, '"max_tokens" must be a whole number above 0'),
        ({"prompt": "x", "model": "b/m", "max_tokens": "9"}, '"max_tokens" must be a whole number above 0'),
        ({"prompt": "x", "model": "g/m", "generationConfig": 1}, '"generationConfig" must be an object'),
        ({"prompt": "x", "model": "g/m", "system": ["a"]}, '"system" must be a string'),
        ({"input": "x", "model": "g/m"}, '"input" is for embeddings'),
        ({"messages": [{"role": "tool", "content": "x"}], "model": "g/m"}, '"messages[0]": "tool" cannot be converted for Gemini'),
        ({"messages": [{"role": "assistant", "tool_calls": []}], "model": "b/m"}, "a message with tool calls cannot be converted for Bedrock"),
        ({"messages": [{"role": "system", "content": "x"}], "model": "b/m"}, "one that is not a system prompt"),
        ({"messages": [{"role": "user", "content": []}], "model": "g/m"}, '"messages[0].content" must be a string'),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}], "model": "g/m"}, "data: address"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/tiff;base64,aGk="}}]}], "model": "b/m"}, "data: address"),
        ({"prompt": "x", "model": "g/m", "response_format": {"type": "xml"}}, '"response_format" must be'),
        ({"url": "/v1/chat/completions", "body": {"model": "g/m", "messages": []}}, "does not fit provider 'g', whose kind is gemini"),
        ({"url": "/v1beta/models/other:generateContent", "body": {"model": "g/m", "contents": []}}, "\"url\" names the model 'other'"),
        ({"url": "/model/m/converse", "body": {"model": "b/m"}}, '"body.messages" must be a list'),
        ({"url": "/models/m:generateContent", "body": {"model": "g/m", "contents": [1]}}, '"body.contents[0]" must be an object with "parts"'),
        ({"url": "/models/m:generateContent", "body": {"model": "g/m", "contents": [{"parts": []}], "generationConfig": {"maxOutputTokens": 0}}}, '"body.generationConfig.maxOutputTokens" must be'),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_converted_are_errors_of_one_line(said: dict[str, Any], words: str) -> None:
    message = wrong(**said)
    assert words in message
    assert "\n" not in message
