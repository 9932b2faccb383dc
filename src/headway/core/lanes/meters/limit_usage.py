"""How much of each limit a lane has used over a run, and which limits held it back.

Rates: a meter sums what it was charged, in seconds of its own refill. So each second counts by what the limit allowed at that
time, even if the limit changes during the run (by headers, or by a search for the rate). What could have been used is the time
in which the lane had work waiting (`work_time`), plus the content of the bucket at the beginning.

In flight: the sum of the durations of all attempts, divided by the size of the window over that time. A window that was
limited for a short time by a mere suspicion does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.lanes.meters.meter import MINIMUM_GAP
from headway.core.model import MINUTE_S

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState
    from headway.core.lanes.meters.meter import Meter
    from headway.core.scheduler import Scheduler

CONCURRENCY: Final = "concurrency"
#: A limit of which a smaller share was used did not hold the lane back.
BINDING: Final = 0.5


class LimitUsage(msgspec.Struct, frozen=True):
    """One limit, and the share of it that was used: 1 is all of it. `found`: the lane has learned it from refusals."""

    name: str
    limit: float
    used: float
    dimension: str = ""
    found: bool = False
    #: This job's part of the limit over the run, beside other jobs. `used` is the share of that part.
    part: float = 1.0

    @property
    def binds(self) -> bool:
        """Whether it held the lane back."""
        return self.used >= BINDING


def shares(lane: LaneState) -> tuple[LimitUsage, ...]:
    """The used share of every limit of a lane, the most used first."""
    work = lane.work_time
    searching = lane.limits.finder is not None and not lane.limits.finder.found
    usages = [
        _of_meter(meter, work.for_meter(meter), work.shared_s / work.total_s if work.total_s else 1.0)
        for meter in lane.limits.meters
        if meter.used_s > 0.0 and meter.whole is None and not (searching and meter.name == LEARNED)
    ]
    if work.windowed_s > BINDING * work.total_s:
        size = work.window_s / work.windowed_s
        flight_s = lane.flight_s * work.windowed_s / work.total_s
        usages.append(LimitUsage(CONCURRENCY, round(size), _capped(flight_s, work.window_s)))
    return tuple(sorted(usages, key=lambda usage: -usage.used))


def _of_meter(meter: Meter, worked_s: float, part: float) -> LimitUsage:
    in_bucket_s = max(0.0, meter.depth_s - max(0.0, meter.debt_s))
    used = _capped(meter.used_s, worked_s - meter.since_s + in_bucket_s)
    limit = MINUTE_S / meter.limit if meter.name.startswith(MINIMUM_GAP) else meter.limit
    return LimitUsage(meter.name, limit, used, str(meter.dimension), meter.name == LEARNED, round(part, 6))


def share_of_cap(scheduler: Scheduler) -> LimitUsage | None:
    """The used share of the global cap on attempts in flight; None if there is no cap."""
    started = [lane for lane in scheduler.lanes.values() if lane.traffic.started]
    if not scheduler.concurrency or not started:
        return None
    first, last = (
        min(lane.traffic.first_start_at for lane in started),
        max(lane.traffic.last_start_at for lane in started),
    )
    flight_s = sum(lane.flight_s for lane in started)
    used = _capped(flight_s, scheduler.concurrency * (last - first))
    return LimitUsage(CONCURRENCY, scheduler.concurrency, used)


def _capped(used: float, could: float) -> float:
    """The share, at most 1: the last attempts run on when there is nothing left to start."""
    return min(1.0, max(0.0, used / could)) if could > 0.0 else 0.0
