"""Calls of a pool's methods from inside of it: by its callbacks, and by the `execute` of its worker.

Those would wait for themselves. So each callback and each attempt is a `Place`, known by its context, and a pool that has
nothing under way but places which wait has nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final


class CallerPlace:
    """A callback or an attempt that runs. `outer` is the one of another pool that it runs in."""

    __slots__ = ("insiders", "outer", "waits")

    def __init__(self, insiders: PoolCallers, outer: CallerPlace | None) -> None:
        self.insiders, self.outer = insiders, outer
        self.waits = 0


_place: Final[ContextVar[CallerPlace | None]] = ContextVar("headway_place", default=None)


class PoolCallers:
    """What runs inside of one pool. All that counts is done under the pool's lock."""

    def __init__(self) -> None:
        #: Places that wait in a method of the pool.
        self.waiting = 0

    def enter(self) -> None:
        """What runs in this context from now on is inside."""
        _place.set(CallerPlace(self, _place.get()))

    def here(self) -> CallerPlace | None:
        """The caller's place inside of the pool; None where he is outside."""
        place = _place.get()
        while place is not None and place.insiders is not self:
            place = place.outer
        return place

    @contextmanager
    def wait(self, place: CallerPlace) -> Iterator[None]:
        """While it is entered, the place waits. Threads of one place count once."""
        place.waits += 1
        self.waiting += place.waits == 1
        try:
            yield
        finally:
            place.waits -= 1
            self.waiting -= place.waits == 0
