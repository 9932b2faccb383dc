"""The asynchronous transport: every request obeys its lane, and waits instead of failing.

It wraps a transport of httpx2 or httpx, and is one itself. The request is made in the caller's own task, so a
cancellation closes its socket; the lane only says when to start. `exchange` makes the decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from typing import Any, Self

from headway.sdk.client_settings import ClientSettings
from headway.sdk.exchange import Exchange, PassingBody, Steps
from headway.sdk.lane_registry import LaneUser, SharedLane
from headway.sdk.origins import proxy_of
from headway.sdk.response_reader import ResponseReader
from headway.sdk.tickets import LoopTicket, RemoteTicket


class AsyncTransport:
    """A transport for `httpx2.AsyncClient` or `httpx.AsyncClient`; `inner` does the sending."""

    def __init__(self, library: Any, inner: Any, settings: ClientSettings, user: LaneUser) -> None:
        self._inner, self._settings, self._user = inner, settings, user
        self._io = _AsyncIO(library, inner)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self._user.close)
        await self._inner.__aexit__(*error)

    async def aclose(self) -> None:
        """Cancel requests that wait for their lane, and close every connection."""
        await asyncio.to_thread(self._user.close)
        await self._inner.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request when its lane allows it, and again while that helps."""
        return await _run(Exchange(self._io, self._settings, self._user, request).steps())


async def _run(steps: Steps) -> Any:
    """Await what a generator of steps yields."""
    try:
        step = next(steps)
        while True:
            try:
                result = await step()
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as done:
        return done.value


class _AsyncIO:
    """See `exchange.TransportIO`."""

    def __init__(self, library: Any, inner: Any) -> None:
        self.library, self._inner = library, inner
        self.proxy = proxy_of(inner)

    def read_request(self, request: Any) -> Any:
        return request.aread()

    def ticket(self, user: LaneUser, lane: SharedLane, unit: dict[str, Any]) -> LoopTicket:
        return LoopTicket(user, lane, unit, reopen=True)

    def send(self, request: Any) -> Any:
        return self._inner.handle_async_request(request)

    def chunks(self, response: Any) -> Any:
        return response.stream.__aiter__()

    def next_chunk(self, chunks: Any) -> Any:
        return anext(chunks, None)

    def close(self, response: Any) -> Any:
        return response.aclose()

    def passing_body(
        self, response: Any, chunks: Any, early: list[bytes], reader: ResponseReader, ticket: RemoteTicket
    ) -> Any:
        return passing_class(self.library)(response.stream, chunks, early, reader, ticket)


@cache
def passing_class(library: Any) -> Any:
    """The class of bodies that pass through, as a subclass of the library's own."""

    class AsyncPassingBody(PassingBody, library.AsyncByteStream):  # type: ignore[misc]  # The base is chosen at run time.
        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                while self._early:
                    yield self._early.popleft()
                async for chunk in self._chunks:
                    self._reader.feed(chunk)
                    yield chunk
            except Exception as error:
                self._broke_off(error)
                raise
            self._read_to_end()

        async def aclose(self) -> None:
            self._read_to_end()
            await self._inner.aclose()

    return AsyncPassingBody
