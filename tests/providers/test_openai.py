"""OpenAI's dialect: streams become the bodies that unstreamed calls give; usage; conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.providers.test_sse import JSON, cut
from tests.providers.wire import completion, event

from headway.core.model import Usage
from headway.providers.dialects.answer_errors import StreamedError, UnreadableAnswer
from headway.providers.dialects.dialect import ApiEndpoint
from headway.providers.dialects.openai import ChatDraft, OpenAIDialect, ResponseDraft
from headway.providers.dialects.sse import Draft, SseParser

CHAT = OpenAIDialect().endpoint("/v1/chat/completions")
RESPONSES = OpenAIDialect().endpoint("/v1/responses")


def fed(draft: Draft, stream: bytes, places: list[int] | None = None) -> Draft:
    """The draft after a stream that came in these pieces."""
    parser = SseParser()
    for chunk in cut(stream, places or []):
        for told in parser.feed(chunk):
            draft.add(told)
    for told in parser.close():
        draft.add(told)
    return draft


# -- an unstreamed completion, taken apart the way that OpenAI does -----------------------------------------------


def split(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def deltas(message: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    yield {"role": message["role"], "content": "" if message.get("content") is not None else None} | (
        {"refusal": None} if "refusal" in message else {}
    )
    for name in ("content", "refusal", "reasoning_content"):
        if isinstance(message.get(name), str):
            yield from ({name: piece} for piece in split(message[name], size))
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        begun = {"name": function["name"], "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": begun}]}
        for piece in split(function["arguments"], size):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
    if "function_call" in message:
        yield {"function_call": {"name": message["function_call"]["name"], "arguments": ""}}
        for piece in split(message["function_call"]["arguments"], size):
            yield {"function_call": {"arguments": piece}}
    if "annotations" in message:
        yield {"annotations": message["annotations"]}


def chunks(body: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    top = {name: value for name, value in body.items() if name not in ("choices", "usage")}
    top |= {"object": "chat.completion.chunk", "usage": None, "obfuscation": "x9"}
    for choice in body["choices"]:
        more = {name: choice[name] for name in choice if name not in ("message", "logprobs")}
        for delta in deltas(choice["message"], size):
            yield top | {"choices": [more | {"delta": delta, "logprobs": None, "finish_reason": None}]}
        for item in (choice["logprobs"] or {}).get("content", ()):
            told = {"content": [item], "refusal": None}
            yield top | {
                "choices": [{"index": choice["index"], "delta": {}, "logprobs": told, "finish_reason": None}]
            }
        yield top | {"choices": [more | {"delta": {}, "logprobs": None}]}
    yield top | {"choices": [], "usage": body["usage"]}


def stream_of(body: dict[str, Any], size: int = 3) -> bytes:
    comment = b": keep-alive\n\n"
    return comment.join(event(chunk) for chunk in chunks(body, size)) + event("[DONE]")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.uuids().map(str),
            "type": st.just("function"),
            "function": st.fixed_dictionaries(
                {"name": st.from_regex(r"[a-z_]{1,12}", fullmatch=True), "arguments": JSON.map(json.dumps)}
            ),
        }
    ),
    min_size=1,
    max_size=3,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": TEXTS | st.none(), "refusal": TEXTS.filter(bool) | st.none()},
    optional={
        "tool_calls": CALLS,
        "reasoning_content": TEXTS.filter(bool),
        "annotations": st.lists(st.dictionaries(TEXTS, TEXTS, max_size=2), min_size=1, max_size=2),
        "function_call": st.fixed_dictionaries({"name": st.just("look"), "arguments": TEXTS}),
    },
)
LOGPROBS = st.none() | st.fixed_dictionaries(
    {
        "content": st.lists(
            st.fixed_dictionaries(
                {"token": TEXTS, "logprob": st.floats(-20, 0), "top_logprobs": st.just([])}
            ),
            min_size=1,
            max_size=3,
        ),
        "refusal": st.none(),
    }
)
CHOICES = st.lists(
    st.tuples(MESSAGES, LOGPROBS, st.sampled_from(["stop", "length", "tool_calls", "content_filter"])),
    min_size=1,
    max_size=3,
).map(
    lambda parts: [
        {"index": index, "message": message, "logprobs": logprobs, "finish_reason": reason}
        for index, (message, logprobs, reason) in enumerate(parts)
    ]
)
BODIES = st.builds(
    lambda choices, more: completion() | {"choices": choices} | more,
    CHOICES,
    st.fixed_dictionaries(
        {},
        optional={
            "system_fingerprint": st.just("fp_1") | st.none(),
            "service_tier": st.just("default"),
            "x_unknown": JSON.filter(lambda value: value is not None),
        },
    ),
)


@given(BODIES, st.integers(1, 7), st.lists(st.integers(0, 20_000), max_size=12))
def test_a_streamed_completion_is_the_unstreamed_one(
    body: dict[str, Any], size: int, places: list[int]
) -> None:
    draft = fed(ChatDraft(len(body["choices"])), stream_of(body, size), places)
    assert draft.whole
    assert draft.ended
    assert json.loads(draft.body()) == body
    assert draft.usage == Usage(11.0, 3.0, 4.0)


def choice(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def message_of(*told: Any) -> Any:
    draft = fed(ChatDraft(), b"".join(map(event, told)) + event("[DONE]"))
    return json.loads(draft.body())["choices"][0]["message"]


def call(
    index: int | None, key: str | None = None, name: str | None = None, arguments: str = ""
) -> dict[str, Any]:
    told: dict[str, Any] = {"function": {"arguments": arguments}}
    told |= {} if index is None else {"index": index}
    told |= {} if key is None else {"id": key, "type": "function"}
    if name is not None:
        told["function"]["name"] = name
    return choice(tool_calls=[told])


@pytest.mark.parametrize(
    ("told", "calls"),
    [
        ([call(0, "a", "f", "{"), call(0, None, None, "}")], [("a", "f", "{}")]),
        ([call(0, "a", "f", "{"), call(0, "a", "f", "}")], [("a", "f", "{}")]),
        ([call(0, "a", "f", "{"), call(0, "", "", "}")], [("a", "f", "{}")]),
        ([call(0, "a", "loo", ""), call(0, None, "kup", "{}")], [("a", "lookup", "{}")]),
        ([call(0, "a", "f", "{}"), call(0, "b", "g", "[]")], [("a", "f", "{}"), ("b", "g", "[]")]),
        ([call(None, "a", "f", "{"), call(None, None, None, "}")], [("a", "f", "{}")]),
        ([call(1, "b", "g", "1"), call(0, "a", "f", "0")], [("a", "f", "0"), ("b", "g", "1")]),
    ],
)
def test_tool_calls_of_many_servers(told: list[Any], calls: list[tuple[str, str, str]]) -> None:
    got = message_of(*told)["tool_calls"]
    assert [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in got] == calls


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ([choice(role="assistant", content="a"), choice(role="assistant", content="b")], {"content": "ab"}),
        ([choice(content=None, tool_calls=None)], {"content": None, "tool_calls": None}),
        ([choice()], {"content": None}),
        ([choice(content="")], {"content": ""}),
        ([choice(reasoning="a"), choice(reasoning="b", content="c")], {"content": "c", "reasoning": "ab"}),
        (
            [choice(audio={"id": "x", "data": "aa"}), choice(audio={"data": "bb"})],
            {"audio": {"id": "x", "data": "aabb"}},
        ),
        ([choice(x=1), choice(x=2)], {"x": 2}),
        ([choice(x="a"), choice(x=1), choice(x="b")], {"x": "b"}),
        ([choice(x="a"), choice(x={"y": "b"})], {"x": {"y": "b"}}),
    ],
)
def test_deltas_of_many_servers(told: list[Any], message: dict[str, Any]) -> None:
    assert message_of(*told) == {"role": "assistant", "content": None} | message


def test_a_server_that_sends_the_whole_message_along_with_each_delta() -> None:
    told = [
        {"choices": [{"index": 0, "delta": {"content": text}, "message": {"content": text}}]}
        for text in ("a", "b")
    ]
    assert message_of(*told)["content"] == "ab"


def test_halves_of_an_emoji_in_two_chunks() -> None:
    told = b"".join(
        b'data: {"choices":[{"index":0,"delta":{"content":"\\%b"},"finish_reason":"stop"}]}\n\n' % half
        for half in (b"ud83d", b"ude42")
    )
    assert json.loads(fed(ChatDraft(), told).body())["choices"][0]["message"]["content"] == "🙂"


def test_azures_first_chunk_names_nothing() -> None:
    first = {
        "id": "",
        "model": "",
        "created": 0,
        "choices": [],
        "prompt_filter_results": [{"prompt_index": 0}],
    }
    second = {"id": "c1", "model": "gpt-x", "created": 7} | choice(finish="stop", content="a")
    body = json.loads(fed(ChatDraft(), event(first) + event(second)).body())
    assert (body["id"], body["model"], body["created"]) == ("c1", "gpt-x", 7)
    assert body["prompt_filter_results"] == [{"prompt_index": 0}]


@pytest.mark.parametrize(
    ("wanted", "told", "whole"),
    [
        (1, [choice(content="a")], False),
        (1, [choice(content="a", finish="stop")], True),
        (1, [choice(content="a"), "[DONE]"], True),
        (1, ["[DONE]"], False),
        (2, [choice(content="a", finish="stop")], False),
        (2, [choice(finish="stop"), choice(1)], False),
        (2, [choice(finish="stop"), choice(1, finish="stop")], True),
        (1, [], False),
    ],
)
def test_when_a_completion_is_whole(wanted: int, told: list[Any], whole: bool) -> None:
    assert fed(ChatDraft(wanted), b"".join(map(event, told))).whole is whole


def test_how_many_choices_are_wanted() -> None:
    told = event(choice(finish="stop"))
    for request, whole in (
        (b'{"n": 2}', False),
        (b'{"n": null}', True),
        (b"{}", True),
        (b'{"n": "x"}', True),
    ):
        draft = CHAT.draft(request)
        assert draft is not None
        assert fed(draft, told).whole is whole


def test_the_older_completions() -> None:
    told = [
        {"object": "text_completion", "choices": [{"index": 0, "text": text, "logprobs": None}]}
        for text in "ab"
    ]
    told.append({"object": "text_completion", "choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})
    draft = OpenAIDialect().endpoint("/v1/completions").draft(b"{}")
    assert draft is not None
    assert json.loads(fed(draft, b"".join(map(event, told))).body()) == {
        "object": "text_completion",
        "choices": [{"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop"}],
    }


def test_no_more_is_cached_than_went_in() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1_000_000},
    }
    body = json.dumps({"choices": [], "usage": usage}).encode()
    assert msgspec.json.decode(body, type=CHAT.shape).counted() == Usage(10.0, 5.0, 10.0)
    assert fed(ChatDraft(), event({"choices": [], "usage": usage})).usage == Usage(10.0, 5.0, 10.0)


@pytest.mark.parametrize("name", ["", "error"])
@pytest.mark.parametrize("draft", [ChatDraft, ResponseDraft])
def test_an_error_event_is_the_providers_word(draft: Any, name: str) -> None:
    told = event({"error": {"code": "rate_limit_exceeded"}}, name)
    with pytest.raises(StreamedError) as refused:
        fed(draft(), told)
    assert json.loads(refused.value.body) == {"error": {"code": "rate_limit_exceeded"}}


@given(st.lists(JSON | st.fixed_dictionaries({}, optional={
    "choices": JSON | st.lists(st.fixed_dictionaries({}, optional={
        "index": JSON, "delta": JSON | st.fixed_dictionaries({}, optional={
            "content": JSON, "tool_calls": JSON | st.lists(JSON), "role": JSON}),
        "logprobs": JSON, "finish_reason": JSON, "text": JSON})),
    "usage": JSON, "object": JSON, "id": JSON, "type": st.sampled_from(["response.completed", "error"]) | JSON,
    "response": JSON | st.fixed_dictionaries({"output": st.lists(JSON), "usage": JSON}),
}), max_size=5), st.sampled_from([ChatDraft, ResponseDraft]))  # fmt: skip
def test_no_event_breaks_more_than_the_stream(told: list[Any], kind: Any) -> None:
    draft = kind()
    try:
        fed(draft, b"".join(map(event, told)))
    except (UnreadableAnswer, StreamedError):
        return
    assert draft.usage is None or draft.usage.input_tokens >= 0
    if draft.whole:
        json.loads(draft.body())


# -- responses ----------------------------------------------------------------------------------------------------

RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "error": None,
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
    "usage": {"input_tokens": 9, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 5}},
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_a_streamed_response_is_the_unstreamed_one(status: str, named: bool) -> None:
    body = RESPONSE | {"status": status}
    told: list[dict[str, Any]] = [
        {"type": "response.created", "response": {"status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "Hi"},
        {"type": f"response.{status}", "response": body},
    ]
    draft = fed(ResponseDraft(), b"".join(event(one, one["type"] if named else "") for one in told))
    assert draft.whole
    assert json.loads(draft.body()) == body
    assert draft.usage == Usage(9.0, 2.0, 5.0)


@pytest.mark.parametrize(
    "told",
    [
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}},
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow"},
    ],
)
def test_a_failed_response(told: dict[str, Any]) -> None:
    with pytest.raises(StreamedError):
        fed(ResponseDraft(), event(told, told["type"]))


def test_a_response_without_one_is_broken() -> None:
    with pytest.raises(UnreadableAnswer, match="no response"):
        fed(ResponseDraft(), event({"type": "response.completed"}))


def test_an_unfinished_response_is_not_whole() -> None:
    draft = fed(ResponseDraft(), event({"type": "response.created", "response": RESPONSE}))
    assert not draft.whole


# -- requests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "request_", "streamed"),
    [
        (CHAT, {"a": 1}, {"a": 1, "stream": True, "stream_options": {"include_usage": True}}),
        (CHAT, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}),
        (CHAT, {"stream": None}, {"stream": True, "stream_options": {"include_usage": True}}),
        (
            CHAT,
            {"stream_options": {"x": 1}},
            {"stream": True, "stream_options": {"x": 1, "include_usage": True}},
        ),
        (CHAT, {"stream": False}, None),
        (CHAT, {"modalities": ["text", "audio"]}, None),
        (CHAT, [], None),
        (RESPONSES, {"input": "x"}, {"input": "x", "stream": True}),
        (RESPONSES, {"stream": False}, None),
        (RESPONSES, {"background": True}, None),
        (OpenAIDialect().endpoint("/v1/embeddings"), {"input": "x"}, None),
        (OpenAIDialect().endpoint("/v1/completions"), {"prompt": "x"}, None),
    ],
)
def test_what_becomes_a_stream(endpoint: ApiEndpoint, request_: Any, streamed: Any) -> None:
    body = endpoint.streamed(json.dumps(request_).encode())
    assert (None if body is None else json.loads(body)) == streamed


def test_the_rest_of_a_request_stays_as_it_was_written() -> None:
    body = CHAT.streamed(b'{"seed": 123456789012345678901234567890, "t": 1.10, "text": "\\u00e9"}')
    assert body is not None
    for kept in (b"123456789012345678901234567890", b"1.10", b'"\\u00e9"'):
        assert kept in body


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "chat completion"),
        ("chat/completions?x=1", "chat completion"),
        ("/chat/completions/?x=1", "chat completion"),
        ("/v1/completions", "completion"),
        ("/v1/responses", "response"),
        ("/v1/embeddings", "list of embeddings"),
        ("/v1/moderations", "JSON object"),
    ],
)
def test_endpoints(path: str, name: str) -> None:
    assert OpenAIDialect().endpoint(path).name == name


# -- conversations ------------------------------------------------------------------------------------------------


def test_a_chats_conversation() -> None:
    tool = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [tool]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ]
    told = CHAT.conversation({"messages": messages}, completion("It is 42"))
    assert told == [*messages, {"role": "assistant", "content": "It is 42", "refusal": None}]


def test_a_responses_conversation() -> None:
    called = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "42"}
    asked = {"instructions": "Be brief.", "input": [{"role": "user", "content": "Hi"}, called, result]}
    assert RESPONSES.conversation(asked, RESPONSE) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [called]},
        {"role": "tool", "content": [result]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    ]
    assert RESPONSES.conversation({"input": "Hi"}, None) == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize("path", ["/chat/completions", "/completions", "/responses", "/embeddings", "/other"])
@given(asked=JSON, told=JSON)
def test_no_conversation_breaks_anything(path: str, asked: Any, told: Any) -> None:
    assert isinstance(OpenAIDialect().endpoint(path).conversation(asked, told), list)
