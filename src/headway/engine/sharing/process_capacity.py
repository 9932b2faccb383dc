"""How many attempts this process may have in flight: all runs, `map` calls and clients of it together.

Each attempt may need a socket, so the number is what the process may open, less what is open otherwise and some to spare (for the
store, the output, workers, name lookups). Every user (one for each scheduler) gets what the others leave. A user that wants more
than it has is left an equal part.

If the process is exhausted nevertheless, because other code opened files or because memory or ports ran out, the number falls below
what was in flight then, and rises again step by step.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from headway.runtime import open_files

#: Files that stay free: this many, or a quarter where few may be open.
SPARE: Final = 64
SPARE_SHARE: Final = 0.25
#: In flight at the most where the number of files has no limit.
NO_LIMIT: Final = 1_000_000
#: After an exhaustion: when the number begins to rise, and at most when (the time doubles with each further exhaustion); and by
#: which share it rises each time.
RISE_S: Final = 1.0
LONGEST_RISE_S: Final = 60.0
RISE: Final = 0.1


class ProcessCapacity:
    """What this process may have in flight, and who uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: tuple[CapacityUser, ...] = ()
        self._total = NO_LIMIT
        #: The number after an exhaustion; NO_LIMIT: there was none.
        self._lowered = NO_LIMIT
        self._rise_at = 0.0
        self._rise_s = RISE_S

    def join(self, in_flight: Callable[[], int]) -> CapacityUser:
        """Another user, which has so many in flight. Its first use raises the process's limit of open files."""
        open_files.raise_limit()
        user = CapacityUser(self, in_flight)
        with self._lock:
            self._users = (*self._users, user)
            self._count()
        return user

    def leave(self, user: CapacityUser) -> None:
        """A user has nothing in flight any more."""
        with self._lock:
            self._users = tuple(other for other in self._users if other is not user)
            if not self._users:  # The next user counts anew.
                self._lowered, self._rise_at, self._rise_s = NO_LIMIT, 0.0, RISE_S

    def limit(self, user: CapacityUser) -> int:
        """How many a user may have in flight now, 1 at least."""
        total, users = min(self._total, self._lowered), self._users
        own = user.in_flight()
        user.wants_more = own >= user.granted
        if self._lowered < NO_LIMIT:
            total = self._rise(monotonic())
        if len(users) > 1:
            part = total // len(users)
            for other in users:
                if other is not user:
                    used = other.in_flight()
                    total -= max(used, part) if other.wants_more else used
        user.granted = total = max(1, total)
        return total

    def exhausted(self) -> None:
        """The process could not open another connection: what is in flight now is too much."""
        with self._lock:
            now = monotonic()
            in_flight = sum(user.in_flight() for user in self._users)
            most = max(1, in_flight - min(self._spare(), int(SPARE_SHARE * in_flight)))
            if most < self._lowered:
                self._lowered = most
            if now >= self._rise_at:  # Ten failures of one burst are one exhaustion.
                self._rise_s = min(2.0 * self._rise_s, LONGEST_RISE_S)
            self._rise_at = now + self._rise_s

    def _rise(self, now: float) -> int:
        """The number some time after an exhaustion."""
        with self._lock:
            if now >= self._rise_at and self._lowered < NO_LIMIT:
                self._lowered += max(1, int(RISE * self._lowered))
                self._rise_at = now + RISE_S
                if self._lowered >= self._total:
                    self._lowered, self._rise_s = NO_LIMIT, RISE_S
            return min(self._total, self._lowered)

    def _count(self) -> None:
        """Count what is open. Only when a user joins: later, idle connections that the next attempts use are open, too."""
        most = open_files.limit()
        if most is None:
            self._total = NO_LIMIT
            return
        in_flight = sum(user.in_flight() for user in self._users)
        others = max(0, (open_files.count() or 0) - in_flight)
        self._total = max(1, most - others - self._spare())

    @staticmethod
    def _spare() -> int:
        most = open_files.limit()
        return SPARE if most is None else min(SPARE, int(SPARE_SHARE * most))


class CapacityUser:
    """One scheduler's use of the process."""

    __slots__ = ("_capacity", "granted", "in_flight", "wants_more")

    def __init__(self, capacity: ProcessCapacity, in_flight: Callable[[], int]) -> None:
        self._capacity = capacity
        self.in_flight = in_flight
        #: What it was last allowed, and whether it used all of that.
        self.granted = NO_LIMIT
        self.wants_more = False

    def limit(self) -> int:
        """How many it may have in flight now."""
        return self._capacity.limit(self)

    def exhausted(self) -> None:
        """The process could not open another connection for it."""
        self._capacity.exhausted()

    def leave(self) -> None:
        """It has nothing in flight any more."""
        self._capacity.leave(self)


_capacity = ProcessCapacity()


def join_process(in_flight: Callable[[], int]) -> CapacityUser:
    """Another user of this process's capacity."""
    return _capacity.join(in_flight)


def _forget() -> None:
    """In a forked process: the users are in the parent, and a lock may be held for ever."""
    global _capacity  # noqa: PLW0603 - one a process
    _capacity = ProcessCapacity()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
