"""Sends answers: in one piece, event by event, or damaged by a fault.

A function that returns a response has sent it, or leaves the sending to aiohttp. A connection that was broken on purpose raises
`BrokenOnPurpose`. A client that went away shows as CancelledError or ConnectionError, as aiohttp raises them.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

JSON = "application/json"
SSE = "text/event-stream; charset=utf-8"
HTML = "text/html; charset=utf-8"
#: A slow answer takes five seconds, in this many pieces. Keep-alive lines come a second apart before the answer.
SLOW_S = 5.0
SLOW_PIECES = 50
KEEP_ALIVE_S = 1.0
KEEP_ALIVE_LINES = 3

Sleep = Callable[[float], Awaitable[object]]


class BrokenOnPurpose(ConnectionResetError):
    """A fault broke the connection."""


def whole_response(
    status: int, body: bytes, headers: dict[str, str], content_type: str = JSON
) -> web.Response:
    """An answer in one piece."""
    headers["Content-Type"] = content_type
    return web.Response(status=status, body=body, headers=headers)


async def begin_stream(
    request: web.BaseRequest, headers: dict[str, str], content_type: str, length: int | None = None
) -> web.StreamResponse:
    """Send the status line and the headers of an answer whose body follows in pieces."""
    headers["Content-Type"] = content_type
    response = web.StreamResponse(headers=headers)
    if length is None:
        response.enable_chunked_encoding()
    else:
        response.content_length = length
    await response.prepare(request)
    return response


def reset_connection(request: web.BaseRequest) -> BrokenOnPurpose:
    """Reset the connection (RST, not FIN) and return the exception to raise."""
    transport = request.transport
    if transport is not None:
        peer = transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return BrokenOnPurpose("reset on purpose")


async def wait_forever() -> None:
    """Wait until the client goes away or the server stops."""
    await asyncio.get_running_loop().create_future()


async def write_slowly(response: web.StreamResponse, body: bytes, sleep: Sleep) -> None:
    """Write the body in small pieces over `SLOW_S` seconds."""
    step = max(1, -(-len(body) // SLOW_PIECES))
    for start in range(0, len(body), step):
        await response.write(body[start : start + step])
        await sleep(SLOW_S / SLOW_PIECES)


async def write_keep_alives(response: web.StreamResponse, line: bytes, sleep: Sleep) -> None:
    """Write empty lines while the client waits."""
    for _ in range(KEEP_ALIVE_LINES):
        await response.write(line)
        await sleep(KEEP_ALIVE_S)


def first_half(frames: Iterable[bytes]) -> bytes:
    """The first half of the bytes of a body."""
    body = b"".join(frames)
    return body[: len(body) // 2]
