"""Serves one text at /metrics, from a thread of its own: a scrape waits for nothing that the run does.

It answers GET and HEAD, one request a connection, and reads no more of a request than it needs. A web page that is open on this machine
must not read the numbers under a name of its own (DNS rebinding), so a server on loopback answers only to names of loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

from headway.config.settings import is_loopback
from headway.metrics.open_port import MOST_CONNECTIONS, PATH, MetricsSocket
from headway.metrics.text_format import Exposition, format_of, written
from headway.runtime.loops import Background

#: The time for a request and its answer. Prometheus gives up after 10 s.
REQUEST_S: Final = 5.0
#: The longest head of a request.
LONGEST_HEAD: Final = 16_384


class MetricsServer:
    """Serves what `exposition` returns, from `__enter__` to `__exit__`."""

    def __init__(self, port: MetricsSocket, exposition: Callable[[], Exposition]) -> None:
        self._port, self._exposition = port, exposition
        self._is_local = _is_local(port.address.shown)
        self._connections = 0
        self._thread = Background()

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self._thread.run(self._serve())
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # The end of a run must not fail because of a connection.
            self._thread.make(self._server.close)
            self._thread.__exit__(None, None, None)
        self._port.close()

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._connected, sock=self._port.socket, limit=LONGEST_HEAD)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= MOST_CONNECTIONS:
                async with asyncio.timeout(REQUEST_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head.decode("latin-1")))
                    await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            return  # The client is gone, slow, or sent no request.
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, head: str) -> bytes:
        request, *lines = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        if self._is_local and not _is_local(headers.get("host", "")):
            return _response("403 Forbidden", b"this address is only for this machine\n")
        if path != PATH:
            return _response("404 Not Found", f"the metrics are at {PATH}\n".encode())
        if method not in ("GET", "HEAD"):
            return _response("405 Method Not Allowed", b"only GET\n")
        content_type = format_of(headers.get("accept", ""))
        body = written(self._exposition(), content_type)
        return _response("200 OK", body, content_type, with_body=method == "GET")


def _response(
    status: str, body: bytes, content_type: str = "text/plain; charset=utf-8", *, with_body: bool = True
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")


def _is_local(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    try:
        return is_loopback(f"http://{host}")
    except ValueError:
        return False
