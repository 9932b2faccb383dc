"""How many groups of units may be in flight at once: `headway review` works on so many files at a time.

Units of one group have the same `Unit.group`. A group counts while at least one of its units is in flight. A group whose open units
all wait (for a limit, for a retry) does not count, so it keeps no other group from starting.
"""

from __future__ import annotations

from collections import Counter

from headway.core.lanes.lane import LaneState


class GroupCap:
    """The groups in flight, and the lanes whose next unit waits for a place. `most` of 0 is no cap."""

    __slots__ = ("_in_flight", "_waiting", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        #: Group → its units in flight.
        self._in_flight: Counter[int] = Counter()
        self._waiting: dict[str, LaneState] = {}

    @property
    def in_flight(self) -> dict[int, int]:
        """How many units of each group are in flight."""
        return dict(self._in_flight)

    def keeps_out(self, group: int) -> bool:
        """Whether a unit of the group may not start now."""
        in_flight = self._in_flight
        return bool(self.most) and len(in_flight) >= self.most and group not in in_flight

    def wait(self, lane: LaneState) -> None:
        """The next unit of a lane waits for a place."""
        lane.crowded_out = True
        self._waiting[lane.key] = lane

    def is_waiting(self, lane: LaneState) -> bool:
        return lane.key in self._waiting

    def started(self, group: int) -> None:
        """A unit of the group starts."""
        self._in_flight[group] += 1

    def stopped(self, group: int) -> dict[str, LaneState]:
        """A unit of the group is not in flight any more. Returns the lanes to look at: a place may be free for them."""
        self._in_flight[group] -= 1
        if self._in_flight[group]:
            return {}
        del self._in_flight[group]
        waiting, self._waiting = self._waiting, {}
        for lane in waiting.values():
            lane.crowded_out = False
        return waiting
