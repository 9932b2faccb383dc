"""Connections to one host, and a POST over one of them.

The connections are aiohttp's: its resolver, its TLS, its parser. What is between them and a request is ours. aiohttp's
session makes some forty objects and, before Python 3.12, a task for every POST, and hands connections out oldest first;
here the head of a request is bytes made once, and the connection that was used last is used next. That is half the CPU
of a request. Nothing here retries or follows anything.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections import deque
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDictProxy
from yarl import URL

from headway.providers.adapter import mark_unsent
from headway.providers.dialects.answer_errors import AnswerTooLong
from headway.providers.http.body_reader import LONGEST_FAILURE_READ, beginning_of, rest_of

#: Idle connections are let go before load balancers do it (60 s and more). Servers that close after five (uvicorn,
#: Node) close first: `_PooledConnection.dropped` looks before a line is used again.
KEEPALIVE_S: Final = 15.0
CONNECT_S: Final = 30.0
#: A name is looked up again so often.
RESOLVED_S: Final = 60
#: A router forgets a silent connection after some minutes, and a model may think for ten: from here on the system
#: shows a sign of life by itself.
PROBE_S: Final = 60
#: Headers longer than aiohttp's 8 KB are odd, but no reason to lose the answer.
LONGEST_HEADER: Final = 65_536
#: Of 1xx this one alone is the last: what follows is another protocol.
SWITCHING_PROTOCOLS: Final = 101
#: Answers of 1xx before the one that counts; aiohttp takes no more than 128 headers each.
MOST_INTERIM: Final = 32
#: What may be sent besides the bytes of an answer, decompressed: its head, and so many bytes for each of them. A chunk of one
#: byte takes six. Chunk extensions, blanks and empty compressed blocks have no end of their own.
SPARE_BYTES: Final = 4_000_000
BYTES_EACH: Final = 8
#: Up to here one copy is cheaper than one more write.
SMALL_BODY: Final = 65_536

_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)


def request_head(url: URL, headers: Mapping[str, str]) -> bytes:
    """How a request to an address begins: all but its length."""
    return (
        f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n".encode()
        + header_lines(headers)
    )


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as they are sent."""
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


