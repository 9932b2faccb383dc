"""How an answer reaches the client: at once, event by event, or spoiled on the way by a fault.

Whatever returns a response has sent it, or leaves it to aiohttp to send it now. What was spoiled on purpose
raises `Spoiled`; a client that went away shows as CancelledError or ConnectionError, as aiohttp has it.
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
#: A slow answer takes five seconds, in this many pieces; so do the blank lines of a server that keeps alive.
SLOW_S = 5.0
SLOW_PIECES = 50
KEEP_ALIVE_S = 1.0
KEEP_ALIVE_LINES = 3

Sleep = Callable[[float], Awaitable[object]]


class BrokenOnPurpose(ConnectionResetError):
    """The answer was spoiled on purpose, and the connection with it."""


def whole_response(
    status: int, body: bytes, headers: dict[str, str], content_type: str = JSON
) -> web.Response:
    """An answer in one piece."""
    headers["Content-Type"] = content_type
    return web.Response(status=status, body=body, headers=headers)


async def begin_stream(
    request: web.BaseRequest, headers: dict[str, str], content_type: str, length: int | None = None
) -> web.StreamResponse:
    """The status line and the headers of an answer whose body comes bit by bit."""
    headers["Content-Type"] = content_type
    response = web.StreamResponse(headers=headers)
    if length is None:
        response.enable_chunked_encoding()
    else:
        response.content_length = length
    await response.prepare(request)
    return response


def reset_connection(request: web.BaseRequest) -> BrokenOnPurpose:
    """Reset the connection (RST, not FIN) and give back what is to be raised then."""
    transport = request.transport
    if transport is not None:
        peer = transport.get_extra_info("socket")
        if peer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return BrokenOnPurpose("reset on purpose")


async def wait_forever() -> None:
    """Until the client goes away or the server ends."""
    await asyncio.get_running_loop().create_future()


async def write_slowly(response: web.StreamResponse, body: bytes, sleep: Sleep) -> None:
    """The body in small pieces over `SLOW_S` seconds."""
    step = max(1, -(-len(body) // SLOW_PIECES))
    for start in range(0, len(body), step):
        await response.write(body[start : start + step])
        await sleep(SLOW_S / SLOW_PIECES)


async def write_keep_alives(response: web.StreamResponse, line: bytes, sleep: Sleep) -> None:
    """Lines that say nothing, while the client waits."""
    for _ in range(KEEP_ALIVE_LINES):
        await response.write(line)
        await sleep(KEEP_ALIVE_S)


def first_half(frames: Iterable[bytes]) -> bytes:
    """The first half of what was to be sent, cut in the middle of something."""
    body = b"".join(frames)
    return body[: len(body) // 2]
