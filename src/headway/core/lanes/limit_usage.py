"""How much of each limit a lane has used over a run, and which of them held it back.

Rates first. A meter sums what it was charged, in seconds of its own refill, so that limits that change on the way (headers,
a pace that is being found) count each second by what it allowed then. What could have been used is the time in which the
lane had something to start, and what was in the bucket at the beginning. That time is summed at starts: since the last one,
or since the unit might have gone, if that was later; not while the lane was held, stopped or paused.

In flight, the same: how long attempts took, all in all, by the size of the window over that time. A window that only a
suspicion had for a while was no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.lanes.meter import MINIMUM_GAP
from headway.core.lanes.rate_finder import LEARNED
from headway.core.model import MINUTE_S

if TYPE_CHECKING:
    from headway.core.lanes.lane import Lane
    from headway.core.lanes.meter import Meter
    from headway.core.scheduler import Scheduler

CONCURRENCY: Final = "concurrency"
#: A limit of which less was used is not what a run waited for.
BINDING: Final = 0.5


class LimitUsage(msgspec.Struct, frozen=True):
    """One limit, and the share of it that was used: 1 is all of it. `found`: the lane found it by itself."""

    name: str
    limit: float
    used: float
    dimension: str = ""
    found: bool = False
    #: How much of it was ours over the run, beside other jobs; `used` is of that.
    part: float = 1.0

    @property
    def binds(self) -> bool:
        """Whether it is what held the lane back."""
        return self.used >= BINDING


def shares(lane: Lane) -> tuple[LimitUsage, ...]:
    """Every limit of a lane that it was measured by, the most used first."""
    work = lane.work_time
    searching = lane.finder is not None and not lane.finder.found
    found = [
        _of_meter(meter, work.for_meter(meter), work.shared_s / work.total_s if work.total_s else 1.0)
        for meter in lane.meters
        if meter.used_s > 0.0 and meter.whole is None and not (searching and meter.name == LEARNED)
    ]
    if work.windowed_s > BINDING * work.total_s:
        size = work.window_s / work.windowed_s
        flight_s = lane.flight_s * work.windowed_s / work.total_s
        found.append(LimitUsage(CONCURRENCY, round(size), _capped(flight_s, work.window_s)))
    return tuple(sorted(found, key=lambda share: -share.used))


def _of_meter(meter: Meter, worked_s: float, part: float) -> LimitUsage:
    in_bucket_s = max(0.0, meter.depth_s - max(0.0, meter.debt_s))
    used = _capped(meter.used_s, worked_s - meter.since_s + in_bucket_s)
    limit = MINUTE_S / meter.limit if meter.name.startswith(MINIMUM_GAP) else meter.limit
    return LimitUsage(meter.name, limit, used, str(meter.dimension), meter.name == LEARNED, round(part, 6))


def share_of_cap(scheduler: Scheduler) -> LimitUsage | None:
    """The same for what all lanes together may have in flight; None where there is no such cap."""
    started = [lane for lane in scheduler.lanes.values() if lane.started]
    if not scheduler.concurrency or not started:
        return None
    first, last = min(lane.first_start_at for lane in started), max(lane.last_start_at for lane in started)
    flight_s = sum(lane.flight_s for lane in started)
    used = _capped(flight_s, scheduler.concurrency * (last - first))
    return LimitUsage(CONCURRENCY, scheduler.concurrency, used)


def _capped(used: float, could: float) -> float:
    """A little more than all is all: the last attempts go on when there is nothing left to start."""
    return min(1.0, max(0.0, used / could)) if could > 0.0 else 0.0
