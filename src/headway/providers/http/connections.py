"""Connections to one host, and a POST over one of them.

The connections are aiohttp's: its resolver, its TLS, its parser. The code between them and a request is ours. aiohttp's
session makes some forty objects and, before Python 3.12, a task for every POST, and uses the oldest connection first. Here the
head of a request is encoded once, and the most recently used connection is used next. That takes half the CPU of a
request. Nothing here retries or follows a redirect.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Mapping
from functools import partial
from time import monotonic
from typing import Any, Final

from multidict import CIMultiDictProxy
from yarl import URL

from headway.providers.adapter import Admitted, mark_unsent
from headway.providers.attached_body import AttachedBody
from headway.providers.dialects.answer_errors import AnswerTooLong
from headway.providers.http.body_reader import LONGEST_FAILURE_READ, beginning_of, rest_of
from headway.providers.http.client_library import Connection, HttpProcessingError, ResponseHandler, aiohttp
from headway.providers.http.dropped_connections import DroppedConnections
from headway.providers.http.opening import ConnectionsAhead

#: Idle connections are closed before load balancers do it (60 s and more). Servers that close after five seconds (uvicorn,
#: Node) close first: `DroppedConnections` checks a connection before it is used again.
KEEPALIVE_S: Final = 15.0
CONNECT_S: Final = 30.0
#: A new connection has something to read that is not its end: the tickets that a TLS server sends after the handshake. For this long.
NEW_S: Final = 1.0
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
        #: Whether a part of the request is not sent, and never will be.
        self.cut_short = False

    def begin(self) -> None:
        """A request is about to be sent."""
        self._received, self._body, self._idle = 0, None, False

    def end_upload(self, upload: asyncio.Task[None] | None) -> None:
        """The response has begun, or none will come. A server may refuse a request before it has read all of it: the rest is not
        sent then.
        """
        if upload is not None and upload.cancel():
            self.cut_short = True
            self.force_close()

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
        self._received = received = self._received + len(data)
        ResponseHandler.data_received(self, data)
        if received > SPARE_BYTES:
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


class PooledConnection:
    """One connection."""

    __slots__ = ("_connection", "_descriptor", "_new", "checked_in", "idle_since", "protocol")

    def __init__(self, connection: Connection, protocol: _BoundedProtocol) -> None:
        self._connection = connection
        self.protocol = protocol
        self.idle_since = 0.0
        self._new = False
        self._descriptor: int | None = None
        #: The last round of the loop in which it was found alive (`DroppedConnections`).
        self.checked_in = 0

    @property
    def closed(self) -> bool:
        """Whether it is known to be closed."""
        transport = self.protocol.transport
        return transport is None or transport.is_closing()

    @property
    def is_new(self) -> bool:
        """Whether it has had no request, and may have something to read."""
        return self._new and monotonic() - self.idle_since < NEW_S

    @property
    def descriptor(self) -> int:
        """The number of its socket; negative if it has none. Only while it is not closed: then the system gives the number to another one."""
        if self._descriptor is None:
            transport = self.protocol.transport
            raw_socket = None if transport is None else transport.get_extra_info("socket")
            self._descriptor = -1 if raw_socket is None else raw_socket.fileno()
        return self._descriptor

    def rest(self, now: float, *, new: bool = False) -> None:
        """It has no request from now on; `new`: and had none yet."""
        self.idle_since = now
        self._new = new
        self.protocol.end_body()

    def close(self) -> None:
        if self.protocol.cut_short:
            self.protocol.abort()  # Otherwise it would wait until the server has read what is left.
        self._connection.close()


class HttpResponse:
    """A response whose head has arrived."""

    __slots__ = ("_connection", "_pool", "content", "headers", "status")

    def __init__(
        self,
        pool: ConnectionPool,
        connection: PooledConnection,
        status: int,
        headers: CIMultiDictProxy[str],
        content: aiohttp.StreamReader,
    ) -> None:
        self._pool = pool
        self._connection: PooledConnection | None = connection
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
        #: Whether a connection was ever made.
        self.connected = False
        #: Oldest first.
        self._idle: deque[PooledConnection] = deque()
        self._dropped = DroppedConnections(self._idle)
        self._ahead = ConnectionsAhead(self._connect, self._idle)

    def keep_ready(self, n: int) -> None:
        """Have connections open for so many further requests; idle ones count."""
        if not self._connector.closed:
            self._ahead.keep(n)

    async def post(self, head: bytes, body: bytes | AttachedBody, admitted: Admitted) -> HttpResponse:
        """Send, and wait for the head of the response. An error before the first byte was sent is marked (`base.unsent`)."""
        upload: asyncio.Task[None] | None = None
        connection = self._take()
        waited = connection is None
        try:
            if connection is None:
                admitted.delayed()
                connection = await self._ahead.next() or await self._connect()
        except BaseException as fault:
            mark_unsent(fault)
            raise
        protocol = connection.protocol
        try:
            protocol.begin()
            protocol.set_response_params(
                read_until_eof=True, max_line_size=LONGEST_HEADER, max_field_size=LONGEST_HEADER
            )
            if isinstance(body, bytes):
                _write(protocol, head, body)
            else:
                _write_head(protocol, head, len(body))
                upload = asyncio.get_running_loop().create_task(_upload(protocol, body))
            if waited:
                admitted.written()
            message, content = await protocol.read()
            interim = 0
            while message.code < 200 and message.code != SWITCHING_PROTOCOLS:
                interim += 1
                if interim > MOST_INTERIM:
                    raise HttpProcessingError(message="too many interim answers")
                message, content = await protocol.read()
        except BaseException:
            protocol.end_upload(upload)
            connection.close()
            raise
        protocol.end_upload(upload)
        if message.code == SWITCHING_PROTOCOLS:
            protocol.force_close()
        protocol.begin_body(content)
        return HttpResponse(self, connection, message.code, message.headers, content)

    def _take(self) -> PooledConnection | None:
        """The most recently used connection that is still open."""
        idle = self._idle
        while idle:
            connection = idle.pop()
            if not self._dropped.has(connection):
                if len(idle) < self._ahead.wanted:
                    self._ahead.open()
                return connection
            connection.close()
            self._ahead.unused()
        return None

    async def _connect(self) -> PooledConnection:
        began_at = monotonic()
        try:
            connection = await self._connector.connect(self._target, [], _TIMEOUT)
        except TimeoutError as late:
            raise aiohttp.ConnectionTimeoutError(f"no connection within {CONNECT_S:g} s") from late
        protocol = connection.protocol
        assert isinstance(protocol, _BoundedProtocol)
        self.connected = True
        self._ahead.connected(monotonic() - began_at)
        return PooledConnection(connection, protocol)

    def put_back(self, connection: PooledConnection) -> None:
        """A request no longer needs its connection."""
        now = monotonic()
        if self._connector.closed or connection.protocol.should_close:
            connection.close()
        else:
            connection.rest(now)
            self._idle.append(connection)
        while self._idle and now - self._idle[0].idle_since > KEEPALIVE_S:
            self._idle.popleft().close()
            self._ahead.unused()

    async def close(self) -> None:
        """Close every connection."""
        await self._ahead.close()
        while self._idle:
            self._idle.pop().close()
        await self._connector.close()


def _write(protocol: ResponseHandler, head: bytes, body: bytes) -> None:
    length = len(body)
    if length <= SMALL_BODY:
        _open_transport(protocol).write(b"%bContent-Length: %d\r\n\r\n%b" % (head, length, body))
    else:
        _write_head(protocol, head, length).write(body)


def _write_head(protocol: ResponseHandler, head: bytes, length: int) -> asyncio.Transport:
    transport = _open_transport(protocol)
    transport.write(b"%bContent-Length: %d\r\n\r\n" % (head, length))
    return transport


def _open_transport(protocol: ResponseHandler) -> asyncio.Transport:
    transport = protocol.transport
    if transport is None or transport.is_closing():
        closed = aiohttp.ClientConnectionResetError("the connection is closed")
        mark_unsent(closed)
        raise closed
    return transport


async def _upload(protocol: ResponseHandler, body: AttachedBody) -> None:
    """Write a long body piece by piece, as fast as the server reads it. If the connection fails, `protocol.read` raises that."""
    try:
        for piece in body.pieces():
            transport = protocol.transport
            if transport is None or transport.is_closing():
                return
            transport.write(piece)
            await protocol._drain_helper()
    except (OSError, aiohttp.ClientError):
        pass
    finally:
        body.release()


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket with keep-alive probes, for models that think long."""
    family, kind, protocol, *_ = address
    created = socket.socket(family, kind, protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S)
        created.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    return created
