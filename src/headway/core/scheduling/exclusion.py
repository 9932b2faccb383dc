"""Units that must not run side by side: agents that write to the same directory.

Units of one group (`Unit.exclusive`) run one at a time, in any lane. One whose turn it is while another of its group is in flight is set
aside: it holds no permit, and the next unit of its lane starts. When the group is free, the first of each lane that was set aside
returns to its queue. So while a group is free, a lane with units aside has one of them in its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from headway.core.lanes.queueing.queue import Entry
from headway.core.unit_states import Status


class Exclusion:
    """Which groups have a unit in flight, and the units that wait for their group."""

    __slots__ = ("_aside", "_busy", "count")

    def __init__(self) -> None:
        self._busy: set[int] = set()
        #: group → lane → the units that wait, in order; some of them may have ended.
        self._aside: dict[int, dict[str, deque[Entry]]] = {}
        #: How many are set aside, including those that have ended since.
        self.count = 0

    def is_busy(self, group: int) -> bool:
        """Whether a unit of the group is in flight."""
        return group in self._busy

    def started(self, group: int) -> None:
        """A unit of the group starts."""
        self._busy.add(group)

    def stopped(self, group: int) -> None:
        """The unit of the group that was in flight is not any more."""
        self._busy.discard(group)

    def set_aside(self, entry: Entry) -> None:
        """A unit waits for its group."""
        lanes = self._aside.setdefault(entry.unit.exclusive, {})
        lanes.setdefault(entry.lane.key, deque()).append(entry)
        self.count += 1

    def next_of(self, group: int) -> Iterator[Entry]:
        """The first waiting unit of each lane, if the group is free: they return to their queues."""
        if group in self._busy or group not in self._aside:
            return
        lanes = self._aside[group]
        for lane in list(lanes):
            waiting = lanes[lane]
            while waiting:
                entry = waiting.popleft()
                self.count -= 1
                if entry.status is Status.PENDING:
                    yield entry
                    break
            if not waiting:
                del lanes[lane]
        if not lanes:
            del self._aside[group]

    def of_lane(self, lane: str) -> tuple[int, int]:
        """How many units of a lane are set aside, and how many of all lanes are in its largest group: these run one after the other."""
        aside = longest = 0
        for lanes in self._aside.values():
            if own := sum(entry.status is Status.PENDING for entry in lanes.get(lane, ())):
                aside += own
                longest = max(longest, sum(map(len, lanes.values())))
        return aside, longest

    def entries(self) -> Iterator[Entry]:
        """Every unit that is set aside."""
        for lanes in self._aside.values():
            for waiting in lanes.values():
                yield from (entry for entry in waiting if entry.status is Status.PENDING)
