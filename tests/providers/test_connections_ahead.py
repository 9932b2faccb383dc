"""Connections that are opened before a request needs them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.slow_tls import has_openssl, make_certificate
from tests.providers.wire import LONG_S, Admissions, completion, http, opened, request, serving

from headway.core.model import Kind
from headway.providers.http.http_adapter import HttpAdapter

GOOD = http(completion())


async def until(condition: Callable[[], bool]) -> None:
    """Poll for a state that no event reports."""
    async with asyncio.timeout(LONG_S):
        while not condition():  # noqa: ASYNC110 - nothing sets an event.
            await asyncio.sleep(0.001)


def idle(adapter: HttpAdapter) -> int:
    assert adapter._pool is not None
    return len(adapter._pool._idle)


async def test_a_request_that_needs_a_connection_is_delayed_and_then_written() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        first, second = Admissions(), Admissions()
        await adapter.send(request(), LONG_S, first)
        await adapter.send(request(), LONG_S, second)
        assert first.steps == ["delayed", "written"]
        assert second.steps == []
        assert wire.connections == 1


async def test_no_connection_is_opened_by_itself() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        await asyncio.sleep(0)
        assert wire.connections == 0
        adapter.keep_ready(0)
        assert wire.connections == 0


async def test_requests_use_connections_that_were_opened_ahead() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        adapter.keep_ready(3)
        await until(lambda: idle(adapter) == 3)
        adapter.keep_ready(0)
        reports = [Admissions() for _ in range(3)]
        await asyncio.gather(*(adapter.send(request(), LONG_S, report) for report in reports))
        assert [report.steps for report in reports] == [[], [], []]
        assert wire.connections == 3


async def test_requests_wait_for_connections_that_are_on_their_way() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        adapter.keep_ready(3)
        adapter.keep_ready(0)
        reports = [Admissions() for _ in range(3)]
        answers = await asyncio.gather(*(adapter.send(request(), LONG_S, report) for report in reports))
        assert all(answer.outcome.kind is None for answer in answers)
        assert [report.steps for report in reports] == [["delayed", "written"]] * 3
        assert wire.connections == 3


async def test_a_cancelled_request_leaves_its_connection_to_the_next() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        adapter.keep_ready(1)
        adapter.keep_ready(0)
        sending = asyncio.create_task(adapter.send(request(), LONG_S, Admissions()))
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await until(lambda: idle(adapter) == 1)
        report = Admissions()
        await adapter.send(request(), LONG_S, report)
        assert report.steps == []
        assert wire.connections == 1


async def test_a_server_that_cannot_be_reached_is_not_tried_again_ahead() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    async with opened(f"http://127.0.0.1:{port}") as adapter:
        adapter.keep_ready(2)
        assert adapter._pool is not None
        ahead = adapter._pool._ahead
        await until(lambda: not ahead._opening)
        adapter.keep_ready(4)
        assert not ahead._opening
        answer = await adapter.send(request(), LONG_S, Admissions())
        assert answer.outcome.kind is Kind.TRANSIENT
        assert not answer.outcome.sent


async def test_a_request_that_waited_for_a_failed_connection_reports_the_error_itself() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    async with opened(f"http://127.0.0.1:{port}") as adapter:
        adapter.keep_ready(1)
        report = Admissions()
        answer = await adapter.send(request(), LONG_S, report)
        assert answer.outcome.kind is Kind.TRANSIENT
        assert report.steps == ["delayed"]


async def test_connections_that_were_closed_unused_are_not_opened_again() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        adapter.keep_ready(4)
        await until(lambda: idle(adapter) == 4)
        assert adapter._pool is not None
        for connection in list(adapter._pool._idle)[1:]:
            connection.close()
        report = Admissions()
        await adapter.send(request(), LONG_S, report)
        assert report.steps == []
        assert not adapter._pool._ahead._opening
        assert wire.connections == 4


async def test_closing_the_adapter_ends_what_is_being_opened() -> None:
    async with serving(GOOD) as wire:
        async with opened(wire.url) as adapter:
            adapter.keep_ready(3)
            assert adapter._pool is not None
            ahead = adapter._pool._ahead
            assert len(ahead._opening) == 3
        assert not ahead._opening


async def test_a_new_tls_connection_is_used_although_it_has_tickets_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A TLS server sends tickets after the handshake: they are not the end of the connection."""
    if not has_openssl():
        pytest.skip("needs openssl")
    certificate = make_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    async with serving(GOOD, context) as wire, opened(wire.url) as adapter:
        adapter.keep_ready(4)
        report = Admissions()
        await until(lambda: idle(adapter) > 0)
        adapter.keep_ready(0)
        answer = await adapter.send(request(), LONG_S, report)
        assert answer.outcome.kind is None
        assert report.steps == []
