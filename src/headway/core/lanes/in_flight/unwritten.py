"""The attempts of one lane that have started and whose requests are not written yet: they wait for a connection, or for the disk.

A provider charges a request when it arrives. A burst that waits for its connections arrives late and all at once, and a full
bucket does not refill meanwhile. So while requests wait, no more may start than fit into the bucket beside all of them; and when
one is written, the meters owe what it and those that still wait will take, counted from then. That is what the meters would
have charged had each start been decided at the instant of its writing.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.core.lanes.meters.meter import MINIMUM_GAP, Meter
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import Costs


class Unwritten:
    """Their number, and what they were charged together."""

    __slots__ = ("_costs", "count")

    def __init__(self) -> None:
        self.count = 0
        self._costs = [0.0, 0.0, 0.0, 0.0]

    def add(self, costs: Costs) -> None:
        """A request that was charged this cannot be written yet."""
        self.count += 1
        for place, cost in enumerate(costs):
            self._costs[place] += cost

    def remove(self, costs: Costs) -> None:
        """It was written, or will never be."""
        self.count -= 1
        for place, cost in enumerate(costs):
            self._costs[place] = self._costs[place] - cost if self.count else 0.0

    def leave_room(self, meters: Iterable[Meter], costs: Costs, caution: float) -> bool:
        """Whether a request of these costs would fit into full buckets beside those that wait."""
        return all(
            self._costs[meter.place] <= meter.rate * meter.slack_s(costs[meter.place], caution)
            for meter in meters
            if self._costs[meter.place] and meter.name != MINIMUM_GAP
        )

    def charge(self, entry: Entry, meters: Iterable[Meter], now: float) -> None:
        """The request of this attempt has just been written, and is counted here no more: charge it now, and what waits after it."""
        for meter in meters:
            cost = entry.charged[meter.place]
            # Our own gap is between two requests. Those that wait have theirs.
            waiting = 0.0 if meter.name == MINIMUM_GAP else self._costs[meter.place]
            mark = meter.redate(cost, waiting, now)
            if meter in entry.meters:
                entry.marks[entry.meters.index(meter)] = mark

    def hold_back(self, meters: Iterable[Meter], now: float) -> None:
        """Another attempt is about to be charged: its bucket has not refilled for those that wait."""
        for meter in meters:
            if meter.name != MINIMUM_GAP:
                meter.redate(0.0, self._costs[meter.place], now)

    def unmark(self, entry: Entry) -> None:
        """This attempt is written before those that wait: its marks do not count them."""
        entry.marks = [
            meter.mark_before(mark, self._costs[meter.place])
            for meter, mark in zip(entry.meters, entry.marks, strict=True)
        ]
