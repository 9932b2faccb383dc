"""Streams: the events of each API add up to the whole answer."""

from __future__ import annotations

import json

from .virtual_server import CHAT, MESSAGES, ManualClock, ask, chat, message, serving

LONG = "a text that is long enough for several pieces"
TOOLS = [{"contains": "weather", "name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}]


async def test_chat_chunks_add_up() -> None:
    async with serving() as server:
        streamed = await ask(server, CHAT, chat(LONG, stream=True, stream_options={"include_usage": True}))
        plain = (await ask(server, CHAT, chat(LONG))).json
    assert streamed.headers["content-type"].startswith("text/event-stream")
    chunks = [data for _, data in streamed.events]
    assert chunks.pop() == "[DONE]"
    last = chunks.pop()
    assert (last["choices"], last["usage"]) == ([], plain["usage"])
    assert all(chunk["object"] == "chat.completion.chunk" and chunk["usage"] is None for chunk in chunks)
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None}
    assert deltas[-1] == {}
    assert "".join(delta.get("content", "") for delta in deltas) == f"echo: {LONG}"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]


async def test_no_usage_unless_requested() -> None:
    async with serving() as server:
        streamed = await ask(server, CHAT, chat(stream=True))
    assert all("usage" not in data for _, data in streamed.events[:-1])


async def test_a_streamed_tool_call() -> None:
    offered = [{"type": "function", "function": {"name": "get_weather"}}]
    async with serving(tools=TOOLS) as server:
        streamed = await ask(server, CHAT, chat("weather", stream=True, tools=offered))
    deltas = [data["choices"][0]["delta"] for _, data in streamed.events[:-1]]
    first = deltas[0]["tool_calls"][0]
    assert (first["index"], first["function"]) == (0, {"name": "get_weather", "arguments": ""})
    pieces = [
        delta["tool_calls"][0]["function"]["arguments"] for delta in deltas[1:] if "tool_calls" in delta
    ]
    assert json.loads("".join(pieces)) == TOOLS[0]["arguments"]
    assert streamed.events[-2][1]["choices"][0]["finish_reason"] == "tool_calls"


async def test_response_events_are_numbered_and_add_up() -> None:
    async with serving() as server:
        streamed = await ask(server, "/v1/responses", {"model": "m", "input": LONG, "stream": True})
    events = streamed.events
    assert all(name == data["type"] for name, data in events)
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    names = [name.removeprefix("response.") for name, _ in events if "delta" not in name]
    assert names == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert "".join(data["delta"] for name, data in events if name.endswith(".delta")) == f"echo: {LONG}"
    assert events[-1][1]["response"]["output"][0]["content"][0]["text"] == f"echo: {LONG}"
    assert events[-1][1]["response"]["usage"]["output_tokens"] == 13
    assert events[0][1]["response"]["usage"] is None


async def test_a_response_that_calls_a_tool() -> None:
    body = {"model": "m", "input": "weather", "stream": True, "tools": [{"name": "get_weather"}]}
    async with serving(tools=TOOLS) as server:
        events = (await ask(server, "/v1/responses", body)).events
    arguments = "".join(data["delta"] for name, data in events if name.endswith("arguments.delta"))
    assert json.loads(arguments) == TOOLS[0]["arguments"]
    assert events[-1][1]["response"]["output"][0]["name"] == "get_weather"


async def test_message_events_add_up() -> None:
    async with serving() as server:
        events = (await ask(server, MESSAGES, message(LONG, stream=True))).events
    names = [name for name, _ in events]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(names[3:-3]) == {"content_block_delta"}
    assert all(name == data["type"] for name, data in events)
    start = events[0][1]["message"]
    assert (start["content"], start["stop_reason"], start["usage"]["input_tokens"]) == ([], None, 12)
    assert "".join(data["delta"]["text"] for _, data in events[3:-3]) == f"echo: {LONG}"
    assert events[-2][1]["delta"]["stop_reason"] == "end_turn"
    assert events[-2][1]["usage"] == {"output_tokens": 13}


async def test_a_message_that_calls_a_tool() -> None:
    async with serving(tools=TOOLS) as server:
        body = message("weather", stream=True, tools=[{"name": "get_weather"}])
        events = (await ask(server, MESSAGES, body)).events
    assert events[1][1]["content_block"]["input"] == {}
    pieces = [data["delta"]["partial_json"] for name, data in events if name == "content_block_delta"]
    assert json.loads("".join(pieces)) == TOOLS[0]["arguments"]
    assert events[-2][1]["delta"]["stop_reason"] == "tool_use"


async def test_a_stream_has_delays_and_is_charged_as_it_is_produced() -> None:
    clock = ManualClock()
    async with serving(
        clock, default={"ttft": 0.5, "latency": 9, "per_token": "10ms", "otpm": 600}
    ) as server:
        await ask(server, MESSAGES, message(LONG, stream=True))
        answer = await ask(server, MESSAGES, message())
    assert clock.waits[0] == 0.5
    assert sum(clock.waits[1:-1]) == 0.13  # 13 tokens
    assert clock.waits[-1] == 9 + 0.03
    assert answer.headers["anthropic-ratelimit-output-tokens-reset"] == "2027-01-15T08:00:02Z"
