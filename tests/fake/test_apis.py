"""Answers and errors of each API, over a real socket."""

from __future__ import annotations

import base64
from array import array
from typing import Any

import pytest

from .virtual_server import CHAT, MESSAGES, ask, chat, message, serving

RESPONSES = "/v1/responses"
TOOLS = [{"contains": "weather", "name": "get_weather", "arguments": {"city": "Oslo"}}]
OFFERED = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]


async def test_a_chat_completion() -> None:
    async with serving() as server:
        answer = await ask(server, CHAT, chat("hello there"))
        body = answer.json
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"].startswith("req_")
    assert "date" in answer.headers
    assert body["id"].startswith("chatcmpl-")
    assert (body["object"], body["model"], body["created"]) == (
        "chat.completion",
        "gpt-4o-mini",
        1_800_000_000,
    )
    assert body["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "echo: hello there",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    usage = body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 5, 8)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert "system_fingerprint" in body


async def test_answers_are_cut_to_max_tokens_and_padded_to_the_configured_length() -> None:
    async with serving(default={"output_tokens": 50}) as server:
        filled = (await ask(server, CHAT, chat("hello"))).json
        cut = (await ask(server, CHAT, chat("hello", max_tokens=10))).json
    assert filled["usage"]["completion_tokens"] == 50
    assert len(filled["choices"][0]["message"]["content"]) == 200
    assert filled["choices"][0]["message"]["content"].startswith("echo: hello ")
    assert filled["choices"][0]["finish_reason"] == "stop"
    assert cut["usage"]["completion_tokens"] == 10
    assert cut["choices"][0]["finish_reason"] == "length"


async def test_all_texts_are_counted_as_input() -> None:
    parts = [{"type": "text", "text": "x" * 8}, {"type": "input_audio", "input_audio": {"data": "eA=="}}]
    call = {"id": "c", "type": "function", "function": {"name": "f" * 4, "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "y" * 4},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "z" * 3},
    ]
    async with serving() as server:
        body = (await ask(server, CHAT, {"model": "m", "messages": messages})).json
    assert body["usage"]["prompt_tokens"] == 6  # (8 + 4 + 6 + 3) / 4, rounded up
    assert body["choices"][0]["message"]["content"] == "echo: zzz"


async def test_several_choices_are_answered() -> None:
    async with serving() as server:
        body = (await ask(server, CHAT, chat("hello", n=3))).json
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert body["usage"]["completion_tokens"] == 9


async def test_a_response_object() -> None:
    async with serving() as server:
        body = (
            await ask(server, RESPONSES, {"model": "m", "input": "hello", "instructions": "be kind"})
        ).json
        items = [{"role": "user", "content": [{"type": "input_text", "text": "a list"}]}]
        listed = (await ask(server, RESPONSES, {"model": "m", "input": items, "max_output_tokens": 1})).json
    assert (body["object"], body["status"], body["incomplete_details"]) == ("response", "completed", None)
    assert body["output"][0]["content"][0]["text"] == "echo: hello"
    assert body["usage"]["input_tokens"] == 3
    assert body["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
    assert (listed["status"], listed["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )
    assert listed["output"][0]["content"][0]["text"] == "echo"


async def test_embeddings_depend_on_their_texts() -> None:
    async with serving() as server:
        body_sent = {"model": "e", "input": ["one", "two", "one"], "dimensions": 8}
        body = (await ask(server, "/v1/embeddings", body_sent)).json
        packed = (await ask(server, "/v1/embeddings", {**body_sent, "encoding_format": "base64"})).json
        tokens = (await ask(server, "/v1/embeddings", {"model": "e", "input": [1, 2, 3]})).json
    vectors = [entry["embedding"] for entry in body["data"]]
    assert vectors[0] == vectors[2] != vectors[1]
    assert sum(value * value for value in vectors[0]) == pytest.approx(1.0)
    unpacked = array("f", base64.b64decode(packed["data"][0]["embedding"]))
    assert list(unpacked) == pytest.approx(vectors[0])
    assert body["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    assert len(tokens["data"]) == 1
    assert len(tokens["data"][0]["embedding"]) == 1536
    assert tokens["usage"]["prompt_tokens"] == 3


async def test_a_message_object() -> None:
    async with serving() as server:
        answer = await ask(server, MESSAGES, message("hello", system="be kind"))
        cut = (await ask(server, MESSAGES + "?beta=true", message("hello", max_tokens=1))).json
    body = answer.json
    assert answer.headers["request-id"].startswith("req_")
    assert (body["type"], body["role"], body["stop_reason"]) == ("message", "assistant", "end_turn")
    assert body["content"] == [{"type": "text", "text": "echo: hello"}]
    assert body["usage"]["input_tokens"] == 3
    assert body["usage"]["cache_read_input_tokens"] == 0
    assert body["usage"]["output_tokens"] == 3
    assert cut["stop_reason"] == "max_tokens"
    assert cut["content"][0]["text"] == "echo"


async def test_count_tokens_charges_nothing() -> None:
    async with serving(default={"rpm": 1}) as server:
        body = {"model": "c", "messages": [{"role": "user", "content": "hello"}]}
        for _ in range(3):
            answer = await ask(server, "/v1/messages/count_tokens", body)
            assert (answer.status, answer.json) == (200, {"input_tokens": 2})
        assert server.stats()["total"]["received"] == 0
        assert server.stats()["other"] == 3


async def test_a_tool_is_called_and_its_result_answered() -> None:
    async with serving(tools=TOOLS) as server:
        called = (await ask(server, CHAT, chat("the weather?", tools=OFFERED))).json["choices"][0]
        not_offered = (await ask(server, CHAT, chat("the weather?"))).json["choices"][0]
        messages = [{"role": "user", "content": "the weather?"}, {"role": "tool", "content": "weather: fine"}]
        after = (await ask(server, CHAT, {"model": "m", "messages": messages, "tools": OFFERED})).json
    assert called["finish_reason"] == "tool_calls"
    assert called["message"]["content"] is None
    function = called["message"]["tool_calls"][0]["function"]
    assert function == {"name": "get_weather", "arguments": '{"city":"Oslo"}'}
    assert not_offered["message"]["content"] == "echo: the weather?"
    assert after["choices"][0]["message"]["content"] == "echo: weather: fine"


async def test_a_tool_call_in_messages_and_responses() -> None:
    async with serving(tools=TOOLS) as server:
        tool = [{"name": "get_weather", "input_schema": {}}]
        body = (await ask(server, MESSAGES, message("the weather?", tools=tool))).json
        result = [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "sun"}]}]
        after = message("the weather?", tools=tool)
        after["messages"].append({"role": "user", "content": result})
        answered = (await ask(server, MESSAGES, after)).json
        body_sent = {"model": "m", "input": "weather", "tools": [{"type": "function", "name": "get_weather"}]}
        response = (await ask(server, RESPONSES, body_sent)).json
    assert body["stop_reason"] == "tool_use"
    assert body["content"][0]["type"] == "tool_use"
    assert body["content"][0]["input"] == {"city": "Oslo"}
    assert answered["content"][0]["text"] == "echo: sun"
    assert response["output"][0]["type"] == "function_call"
    assert response["output"][0]["arguments"] == '{"city":"Oslo"}'


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"{nope", None, None),
        ({"messages": []}, None, None),
        ({"model": "m"}, "missing_required_parameter", "messages"),
        ({"model": "m", "messages": []}, "empty_array", "messages"),
        ({"model": "m", "messages": [{"content": "x"}]}, "missing_required_parameter", "messages[0].role"),
        (chat(max_tokens=0), "invalid_value", "max_tokens"),
    ],
)
async def test_openai_names_the_invalid_field(body: Any, code: str | None, param: str | None) -> None:
    async with serving() as server:
        answer = await ask(server, CHAT, body)
        stats = server.stats()["total"]
    error = answer.json["error"]
    assert answer.status == 400
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)
    assert error["message"]
    assert stats["refused"] == {"invalid": 1}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"{nope", "not valid JSON"),
        ({"messages": [], "max_tokens": 1}, "model: Field required"),
        ({"model": "c", "messages": [{"role": "user", "content": "x"}]}, "max_tokens: Field required"),
        ({"model": "c", "max_tokens": 1, "messages": []}, "messages: at least one message is required"),
    ],
)
async def test_anthropic_names_the_invalid_field(body: Any, text: str) -> None:
    async with serving() as server:
        answer = await ask(server, MESSAGES, body)
    assert answer.status == 400
    assert answer.json["type"] == "error"
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert text in answer.json["error"]["message"]
    assert answer.json["request_id"] == answer.headers["request-id"]


