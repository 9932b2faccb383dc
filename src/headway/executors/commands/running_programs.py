"""Tells the guardian which programs run, so that none outlives its owner (`executors.guardian`).

A message for each start and each end would cost more than a short program. While anything runs, the guardian knows that it has to
look for the mark, which finds everything on Linux. The process groups follow a moment later, all at once: they find programs that
clear their environment, and are all that other systems have.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final

from headway.executors.guardian import Guardian
from headway.providers.attempt_log import AttemptLog, WorkerWatcher

#: How long the guardian may not know a group. A program that ends earlier is never mentioned.
_DELAY_S: Final = 0.05


class RunningPrograms:
    """The programs of one owner, which `name` names in the records. Event loops of several threads may share it."""

    def __init__(self, mark: str, name: str, *, detached: bool = False, guarded: bool = True) -> None:
        self.name, self.mark = name, mark
        #: Records the programs as workers, if there are records.
        self.watcher: WorkerWatcher | None = None
        #: None: they run on other machines, which guard them.
        self._guardian = Guardian(mark, detached=detached) if guarded else None
        self._lock = threading.Lock()
        #: Programs that run or are about to start, and the groups of those that have one.
        self._count = 0
        self._groups: set[int] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, log: AttemptLog | None = None) -> ProgramWatch:
        """A program is about to start."""
        with self._lock:
            self._count += 1
            if self._count == 1 and self._guardian is not None:
                self._guardian.watch((), starting=True)
        return ProgramWatch(self, log)

    def started(self, group: int) -> None:
        """A program has started."""
        with self._lock:
            self._groups.add(group)
            self._tell_soon()

    def ended(self, group: int) -> None:
        """A program has ended; its group is 0 if it was never started."""
        with self._lock:
            self._count -= 1
            self._groups.discard(group)
            if self._count:
                self._tell_soon()
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._guardian is not None:
                self._guardian.watch(())

    def close(self) -> None:
        """End the guardian. Every program has ended."""
        with self._lock:
            if self._guardian is not None:
                self._guardian.close()

    def _tell_soon(self) -> None:
        if self._timer is None or self._loop is None or self._loop.is_closed():
            self._loop = asyncio.get_running_loop()
            self._timer = self._loop.call_later(_DELAY_S, self._tell)

    def _tell(self) -> None:
        with self._lock:
            self._timer = None
            if self._count and self._guardian is not None:
                self._guardian.watch(self._groups, starting=True)


class ProgramWatch:
    """What the guardian and the records know of one run. `log` is the log of its attempt."""

    def __init__(self, programs: RunningPrograms, log: AttemptLog | None) -> None:
        self._programs, self._log = programs, log
        self._group = 0
        #: Whether it was killed, or died, as far as is known.
        self.failed = True

    def started(self, group: int) -> None:
        """It has started. Its process has the same number as its group."""
        self._group = group
        self._programs.started(group)
        if self._programs.watcher is not None:
            self._programs.watcher.started(group, self._programs.name)
        if self._log is not None:
            self._log.runs_in(group)

    def ended(self) -> None:
        """It has ended, or was never started. Called once."""
        self._programs.ended(self._group)
        if self._group and self._programs.watcher is not None:
            self._programs.watcher.ended(self._group, failed=self.failed)
