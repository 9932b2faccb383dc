"""One request through its lane: every decision of the two transports, without their I/O.

`Exchange.steps` is a generator. It yields what must be done next (wait for the lane, send, read a chunk, close) as a
function, and receives the result or the exception. `async_transport` awaits these functions, `sync_transport` calls them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

from headway.core.model import Kind, Outcome
from headway.core.unit_states import Status
from headway.engine.calls import CallEnd
from headway.errors import UnitError
from headway.providers.limits.exception_outcome import outcome_of
from headway.providers.scrubber import Scrubber
from headway.sdk.client_settings import ClientSettings
from headway.sdk.lane_registry import LaneUser, SharedLane
from headway.sdk.origins import secrets_of
from headway.sdk.request_info import RequestInfo, is_json, read_request
from headway.sdk.response_bodies import BodyBuffer, is_repeatable, with_body
from headway.sdk.response_reader import ResponseReader
from headway.sdk.tickets import CLOSED, RemoteTicket

#: Does one piece of I/O: returns its result, or (for asynchronous transports) an awaitable of it.
Step = Callable[[], Any]
Steps = Generator[Step, Any, Any]


class TransportIO(Protocol):
    """The I/O of a transport. Asynchronous ones return awaitables where a `Step` is called for."""

    #: The library: httpx2 or httpx.
    library: Any
    #: The address of the proxy that it sends through, or "".
    proxy: str

    def read_request(self, request: Any) -> Any:
        """The body of a request."""

    def ticket(self, user: LaneUser, lane: SharedLane, unit: dict[str, Any]) -> Any:
        """A place in a lane. Does no I/O."""

    def send(self, request: Any) -> Any:
        """The response to a request, its body unread."""

    def chunks(self, response: Any) -> Any:
        """An iterator of a body. Does no I/O."""

    def next_chunk(self, chunks: Any) -> Any:
        """The next chunk; None at the end."""

    def close(self, response: Any) -> Any:
        """Close a response."""

    def passing_body(
        self, response: Any, chunks: Any, early: list[bytes], reader: ResponseReader, ticket: RemoteTicket
    ) -> Any:
        """A body that passes through to the caller. Does no I/O."""


class Exchange:
    """One request: its attempts, and what the caller gets."""

    def __init__(self, io: TransportIO, settings: ClientSettings, user: LaneUser, request: Any) -> None:
        self._io, self._settings, self._user = io, settings, user
        self._request = request
        self._once = not is_repeatable(io.library, request)
        #: What the last attempt gave, if the caller gets nothing better.
        self._response: Any = None
        self._error: Exception | None = None

    def steps(self) -> Steps:
        """Send the request when its lane allows it, and again while that helps; return the response."""
        self._settings.guard(self._request, self._io.proxy)
        body = (yield self._read) if is_json(self._request.headers) else b""
        info = read_request(self._request, body, self._settings.lane_of)
        lane = self._user.lane(self._settings.terms(info))
        ticket = self._io.ticket(self._user, lane, info.unit)
        ticket.scrub = self._scrubbed
        try:
            while (yield ticket.wait):
                response = yield from self._attempt(info, ticket)
                if response is not None:
                    return response
        except BaseException:
            ticket.abandon()
            raise
        if self._never_fits(ticket.end):
            return (yield self._send)
        return self._last(ticket.end)

    def _scrubbed(self, outcome: Outcome) -> Outcome:
        """Lanes put messages into logs and into errors of other requests. A provider may quote the key in them."""
        if not outcome.message:
            return outcome
        return Scrubber(secrets_of(self._request)).outcome(outcome)

    def _read(self) -> Any:
        return self._io.read_request(self._request)

    def _send(self) -> Any:
        return self._io.send(self._request)

    # -- one attempt ----------------------------------------------------------------------------------------------

    def _attempt(self, info: RequestInfo, ticket: RemoteTicket) -> Steps:
        """Send once. Returns the response for the caller; None: it failed, and the failure was reported to the lane."""
        try:
            response = yield self._send
        except Exception as error:
            return self._failed(ticket, outcome_of(error), error=error)
        try:
            reader = ResponseReader(info, response.status_code, response.headers)
            if reader.mode == "whole":
                return (yield from self._whole(ticket, response, reader))
            return (yield from self._passing(ticket, response, reader))
        except BaseException:
            yield lambda: self._io.close(response)
            raise

    def _failed(
        self, ticket: RemoteTicket, outcome: Outcome, response: Any = None, error: Exception | None = None
    ) -> None:
        self._response, self._error = response, error
        ticket.finish(outcome, final=self._once)

    def _whole(self, ticket: RemoteTicket, response: Any, reader: ResponseReader) -> Steps:
        """Read the body before the caller sees it. A success that is too long for that passes through."""
        buffer, chunks = BodyBuffer(reader.max_held_bytes), self._io.chunks(response)
        refused = response.status_code >= 400
        try:
            while buffer.wants_more:
                buffer.add((yield lambda: self._io.next_chunk(chunks)))
        except Exception as error:
            if not refused:
                yield lambda: self._io.close(response)
                return self._failed(ticket, outcome_of(error), error=error)
            buffer.discard()  # The status alone is a refusal.
        if not buffer.complete and not refused:
            ticket.admitted(reader.hint, None)
            return self._pass_on(ticket, response, chunks, buffer.pieces, reader)
        yield lambda: self._io.close(response)
        decoded = buffer.decoded(self._io.library, response)
        outcome = reader.body_outcome(decoded)
        restored = buffer.restored(self._io.library, response, decoded)
        if outcome.kind is not None:
            return self._failed(ticket, outcome, restored)
        ticket.finish(outcome)
        return restored

    def _passing(self, ticket: RemoteTicket, response: Any, reader: ResponseReader) -> Steps:
        """Pass the body on as it comes, a stream from its first event on."""
        chunks: Any = self._io.chunks(response)
        early: list[bytes] = []
        admitted = reader.counted
        if admitted:
            ticket.admitted(reader.hint, None)
        try:
            while reader.held_back:
                chunk = yield lambda: self._io.next_chunk(chunks)
                if chunk is None:
                    empty = Outcome(Kind.TRANSIENT, message="the stream has no events")
                    return (yield from self._broken(ticket, response, early, empty))
                early.append(chunk)
                reader.feed(chunk)
        except Exception as error:
            yield lambda: self._io.close(response)
            return self._failed(ticket, outcome_of(error), error=error)
        if reader.refused is not None:
            return (yield from self._broken(ticket, response, early, reader.refused))
        if not admitted:
            ticket.admitted(reader.hint, reader.usage)
        return self._pass_on(ticket, response, chunks, early, reader)

    def _broken(self, ticket: RemoteTicket, response: Any, early: list[bytes], outcome: Outcome) -> Steps:
        """A stream without events, or with an error as its first one. Its bytes are kept for the last attempt."""
        yield lambda: self._io.close(response)
        self._failed(ticket, outcome, with_body(self._io.library, response, b"".join(early)))

    def _pass_on(
        self, ticket: RemoteTicket, response: Any, chunks: Any, early: list[bytes], reader: ResponseReader
    ) -> Any:
        response.stream = self._io.passing_body(response, chunks, early, reader, ticket)
        return response

    # -- after the last attempt -----------------------------------------------------------------------------------

    def _never_fits(self, end: CallEnd) -> bool:
        """Whether the lane takes the request for too large to ever fit: the provider decides that."""
        untried = self._response is None and self._error is None
        return untried and end.code == str(Kind.TOO_LARGE)

    def _last(self, end: CallEnd) -> Any:
        """The last response, marked so that the SDK does not retry it; or the last error, raised."""
        if self._response is not None:
            self._response.headers["x-should-retry"] = "false"
            return self._response
        if self._error is not None:
            raise self._error
        if end.status is Status.CANCELLED:
            end = CLOSED  # A caller that is cancelled does not come here: its client was closed.
        raise UnitError(end.code or str(end.status), end.message)


class PassingBody:
    """A body that passes through to the caller, without its I/O. Its attempt ends when it is read, closed or dropped."""

    _open = False

    def __init__(
        self, inner: Any, chunks: Any, early: list[bytes], reader: ResponseReader, ticket: RemoteTicket
    ) -> None:
        self._inner, self._chunks, self._early = inner, chunks, deque(early)
        self._reader, self._ticket = reader, ticket
        self._open = True

    def _end(self, outcome: Outcome) -> None:
        if self._open:
            self._open = False
            self._ticket.finish(outcome, final=True)

    def _read_to_end(self) -> None:
        self._end(self._reader.stream_outcome())

    def _broke_off(self, error: Exception) -> None:
        self._end(self._reader.broken_outcome(str(error)))

    def __del__(self) -> None:
        if self._open:
            self._read_to_end()
