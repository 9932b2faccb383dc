"""Where the scheduler gets its units: one cursor a lane, so that no lane's rows stand in front of another's."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import merge
from typing import Protocol

from headway.core.model import Unit


class Source(Protocol):
    """The contract of whatever holds the units that have not been handed out yet."""

    def take(self, lane: str, n: int) -> Sequence[Unit]:
        """Up to `n` further units of a lane, by priority, then index. Fewer than `n`: there are no more for now.

        `Unit.after` names only units that this run will end too: what succeeded earlier is left out of it.
        """

    def take_serial(self, n: int) -> Sequence[Unit]:
        """Up to `n` further units of the serial phase, any lane, by index."""

    def drain(self, n: int) -> Sequence[Unit]:
        """Up to `n` of the units that nobody has taken, any lane, by index: they will not be run."""

    def remaining(self, lane: str) -> int:
        """How many `take` would still give."""


class ListSource:
    """Units in memory, given in index order. Serial ones go first, one by one."""

    def __init__(self, units: Iterable[Unit], *, serial: Iterable[Unit] = ()) -> None:
        self._serial = deque(serial)
        self._lanes: dict[str, deque[Unit]] = {}
        for unit in units:
            self._lanes.setdefault(unit.lane, deque()).append(unit)
        for key, queue in self._lanes.items():
            if any(unit.priority for unit in queue):
                self._lanes[key] = deque(sorted(queue, key=lambda unit: (-unit.priority, unit.index)))

    def add(self, unit: Unit) -> None:
        """Append one; the scheduler wants a `MoreWork` event for it."""
        self._lanes.setdefault(unit.lane, deque()).append(unit)

    def take(self, lane: str, n: int) -> Sequence[Unit]:
        return _popped(self._lanes.get(lane), n)

    def take_serial(self, n: int) -> Sequence[Unit]:
        return _popped(self._serial, n)

    def drain(self, n: int) -> Sequence[Unit]:
        rest = [sorted(queue, key=_index) for queue in (self._serial, *self._lanes.values())]
        drained = list(merge(*rest, key=_index))
        self._serial.clear()
        self._lanes.clear()
        self._serial.extend(drained[n:])
        return drained[:n]

    def remaining(self, lane: str) -> int:
        return len(self._lanes.get(lane, ())) + sum(unit.lane == lane for unit in self._serial)


def _index(unit: Unit) -> int:
    return unit.index


def _popped(queue: deque[Unit] | None, n: int) -> Sequence[Unit]:
    if not queue:
        return ()
    return [queue.popleft() for _ in range(min(n, len(queue)))]
