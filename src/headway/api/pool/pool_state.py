"""What the threads that use a pool and the pool's event loop share: how many units are under way, and why none is any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from headway.api.call_records import RecordedUnit
from headway.api.pool.pool_callers import PoolCallers
from headway.api.pool.work_units import WorkerResult, WorkUnit
from headway.errors import UsageError
from headway.runtime.signals import wait_condition

#: Units that may wait for another attempt, besides those that have a worker: as many as `map` reads ahead.
MOST_WAITING: Final = 1_000


class PoolUnit:
    """One unit from its submission to its end."""

    __slots__ = ("digest", "over", "placed", "prompt", "recorded", "result", "slot", "unit", "view")

    def __init__(self, unit: Any, view: WorkUnit, prompt: str) -> None:
        self.unit, self.view, self.prompt = unit, view, prompt
        self.recorded: RecordedUnit | None = None
        self.digest: str | None = None
        self.slot: int | None = None
        #: Whether it has a worker or is about to get one. While it waits for another attempt it has none.
        self.placed = True
        #: Whether it has ended: that is reported once, whatever fails.
        self.over = False
        self.result: WorkerResult | None = None


class PoolState:
    """Counts of units and callbacks. Every method may be called from any thread."""

    def __init__(self, max_workers: int) -> None:
        self._max_workers = max_workers
        self._changed = threading.Condition()
        self.callers = PoolCallers()
        #: Units that have no end yet, by id: two units of one id at once would be one.
        self._ids: set[str] = set()
        self.active = 0
        #: How many of them have a worker or are about to get one, and whether a caller was promised a free one.
        self._placed = 0
        self._offered = False
        self._callbacks = 0
        self.running = False
        #: Why the records cannot be kept any more.
        self.failure: Exception | None = None

    def stop_running(self, then: Callable[[], None] | None) -> bool:
        """Accept no more units; `then` is called if this call made the difference. Returns whether it did."""
        with self._changed:
            was_running, self.running = self.running, False
            if was_running and then is not None:
                then()
            return was_running

    def admit(self, unit_id: str) -> bool:
        """Count a unit in; False if every worker is busy."""
        with self._changed:
            if not self.running:
                raise UsageError("the pool is not running", hint="call start() first")
            if self.failure is not None:
                raise self.failure
            if not (self._offered or self.has_slot()):
                return False
            if unit_id in self._ids:
                raise UsageError(f"the unit '{unit_id}' is already running", hint="ids must be unique")
            self._ids.add(unit_id)
            self.active += 1
            self._placed += 1
            self._offered = False
        return True

    def offer(self, *, free: bool) -> bool:
        """Promise the caller that the next unit is accepted, if a worker is still free."""
        with self._changed:
            self._offered = free and self.has_slot()
            return self._offered

    def place(self, work: PoolUnit, *, placed: bool) -> None:
        """A unit gets a worker, or gives up its own to wait."""
        if work.placed is not placed:
            with self._changed:
                work.placed = placed
                self._placed += 1 if placed else -1
                self._changed.notify_all()

    def end(self, work: PoolUnit, *, calls_back: bool) -> None:
        """A unit has ended, and its callback runs if it has one."""
        with self._changed:
            self._ids.discard(work.view.id)
            self.active -= 1
            self._placed -= work.placed
            self._callbacks += calls_back
            self._changed.notify_all()

    def end_callback(self) -> None:
        """A callback has returned."""
        with self._changed:
            self._callbacks -= 1
            self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """Nothing can be recorded any more, so nothing counts as under way."""
        with self._changed:
            self.failure = error
            self.active = self._placed = 0
            self._changed.notify_all()

    def has_slot(self) -> bool:
        """Whether a unit can be submitted."""
        return self._placed < self._max_workers and self.active - self._placed < MOST_WAITING

    def is_idle(self) -> bool:
        """Whether no unit is under way and no callback runs."""
        return not (self.active or self._callbacks)

    def wait(self, ready: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Wait until it is so; False if that took too long. A caller inside the pool also stops waiting when everything that is
        under way waits for the pool itself.
        """
        place = self.callers.here()
        with self._changed:
            if place is None:
                return wait_condition(self._changed, ready, timeout_s)
            with self.callers.wait(place):
                self._changed.notify_all()
                return wait_condition(self._changed, lambda: ready() or self._all_wait(), timeout_s)

    def wait_until_idle(self) -> None:
        """Wait until nothing is under way, for the thread that ends the pool."""
        with self._changed:
            wait_condition(self._changed, self.is_idle)

    def _all_wait(self) -> bool:
        return self.active + self._callbacks <= self.callers.waiting
