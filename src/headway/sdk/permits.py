"""`headway.Lane`: a lane by itself, for code that has its own loop, its own client, or its own retries.

It lives on a loop in a thread of its own, so that one lane is one lane for every thread and every event loop.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from headway.config.call_settings import Limits, Retry
from headway.core import model
from headway.core.model import Estimate, Hint, LaneSpec, Outcome, Settings, Usage
from headway.engine.calls import Calls
from headway.errors import UnitError, UsageError
from headway.providers import anthropic, openai
from headway.providers.call_reports import current
from headway.providers.exception_outcome import outcome_of
from headway.providers.hints import understand
from headway.providers.profiles import profile_for
from headway.providers.secrecy import Scrubber
from headway.providers.seen import Seen
from headway.providers.sse import counts
from headway.runtime.loops import Background, in_a_loop
from headway.runtime.signals import wait_item
from headway.sdk.tickets import Apart

#: What Anthropic alone counts apart.
_ANTHROPIC: Final = "cache_read_input_tokens"


class Lane:
    """One rate-limit scope. `async with lane.permit(tokens=1200) as permit:` waits until the call may start.

    An exception that leaves the block teaches the lane: `headway.RateLimited`, and those of HTTP clients and SDKs. It is
    raised all the same; trying again is yours, with another permit. `limits` left out are found, as a batch finds them;
    `provider` (an address or a name such as "openai") says how tokens are counted and headers are read.

    >>> import headway
    >>> lane = headway.Lane(headway.Limits(rpm=600, tpm=90_000))
    >>> with lane.permit(tokens=1_200) as permit:
    ...     answer = "what a call gives"
    ...     permit.settle(input_tokens=800, output_tokens=50)
    >>> lane.close()
    """

    def __init__(self, limits: Limits | None = None, *, name: str = "lane", provider: str = "") -> None:
        if not isinstance(limits, Limits | None):
            raise UsageError(f"limits is {limits!r}", hint="they are headway.Limits(rpm=…, tpm=…)")
        self.name = name
        self._profile = profile_for(provider)
        limited = model.Limits() if limits is None else limits.to_core()
        self._spec = LaneSpec(name, limited, Retry().to_core(), self._profile.counting)
        self._lock = threading.Lock()
        self._running: tuple[Background, Calls] | None = None
        self._closed = False

    def permit(self, tokens: float = 0, *, max_output_tokens: float = 0, priority: int = 0) -> Permit:
        """A permit for one call, for `with` or `async with`.

        `tokens` is what its input is expected to take, `max_output_tokens` the most that may come back; a higher
        `priority` goes first. `UnitError` says that there is none: the lane was stopped, or the call can never fit. A closed
        lane gives none either.
        """
        for name, given in (("tokens", tokens), ("max_output_tokens", max_output_tokens)):
            told: object = given
            if not isinstance(told, int | float) or not told >= 0:
                raise UsageError(f"{name} is {told!r}", hint="a number of 0 or more")
        estimate = Estimate(float(tokens), float(max_output_tokens), float(max_output_tokens))
        return Permit(self, {"estimate": estimate, "priority": priority})

    def reopen(self) -> None:
        """Go on after the lane was stopped by a key or an account that was refused."""
        if self._running is not None:
            background, calls = self._running
            background.post(lambda: calls.reopen(self.name, force=True))

    def close(self) -> None:
        """Call off whoever waits, and end the lane's thread. It gives no more permits."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None:
            background, calls = running
            background.run(calls.close())
            background.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    def _started(self) -> tuple[Background, Calls]:
        with self._lock:
            if self._closed:
                raise UsageError(f"the lane '{self.name}' was closed", hint="make another headway.Lane")
            if self._running is None:
                background = Background().__enter__()
                spec, settings = self._spec, Settings(max_identical_invalid=0)
                scrub = Scrubber.of_environment()
                self._running = background, background.make(lambda: Calls(lambda _: spec, settings, scrub))
                weakref.finalize(self, background.abandon)
            return self._running

    def _hint(self, headers: Mapping[str, str] | None) -> Hint | None:
        if not headers:
            return None
        return understand(Seen(200, dict(headers)), self._profile, now_utc=time.time()).hint


class Permit:
    """The right to make one call, while it is entered. Once only."""

    def __init__(self, lane: Lane, unit: dict[str, Any]) -> None:
        self._lane = lane
        self._unit = unit
        self._way: Apart | None = None
        self._hint: Hint | None = None
        #: What the call used, as far as it was said. `headway.usage` says it too.
        self.usage: Usage | None = None

    def settle(
        self,
        usage: Any = None,
        *,
        input_tokens: float = 0,
        output_tokens: float = 0,
        cached_input_tokens: float = 0,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Say what the call used, so that the lane's meters are right; and what its headers told of the limits.

        `usage` may be what an SDK's answer calls so, the answer itself, or a dict of the same names.
        """
        if usage is not None:
            self.usage = usage_of(usage)
        elif input_tokens or output_tokens:
            self.usage = Usage(float(input_tokens), float(output_tokens), float(cached_input_tokens))
        self._hint = self._lane._hint(headers) or self._hint

    # -- entering and leaving -------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        if in_a_loop():
            raise UsageError("'with lane.permit()' would block the event loop", hint="write 'async with'")
        news: queue.SimpleQueue[bool] = queue.SimpleQueue()
        way = self._asked(news.put)
        try:
            granted = wait_item(news)
        except BaseException:
            way.abandon()
            raise
        return self._entered(way, granted=granted)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()

        def told(granted: bool) -> None:
            with suppress(RuntimeError):  # The loop is gone.
                loop.call_soon_threadsafe(_resolve, future, granted)

        way = self._asked(told)
        try:
            granted = await future
        except BaseException:
            way.abandon()
            raise
        return self._entered(way, granted=granted)

    def _asked(self, told: Any) -> Apart:
        if self._way is not None:
            raise UsageError("this permit was used before", hint="ask the lane for one a call")
        background, calls = self._lane._started()
        self._way = Apart(background, calls, self._lane.name, told, self._unit)
        return self._way

    def _entered(self, way: Apart, *, granted: bool) -> Self:
        if not granted:
            raise UnitError(way.end.code or str(way.end.status), way.end.message)
        self._before = current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._way is not None
        current.reset(self._before)
        if error is None:
            self._way.finish(Outcome(None, self.usage, self._hint))
        elif isinstance(error, Exception):
            self._way.finish(outcome_of(error, self.usage), final=True)
        else:
            self._way.abandon()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _resolve(future: asyncio.Future[bool], granted: bool) -> None:
    if not future.done():
        future.set_result(granted)


def usage_of(said: Any) -> Usage:
    """What an SDK's usage, or the answer that it stands in, comes to."""
    if isinstance(said, Usage):
        return said
    told = _plain(said)
    inner = told.get("usage")
    told = counts(_plain(inner) if inner is not None else told)
    shape: Any = anthropic.Shape if _ANTHROPIC in told else openai.Shape
    found: Usage | None = msgspec.convert({"usage": told}, shape).counted()
    return found or Usage()


def _plain(said: Any) -> dict[str, Any]:
    """An SDK's object as a dict."""
    if isinstance(said, Mapping):
        return dict(said)
    if hasattr(said, "model_dump"):
        return dict(said.model_dump())
    raise UsageError(
        f"usage is a {type(said).__name__}",
        hint="give an SDK's usage, a dict, or input_tokens=… and output_tokens=…",
    )
