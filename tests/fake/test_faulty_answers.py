"""Faults as a client sees them, and as the statistics count them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from .virtual_server import CHAT, MESSAGES, ManualClock, ask, chat, message, opened, serving, until


def with_fault(kind: str, **more: Any) -> Any:
    return serving(faults=[{"kind": kind}], **more)


@pytest.mark.parametrize("status", [500, 503])
async def test_server_errors(status: int) -> None:
    async with serving(default={"rpm": 10}, faults=[{"kind": status}]) as server:
        openai = await ask(server, CHAT, chat())
        anthropic = await ask(server, MESSAGES, message())
        stats = server.stats()["total"]
    assert openai.status == anthropic.status == status
    assert openai.json["error"]["type"] == "server_error"
    assert anthropic.json["error"]["type"] == "api_error"
    assert anthropic.headers["anthropic-ratelimit-requests-remaining"] == "8"  # a failed request counts
    assert (stats["admitted"], stats["failed"], stats["ok"], stats["lost"]) == (2, 2, 0, 2)
    assert stats["faulted"] == {str(status): 2}


async def test_a_bad_gateway_is_an_html_page() -> None:
    async with with_fault("502") as server:
        answer = await ask(server, CHAT, chat())
    assert (answer.status, answer.headers["content-type"]) == (502, "text/html; charset=utf-8")
    assert b"502 Bad Gateway" in answer.body


@pytest.mark.parametrize(
    ("kind", "openai", "anthropic"),
    [
        ("529", (529, "server_error"), (529, "overloaded_error")),
        ("401", (401, "invalid_request_error"), (401, "authentication_error")),
        ("quota", (429, "insufficient_quota"), (400, "invalid_request_error")),
    ],
)
async def test_faults_before_admission_charge_nothing(
    kind: str, openai: tuple[int, str], anthropic: tuple[int, str]
) -> None:
    async with serving(default={"rpm": 1}, faults=[{"kind": kind}]) as server:
        for _ in range(2):
            one = await ask(server, CHAT, chat())
            two = await ask(server, MESSAGES, message())
            assert (one.status, one.json["error"]["type"]) == openai
            assert (two.status, two.json["error"]["type"]) == anthropic
        stats = server.stats()["total"]
    assert (stats["admitted"], stats["faulted"]) == (0, {kind: 4})
    assert stats["refused"] == {f"fault {kind}": 4}


async def test_a_subscription_that_is_used_up_names_its_window_and_its_reset() -> None:
    rule = {"kind": "subscription", "at": 0, "resets": 30, "claim": "seven_day_opus"}
    clock = ManualClock()
    async with serving(clock, faults=[rule]) as server:
        claude = await ask(server, MESSAGES, message())
        codex = await ask(server, CHAT, chat())
        clock.now += 30.0
        later = await ask(server, MESSAGES, message())
        stats = server.stats()["total"]
    prefix = "anthropic-ratelimit-unified-"
    reset = claude.headers[prefix + "reset"]
    assert (claude.status, claude.json["error"]["type"]) == (429, "rate_limit_error")
    assert claude.headers[prefix + "status"] == claude.headers[prefix + "7d_opus-status"] == "rejected"
    assert claude.headers[prefix + "representative-claim"] == "seven_day_opus"
    assert claude.headers["retry-after"] == "30"
    assert (codex.status, codex.json["error"]["type"]) == (429, "usage_limit_reached")
    assert str(codex.json["error"]["resets_at"]) == reset
    assert later.status == 200
    assert (stats["received"], stats["refused"]) == (3, {"fault subscription": 2})


async def test_the_use_of_windows_is_in_the_headers_of_answers() -> None:
    async with serving(default={"windows": {"five_hour": 0.91, "seven_day": 0.3}}) as server:
        headers = (await ask(server, MESSAGES, message())).headers
        other = (await ask(server, CHAT, chat())).headers
    prefix = "anthropic-ratelimit-unified-"
    assert headers[prefix + "status"] == headers[prefix + "5h-status"] == "allowed_warning"
    assert headers[prefix + "representative-claim"] == "five_hour"
    assert (headers[prefix + "5h-utilization"], headers[prefix + "7d-utilization"]) == ("0.91", "0.3")
    assert headers[prefix + "7d-status"] == "allowed"
    assert not any(name.startswith(prefix) for name in other)


async def test_a_429_whatever_the_limits_are() -> None:
    async with serving(faults=[{"kind": "429", "at": 0, "resets": 7}]) as server:
        first, second = [await ask(server, MESSAGES, message()) for _ in range(2)]
    assert (first.status, first.headers["retry-after"], second.status) == (429, "7", 200)


async def test_a_reset_before_the_headers() -> None:
    async with with_fault("reset") as server:
        async with opened(server, chat()) as (reader, _):
            with pytest.raises(ConnectionResetError):
                await reader.read()
        await until(lambda: server.stats()["total"]["failed"] == 1)
        assert server.stats()["total"]["in_flight"] == 0


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reset_in_the_body(stream: bool) -> None:
    async with with_fault("reset-body") as server:
        async with opened(server, chat(stream=stream)) as (reader, _):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
            with pytest.raises(ConnectionResetError):
                await reader.read()
        await until(lambda: server.stats()["total"]["failed"] == 1)


@pytest.mark.parametrize("kind", ["hang", "stall"])
async def test_an_answer_that_never_ends(kind: str) -> None:
    async with with_fault(kind) as server:
        async with opened(server, chat()) as (reader, _):
            await until(lambda: server.stats()["total"]["in_flight"] == 1)
            if kind == "stall":
                await reader.readuntil(b'"object":"chat.completion"')
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await reader.readuntil(b"}]}")
        await until(lambda: server.stats()["total"]["cancelled"] == 1)


async def test_json_that_ends_in_the_middle() -> None:
    async with with_fault("truncated") as server:
        answer = await ask(server, CHAT, chat())
        stats = server.stats()["total"]
    assert (answer.status, int(answer.headers["content-length"])) == (200, len(answer.body))
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.body)
    assert (stats["failed"], stats["ok"]) == (1, 0)


async def test_a_stream_without_its_end() -> None:
    async with with_fault("truncated") as server:
        openai = await ask(server, CHAT, chat("a longer text", stream=True))
        anthropic = await ask(server, MESSAGES, message("a longer text", stream=True))
    assert openai.events
    assert "[DONE]" not in [data for _, data in openai.events]
    assert "message_stop" not in [name for name, _ in anthropic.events]


async def test_an_error_in_a_stream() -> None:
    async with with_fault("stream-error") as server:
        openai = await ask(server, CHAT, chat("a longer text", stream=True))
        anthropic = await ask(server, MESSAGES, message("a longer text", stream=True))
        plain = await ask(server, CHAT, chat())
    assert openai.events[-1][1]["error"]["type"] == "server_error"
    assert anthropic.events[-1] == ("error", anthropic.events[-1][1])
    assert anthropic.events[-1][1]["error"]["type"] == "overloaded_error"
    assert plain.status == 500


async def test_an_html_page_instead_of_an_answer() -> None:
    async with with_fault("html") as server:
        answer = await ask(server, CHAT, chat())
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.body.startswith(b"<html>")


async def test_meaningless_headers_on_an_answer_and_on_a_refusal() -> None:
    async with serving(default={"rpm": 1, "tpm": 1000}, faults=[{"kind": "bad-headers"}]) as server:
        answer = await ask(server, CHAT, chat())
        refused = await ask(server, CHAT, chat("again"))
        stats = server.stats()["total"]
    assert (answer.status, refused.status) == (200, 429)
    for one in (answer, refused):
        values = [
            value for name, value in one.headers.items() if "ratelimit" in name or name == "retry-after"
        ]
        assert len(values) >= 6
        assert not any(value.isdigit() and len(value) < 10 for value in values)
    assert (stats["ok"], stats["faulted"]) == (1, {"bad-headers": 2})


@pytest.mark.parametrize(("kind", "waits"), [("keep-alive", 3), ("slow", 50)])
async def test_harmless_faults_still_give_a_good_answer(kind: str, waits: int) -> None:
    clock = ManualClock()
    async with serving(clock, faults=[{"kind": kind}]) as server:
        plain = await ask(server, CHAT, chat())
        streamed = await ask(server, CHAT, chat(stream=True))
        stats = server.stats()["total"]
    assert plain.json["choices"][0]["message"]["content"] == "echo: hello"
    assert streamed.events[-1][1] == "[DONE]"
    if kind == "keep-alive":
        assert plain.body.startswith(b"\n\n\n{")
        assert streamed.body.startswith(b": keep-alive\n\n")
    assert len(clock.waits) == pytest.approx(2 * waits, abs=6)
    assert (stats["ok"], stats["failed"], stats["faulted"]) == (2, 0, {kind: 2})
