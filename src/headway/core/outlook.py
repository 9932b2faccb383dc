"""How long a run still takes, and how fast it goes: only what is known counts, and what is not known is None.

A lane takes as long as the tightest of its limits makes it: of each meter what is left to do, less what is in its bucket, over
its rate; of its window, how long attempts take, so many at once. A pace that is still being searched for is no limit, only
what went through once one was met; neither is a window while no attempt has ended. Where nothing of that is known, what has been answered so far tells, once
it is enough to tell anything. The run takes as long as its slowest lane, or as what all lanes share allows.
"""

from __future__ import annotations

from itertools import islice
from math import sqrt
from typing import TYPE_CHECKING, Final

from headway.core.lanes.lane import RATE_TAU_S, Lane
from headway.core.lanes.rate_finder import LEARNED

if TYPE_CHECKING:
    from headway.core.lanes.meter import Meter
    from headway.core.model import Costs
    from headway.core.scheduler import Scheduler

#: Fewer answers, or less time, tell nothing about a pace.
LEAST_ENDED: Final = 3
LEAST_S: Final = 2.0
#: Units that are looked at for what a unit takes, before any was sent.
LOOKED_AT: Final = 64


def pace(lane: Lane, now: float) -> float:
    """Units a second, lately. In the first seconds those that have ended: what was started then is a burst."""
    elapsed_s = now - lane.first_start_at
    if elapsed_s >= RATE_TAU_S:
        return lane.rate_at(now)
    return (lane.succeeded + lane.failed) / elapsed_s if elapsed_s > 0.0 else 0.0


def flight_s(lane: Lane) -> float | None:
    """How long an attempt takes; None while none has ended."""
    ended = lane.started - lane.in_flight
    return lane.flight_s / ended if ended else None


def lane_eta_s(lane: Lane, remaining: int, now: float) -> float | None:
    """When the lane will have ended what it has left; None: unknown. One that is stopped does nothing more."""
    if lane.stopped or not (remaining or lane.in_flight):
        return 0.0
    took_s = flight_s(lane)
    if not remaining:
        return None if took_s is None else max(0.0, took_s - (now - lane.last_start_at))
    if lane.breaker.open:
        return None
    bounds = [
        max(0.0, remaining * cost - meter.level(now, max(meter.depth_s, cost / rate))) / rate
        for meter, cost, rate in _metered(lane)
        if cost > 0.0 and rate > 0.0
    ]
    if lane.finder is not None and (between := lane.finder.glimpsed) is not None:
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


def _metered(lane: Lane) -> list[tuple[Meter, float, float]]:
    """Each meter that is a limit, what a unit takes of it, and how fast it fills."""
    costs = lane.mean_costs() if lane.started else _expected(lane)
    found = []
    for meter in lane.meters:
        rate = meter.rate
        if meter.name == LEARNED:
            if lane.finder is None or not lane.finder.found:
                continue
            rate = lane.finder.rates[meter.place]  # Its meter is below that while it climbs.
        found.append((meter, costs[meter.place], rate))
    return found


def _expected(lane: Lane) -> Costs:
    """What units take on average that wait to be sent."""
    seen = [entry.costs for entry in islice(lane.queue.entries(), LOOKED_AT)]
    if not seen:
        return (1.0, 0.0, 0.0, 0.0)
    requests, tokens, tokens_in, tokens_out = (sum(column) / len(seen) for column in zip(*seen, strict=True))
    return requests, tokens, tokens_in, tokens_out


def _at_its_pace(lane: Lane, remaining: int, now: float) -> float | None:
    if lane.succeeded + lane.failed < LEAST_ENDED or now - lane.first_start_at < LEAST_S:
        return None
    rate = pace(lane, now)
    return remaining / rate if rate > 0.0 else None


def run_eta_s(scheduler: Scheduler, etas: list[float | None], remaining: int) -> float | None:
    """When all of it will have ended, given when each lane will."""
    bounds = _shared(scheduler, remaining)
    if not (bounds and _one_by_one(scheduler)):
        bounds += etas
    known = [eta for eta in bounds if eta is not None]
    return max(known, default=0.0) if len(known) == len(bounds) else None


def _one_by_one(scheduler: Scheduler) -> bool:
    return scheduler.serial_phase and scheduler.serial is not None


def _shared(scheduler: Scheduler, remaining: int) -> list[float | None]:
    """What is common to all lanes makes it so long: a cap on all that is in flight, one at a time, a delay."""
    if not remaining:
        return []
    slots = 1 if _one_by_one(scheduler) else scheduler.concurrency
    bounds: list[float | None] = []
    if slots:
        lanes = scheduler.lanes.values()
        ended = sum(lane.started - lane.in_flight for lane in lanes)
        took_s = sum(lane.flight_s for lane in lanes) / ended if ended else None
        bounds.append(None if took_s is None else remaining * took_s / slots)
    if scheduler.settings.delay_s:
        bounds.append(remaining * scheduler.settings.delay_s)
    return bounds
