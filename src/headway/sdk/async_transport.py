"""The asynchronous transport: every request through it obeys its lane, and waits instead of failing.

It wraps a transport of httpx2 or httpx and is one itself. The request is made in the caller's own task, so that a
cancellation closes its socket; the lane only says when. What the caller sees is the answer, or after the last attempt
whatever came of that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from functools import cache, partial
from typing import Any, Self

from headway.core.model import Kind, Outcome
from headway.engine.calls import Calls
from headway.providers.exception_outcome import outcome_of
from headway.sdk.client_settings import Gathered, Last, Terms, again, repeatable
from headway.sdk.request_info import RequestInfo, is_json, read_request
from headway.sdk.response_reader import ResponseReader
from headway.sdk.tickets import Here, Journey


class Lanes:
    """The lanes of a client: those of one event loop know nothing of another's."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._by_loop: dict[asyncio.AbstractEventLoop, Calls] = {}

    def here(self) -> Calls:
        """Those of the running loop."""
        loop = asyncio.get_running_loop()
        calls = self._by_loop.get(loop)
        if calls is None:
            for gone in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[gone]
            calls = self._by_loop[loop] = self.terms.calls()
        return calls

    async def close(self) -> None:
        """Call off whoever waits on the running loop."""
        calls = self._by_loop.pop(asyncio.get_running_loop(), None)
        if calls is not None:
            await calls.close()


class AsyncTransport:
    """A transport for `httpx2.AsyncClient` or `httpx.AsyncClient`; `inner` does the sending."""

    def __init__(self, library: Any, inner: Any, lanes: Lanes) -> None:
        self._library = library
        self._inner = inner
        self._lanes = lanes

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._lanes.close()
        await self._inner.__aexit__(*error)

    async def aclose(self) -> None:
        """Call off whoever waits, and let go of every connection."""
        await self._lanes.close()
        await self._inner.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        """Send a request when its lane lets it; again where that helps and nothing of an answer was handed out."""
        self._lanes.terms.guard(request)
        body = await request.aread() if is_json(request.headers) else b""
        ask = read_request(request, body, self._lanes.terms.lane_of)
        self._lanes.terms.meet(ask)
        calls = self._lanes.here()
        calls.reopen(ask.lane)
        here = Here(calls, ask.lane, ask.unit)
        attempts = _Attempts(self._library, self._inner, ask, request, here.journey)
        try:
            while await here.go():
                response = await attempts.make()
                if response is not None:
                    return response
        except BaseException:
            here.journey.abandon()
            raise
        if attempts.last.untried(here.journey.end):
            return await self._inner.handle_async_request(request)
        return attempts.last.give(here.journey.end)


class _Attempts:
    """The attempts at one request."""

    def __init__(self, library: Any, inner: Any, ask: RequestInfo, request: Any, journey: Journey) -> None:
        self._library, self._inner = library, inner
        self._ask, self._request = ask, request
        self._journey = journey
        self._once = not repeatable(library, request)
        self.last = Last()

    async def make(self) -> Any:
        """One attempt: the response that the caller is to have; None: it failed, and the lane knows why."""
        try:
            response = await self._inner.handle_async_request(self._request)
        except Exception as error:
            return self._failed(outcome_of(error), error=error)
        try:
            answer = ResponseReader(self._ask, response.status_code, response.headers)
            if answer.mode == "whole":
                return await self._whole(response, answer)
            return await self._passing(response, answer)
        except BaseException:
            await response.aclose()
            raise

    def _failed(self, outcome: Outcome, response: Any = None, error: Exception | None = None) -> None:
        self.last.keep(response, error)
        self._journey.finish(outcome, final=self._once)

    async def _whole(self, response: Any, answer: ResponseReader) -> Any:
        gathered, chunks = Gathered(answer.max_held_bytes), response.stream.__aiter__()
        try:
            while gathered.wants_more:
                gathered.add(await anext(chunks))
        except StopAsyncIteration:
            gathered.complete = True
        except Exception as error:
            if response.status_code < 400:
                await response.aclose()
                return self._failed(outcome_of(error), error=error)
            gathered.clear()  # A refusal is one without its words, too.
        if not gathered.complete and response.status_code < 400:
            return self._hand_on(response, chunks, gathered.pieces, answer)
        await response.aclose()
        outcome, whole = gathered.understood(self._library, response, answer)
        if outcome.kind is not None:
            return self._failed(outcome, whole)
        self._journey.finish(outcome)
        return whole

    def _hand_on(
        self, response: Any, chunks: AsyncIterator[bytes], pieces: list[bytes], answer: ResponseReader
    ) -> Any:
        """A good answer that is longer than what is held back: the caller's to read."""
        self._journey.admitted(answer.hint, None)
        response.stream = passing(self._library)(response.stream, chunks, pieces, answer, self._journey)
        return response

    async def _passing(self, response: Any, answer: ResponseReader) -> Any:
        """Hand the response on, and its body as it comes."""
        chunks, early = response.stream.__aiter__(), []
        told = answer.counted
        if told:
            self._journey.admitted(answer.hint, None)
        try:
            while answer.held_back:
                early.append(await anext(chunks))
                answer.feed(early[-1])
        except StopAsyncIteration:
            return await self._broken(
                response, early, Outcome(Kind.TRANSIENT, message="the stream has no events")
            )
        except Exception as error:
            await response.aclose()
            return self._failed(outcome_of(error), error=error)
        if answer.refused is not None:
            return await self._broken(response, early, answer.refused)
        if not told:
            self._journey.admitted(answer.hint, answer.usage)
        response.stream = passing(self._library)(response.stream, chunks, early, answer, self._journey)
        return response

    async def _broken(self, response: Any, early: list[bytes], outcome: Outcome) -> None:
        """A stream that is none: what there is of it is kept for who gets no better."""
        await response.aclose()
        self._failed(outcome, again(self._library, response, b"".join(early)))


@cache
def passing(library: Any) -> Any:
    """The class of bodies that pass through: each library wants its own."""

    class Passing(library.AsyncByteStream):  # type: ignore[misc]  # A base that is known when it is chosen.
        """A body on its way to the caller. Its attempt ends when it was read, or nobody reads on."""

        def __init__(
            self,
            inner: Any,
            chunks: AsyncIterator[bytes],
            early: list[bytes],
            answer: ResponseReader,
            journey: Journey,
        ) -> None:
            self._inner, self._chunks, self._early = inner, chunks, deque(early)
            self._answer, self._journey = answer, journey
            self._loop = asyncio.get_running_loop()
            self._open = True

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                while self._early:
                    yield self._early.popleft()
                async for chunk in self._chunks:
                    self._answer.feed(chunk)
                    yield chunk
            except Exception as error:
                self._end(self._answer.broken_outcome(str(error)))
                raise
            self._end(self._answer.stream_outcome())

        async def aclose(self) -> None:
            self._end(self._answer.stream_outcome())
            await self._inner.aclose()

        def _end(self, outcome: Outcome) -> None:
            if self._open:
                self._open = False
                self._journey.finish(outcome, final=True)

        def __del__(self) -> None:
            if self._open and not self._loop.is_closed():
                finish = partial(self._journey.finish, self._answer.stream_outcome(), final=True)
                self._loop.call_soon_threadsafe(finish)

    return Passing
