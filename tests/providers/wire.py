"""A server on a raw socket: what it says is written byte by byte, so that every fault is a real one."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from headway.core.model import Hint, Usage
from headway.providers.adapter import Answer, Request
from headway.providers.http.http_adapter import HttpAdapter, adapter_for

CHAT = "/v1/chat/completions"
KEY = "sk-loopback-0123456789abcdef"
LONG_S = 10.0


class Call(NamedTuple):
    """One request as it came, and the connection that it came on."""

    line: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    @property
    def said(self) -> Any:
        return json.loads(self.body)

    async def write(self, *parts: bytes) -> None:
        self.writer.write(b"".join(parts))
        await self.writer.drain()

    def reset(self) -> None:
        """Not a close but a reset."""
        self.writer.transport.abort()


Script = Callable[[Call], Awaitable[None]]


class Wire:
    """Where the server is, and what reached it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.calls: list[Call] = []
        self.connections = 0


@asynccontextmanager
async def serving(script: Script | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    """Serve a script: bytes are said to every request, and the connection is kept."""
    wire = Wire("")
    running: set[asyncio.Task[None]] = set()

    async def answer(call: Call) -> None:
        if isinstance(script, bytes):
            await call.write(script)
        else:
            await script(call)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire.connections += 1
        try:
            while not writer.is_closing():
                call = await _call(reader, writer)
                wire.calls.append(call)
                await answer(call)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(converse(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    wire.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    try:
        yield wire
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Call:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *rest = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in rest)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Call(line, headers, body, reader, writer)


def http(body: bytes | Any = b"", status: int = 200, /, **headers: str) -> bytes:
    """A response in one piece; header names are written with underscores."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"content-type": "application/json", "content-length": str(len(content))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode("latin-1") + content


def stream_head(**headers: str) -> bytes:
    named = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode()


def chunk(*parts: bytes) -> bytes:
    data = b"".join(parts)
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST = b"0\r\n\r\n"


def event(data: Any, name: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def completion(text: str = "Hello", **more: Any) -> dict[str, Any]:
    """A chat completion as it comes unstreamed."""
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_794_700_000,
        "model": "gpt-x",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 3,
            "total_tokens": 14,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    } | more


class Admissions:
    """An `admitted` that remembers."""

    def __init__(self) -> None:
        self.told: list[tuple[Hint | None, Usage | None]] = []
        self.steps: list[str] = []
        self.came = asyncio.Event()

    def __call__(self, hint: Hint | None, usage: Usage | None) -> None:
        self.told.append((hint, usage))
        self.came.set()

    def delayed(self) -> None:
        self.steps.append("delayed")

    def written(self) -> None:
        self.steps.append("written")


def request(path: str = CHAT, **body: Any) -> Request:
    said = {"model": "gpt-x", "messages": [{"role": "user", "content": "Hi"}]} | body
    return Request(path, json.dumps(said).encode())


@asynccontextmanager
async def opened(
    url: str, kind: str = "openai", key: str = KEY, **settings: Any
) -> AsyncIterator[HttpAdapter]:
    adapter = adapter_for(kind, url, key, **settings)
    await adapter.open()
    try:
        yield adapter
    finally:
        await adapter.close()


async def asked(
    script: Script | bytes,
    sent: Request | None = None,
    *,
    kind: str = "openai",
    timeout_s: float = LONG_S,
    admitted: Admissions | None = None,
    **settings: Any,
) -> Answer:
    """One request against one script."""
    async with serving(script) as wire, opened(wire.url, kind, **settings) as adapter:
        return await adapter.send(sent or request(), timeout_s, admitted or Admissions())
