"""The attempts of one lane that are in flight: which were sent after a given one, and how deep they went into a bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headway.core.lanes.meters.meter import CROSSING_S, Meter
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import Costs

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState


class SentAttempts:
    """A view of the scheduler's attempts in flight, of one lane."""

    __slots__ = ("_lane", "_out")

    def __init__(self, lane: LaneState, out: Mapping[int, Entry]) -> None:
        self._lane = lane
        self._out = out

    def _entries(self) -> Iterator[Entry]:
        return (entry for entry in self._out.values() if entry.lane is self._lane)

    def charged_after(self, entry: Entry) -> list[Costs]:
        """What is charged for attempts that were sent after this one."""
        return [other.charged for other in self._entries() if other.seq > entry.seq]

    def charged_since(self, at: float) -> list[Costs]:
        """What is charged for attempts that were sent after this instant."""
        return [other.charged for other in self._entries() if other.started_at > at]

    def unanswered_before(self, entry: Entry) -> float:
        """When the latest attempt before this one was sent that has no answer yet."""
        return max(
            (one.started_at for one in self._entries() if one.seq < entry.seq and not one.accepted),
            default=float("-inf"),
        )

    def not_counted_by(self, entry: Entry) -> list[Entry]:
        """Attempts that a report on this one may not count.

        Those are the later ones. Sends of one burst arrive in any order, so an earlier one without an answer may have arrived
        later, too.
        """
        return [
            other
            for other in self._entries()
            if (
                other.seq > entry.seq
                or (not other.accepted and other.started_at > entry.started_at - CROSSING_S)
            )
            and other is not entry
        ]

    def uncounted(self, entry: Entry, place: int) -> float:
        """The charges for attempts in flight that a report on this one may not count: later ones, and all that have no answer yet."""
        return sum(
            other.charged[place]
            for other in self._entries()
            if other is not entry and (other.seq > entry.seq or not other.accepted)
        )

    @property
    def unanswered(self) -> int:
        """How many have no answer yet."""
        return self._lane.unanswered

    def deepest_s(self, meter: Meter, entry: Entry) -> float:
        """The largest debt of a meter that this attempt, or one in flight, was sent at."""
        return max(
            one.marks[one.meters.index(meter)] + meter.shift - one.started_at
            for one in (entry, *self._entries())
            if meter in one.meters
        )