async def test_missing_and_unknown_keys_are_refused() -> None:
    async with serving(strict=True, accounts={"alpha": {"key": "sk-a"}}) as server:
        good = await ask(server, CHAT, chat(), key="sk-a")
        also = await ask(server, MESSAGES, message(), key="", headers={"x-api-key": "sk-a"})
        bad = await ask(server, CHAT, chat(), key="sk-unknown-account")
        none = await ask(server, CHAT, chat(), key="")
        anthropic = await ask(server, MESSAGES, message(), key="")
        stats = server.stats()["total"]
    assert (good.status, also.status, bad.status, none.status, anthropic.status) == (200, 200, 401, 401, 401)
    assert bad.json["error"]["code"] == "invalid_api_key"
    assert "sk-unknown-account" not in bad.json["error"]["message"]
    assert "didn't provide an API key" in none.json["error"]["message"]
    assert anthropic.json["error"]["type"] == "authentication_error"
    assert stats["refused"] == {"auth": 3}
    assert stats["received"] == 5


async def test_paths_that_are_no_api() -> None:
    async with serving() as server:
        assert (await ask(server, "/", method="HEAD", key="")).status == 200
        assert (await ask(server, "/", method="GET", key="")).status == 200
        models = await ask(server, "/models", method="GET")
        anthropic = await ask(server, "/v1/models", method="GET", headers={"anthropic-version": "2023-06-01"})
        nowhere = await ask(server, "/v1/nowhere", {})
        wrong_method = await ask(server, CHAT, method="GET")
        without_v1 = await ask(server, "/chat/completions", chat())
    assert models.json["object"] == "list"
    assert anthropic.json["has_more"] is False
    assert (nowhere.status, nowhere.json["error"]["message"]) == (404, "Invalid URL (POST /v1/nowhere)")
    assert wrong_method.status == 404
    assert without_v1.status == 200


