"""The remaining time and the pace of a run. Both are computed from known facts only; unknown is None.

The tightest limit decides how long a lane takes: for a meter, the remaining work less the content of its bucket, over its
rate; for a window, the duration of an attempt times the remaining units, over its size. A rate that is still being searched counts only after
a first refusal, and a window only after an attempt has ended. If no limit is known, the pace so far decides, once enough attempts
have ended. Units that wait for other units take as long as their chain (`chain_times`). A run takes as long as its slowest lane,
or as long as what all lanes share allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from math import sqrt
from typing import TYPE_CHECKING, Final

from headway.core.lanes.lane import LaneState
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.lanes.traffic import RATE_TAU_S

if TYPE_CHECKING:
    from headway.core.lanes.meters.meter import Meter
    from headway.core.model import Costs
    from headway.core.scheduler import Scheduler

#: Fewer answers, or less time, say nothing about a pace.
LEAST_ENDED: Final = 3
LEAST_S: Final = 2.0
#: Before any unit was sent, the mean cost is taken from so many waiting units.
LOOKED_AT: Final = 64


def pace(lane: LaneState, now: float) -> float:
    """Recent units a second. In the first seconds this counts ended units: the starts then are a burst."""
    elapsed_s = now - lane.traffic.first_start_at
    if elapsed_s >= RATE_TAU_S:
        return lane.traffic.rate_at(now)
    return (lane.succeeded + lane.failed) / elapsed_s if elapsed_s > 0.0 else 0.0


def flight_s(lane: LaneState) -> float | None:
    """The mean duration of an attempt; None before one has ended."""
    ended = lane.traffic.started - lane.in_flight
    return lane.flight_s / ended if ended else None


def mean_flight_s(lanes: Iterable[LaneState]) -> float | None:
    """The same of all lanes together."""
    ended, total_s = 0, 0.0
    for lane in lanes:
        ended += lane.traffic.started - lane.in_flight
        total_s += lane.flight_s
    return total_s / ended if ended else None


def lane_eta_s(lane: LaneState, remaining: int, now: float) -> float | None:
    """Seconds until the lane has finished its remaining units; None: unknown. 0 for a stopped lane."""
    if lane.stopped or not (remaining or lane.in_flight):
        return 0.0
    took_s = flight_s(lane)
    if not remaining:
        return None if took_s is None else max(0.0, took_s - (now - lane.traffic.last_start_at))
    if lane.breaker.open:
        return None
    bounds = [
        max(0.0, remaining * cost - meter.level(now, max(meter.depth_s, cost / rate))) / rate
        for meter, cost, rate in _metered(lane)
        if cost > 0.0 and rate > 0.0
    ]
    if lane.limits.finder is not None and (between := lane.limits.finder.glimpsed) is not None:
        likely = sqrt(between[0] * between[1])
        if likely <= 0.0:
            return None
        bounds.append(remaining / likely)
    if not lane.window.open:
        if took_s is None or not lane.window.size:
            return None
        bounds.append(remaining * took_s / lane.window.size)
    needed_s = max(bounds) if bounds else _at_its_pace(lane, remaining, now)
    if needed_s is None:
        return None
    return max(0.0, lane.hold.open_at - now) + needed_s + (took_s or 0.0)


def _metered(lane: LaneState) -> list[tuple[Meter, float, float]]:
    """Each meter that is a limit, what a unit costs there, and its rate."""
    costs = lane.traffic.mean_costs() if lane.traffic.started else _expected(lane)
    found = []
    for meter in lane.limits.meters:
        rate = meter.rate
        if meter.name == LEARNED:
            if lane.limits.finder is None or not lane.limits.finder.found:
                continue
            rate = lane.limits.finder.rates[meter.place]  # Its meter is below that while it climbs.
        found.append((meter, costs[meter.place], rate))
    return found


def _expected(lane: LaneState) -> Costs:
    """The mean costs of waiting units."""
    seen = [entry.costs for entry in islice(lane.queue.entries(), LOOKED_AT)]
    if not seen:
        return (1.0, 0.0, 0.0, 0.0)
    requests, tokens, tokens_in, tokens_out = (sum(column) / len(seen) for column in zip(*seen, strict=True))
    return requests, tokens, tokens_in, tokens_out


def _at_its_pace(lane: LaneState, remaining: int, now: float) -> float | None:
    if lane.succeeded + lane.failed < LEAST_ENDED or now - lane.traffic.first_start_at < LEAST_S:
        return None
    rate = pace(lane, now)
    return remaining / rate if rate > 0.0 else None


def run_eta_s(scheduler: Scheduler, etas: list[float | None], remaining: int) -> float | None:
    """Seconds until the run ends, given the same of each lane."""
    bounds = _shared(scheduler, remaining)
    if not (bounds and _one_by_one(scheduler)):
        bounds += etas
    known = [eta for eta in bounds if eta is not None]
    return max(known, default=0.0) if len(known) == len(bounds) else None


def _one_by_one(scheduler: Scheduler) -> bool:
    return scheduler.serial_phase and scheduler.serial is not None


def _shared(scheduler: Scheduler, remaining: int) -> list[float | None]:
    """The bounds that all lanes share: a cap on requests in flight, serial units, a delay between starts."""
    if not remaining:
        return []
    slots = 1 if _one_by_one(scheduler) else scheduler.concurrency
    bounds: list[float | None] = []
    if slots:
        took_s = mean_flight_s(scheduler.lanes.values())
        bounds.append(None if took_s is None else remaining * took_s / slots)
    if scheduler.settings.delay_s:
        bounds.append(remaining * scheduler.settings.delay_s)
    return bounds
