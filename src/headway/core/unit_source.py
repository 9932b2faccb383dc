"""Units in memory, and the answers to the fetches of a scheduler.

Each lane has its own cursor, so that no lane waits for the rows of another. The scheduler knows no source: it sends a fetch
command and receives an event. `answer` answers one fetch from a source in memory; a `FedScheduler` is a scheduler whose
fetches are all answered like this, at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import merge
from typing import Protocol

from headway.core.commands import AnyFetch, Command, Fetch, FetchRest, FetchSerial, Wake
from headway.core.events import Event, RestUnits, SerialUnits, Units
from headway.core.lanes.in_flight.connections_ahead import connections_ahead
from headway.core.lanes.queueing.unit_lengths import NOTHING_KNOWN, LengthTable
from headway.core.model import Unit
from headway.core.scheduler import Scheduler


class UnitSource(Protocol):
    """The contract of a source: it holds the units that have not been fetched yet."""

    def take(self, lane: str, n: int, longest: LengthTable | None = None) -> Sequence[Unit]:
        """Up to `n` further units of a lane, by priority, then index, or the longest first by `longest`. Fewer than `n`: there
        are no more for now.

        `Unit.after` names only units that this run will end too: what succeeded earlier is left out of it.
        """

    def largest(self, lane: str) -> Sequence[Unit]:
        """Units that stand for those that are left: see `events.Units`."""

    def take_serial(self, n: int) -> Sequence[Unit]:
        """Up to `n` further units of the serial phase, any lane, by index."""

    def drain(self, n: int) -> Sequence[Unit]:
        """Up to `n` of the units that have not been taken, of any lane, by index. They will not run."""

    def remaining(self, lane: str) -> int:
        """How many units of a lane have not been taken."""


class ListSource:
    """Units in memory, in index order. Serial units go first, one by one."""

    def __init__(self, units: Iterable[Unit], *, serial: Iterable[Unit] = ()) -> None:
        self._serial = deque(serial)
        self._lanes: dict[str, deque[Unit]] = {}
        #: Lanes whose units are ordered by their length.
        self._ordered: set[str] = set()
        self._largest: dict[str, tuple[Unit, ...]] = {}
        for unit in units:
            self._lanes.setdefault(unit.lane, deque()).append(unit)
        for key, queue in self._lanes.items():
            if any(unit.priority for unit in queue):
                self._lanes[key] = deque(sorted(queue, key=lambda unit: (-unit.priority, unit.index)))

    def add(self, unit: Unit) -> None:
        """Append a unit. A scheduler that has fetched all units of the lane needs a `MoreWork` event."""
        self._ordered.discard(unit.lane)
        self._lanes.setdefault(unit.lane, deque()).append(unit)

    def take(self, lane: str, n: int, longest: LengthTable | None = None) -> Sequence[Unit]:
        if longest is not None and lane not in self._ordered:
            units = self._lanes.get(lane, ())
            self._lanes[lane] = deque(
                sorted(units, key=lambda unit: (-unit.priority, -longest.of(unit), unit.index))
            )
            self._ordered.add(lane)
        return _popped(self._lanes.get(lane), n)

    def largest(self, lane: str) -> Sequence[Unit]:
        units = self._lanes.get(lane)
        if lane in self._ordered:
            return (units[0],) if units else ()
        if units and lane not in self._largest:
            families: dict[str, Unit] = {}
            for unit in units:
                largest = families.setdefault(unit.family, unit)
                if NOTHING_KNOWN.of(unit) > NOTHING_KNOWN.of(largest):
                    families[unit.family] = unit
            self._largest[lane] = tuple(families.values())
        return self._largest.get(lane, ())

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


def answer(source: UnitSource, fetch: AnyFetch) -> Event:
    """The event that answers a fetch."""
    if isinstance(fetch, Fetch):
        largest = source.largest(fetch.lane) if fetch.sized else ()
        units = source.take(fetch.lane, fetch.n, fetch.longest)
        if not fetch.sized:
            return Units(fetch.lane, units, len(units) == fetch.n, source.remaining(fetch.lane))
        if fetch.longest is not None:
            largest = source.largest(fetch.lane)
        return Units(fetch.lane, units, len(units) == fetch.n, source.remaining(fetch.lane), largest)
    if isinstance(fetch, FetchSerial):
        return SerialUnits(source.take_serial(fetch.n))
    return RestUnits(source.drain(fetch.n))


class FedScheduler:
    """A scheduler over units in memory: `handle` answers every fetch before it returns."""

    def __init__(self, scheduler: Scheduler, source: UnitSource) -> None:
        self.scheduler = scheduler
        self.source = source

    def handle(self, happened: Sequence[Event], now: float) -> list[Command]:
        """The scheduler's `handle`; its commands have no fetches."""
        latest = self.scheduler.handle(happened, now)
        commands: list[Command] = []
        while fetches := [command for command in latest if isinstance(command, FETCHES)]:
            commands += [command for command in latest if not isinstance(command, NOT_KEPT)]
            latest = self.scheduler.handle([answer(self.source, fetch) for fetch in fetches], now)
        return commands + latest

    def connections_ahead(self, lane: str, now: float) -> int:
        """How many connections a lane should have open beyond those in use."""
        return connections_ahead(self.scheduler.lanes[lane], now)


FETCHES = (Fetch, FetchSerial, FetchRest)
#: A wake-up is replaced by the next one.
NOT_KEPT = (*FETCHES, Wake)


def _index(unit: Unit) -> int:
    return unit.index


def _popped(queue: deque[Unit] | None, n: int) -> Sequence[Unit]:
    if not queue:
        return ()
    return [queue.popleft() for _ in range(min(n, len(queue)))]
