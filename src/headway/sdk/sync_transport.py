"""The synchronous transport: as `async_transport`, for programs without an event loop.

The request is made in the thread of its caller, which blocks until the lane allows it. `exchange` makes the decisions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Self

from headway.sdk.client_settings import ClientSettings
from headway.sdk.exchange import Exchange, PassingBody, Steps
from headway.sdk.lane_registry import LaneUser, SharedLane
from headway.sdk.origins import proxy_of
from headway.sdk.response_reader import ResponseReader
from headway.sdk.tickets import RemoteTicket, ThreadTicket


class SyncTransport:
    """A transport for `httpx2.Client` or `httpx.Client`; `inner` does the sending."""

    def __init__(self, library: Any, inner: Any, settings: ClientSettings, user: LaneUser) -> None:
        self._inner, self._settings, self._user = inner, settings, user
        self._io = _SyncIO(library, inner)

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._user.close()
        self._inner.__exit__(*error)

    def close(self) -> None:
        """Cancel requests that wait for their lane, and close every connection."""
        self._user.close()
        self._inner.close()

    def handle_request(self, request: Any) -> Any:
        """Send a request when its lane allows it, and again while that helps."""
        return _run(Exchange(self._io, self._settings, self._user, request).steps())


def _run(steps: Steps) -> Any:
    """Call what a generator of steps yields."""
    try:
        step = next(steps)
        while True:
            try:
                result = step()
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as done:
        return done.value


class _SyncIO:
    """See `exchange.TransportIO`."""

    def __init__(self, library: Any, inner: Any) -> None:
        self.library, self._inner = library, inner
        self.proxy = proxy_of(inner)

    def read_request(self, request: Any) -> Any:
        return request.read()

    def ticket(self, user: LaneUser, lane: SharedLane, unit: dict[str, Any]) -> ThreadTicket:
        return ThreadTicket(user, lane, unit, reopen=True)

    def send(self, request: Any) -> Any:
        return self._inner.handle_request(request)

    def chunks(self, response: Any) -> Any:
        return iter(response.stream)

    def next_chunk(self, chunks: Any) -> Any:
        return next(chunks, None)

    def close(self, response: Any) -> Any:
        return response.close()

    def passing_body(
        self, response: Any, chunks: Any, early: list[bytes], reader: ResponseReader, ticket: RemoteTicket
    ) -> Any:
        return passing_class(self.library)(response.stream, chunks, early, reader, ticket)


@cache
def passing_class(library: Any) -> Any:
    """The class of bodies that pass through, as a subclass of the library's own."""

    class SyncPassingBody(PassingBody, library.SyncByteStream):  # type: ignore[misc]  # The base is chosen at run time.
        def __iter__(self) -> Iterator[bytes]:
            try:
                while self._early:
                    yield self._early.popleft()
                for chunk in self._chunks:
                    self._reader.feed(chunk)
                    yield chunk
            except Exception as error:
                self._broke_off(error)
                raise
            self._read_to_end()

        def close(self) -> None:
            self._read_to_end()
            self._inner.close()

    return SyncPassingBody
