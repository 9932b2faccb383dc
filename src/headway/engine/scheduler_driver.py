"""Drives a scheduler on an event loop: events go in, and its commands are acted on.

All events of one round of the loop are one turn. Time is the loop's monotonic clock, so changes of the wall clock move
nothing. Subclasses act on the commands: `Engine` for a job, `Calls` for a Python program.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from headway.core import commands
from headway.core.events import Event, SetMaxInFlight
from headway.core.scheduler import Scheduler
from headway.engine.sharing.process_capacity import CapacityUser, join_process

#: The shortest wait for a wake-up: what becomes due meanwhile starts together.
LEAST_WAIT_S: Final = 0.001


class SchedulerDriver(ABC):
    """Drives a scheduler on the running event loop."""

    _loop: asyncio.AbstractEventLoop
    _scheduler: Scheduler

    def __init__(self) -> None:
        self._events: list[Event] = []
        #: Commands from outside a turn, acted on in the next one.
        self._decided: list[commands.Command] = []
        #: Events that answer a command at once: they belong to the same turn.
        self._answers: list[Event] = []
        self._turn_due = False
        #: This driver's part of what the process may have in flight; None before the run, and after it.
        self._capacity: CapacityUser | None = None
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

    def tell(self, *new_events: Event) -> None:
        """Give events to the scheduler, together with the others of this round of the loop."""
        self._events += new_events
        if not self._turn_due:
            self._turn_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Events in, commands out."""
        self._turn_due = False
        if self._over():
            return
        new_events, self._events = self._events, []
        try:
            self._handle(new_events)
            while self._answers:
                new_events, self._answers = self._answers, []
                self._handle(new_events)
            self._after_turn()
        except Exception as error:
            self._broke(error)

    def _handle(self, new_events: Sequence[Event]) -> None:
        act = self._act
        decided, self._decided = self._decided, []
        if self._capacity is not None:
            limit = self._capacity.limit()
            if limit != self._scheduler.max_in_flight:
                new_events = (SetMaxInFlight(limit), *new_events)
        for command in (*decided, *self._scheduler.handle(new_events, self._loop.time())):
            act[type(command)](command)

    def _join_process(self) -> None:
        """From now on the process bounds what is in flight."""
        self._capacity = join_process(self._scheduler.out.__len__)

    def _leave_process(self) -> None:
        capacity, self._capacity = self._capacity, None
        if capacity is not None:
            capacity.leave()

    def _exhausted(self) -> None:
        """The process could not open what an attempt needed."""
        if self._capacity is not None:
            self._capacity.exhausted()

    def _set_wake(self, command: commands.Wake) -> None:
        if self._wake is not None:
            self._wake.cancel()
        # uvloop counts in whole milliseconds: a timer for a fraction of one would fire at once, before anything is due.
        self._wake = self._loop.call_at(max(command.at, self._loop.time() + LEAST_WAIT_S), self._turn)

    @abstractmethod
    def _after_turn(self) -> None:
        """Called at the end of every turn."""

    @abstractmethod
    def _over(self) -> bool:
        """Whether the run is over."""

    @abstractmethod
    def _broke(self, error: Exception) -> None:
        """The scheduler or a command raised an exception."""

    @abstractmethod
    def _start(self, command: commands.Start) -> None:
        """Start an attempt."""

    @abstractmethod
    def _requeue(self, command: commands.Requeue) -> None:
        """An attempt failed, and its unit waits for another."""

    @abstractmethod
    def _finish(self, command: commands.Finish) -> None:
        """A unit has ended."""

    @abstractmethod
    def _cancel(self, command: commands.CancelAttempt) -> None:
        """Cancel an attempt."""

    @abstractmethod
    def _notice(self, command: commands.Notice) -> None:
        """A notice about a lane, for people."""

    @abstractmethod
    def _fetch(self, command: commands.AnyFetch) -> None:
        """Fetch units."""

    @abstractmethod
    def _done_all(self, command: commands.Done) -> None:
        """Nothing more will start."""
