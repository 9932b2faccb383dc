"""Calls of a pool's methods from inside: by its callbacks, and by the `execute` of its worker.

Such a call would wait for itself. So each callback and each attempt has a `CallerPlace`, found through its context. If
everything that is under way waits inside the pool, there is nothing left to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class CallerPlace:
    """A callback or an attempt that runs. `outer` is that of another pool in which it runs."""

    __slots__ = ("callers", "outer", "waits")

    def __init__(self, callers: PoolCallers, outer: CallerPlace | None) -> None:
        self.callers, self.outer = callers, outer
        self.waits = 0


_place: Final[ContextVar[CallerPlace | None]] = ContextVar("headway_place", default=None)


class PoolCallers:
    """What runs inside one pool. Counts change only under the pool's lock."""

    def __init__(self) -> None:
        #: Places that wait in a method of the pool.
        self.waiting = 0

    def enter(self) -> None:
        """Whatever runs in this context from now on is inside the pool."""
        _place.set(CallerPlace(self, _place.get()))

    def here(self) -> CallerPlace | None:
        """The caller's place inside the pool; None if the caller is outside."""
        place = _place.get()
        while place is not None and place.callers is not self:
            place = place.outer
        return place

    @contextmanager
    def wait(self, place: CallerPlace) -> Iterator[None]:
        """A context in which the place counts as waiting. Threads of one place count once."""
        place.waits += 1
        self.waiting += place.waits == 1
        try:
            yield
        finally:
            place.waits -= 1
            self.waiting -= place.waits == 0
