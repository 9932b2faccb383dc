"""The intent to send a unit, on record before the unit is sent.

So that no fsync stands between a permit and its socket, intents are recorded ahead: of every lane as many of the next
units as its pace will start within a quarter of a second. After a crash, every unit with a recorded intent counts as
perhaps sent.

Nothing here commits or sends: the recorder commits batches, and reports which intents have become durable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from headway.core.lanes.lane import LaneState
from headway.engine.flights import LaneHandle
from headway.stores.writer import Writer

#: Intents are recorded ahead for what is due within this time.
AHEAD_S: Final = 0.25

#: Intents that are recorded ahead for one lane, at the most. A commit takes up to a tenth of a second, and a lane without limits starts ten
#: thousand small requests a second.
MOST_AHEAD: Final = 2_048

#: The next units of a lane, at most as many as given, in the order in which they will start.
NextUnits = Callable[[int], Iterable[int]]


class Intents:
    """The intents of one run. For each lane at least `least` are recorded ahead, or none, and at most `most`."""

    def __init__(self, writer: Writer, least: int, most: int) -> None:
        self._writer, self._least, self._most = writer, least, most
        #: Units whose intent is on its way to the disk.
        self._underway: set[int] = set()
        #: Those of them that have started, with what to call once the intent is durable. The starter fills it.
        self.waiting: dict[int, Callable[[], None]] = {}

    def start(self, index: int, lane: LaneHandle) -> bool:
        """A unit starts: whether its intent is durable, so that it may be sent. If not, `waiting` gets what to call then."""
        if index in lane.ahead:
            lane.ahead.remove(index)
        else:
            self._record(index, lane)
        return index not in self._underway

    def add_ahead(self, index: int, lane: LaneHandle) -> None:
        """Record the intent of a unit that will start soon."""
        lane.ahead.add(index)
        self._record(index, lane)

    def _record(self, index: int, lane: LaneHandle) -> None:
        self._underway.add(index)
        self._writer.batch.intend(index, lane.id)

    def look_ahead(self, handle: LaneHandle, next_units: NextUnits, available: int, now: float) -> list[int]:
        """Record the intents of what a lane is about to start; returns these units. `available`: how many it has in memory."""
        if handle.lane is None:
            return []
        wanted = min(self._most, due_soon(handle.lane, now))
        handle.wanted_ahead = wanted = wanted if wanted >= self._least else 0
        wanted = min(wanted, available)
        if 2 * len(handle.ahead) >= wanted:
            return []
        missing = wanted - len(handle.ahead)
        new = [index for index in next_units(wanted) if index not in handle.ahead][:missing]
        handle.ahead.update(new)
        self._underway.update(new)
        self._writer.batch.intents.update(dict.fromkeys(new, handle.id))
        return new

    def durable(self, indexes: Collection[int]) -> None:
        """The intents of these units are committed."""
        self._underway.difference_update(indexes)
        if self.waiting:
            for index in indexes:
                if (go := self.waiting.pop(index, None)) is not None:
                    go()

    def is_pending(self, index: int, lane: LaneHandle) -> bool:
        """Whether a unit has an intent and has not been sent."""
        return index in lane.ahead or index in self._underway

    def release_ahead(self, lane: LaneHandle) -> list[int]:
        """A lane starts nothing for a while: units with an intent ahead are pending again, so that a crash does not
        name them. Returns these units, in order.
        """
        lane.wanted_ahead = 0
        released = sorted(lane.ahead)
        for index in released:
            self.release(index, lane)
        return released

    def release(self, index: int, lane: LaneHandle) -> None:
        """A unit is not sent after all, and pending again."""
        self.forget(index, lane)
        self._writer.batch.release(index)

    def forget(self, index: int, lane: LaneHandle) -> None:
        """A unit ended without being sent."""
        lane.ahead.discard(index)
        self._underway.discard(index)
        self.waiting.pop(index, None)


def due_soon(lane: LaneState, now: float) -> int:
    """How many units a lane may start within `AHEAD_S` at its present pace; at least one if it is open."""
    if lane.stopped or lane.hold.open_at > now + AHEAD_S:
        return 0
    if lane.starts_nothing_before(now + AHEAD_S):
        return 0
    if lane.breaker.open:
        return 1  # A probe.
    return 1 + int(1.5 * lane.pace_at(now) * AHEAD_S)
