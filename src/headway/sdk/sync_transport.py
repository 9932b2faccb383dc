"""The synchronous transport: as `transports`, for programs without an event loop.

The lanes live on a loop in a thread; a request is made in the thread of its caller, who blocks until its lane lets it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any, Self

from headway.core.model import Kind, Outcome
from headway.engine.calls import Calls
from headway.providers.exception_outcome import outcome_of
from headway.runtime.loops import Background
from headway.sdk.client_settings import Gathered, Last, Terms, again, repeatable
from headway.sdk.request_info import RequestInfo, is_json, read_request
from headway.sdk.response_reader import ResponseReader
from headway.sdk.tickets import InThread


class SyncLanes:
    """The lanes of a client, for all of its threads."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._lock = threading.Lock()
        self._running: tuple[Background, Calls] | None = None

    def enter(self, ask: RequestInfo) -> InThread:
        """A way through the lane of a request."""
        background, calls = self._started()

        def reopened() -> None:
            self.terms.meet(ask)
            calls.reopen(ask.lane)

        background.post(reopened)
        return InThread(background, calls, ask.lane, ask.unit)

    def _started(self) -> tuple[Background, Calls]:
        with self._lock:
            if self._running is None:
                background = Background().__enter__()
                self._running = background, background.make(self.terms.calls)
                weakref.finalize(self, background.abandon)
            return self._running

    def close(self) -> None:
        """Call off whoever waits, and end the thread."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            background, calls = running
            background.run(calls.close())
            background.__exit__(None, None, None)


class SyncTransport:
    """A transport for `httpx2.Client` or `httpx.Client`; `inner` does the sending."""

    def __init__(self, library: Any, inner: Any, lanes: SyncLanes) -> None:
        self._library = library
        self._inner = inner
        self._lanes = lanes

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._lanes.close()
        self._inner.__exit__(*error)

    def close(self) -> None:
        """Call off whoever waits, and let go of every connection."""
        self._lanes.close()
        self._inner.close()

    def handle_request(self, request: Any) -> Any:
        """Send a request when its lane lets it; again where that helps and nothing of an answer was handed out."""
        self._lanes.terms.guard(request)
        body = request.read() if is_json(request.headers) else b""
        ask = read_request(request, body, self._lanes.terms.lane_of)
        way = self._lanes.enter(ask)
        attempts = _Attempts(self._library, self._inner, ask, request, way)
        try:
            while way.go():
                response = attempts.make()
                if response is not None:
                    return response
        except BaseException:
            way.abandon()
            raise
        if attempts.last.untried(way.end):
            return self._inner.handle_request(request)
        return attempts.last.give(way.end)


class _Attempts:
    """The attempts at one request."""

    def __init__(self, library: Any, inner: Any, ask: RequestInfo, request: Any, way: InThread) -> None:
        self._library, self._inner = library, inner
        self._ask, self._request = ask, request
        self._way = way
        self._once = not repeatable(library, request)
        self.last = Last()

    def make(self) -> Any:
        """One attempt: the response that the caller is to have; None: it failed, and the lane knows why."""
        try:
            response = self._inner.handle_request(self._request)
        except Exception as error:
            return self._failed(outcome_of(error), error=error)
        try:
            answer = ResponseReader(self._ask, response.status_code, response.headers)
            return (
                self._whole(response, answer) if answer.mode == "whole" else self._passing(response, answer)
            )
        except BaseException:
            response.close()
            raise

    def _failed(self, outcome: Outcome, response: Any = None, error: Exception | None = None) -> None:
        self.last.keep(response, error)
        self._way.finish(outcome, final=self._once)

    def _whole(self, response: Any, answer: ResponseReader) -> Any:
        gathered, chunks = Gathered(answer.max_held_bytes), iter(response.stream)
        try:
            while gathered.wants_more:
                gathered.add(next(chunks))
        except StopIteration:
            gathered.complete = True
        except Exception as error:
            if response.status_code < 400:
                response.close()
                return self._failed(outcome_of(error), error=error)
            gathered.clear()  # A refusal is one without its words, too.
        if not gathered.complete and response.status_code < 400:
            return self._hand_on(response, chunks, gathered.pieces, answer)
        response.close()
        outcome, whole = gathered.understood(self._library, response, answer)
        if outcome.kind is not None:
            return self._failed(outcome, whole)
        self._way.finish(outcome)
        return whole

    def _hand_on(
        self, response: Any, chunks: Iterator[bytes], pieces: list[bytes], answer: ResponseReader
    ) -> Any:
        """A good answer that is longer than what is held back: the caller's to read."""
        self._way.admitted(answer.hint, None)
        response.stream = passing(self._library)(response.stream, chunks, pieces, answer, self._way)
        return response

    def _passing(self, response: Any, answer: ResponseReader) -> Any:
        """Hand the response on, and its body as it comes."""
        chunks, early = iter(response.stream), []
        told = answer.counted
        if told:
            self._way.admitted(answer.hint, None)
        try:
            while answer.held_back:
                early.append(next(chunks))
                answer.feed(early[-1])
        except StopIteration:
            return self._broken(response, early, Outcome(Kind.TRANSIENT, message="the stream has no events"))
        except Exception as error:
            response.close()
            return self._failed(outcome_of(error), error=error)
        if answer.refused is not None:
            return self._broken(response, early, answer.refused)
        if not told:
            self._way.admitted(answer.hint, answer.usage)
        response.stream = passing(self._library)(response.stream, chunks, early, answer, self._way)
        return response

    def _broken(self, response: Any, early: list[bytes], outcome: Outcome) -> None:
        """A stream that is none: what there is of it is kept for who gets no better."""
        response.close()
        self._failed(outcome, again(self._library, response, b"".join(early)))


@cache
def passing(library: Any) -> Any:
    """The class of bodies that pass through: each library wants its own."""

    class Passing(library.SyncByteStream):  # type: ignore[misc]  # A base that is known when it is chosen.
        """A body on its way to the caller. Its attempt ends when it was read, or nobody reads on."""

        def __init__(
            self,
            inner: Any,
            chunks: Iterator[bytes],
            early: list[bytes],
            answer: ResponseReader,
            way: InThread,
        ) -> None:
            self._inner, self._chunks, self._early = inner, chunks, deque(early)
            self._answer, self._way = answer, way
            self._open = True

        def __iter__(self) -> Iterator[bytes]:
            try:
                while self._early:
                    yield self._early.popleft()
                for chunk in self._chunks:
                    self._answer.feed(chunk)
                    yield chunk
            except Exception as error:
                self._end(self._answer.broken_outcome(str(error)))
                raise
            self._end(self._answer.stream_outcome())

        def close(self) -> None:
            self._end(self._answer.stream_outcome())
            self._inner.close()

        def _end(self, outcome: Outcome) -> None:
            if self._open:
                self._open = False
                self._way.finish(outcome, final=True)

        def __del__(self) -> None:
            self._end(self._answer.stream_outcome())

    return Passing
