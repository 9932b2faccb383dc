"""A job as the simulator runs it again: a sample of its units, and the limits of its lanes as they were last seen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.lanes.job_share import OUR_PART
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.model import Dimension
from headway.core.snapshot import LaneView, MeterView
from headway.forecast.what_if import LEAST_DEPTH_S, ReplayJob, ReplayLane, ReplayUnit
from headway.reports.lanes import lane_reports
from headway.stores.records import Job
from headway.stores.store import Store

#: Attempts are read in so many evenly spaced stretches of the input, up to so many of each.
STRETCHES: Final = 60
STRETCH: Final = 50
_PER_MINUTE: Final = " per minute"


def replay_job(store: Store, job: Job) -> ReplayJob | None:
    """The job for the simulator; None if no attempt succeeded."""
    by_lane: dict[int, list[ReplayUnit]] = {}
    step = max(STRETCH, -(-job.total // STRETCHES))
    for first in range(0, max(1, job.total), step):
        for one in store.attempt_figures.charges(job.id, first, step, STRETCH):
            tokens_out = max(one.tokens - one.input_tokens, one.output_tokens)
            unit = ReplayUnit(one.input_tokens, tokens_out, max(0.0, one.took_s))
            by_lane.setdefault(one.lane, []).append(unit)
    tried = sum(map(len, by_lane.values()))
    if not tried:
        return None
    succeeded = max(tried, job.counts["succeeded"])
    names = {lane.id: lane.name for lane in store.lanes()}
    views = {report.lane: report.seen for report in lane_reports(store)}
    lanes = []
    for number, units in by_lane.items():
        name = names.get(number, "")
        requests = max(len(units), round(succeeded * len(units) / tried))
        lanes.append(_lane(name, requests, units, views.get(name)))
    return ReplayJob(_merged(lanes), int(job.settings.get("run", {}).get("concurrency", 0) or 0))


def _lane(name: str, requests: int, units: list[ReplayUnit], seen: LaneView | None) -> ReplayLane:
    if seen is None:
        return ReplayLane(name, requests, units, {})
    limits: dict[Dimension, tuple[float, float]] = {}
    for meter in filter(_is_replayed, seen.meters):
        dimension = Dimension(meter.dimension)
        known = (meter.limit, max(LEAST_DEPTH_S, meter.depth_s))
        limits[dimension] = min(known, limits.get(dimension, known))
    return ReplayLane(name, requests, units, limits, seen.window or 0)


def _is_replayed(meter: MeterView) -> bool:
    """Limits per minute, and a pace that was learned. Those per day hardly matter within a job."""
    if meter.limit <= 0.0 or meter.name.endswith(OUR_PART):
        return False
    return meter.name == LEARNED or meter.name.endswith(_PER_MINUTE)


def _merged(lanes: Iterable[ReplayLane]) -> list[ReplayLane]:
    """One lane for each name: a lane whose key was changed is another lane in the records."""
    merged: dict[str, ReplayLane] = {}
    for lane in lanes:
        if (same := merged.get(lane.name)) is not None:
            lane = ReplayLane(
                lane.name, same.requests + lane.requests, [*same.units, *lane.units], lane.limits,
                lane.most_in_flight,
            )  # fmt: skip
        merged[lane.name] = lane
    return list(merged.values())
