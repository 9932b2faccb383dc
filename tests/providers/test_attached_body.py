"""Bodies with attached files: what is sent is the whole JSON, in pieces; the server may refuse it before it is sent."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.providers.wire import CHAT, LONG_S, Admissions, Call, completion, event, http, opened, serving

from headway.core.model import Kind
from headway.providers.adapter import Request, is_unsent
from headway.providers.attached_body import (
    PIECE_BYTES,
    AttachedBody,
    described_marks,
    encoded_size,
    mark_of,
    marks_in,
)
from headway.providers.dialects.sigv4 import Credentials, signature_headers

GOOD = http(completion())


def digest_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def body_of(*files: bytes, **more: Any) -> bytes:
    parts = [{"type": "x", "data": mark_of(digest_of(data), len(data))} for data in files]
    return msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": parts}], **more})


def whole_of(body: bytes, *files: bytes) -> bytes:
    """The same by plain replacement."""
    for data in files:
        body = body.replace(mark_of(digest_of(data), len(data)).encode(), b64encode(data))
    return body


class Files:
    """A source of attachments that counts."""

    def __init__(self, *files: bytes) -> None:
        self.files = {digest_of(data): data for data in files}
        self.open_bodies = 0
        self.failing = False

    async def open(self, body: bytes) -> AttachedBody:
        if self.failing:
            raise RuntimeError("no such file")
        self.open_bodies += 1
        return AttachedBody(body, {mark: self.files[mark] for mark in marks_in(body)}, self._released)

    def _released(self) -> None:
        self.open_bodies -= 1


@given(st.lists(st.binary(max_size=50), max_size=4))
def test_the_pieces_are_the_whole_body(files: list[bytes]) -> None:
    body = body_of(*files)
    attached = AttachedBody(body, {digest_of(data): data for data in files})
    whole = whole_of(body, *files)
    assert b"".join(attached.pieces()) == whole
    assert len(attached) == len(whole)
    assert attached.sha256() == hashlib.sha256(whole).hexdigest()


@pytest.mark.parametrize("size", [PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 2])
def test_a_long_file_is_encoded_in_pieces_without_padding_between(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    attached = AttachedBody(body_of(data), {digest_of(data): data})
    assert b"".join(attached.pieces()) == whole_of(body_of(data), data)
    assert max(map(len, attached.pieces())) <= encoded_size(PIECE_BYTES)


def test_marks_are_found_and_described() -> None:
    body = body_of(b"abc", b"defg")
    assert marks_in(body) == {digest_of(b"abc"): 3, digest_of(b"defg"): 4}
    mark = mark_of(digest_of(b"abc"), 3)
    for key, found in (("data", True), ("bytes", True), ("text", False), ("data2", False)):
        assert bool(marks_in(msgspec.json.encode({key: mark}))) is found
    for text in (f"see {mark}", f'"data":"{mark}"', f"{mark}", f"data:x;base64,{mark} and more"):
        assert marks_in(msgspec.json.encode({"text": text})) == {}
    assert marks_in(msgspec.json.encode({"url": f"data:image/png;base64,{mark}"}))
    assert json.loads(described_marks(body))["messages"][0]["content"][0]["data"] == (
        f"[3 bytes, blake2b {digest_of(b'abc')[:16]}]"
    )
    unknown = AttachedBody(body, {digest_of(b"abc"): b"abc"})
    assert marks_in(b"".join(unknown.pieces())) == {digest_of(b"defg"): 4}


def test_a_body_is_released_once() -> None:
    times: list[int] = []
    attached = AttachedBody(body_of(b"abc"), {digest_of(b"abc"): b"abc"}, lambda: times.append(1))
    attached.release()
    attached.release()
    assert times == [1]
    assert list(attached.pieces()) == []


def test_a_signature_covers_the_whole_body() -> None:
    body, data = body_of(b"abc" * 100), b"abc" * 100
    attached = AttachedBody(body, {digest_of(data): data})
    how = (Credentials("a", "s"), "us-east-1", "bedrock", "h", "/x")
    assert signature_headers(*how, attached, 1e9) == signature_headers(*how, whole_of(body, data), 1e9)


# -- over a socket ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_the_server_gets_the_whole_body(stream: bool) -> None:
    small, large = b"tiny", b"0123456789" * 300_000
    files = Files(small, large)
    streamed = b"".join(
        event({"id": "1", "choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": None}]})
        for _ in range(1)
    )
    said = http(completion()) if not stream else http(streamed + event("[DONE]"), content_type="text/event-stream")  # fmt: skip
    request = Request(CHAT, body_of(small, large), attachments=files)
    async with serving(said) as wire, opened(wire.url, stream=stream) as adapter:
        answers = [await adapter.send(request, LONG_S, Admissions()) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    parts = wire.calls[1].said["messages"][0]["content"]
    assert [part["data"].encode() for part in parts] == [b64encode(small), b64encode(large)]
    assert wire.calls[0].said.get("stream", False) is stream
    assert wire.connections == 1
    assert files.open_bodies == 0


async def test_bedrock_signs_it() -> None:
    data = b"0123456789" * 100_000
    body = {"output": {"message": {"role": "assistant", "content": [{"text": "hi"}]}}, "stopReason": "end_turn",
            "usage": {"inputTokens": 1, "outputTokens": 1}}  # fmt: skip
    request = Request("/model/m/converse", body_of(data), attachments=Files(data))
    async with serving(http(body)) as wire, opened(wire.url, "bedrock", "AKIA:secret", region="eu-central-1") as adapter:  # fmt: skip
        answer = await adapter.send(request, LONG_S, Admissions())
    assert answer.outcome.kind is None
    assert wire.calls[0].body == whole_of(body_of(data), data)
    assert "Signature=" in wire.calls[0].headers["authorization"]


async def test_a_refusal_before_the_body_is_read_is_an_answer() -> None:
    """The server answers as soon as it has seen the head, reads nothing more, and keeps the connection open."""
    refused, ended = asyncio.Event(), asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(http({"error": {"message": "too large"}}, 413))
        await writer.drain()
        await refused.wait()
        writer.transport.abort()
        ended.set()

    data = b"x" * 20_000_000
    files = Files(data)
    server = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with opened(url) as adapter:
        answer = await adapter.send(Request(CHAT, body_of(data), attachments=files), LONG_S, Admissions())
        assert answer.status == 413
        assert "too large" in answer.outcome.message
        assert files.open_bodies == 0
    refused.set()
    await ended.wait()
    server.close()
    await server.wait_closed()


async def test_a_connection_that_breaks_while_the_body_is_sent_is_transient() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    data = b"x" * 20_000_000
    files = Files(data)
    server = await asyncio.start_server(cut, "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with opened(url) as adapter:
        answer = await adapter.send(Request(CHAT, body_of(data), attachments=files), LONG_S, Admissions())
    assert answer.outcome.kind is Kind.TRANSIENT
    assert files.open_bodies == 0
    server.close()
    await server.wait_closed()


async def test_cancelling_an_upload_releases_its_files() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.set()

    data = b"x" * 20_000_000
    files = Files(data)
    server = await asyncio.start_server(stall, "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with opened(url) as adapter:
        request = Request(CHAT, body_of(data), attachments=files)
        sending = asyncio.ensure_future(adapter.send(request, LONG_S, Admissions()))
        await begun.wait()
        assert files.open_bodies == 1
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert files.open_bodies == 0
        await ended.wait()  # The socket is closed, although the server had not read all.
    server.close()
    await server.wait_closed()


async def test_a_file_that_cannot_be_read_means_that_nothing_was_sent() -> None:
    files = Files(b"abc")
    files.failing = True

    async def never(call: Call) -> None:
        raise AssertionError("nothing may arrive")

    async with serving(never) as wire, opened(wire.url) as adapter:
        with pytest.raises(RuntimeError, match="no such file") as caught:
            await adapter.send(Request(CHAT, body_of(b"abc"), attachments=files), LONG_S, Admissions())
    assert is_unsent(caught.value)
    assert wire.calls == []


async def test_without_a_source_marks_are_plain_text() -> None:
    async with serving(GOOD) as wire, opened(wire.url) as adapter:
        request = structs.replace(Request(CHAT, body_of(b"abc")), alone=False)
        await adapter.send(request, LONG_S, Admissions())
    assert wire.calls[0].body == body_of(b"abc")
