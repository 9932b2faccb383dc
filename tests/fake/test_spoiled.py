"""Faults as a raw client meets them, and as the books have them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from .virtual_server import CHAT, MESSAGES, Still, ask, chat, message, opened, serving, until


def struck(kind: str, **more: Any) -> Any:
    return serving(faults=[{"kind": kind}], **more)


@pytest.mark.parametrize("status", [500, 503])
async def test_server_errors(status: int) -> None:
    async with serving(default={"rpm": 10}, faults=[{"kind": status}]) as server:
        ours = await ask(server, CHAT, chat())
        theirs = await ask(server, MESSAGES, message())
        stats = server.stats()["total"]
    assert ours.status == theirs.status == status
    assert ours.json["error"]["type"] == "server_error"
    assert theirs.json["error"]["type"] == "api_error"
    assert theirs.headers["anthropic-ratelimit-requests-remaining"] == "8"  # a failed request counts
    assert (stats["admitted"], stats["failed"], stats["ok"], stats["lost"]) == (2, 2, 0, 2)
    assert stats["faulted"] == {str(status): 2}


async def test_a_bad_gateway_is_a_page() -> None:
    async with struck("502") as server:
        answer = await ask(server, CHAT, chat())
    assert (answer.status, answer.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert b"502 Bad Gateway" in answer.body


@pytest.mark.parametrize(
    ("kind", "ours", "theirs"),
    [
        ("529", (529, "server_error"), (529, "overloaded_error")),
        ("401", (401, "invalid_request_error"), (401, "authentication_error")),
        ("quota", (429, "insufficient_quota"), (400, "invalid_request_error")),
    ],
)
async def test_at_the_door_nothing_is_charged(
    kind: str, ours: tuple[int, str], theirs: tuple[int, str]
) -> None:
    async with serving(default={"rpm": 1}, faults=[{"kind": kind}]) as server:
        for _ in range(2):
            one = await ask(server, CHAT, chat())
            two = await ask(server, MESSAGES, message())
            assert (one.status, one.json["error"]["type"]) == ours
            assert (two.status, two.json["error"]["type"]) == theirs
        stats = server.stats()["total"]
    assert (stats["admitted"], stats["faulted"]) == (0, {kind: 4})
    assert stats["refused"] == {f"fault {kind}": 4}


async def test_a_reset_before_the_headers() -> None:
    async with struck("reset") as server:
        async with opened(server, chat()) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.read()
        await until(lambda: server.stats()["total"]["failed"] == 1)
        assert server.stats()["total"]["in_flight"] == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reset_in_the_body(stream: bool) -> None:
    async with struck("reset-body") as server:
        async with opened(server, chat(stream=stream)) as (reader, _):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
            with pytest.raises(ConnectionResetError):
                await reader.read()
        await until(lambda: server.stats()["total"]["failed"] == 1)


@pytest.mark.parametrize("kind", ["hang", "stall"])
async def test_a_wait_without_end(kind: str) -> None:
    async with struck(kind) as server:
        async with opened(server, chat()) as (reader, _):
            await until(lambda: server.stats()["total"]["in_flight"] == 1)
            if kind == "stall":
                await reader.readuntil(b'"object":"chat.completion"')
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.readuntil(b"}]}")
        await until(lambda: server.stats()["total"]["cancelled"] == 1)


async def test_json_that_ends_in_the_middle() -> None:
    async with struck("truncated") as server:
        answer = await ask(server, CHAT, chat())
        stats = server.stats()["total"]
    assert (answer.status, int(answer.headers["content-length"])) == (200, len(answer.body))
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body)
    assert (stats["failed"], stats["ok"]) == (1, 0)


async def test_a_stream_without_its_end() -> None:
    async with struck("truncated") as server:
        ours = await ask(server, CHAT, chat("a longer text", stream=True))
        theirs = await ask(server, MESSAGES, message("a longer text", stream=True))
    assert ours.events
    assert "[DONE]" not in [data for _, data in ours.events]
    assert "message_stop" not in [name for name, _ in theirs.events]


async def test_an_error_in_a_stream() -> None:
    async with struck("stream-error") as server:
        ours = await ask(server, CHAT, chat("a longer text", stream=True))
        theirs = await ask(server, MESSAGES, message("a longer text", stream=True))
        plain = await ask(server, CHAT, chat())
    assert ours.events[-1][1]["error"]["type"] == "server_error"
    assert theirs.events[-1] == ("error", theirs.events[-1][1])
    assert theirs.events[-1][1]["error"]["type"] == "overloaded_error"
    assert plain.status == 500


async def test_a_page_in_place_of_an_answer() -> None:
    async with struck("html") as server:
        answer = await ask(server, CHAT, chat())
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.body.startswith(b"<html>")


async def test_headers_that_make_no_sense_on_an_answer_and_on_a_refusal() -> None:
    async with serving(default={"rpm": 1, "tpm": 1000}, faults=[{"kind": "bad-headers"}]) as server:
        answer = await ask(server, CHAT, chat())
        refused = await ask(server, CHAT, chat("again"))
        stats = server.stats()["total"]
    assert (answer.status, refused.status) == (200, 429)
    for got in (answer, refused):
        values = [
            value for name, value in got.headers.items() if "ratelimit" in name or name == "retry-after"
        ]
        assert len(values) >= 6
        assert not any(value.isdigit() and len(value) < 10 for value in values)
    assert (stats["ok"], stats["faulted"]) == (1, {"bad-headers": 2})


@pytest.mark.parametrize(("kind", "waits"), [("keep-alive", 3), ("slow", 50)])
async def test_a_good_answer_after_all(kind: str, waits: int) -> None:
    still = Still()
    async with serving(still, faults=[{"kind": kind}]) as server:
        plain = await ask(server, CHAT, chat())
        streamed = await ask(server, CHAT, chat(stream=True))
        stats = server.stats()["total"]
    assert plain.json["choices"][0]["message"]["content"] == "echo: hello"
    assert streamed.events[-1][1] == "[DONE]"
    if kind == "keep-alive":
        assert plain.body.startswith(b"\n\n\n{")
        assert streamed.body.startswith(b": keep-alive\n\n")
    assert len(still.waits) == pytest.approx(2 * waits, abs=6)
    assert (stats["ok"], stats["failed"], stats["faulted"]) == (2, 0, {kind: 2})
