"""What `headway.httpx_client()` buffers of an answer is bounded; what the caller reads is not."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from tests.providers.test_ceilings import CHUNKED, Attack
from tests.providers.wire import LAST, Call, chunk, completion, event, http, serving, stream_head

import headway
from headway.providers.http.body_reader import LONGEST_FAILURE
from headway.sdk import response_reader as heard

BODY = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
ONCE = headway.Retry(max_attempts=1)
BOTH = pytest.mark.parametrize("sync", [False, True])
LIBRARIES = pytest.mark.parametrize("library", ["httpx2", "httpx"])
WHOLE = 100_000


@pytest.fixture(autouse=True)
def low_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heard, "LONGEST_WHOLE", WHOLE)
    monkeypatch.setattr(heard, "LONGEST_PRELUDE", 50_000)


async def post(script: Any, sync: bool, library: Any = "httpx2", most: int = 10**9) -> tuple[Any, bytes]:
    """A response, and what a caller reads of its body: all of it, or its first bytes."""

    def in_a_thread(url: str) -> tuple[Any, bytes]:
        client = headway.httpx_client(sync=True, library=library, retry=ONCE)
        body = b""
        with client, client.stream("POST", url, json=BODY) as response:
            for piece in response.iter_bytes():
                body += piece
                if len(body) >= most:
                    break
        return response, body

    async def here(url: str) -> tuple[Any, bytes]:
        client = headway.httpx_client(library=library, retry=ONCE)
        body = b""
        async with client, client.stream("POST", url, json=BODY) as response:
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) >= most:
                    break
        return response, body

    async with serving(script) as wire:
        url = f"{wire.url}/v1/chat/completions"
        told = await (asyncio.to_thread(in_a_thread, url) if sync else here(url))
        assert len(wire.calls) == 1
        return told


@LIBRARIES
@BOTH
@pytest.mark.parametrize("packed", [False, True])
async def test_a_long_answer_reaches_the_caller_and_is_requested_once(
    sync: bool, library: Any, packed: bool
) -> None:
    body = json.dumps(completion("a" * 3 * WHOLE)).encode()
    said = http(gzip.compress(body), content_encoding="gzip") if packed else http(body)
    response, got = await post(said, sync, library)
    assert response.status_code == 200
    assert got == body


@LIBRARIES
@BOTH
async def test_the_caller_gets_the_beginning_of_an_endless_error(sync: bool, library: Any) -> None:
    attack = Attack(b"HTTP/1.1 503 No\r\n" + CHUNKED + b"\r\n", chunk(b"e" * 65_536))
    response, got = await post(attack, sync, library)
    assert response.status_code == 503
    assert got == b"e" * LONGEST_FAILURE
    assert attack.sent < 10_000_000


@LIBRARIES
@BOTH
async def test_a_long_compressed_error_is_passed_on_decompressed(sync: bool, library: Any) -> None:
    """Half of a compressed body would be useless. Random data cannot be compressed by much."""
    words = b" ".join(b"%d" % (n * 2654435761 % 2**32) for n in range(40_000))
    response, got = await post(http(gzip.compress(words), 400, content_encoding="gzip"), sync, library)
    assert response.status_code == 400
    assert got == words[:LONGEST_FAILURE]


@BOTH
async def test_a_short_error_is_passed_on_unchanged(sync: bool) -> None:
    words = b'{"error": {"message": "no"}}'
    response, got = await post(http(gzip.compress(words), 400, content_encoding="gzip"), sync)
    assert got == words
    assert response.headers["content-encoding"] == "gzip"


@LIBRARIES
@BOTH
@pytest.mark.parametrize("piece", [b": wait\n\n" * 1000, b"data:\n" * 1000, b"a" * 10_000])
async def test_a_stream_that_never_begins_is_not_buffered_for_ever(
    sync: bool, library: Any, piece: bytes
) -> None:
    attack = Attack(stream_head(), chunk(piece))
    response, got = await post(attack, sync, library, most=200_000)
    assert response.status_code == 200
    assert got.startswith(piece)
    assert attack.sent < 20_000_000


@BOTH
async def test_a_stream_in_many_pieces_arrives_whole(sync: bool) -> None:
    said = b": wait\n\n" * 500 + event(completion()) + event("[DONE]")

    async def script(call: Call) -> None:
        await call.write(stream_head())
        for at in range(0, len(said), 10):
            await call.write(chunk(said[at : at + 10]))
        await call.write(LAST)

    _, got = await post(script, sync)
    assert got == said


@BOTH
async def test_a_deeply_nested_event_is_passed_on_to_the_caller(sync: bool) -> None:
    deep = '{"a":' * 500 + "1" + "}" * 500
    said = event('{"choices":[{"index":0,"delta":' + deep + '}],"usage":{"prompt_tokens":1}}') + event(
        "[DONE]"
    )
    _, got = await post(stream_head() + chunk(said) + LAST, sync)
    assert got == said
