"""Connections to one host, and a POST over one of them.

The connections are aiohttp's: its resolver, its TLS, its parser. The code between them and a request is ours. aiohttp's
session makes some forty objects and, before Python 3.12, a task for every POST, and uses the oldest connection first. Here the
head of a request is encoded once, and the most recently used connection is used next. That takes half the CPU of a
request. Nothing here retries or follows a redirect.
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

#: Idle connections are closed before load balancers do it (60 s and more). Servers that close after five seconds (uvicorn,
#: Node) close first: `_PooledConnection.dropped` checks a connection before it is used again.
KEEPALIVE_S: Final = 15.0
CONNECT_S: Final = 30.0
#: Seconds after which a host name is looked up again.
RESOLVED_S: Final = 60
#: Routers drop a silent connection after some minutes, and a model may think for ten: after so many seconds the system
#: sends keep-alive probes.
PROBE_S: Final = 60
#: Headers above aiohttp's 8 KB are unusual, but no reason to lose the answer.
LONGEST_HEADER: Final = 65_536
#: The only final 1xx status: another protocol follows.
SWITCHING_PROTOCOLS: Final = 101
#: Informational (1xx) responses before the final one; aiohttp accepts at most 128 headers each.
MOST_INTERIM: Final = 32
#: The bytes that a server may send besides the decompressed answer: the head, and so many for each byte of the answer. A chunk of
#: one byte takes six. Chunk extensions, blanks and empty compressed blocks would otherwise have no limit.
SPARE_BYTES: Final = 4_000_000
BYTES_EACH: Final = 8
#: Up to this size one copy is cheaper than another write.
SMALL_BODY: Final = 65_536

_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=CONNECT_S)


def request_head(url: URL, headers: Mapping[str, str]) -> bytes:
    """The head of a request to an address, without its length."""
    return (
        f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n".encode()
        + header_lines(headers)
    )


def header_lines(headers: Mapping[str, str]) -> bytes:
    """Headers as bytes."""
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()


class _BoundedProtocol(ResponseHandler):
    """aiohttp's protocol, with a ceiling on bytes that are not part of an answer. A connection in use has a budget of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._received = 0
        self._idle = False
        self._body: aiohttp.StreamReader | None = None

    def begin(self) -> None:
        """A request is about to be sent."""
        self._received, self._body, self._idle = 0, None, False

    def begin_body(self, body: aiohttp.StreamReader) -> None:
        """The head of the response has arrived."""
        self._body = body

    def end_body(self) -> None:
        """The response has been read: nothing more may arrive."""
        self._idle = True

    def data_received(self, data: bytes) -> None:
        """Parse, unless there are too many bytes or no request was sent."""
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
        """Whether the server closed it while it was idle: an idle connection with something to read is at its end.

        A POST is never sent twice, because the outcome of the first one is unknown. This check finds a connection whose end
        has arrived but has not been processed by the loop: nothing has been sent then.
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
    """A response whose head has arrived."""

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
        """The content type without its parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    @property
    def refused(self) -> bool:
        """Whether it is not a 2xx. The beginning of its body says why."""
        return not 200 <= self.status < 300

    async def read(self, most: int) -> bytes:
        """The whole body, or the beginning of an error's body. Raises `AnswerTooLong` above `most` bytes after decompression.

        The connection is released once the body is read, and closed if only a part of it was read.
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
        """Do not read a body whose Content-Length is too large."""
        length = self.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) > most:
            raise AnswerTooLong(most)

    def close(self) -> None:
        """Release the connection, for the next request if the response was read to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.put_back(connection)


class ConnectionPool:
    """The connections to one host."""

    def __init__(self, root: URL) -> None:
        self._target = aiohttp.ClientRequest("POST", root, loop=asyncio.get_running_loop())
        self._connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=RESOLVED_S, socket_factory=_socket)
        self._connector._factory = partial(_protocol, asyncio.get_running_loop())
        #: Oldest first.
        self._idle: deque[_PooledConnection] = deque()

    async def post(self, head: bytes, body: bytes) -> HttpResponse:
        """Send, and wait for the head of the response. An error before the first byte was sent is marked (`base.unsent`)."""
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
        """The most recently used connection that is still open."""
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
        """A request no longer needs its connection."""
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
        """Close every connection."""
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
    """A socket with keep-alive probes, for models that think long."""
    family, kind, protocol, *_ = address
    created = socket.socket(family, kind, protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S)
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    return created
