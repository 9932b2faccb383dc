"""One call on its way through a lane, for whoever makes the attempts himself.

`Calls` starts a call by calling it. A transport, and code with its own loop, want it the other way round: they ask when
they may, do what they do where they are (their task, their thread, their context), and say how it went. A `Journey`
lives on the loop of its `Calls`; its traveller may be anywhere.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from typing import Any, Final

from headway.core.model import Hint, Outcome, Usage
from headway.core.status import Status
from headway.engine.calls import Calls, End, Flight
from headway.runtime.loops import Background
from headway.runtime.signals import wait_item

CLOSED: Final = End(Status.CANCELLED, "interrupted", "its client or lane was closed while it waited")


class Journey:
    """`told(True)`: an attempt may start now. `told(False)`: it has ended, and `end` says how."""

    __slots__ = ("_calls", "_flight", "_outcome", "_told", "end")

    def __init__(self, calls: Calls, lane: str, told: Callable[[bool], None], unit: dict[str, Any]) -> None:
        self._calls = calls
        self._told = told
        self._outcome: asyncio.Future[Outcome] | None = None
        self.end: End | None = None
        self._flight = calls.submit(lane, self._attempt, self._ended, **unit)

    async def _attempt(self, flight: Flight) -> Outcome:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._outcome = outcome
        self._told(True)
        return await outcome

    def _ended(self, flight: Flight, end: End) -> None:
        self.end = end
        self._told(False)

    def admitted(self, hint: Hint | None, usage: Usage | None) -> None:
        """The provider took the attempt that is under way."""
        self._calls.admitted(self._flight, hint, usage)

    def finish(self, outcome: Outcome, *, final: bool = False) -> None:
        """How the attempt went. `final`: there will be no other, whatever the scheduler thinks of it."""
        waiting, self._outcome = self._outcome, None
        if waiting is not None and not waiting.done():
            self._flight.final = final
            waiting.set_result(outcome)

    def abandon(self) -> None:
        """Nobody wants it any more."""
        self._outcome = None
        self._calls.cancel(self._flight)


class Here:
    """A traveller on the loop of the `Calls`."""

    __slots__ = ("_may", "journey")

    def __init__(self, calls: Calls, lane: str, unit: dict[str, Any]) -> None:
        self._may: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.journey = Journey(calls, lane, self._tell, unit)

    def _tell(self, may: bool) -> None:
        if not self._may.done():
            self._may.set_result(may)

    async def go(self) -> bool:
        """Wait until the next attempt may start; False: there is none."""
        try:
            return await self._may
        finally:
            self._may = asyncio.get_running_loop().create_future()


class Apart:
    """A traveller in another thread, or on another loop, than the `Calls`. Nothing here blocks."""

    __slots__ = ("_background", "_journey", "_told")

    def __init__(
        self,
        background: Background,
        calls: Calls,
        lane: str,
        told: Callable[[bool], None],
        unit: dict[str, Any],
    ) -> None:
        self._background = background
        self._journey: Journey | None = None
        self._told = told
        if not background.post(self._begin, calls, lane, unit):
            told(False)

    def _begin(self, calls: Calls, lane: str, unit: dict[str, Any]) -> None:
        try:
            self._journey = Journey(calls, lane, self._told, unit)
        except RuntimeError:  # It was closed meanwhile.
            self._told(False)

    @property
    def end(self) -> End:
        """How it ended, once that was told."""
        return (self._journey and self._journey.end) or CLOSED

    def admitted(self, hint: Hint | None, usage: Usage | None) -> None:
        """As the journey's."""
        self._post(lambda journey: journey.admitted(hint, usage))

    def finish(self, outcome: Outcome, *, final: bool = False) -> None:
        """As the journey's."""
        self._post(lambda journey: journey.finish(outcome, final=final))

    def abandon(self) -> None:
        """As the journey's."""
        self._post(Journey.abandon)

    def _post(self, act: Callable[[Journey], None]) -> None:
        def acted() -> None:
            if self._journey is not None:
                act(self._journey)

        self._background.post(acted)


class InThread(Apart):
    """A traveller in a thread of its own, which may block."""

    __slots__ = ("_news",)

    def __init__(self, background: Background, calls: Calls, lane: str, unit: dict[str, Any]) -> None:
        self._news: queue.SimpleQueue[bool] = queue.SimpleQueue()
        super().__init__(background, calls, lane, self._news.put, unit)

    def go(self) -> bool:
        """Block until the next attempt may start; False: there is none."""
        return wait_item(self._news)