class _BoundedProtocol(ResponseHandler):
    """aiohttp's, with a ceiling on the bytes that are no part of an answer. A connection in use has a budget of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._received = 0
        self._idle = False
        self._body: aiohttp.StreamReader | None = None

    def begin(self) -> None:
        """A request is about to be sent."""
        self._received, self._body, self._idle = 0, None, False

    def begin_body(self, body: aiohttp.StreamReader) -> None:
        """The head of the answer is here."""
        self._body = body

    def end_body(self) -> None:
        """The answer has been read: nothing more may come."""
        self._idle = True

    def data_received(self, data: bytes) -> None:
        """Parse, unless there is too much of it or nobody asked."""
        if self._idle:
            self.abort()
            return
        self._received += len(data)
        super().data_received(data)
        if self._received > SPARE_BYTES:
            self._check_bytes()

    def _check_bytes(self) -> None:
        body = self._body
        if self._received <= SPARE_BYTES + BYTES_EACH * (0 if body is None else body.total_bytes):
            return
        fault = HttpProcessingError(message=f"it sent {SPARE_BYTES // 10**6} MB more than the answer has")
        self.set_exception(fault)
        if body is not None:
            body.set_exception(fault)
        if self.transport is not None:
            self.transport.abort()


def _protocol(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _BoundedProtocol(loop)


class _PooledConnection:
    """One connection."""

    __slots__ = ("_connection", "_poll", "idle_since", "protocol")

    def __init__(self, connection: Connection, protocol: _BoundedProtocol) -> None:
        self._connection = connection
        self.protocol = protocol
        self.idle_since = 0.0
        self._poll: select.poll | None = None

    def dropped(self) -> bool:
        """Whether the other side closed it while it was idle: one that has something to read has its end to read.

        A POST is never sent twice, because nobody knows what became of the first. But where the end of the connection
        is here already, and only the loop has not come round to it, nothing has been sent yet.
        """
        transport = self.protocol.transport
        if transport is None or transport.is_closing():
            return True
        if self._poll is None:
            raw_socket = transport.get_extra_info("socket")
            if raw_socket is None or raw_socket.fileno() < 0:
                return True
            self._poll = select.poll()
            self._poll.register(raw_socket.fileno(), select.POLLIN)
        return bool(self._poll.poll(0))

    def close(self) -> None:
        self._connection.close()


class HttpResponse:
    """An answer whose head is here."""

    __slots__ = ("_connection", "_pool", "content", "headers", "status")

    def __init__(
        self,
        pool: ConnectionPool,
        connection: _PooledConnection,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
    ) -> None:
        self._pool = pool
        self._connection: _PooledConnection | None = connection
        self.status = status
        self.headers = headers
        self.content = content

    @property
    def content_type(self) -> str:
        """Without its parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def refused(self) -> bool:
        """Whether it is no 2xx: its body says why, and the beginning of it is enough."""
        return not 200 <= self.status < 300

    async def read(self, most: int) -> bytes:
        """The whole body, or the beginning of a refusal's. Raises `AnswerTooLong` above `most` bytes after decompression.

        Its connection is free as soon as the body is here, and closed if not all of it was read.
        """
        try:
            if self.status == SWITCHING_PROTOCOLS:
                return b""
            if self.refused:
                return await beginning_of(self.content, LONGEST_FAILURE_READ)
            body = await self.content.readany()
            if self.content.at_eof() and len(body) <= most:
                return body
            self._check_length(most)
            return await rest_of(self.content, body, most)
        finally:
            self.close()

    def _check_length(self, most: int) -> None:
        """Spare the reading of what says itself that it is too long."""
        length = self.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) > most:
            raise AnswerTooLong(most)

    def close(self) -> None:
        """Let go of the connection: to the next request if the answer was read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.put_back(connection)


class ConnectionPool:
    """The way to the host of an address."""

    def __init__(self, root: URL) -> None:
        self._target = aiohttp.ClientRequest("POST", root, loop=asyncio.get_running_loop())
        self._connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=RESOLVED_S, socket_factory=_socket)
        self._connector._factory = partial(_protocol, asyncio.get_running_loop())
        #: Oldest first.
        self._idle: deque[_PooledConnection] = deque()

    async def post(self, head: bytes, body: bytes) -> HttpResponse:
        """Send, and wait for the head of the answer. A fault before the first byte left is marked (`base.unsent`)."""
        try:
            connection = self._take() or await self._connect()
        except BaseException as fault:
            mark_unsent(fault)
            raise
        protocol = connection.protocol
        try:
            protocol.begin()
            protocol.set_response_params(
                read_until_eof=True, max_line_size=LONGEST_HEADER, max_field_size=LONGEST_HEADER
            )
            _write(protocol, b"%bContent-Length: %d\r\n\r\n" % (head, len(body)), body)
            message, content = await protocol.read()
            interim = 0
            while message.code < 200 and message.code != SWITCHING_PROTOCOLS:
                interim += 1
                if interim > MOST_INTERIM:
                    raise HttpProcessingError(message="too many interim answers")
                message, content = await protocol.read()
        except BaseException:
            connection.close()
            raise
        if message.code == SWITCHING_PROTOCOLS:
            protocol.force_close()
        protocol.begin_body(content)
        return HttpResponse(self, connection, message.code, message.headers, content)

    def _take(self) -> _PooledConnection | None:
        """The line that was used last, of those that are still good."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if not connection.dropped():
                return connection
            connection.close()
        return None

    async def _connect(self) -> _PooledConnection:
        try:
            connection = await self._connector.connect(self._target, [], _TIMEOUT)
        except TimeoutError as late:
            raise aiohttp.ConnectionTimeoutError(f"no connection within {CONNECT_S:g} s") from late
        protocol = connection.protocol
        assert isinstance(protocol, _BoundedProtocol)
        return _PooledConnection(connection, protocol)

    def put_back(self, connection: _PooledConnection) -> None:
        """A request is done with its line."""
        now = monotonic()
        if self._connector.closed or connection.protocol.should_close:
            connection.close()
        else:
            connection.idle_since = now
            connection.protocol.end_body()
            self._idle.append(connection)
        while self._idle and now - self._idle[0].idle_since > KEEPALIVE_S:
            self._idle.popleft().close()

    async def close(self) -> None:
        """Let go of every connection."""
        while self._idle:
            self._idle.pop().close()
        await self._connector.close()


def _write(protocol: ResponseHandler, head: bytes, body: bytes) -> None:
    transport = protocol.transport
    if transport is None or transport.is_closing():
        closed = aiohttp.ClientConnectionResetError("the connection is closed")
        mark_unsent(closed)
        raise closed
    if len(body) <= SMALL_BODY:
        transport.write(head + body)
    else:
        transport.write(head)
        transport.write(body)


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that shows a sign of life while a model thinks."""
    family, kind, protocol, *_ = address
    created = socket.socket(family, kind, protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S)
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    return created
