"""Requeues or ends units, and releases or skips the units that wait for them."""

from __future__ import annotations

from collections import deque

from headway.core import commands
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import Kind
from headway.core.scheduling.run_state import RunState
from headway.core.unit_states import GOOD, MOVES, Move, after


class UnitMoves:
    """Changes the state of units, and issues the command for it."""

    def __init__(self, run: RunState) -> None:
        self._run = run
        self._ended: deque[tuple[int, bool]] = deque()

    def put_back(self, entry: Entry, move: Move, not_before: float, kind: Kind | None, reason: str) -> None:
        """The unit is pending again and holds nothing."""
        entry.status = after(entry.status, move)
        entry.not_before = not_before
        entry.why = str(kind or reason)
        entry.cancel_reason = ""
        entry.lane.queue.delay(entry)
        self._run.commands.append(commands.Requeue(entry.unit, not_before, kind, reason))
        if entry.unit.exclusive:
            self._let_in(entry.unit.exclusive)

    def end(
        self, entry: Entry, move: Move, code: str = "", message: str = "", upstream: int | None = None
    ) -> None:
        """The unit has ended; units that wait for it may start, or are skipped."""
        entry.status = status = MOVES[entry.status, move]
        unit = entry.unit
        self._run.commands.append(commands.Finish(unit, status, code, message, upstream))
        if move is not Move.SUCCEED:
            entry.lane.failed += 1
        self._run.done = False
        if entry is self._run.serial:
            self._run.serial = None
        if unit.exclusive:
            self._let_in(unit.exclusive)
        if unit.leads:
            self._ended.append((unit.index, status in GOOD))
            if len(self._ended) == 1:
                self._release_dependents()

    def _let_in(self, group: int) -> None:
        """A unit of a group has stopped or ended: others of it may be next."""
        for entry in self._run.exclusion.next_of(group):
            entry.lane.queue.push(entry)
            self._run.dirty[entry.lane.key] = entry.lane

    def _release_dependents(self) -> None:
        """Release or skip the units that wait, and those that wait for the skipped ones; by a queue, not by recursion.

        After a deadline no unit is skipped: those that wait stay where they are, and all units are reported by index.
        """
        while self._ended:
            index, good = self._ended[0]
            if good or self._run.mode != "deadline":
                for follower in self._run.waiting.ended(index, good=good):
                    if good:
                        follower.ready_at = self._run.now
                        follower.lane.queue.push(follower)
                        self._run.dirty[follower.lane.key] = follower.lane
                    else:
                        self.skip(follower, index)
            self._ended.popleft()

    def skip(self, entry: Entry, upstream: int) -> None:
        """The unit `upstream`, which it waits for, has ended without success. The store names that unit in the message."""
        self.end(entry, Move.SKIP, "upstream_failed", upstream=upstream)
