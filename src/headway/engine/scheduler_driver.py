"""The heart of everything that runs work: what happened goes to the scheduler, what it decides is acted on.

All that happens in one round of the event loop is one turn. Time is the loop's monotonic clock, so that a wall clock
that jumps moves nothing. What acting means is for whoever builds on this: `Engine` keeps records, `Calls` does not.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from headway.core import commands
from headway.core.events import Event
from headway.core.scheduler import Scheduler

#: A wake-up comes no sooner than this: what is due meanwhile starts together.
LEAST_WAIT_S: Final = 0.001


class SchedulerDriver(ABC):
    """Drives a scheduler on the running event loop."""

    _loop: asyncio.AbstractEventLoop
    _scheduler: Scheduler

    def __init__(self) -> None:
        self._events: list[Event] = []
        #: What was decided outside a turn, and is acted on in the next one.
        self._decided: list[commands.Command] = []
        #: Answers that are there at once: they belong to the same turn.
        self._answers: list[Event] = []
        self._turn_due = False
        self._wake: asyncio.TimerHandle | None = None
        self._act: dict[type, Callable[[Any], None]] = {
            commands.Start: self._start,
            commands.Requeue: self._requeue,
            commands.Finish: self._finish,
            commands.CancelAttempt: self._cancel,
            commands.Notice: self._notice,
            commands.Fetch: self._fetch,
            commands.FetchSerial: self._fetch,
            commands.FetchRest: self._fetch,
            commands.Wake: self._set_wake,
            commands.Done: self._done_all,
        }

    def tell(self, *happened: Event) -> None:
        """Let the scheduler know, together with whatever else happens in this round of the loop."""
        self._events += happened
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Events in, commands out."""
        self._turn_due = False
        if self._over():
            return
        happened, self._events = self._events, []
        try:
            self._handle(happened)
            while self._answers:
                happened, self._answers = self._answers, []
                self._handle(happened)
            self._after_turn()
        except Exception as error:
            self._broke(error)

    def _handle(self, happened: Sequence[Event]) -> None:
        act = self._act
        decided, self._decided = self._decided, []
        for command in (*decided, *self._scheduler.handle(happened, self._loop.time())):
            act[type(command)](command)

    def _set_wake(self, command: commands.Wake) -> None:
        if self._wake is not None:
            self._wake.cancel()
        # uvloop counts in whole milliseconds: an instant before the next one would ring at once, and nothing had changed.
        self._wake = self._loop.call_at(max(command.at, self._loop.time() + LEAST_WAIT_S), self._turn)

    @abstractmethod
    def _after_turn(self) -> None:
        """What every turn ends with."""

    @abstractmethod
    def _over(self) -> bool:
        """Whether nothing is to be done any more."""

    @abstractmethod
    def _broke(self, error: Exception) -> None:
        """Something that must not fail has failed."""

    @abstractmethod
    def _start(self, command: commands.Start) -> None:
        """Send."""

    @abstractmethod
    def _requeue(self, command: commands.Requeue) -> None:
        """An attempt did not do it; the unit waits."""

    @abstractmethod
    def _finish(self, command: commands.Finish) -> None:
        """A unit has come to its end."""

    @abstractmethod
    def _cancel(self, command: commands.CancelAttempt) -> None:
        """Stop an attempt."""

    @abstractmethod
    def _notice(self, command: commands.Notice) -> None:
        """Something about a lane that a person wants to know."""

    @abstractmethod
    def _fetch(self, command: commands.AnyFetch) -> None:
        """Bring units."""

    @abstractmethod
    def _done_all(self, command: commands.Done) -> None:
        """Nothing more will start."""
