"""Which limits of a lane no unit waited for. A short run may use a large share of a limit that never delayed it.

A rate delays a lane only once its bucket is empty: the charges beyond the bucket are the seconds that it must have waited. A
number in flight delays a lane only if more attempts were started than fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headway.core.lanes.meters.limit_usage import CONCURRENCY, LimitUsage

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState

#: The name of the global cap on attempts in flight.
CAP: Final = "cap"
#: A wait is noticeable from this share of the time in which the lane worked.
NOTICEABLE: Final = 0.1


def unreached_limits(lane: LaneState, usages: Iterable[LimitUsage]) -> tuple[str, ...]:
    """The names of the limits that did not delay the lane."""
    if not _waited(lane):
        return (*(usage.name for usage in usages), CAP)
    meters = {meter.name: meter for meter in lane.limits.meters}
    work_s = lane.work_time.total_s
    unreached = []
    for usage in usages:
        if usage.name == CONCURRENCY:
            free = lane.traffic.started <= usage.limit
        else:
            meter = meters[usage.name]
            in_bucket_s = max(0.0, meter.depth_s - max(0.0, meter.debt_s))
            free = not lane.refused and meter.used_s - in_bucket_s < NOTICEABLE * work_s
        if free:
            unreached.append(usage.name)
    return tuple(unreached)


def _waited(lane: LaneState) -> bool:
    """Whether units waited for the limits of the lane for a noticeable part of the time from its first start to its last end."""
    traffic = lane.traffic
    if not traffic.started:
        return False
    span_s = traffic.last_start_at - traffic.first_start_at + lane.flight_s / traffic.started
    return lane.refused > 0 or lane.work_time.total_s >= NOTICEABLE * span_s
