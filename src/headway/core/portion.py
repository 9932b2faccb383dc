"""Jobs that work on one lane at the same time: each keeps to its part of every limit, by its weight.

Each says what it wants (a `Claim`), hears what the others want, and reckons its part by itself. A job that has nothing to
start, or is held back by something else, wants no part; what it uses all the same is taken off before the rest is shared
out, so that nothing is left lying.

A part is kept beside the limit, by a meter of its own: the limit's meter goes on saying what the account has left, whoever
used it. A pace that was found, and the number in flight, are simply made smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.finder import LEARNED, Pace
from headway.core.meter import Meter
from headway.core.model import DAY_S

if TYPE_CHECKING:
    from headway.core.lane import Lane
    from headway.core.scheduler import Scheduler

WHOLE: Final = 1.0
#: However much others use, a job that has something to start gets this much.
LEAST: Final = 0.02
#: Probes of a bucket's depth may overdraw a part by this much: beyond it, what they took would be missing for long.
BEYOND_S: Final = 1.0
#: A part that differs by less is not worth a change.
SAME: Final = 0.03


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What one job wants of a lane: its weight, whether the lane's limits hold it back, how much of them it uses.

    Where nobody tells the limits: the pace that it has found so far.
    """

    job: int
    weight: float
    hungry: bool
    use: float
    pace: Pace | None = None


class Grant(msgspec.Struct, frozen=True, gc=False):
    """What a job may take of a lane beside others: its part, and whether it leaves the search for a pace to another."""

    part: float = WHOLE
    follows: bool = False
    pace: Pace | None = None

    def differs(self, before: Grant) -> bool:
        """Whether it is another one, and not the same with some noise; the whole is always worth having."""
        if self.follows != before.follows or (self.part == WHOLE) != (before.part == WHOLE):
            return True
        return _differ(self.part, before.part) or _differ(_speed(self.pace), _speed(before.pace))


def _speed(pace: Pace | None) -> float:
    return 0.0 if pace is None else pace.rates[pace.place]


def _differ(new: float, old: float) -> bool:
    return abs(new - old) > SAME * old


def claim_of(scheduler: Scheduler, lane: Lane, job: int, weight: float, now: float) -> Claim:
    """What this job wants of a lane now."""
    pace = None if lane.finder is None else lane.finder.pace(lane.part)
    return Claim(job, weight, _is_hungry(scheduler, lane, now), _use(lane, now), pace)


def grant_of(mine: Claim, others: Sequence[Claim]) -> Grant:
    """What a job may take of a lane's limits beside these others.

    Of those who have something to start, the weightiest searches for a pace that nobody tells.
    """
    hungry = [claim for claim in others if claim.hungry]
    used = sum(claim.use for claim in others if not claim.hungry)
    wanted = mine.weight + sum(claim.weight for claim in hungry)
    part = max(LEAST, min(WHOLE, WHOLE - used) * mine.weight / wanted)
    leader = max([mine, *hungry], key=lambda claim: (claim.weight, -claim.job))
    return Grant(part) if leader is mine else Grant(part, follows=True, pace=leader.pace)


def _is_hungry(scheduler: Scheduler, lane: Lane, now: float) -> bool:
    """Whether it has something to start, and nothing but the lane's own limits in the way."""
    if lane.stopped or lane.breaker.open or scheduler.paused or scheduler.mode != "run":
        return False
    if lane.held_until > now or (lane.queue.peek() is None and (lane.exhausted or lane.started)):
        return False
    return not scheduler.concurrency or len(scheduler.out) < scheduler.concurrency


def _use(lane: Lane, now: float) -> float:
    """How much of its limits the lane uses, of the one that it uses most of: once it starts no more, what is in flight."""
    used = 0.0 if lane.window.open else lane.in_flight / lane.window.size * lane.part
    if lane.spent or lane.stopped or lane.held_until > now:
        return min(WHOLE, used)
    rate, mean = lane.rate_at(now), lane.mean_costs()
    for meter in lane.meters:
        if meter.whole is None and meter.period_s < DAY_S:
            of = lane.part if meter.name == LEARNED else WHOLE
            used = max(used, rate * mean[meter.place] / meter.rate * of)
    return min(WHOLE, used)


class Parts:
    """The meters of a lane's part of its limits; none while it has them to itself."""

    __slots__ = ("_meters",)

    def __init__(self) -> None:
        self._meters: dict[Meter, Meter] = {}

    def of(self, meters: Iterable[Meter], part: float) -> tuple[Meter, ...]:
        """A meter beside each of these that is as full and as deep, and refills at a part of the rate.

        A day's quota is there for whoever comes first.
        """
        if part >= WHOLE:
            self._end()
            return ()
        before, self._meters = self._meters, {}
        for meter in meters:
            if meter.period_s < DAY_S:
                mine = self._meters[meter] = before.get(meter) or _beside(meter)
                mine.resize(meter.limit * part)
                mine.ceiling_s = min(meter.ceiling_s, meter.depth_s + BEYOND_S)
                mine.deepen(meter.depth_s)
        return tuple(self._meters.values())

    def _end(self) -> None:
        """The others are gone. What they took of an account that tells no levels is as much as we did, part for part."""
        for meter, mine in self._meters.items():
            if not meter.levelled:
                meter.owe_until(mine.full_at)
        self._meters = {}


def _beside(meter: Meter) -> Meter:
    mine = Meter(
        meter.dimension, meter.limit, meter.period_s, meter.full_at, burst_s=meter.depth_s, name=f"{meter.name} (our part)",
    )  # fmt: skip
    mine.whole = meter
    return mine
