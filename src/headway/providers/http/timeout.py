"""The timeout of one attempt.

As `asyncio.timeout`, at a tenth of the cost. Attempts with the same timeout expire in the order in which they began, so one timer is enough for
all of them: it waits for the one that began first. A timer for each would take uvloop 1.8 µs.
"""

from __future__ import annotations

import asyncio
from typing import Final

#: Timers count in whole milliseconds and may fire one too early.
STEP_S: Final = 0.001
#: Different timeouts that are remembered.
MOST_GROUPS: Final = 64


class TimeoutGroup:
    """The running attempts that have the same timeout, all on one event loop."""

    __slots__ = ("_running", "_timer", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        #: In the order in which they began.
        self._running: dict[AttemptTimeout, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, timeout: AttemptTimeout) -> None:
        """An attempt begins."""
        self._running[timeout] = None
        if self._timer is None:
            self._wait_for(timeout)

    def remove(self, timeout: AttemptTimeout) -> None:
        """An attempt has ended."""
        running = self._running
        running.pop(timeout, None)
        if not running and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait_for(self, timeout: AttemptTimeout) -> None:
        self._timer = timeout.loop.call_at(timeout.expires_at, self._expire, timeout.loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time() + STEP_S
        while (first := next(iter(self._running), None)) is not None:
            if first.expires_at > now:
                self._wait_for(first)
                return
            del self._running[first]
            first.expire()


class Timeouts:
    """Begins attempts. There are as many groups as different timeouts: mostly one."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[float, TimeoutGroup] = {}

    def begin(self, seconds: float) -> AttemptTimeout:
        """The present task may take so many seconds from now on."""
        group = self._groups.get(seconds)
        if group is None:
            if len(self._groups) >= MOST_GROUPS:
                self._groups.clear()
            group = self._groups[seconds] = TimeoutGroup(seconds)
        return AttemptTimeout(group)


class AttemptTimeout:
    """The timeout of the present task, until `end`."""

    __slots__ = ("_before", "_group", "_task", "expired", "expires_at", "loop")

    def __init__(self, group: TimeoutGroup) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.expired = False
        self.loop = task.get_loop()
        self.expires_at = self.loop.time() + group.seconds
        self._task = task
        self._before = task.cancelling()
        self._group = group
        group.add(self)

    @property
    def seconds(self) -> float:
        """How long the attempt may take."""
        return self._group.seconds

    def expire(self) -> None:
        """The attempt has taken too long."""
        self.expired = True
        self._task.cancel()

    def end(self) -> None:
        """Disarm it."""
        self._group.remove(self)

    def check_cancelled(self, fault: BaseException) -> None:
        """Take back our own cancellation; raise one that came from elsewhere."""
        ours = self.expired and self._task.uncancel() <= self._before
        if not ours and isinstance(fault, asyncio.CancelledError):
            raise fault