async def test_a_large_prompt_is_accepted() -> None:
    async with serving() as server:
        body = (await ask(server, CHAT, chat("x" * 3_000_000, max_tokens=1))).json
    assert body["usage"]["prompt_tokens"] == 750_000


SCRIPT = [
    {"contains": "mood", "turns": [{"mood": 3}, "not JSON", {"mood": "good"}]},
    {"contains": "never", "turns": ["no"]},
]


@pytest.mark.parametrize(
    ("path", "key"), [(CHAT, "messages"), (MESSAGES, "messages"), (RESPONSES, "input")], ids=str
)
async def test_configured_answers_come_one_for_each_turn(path: str, key: str) -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "what mood?"}]
    texts = []
    async with serving(answers=SCRIPT) as server:
        for _ in range(4):
            body = (await ask(server, path, {"model": "m", "max_tokens": 50, key: turns})).json
            texts.append(_text(body))
            turns += [{"role": "assistant", "content": texts[-1]}, {"role": "user", "content": "no, never"}]
    assert texts == ['{"mood":3}', "not JSON", '{"mood":"good"}', '{"mood":"good"}']


def _text(body: dict[str, Any]) -> str:
    if "choices" in body:
        text: str = body["choices"][0]["message"]["content"]
    else:
        text = (body["content"] if "content" in body else body["output"][0]["content"])[0]["text"]
    return text


async def test_a_request_without_a_rule_is_echoed_and_configured_answers_are_cut() -> None:
    async with serving(answers=SCRIPT, default={"output_tokens": 50}) as server:
        other = (await ask(server, CHAT, chat("hello"))).json
        scripted = (await ask(server, CHAT, chat("your mood?"))).json
        cut = (await ask(server, CHAT, chat("your mood?", max_tokens=1))).json
    assert _text(other).startswith("echo: hello")
    assert (_text(scripted), scripted["usage"]["completion_tokens"]) == ('{"mood":3}', 3)
    assert (_text(cut), cut["choices"][0]["finish_reason"]) == ('{"mo', "length")


async def test_rules_look_at_all_texts_of_the_user_and_not_at_results_of_tools() -> None:
    rules = [{"contains": "weather", "turns": ["sunny"]}]
    reminder = {
        "role": "user",
        "content": [{"type": "text", "text": "<system-reminder>be kind</system-reminder>"}],
    }
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t", "content": "weather.txt"}],
    }
    asked = {"role": "user", "content": "the weather?"}
    async with serving(answers=rules) as server:
        texts = [
            (await ask(server, MESSAGES, {**message(), "messages": messages})).json["content"][0]["text"]
            for messages in ([reminder, asked], [asked, reminder], [reminder, result])
        ]
    assert texts == ["sunny", "sunny", "echo: weather.txt"]
