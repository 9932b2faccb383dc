"""Jobs that work on one lane at the same time: each keeps to its part of every limit, by its weight.

Each says what it wants (a `Claim`), hears what the others want, and reckons its part by itself. A job that has nothing to
start, or is held back by something else, wants no part; what it uses all the same is taken off before the rest is shared
out, so that nothing is left lying.

What may be in flight is given out in whole places. What weights leave over goes round, turn by turn; and nobody takes a place
that another has not left yet.

A part is kept beside the limit, by a meter of its own: the limit's meter goes on saying what the account has left, whoever
used it. A pace that was found is simply made smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.lanes.meter import Meter
from headway.core.lanes.rate_finder import LEARNED, Pace
from headway.core.model import DAY_S

if TYPE_CHECKING:
    from headway.core.lanes.lane import Lane
    from headway.core.scheduler import Scheduler

WHOLE: Final = 1.0
#: How the name of a meter ends that only keeps a part.
OUR_PART: Final = " (our part)"
#: However much others use, a job that has something to start gets this much.
LEAST: Final = 0.02
#: How long a place that weights leave over is one job's.
TURN_S: Final = 10.0
GOLDEN: Final = 0.6180339887498949
#: A part that differs by less is not worth a change.
SAME: Final = 0.03


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What one job wants of a lane: its weight, whether the lane's limits hold it back, how much of them it uses.

    Where nobody tells the limits: the pace that it has found so far. `taken` is how many places it has, or may take.
    """

    job: int
    weight: float
    hungry: bool
    use: float
    pace: Pace | None = None
    taken: int = 0


class Grant(msgspec.Struct, frozen=True, gc=False):
    """What a job may take of a lane beside others: its part, and whether it leaves the search for a pace to another."""

    part: float = WHOLE
    follows: bool = False
    pace: Pace | None = None
    #: How many may be in flight, where that is configured and others are there; None: as many as are.
    places: int | None = None

    def differs(self, before: Grant) -> bool:
        """Whether it is another one, and not the same with some noise; the whole is always worth having."""
        if self.places != before.places or self.follows != before.follows:
            return True
        if (self.part == WHOLE) != (before.part == WHOLE):
            return True
        return _differ(self.part, before.part) or _differ(_speed(self.pace), _speed(before.pace))


def _speed(pace: Pace | None) -> float:
    return 0.0 if pace is None else pace.rates[pace.place]


def _differ(new: float, old: float) -> bool:
    return abs(new - old) > SAME * old


def claim_of(scheduler: Scheduler, lane: Lane, job: int, weight: float, now: float) -> Claim:
    """What this job wants of a lane now."""
    pace = None if lane.finder is None else lane.finder.pace(lane.part)
    hungry, use = _is_hungry(scheduler, lane, now), _use(scheduler, lane, now)
    return Claim(job, weight, hungry, use, pace, _taken(lane, lane.places, hungry=hungry))


def promised(mine: Claim, lane: Lane, grant: Grant) -> Claim:
    """What a job claims once it goes by this grant: others are to see what it may take, before it does."""
    return msgspec.structs.replace(mine, taken=_taken(lane, grant.places, hungry=mine.hungry))


def _taken(lane: Lane, places: int | None, *, hungry: bool) -> int:
    most = lane.limits.max_concurrency
    if not most or not hungry:
        return lane.in_flight if most else 0
    return max(lane.in_flight, most if places is None else places)


def grant_of(mine: Claim, others: Sequence[Claim], most: int | None = None, turn: int = 0) -> Grant:
    """What a job may take of a lane's limits beside these others, `most` in flight among them.

    Of those who have something to start, the weightiest searches for a pace that nobody tells.
    """
    hungry = [claim for claim in others if claim.hungry]
    used = sum(claim.use for claim in others if not claim.hungry)
    wanted = mine.weight + sum(claim.weight for claim in hungry)
    part = max(LEAST, min(WHOLE, WHOLE - used) * mine.weight / wanted)
    leader = max([mine, *hungry], key=lambda claim: (claim.weight, -claim.job))
    places = _places(mine, hungry, others, most, turn) if most and others else None
    if leader is mine:
        return Grant(part, places=places)
    return Grant(part, follows=True, pace=leader.pace, places=places)


def _places(
    mine: Claim, hungry: Sequence[Claim], others: Sequence[Claim], most: int, turn: int
) -> int | None:
    """How many of `most` places are this job's now; None where nobody else wants or has any."""
    if not hungry and not any(claim.taken for claim in others):
        return None
    wanting = sorted([mine, *hungry], key=lambda claim: claim.job)
    total = sum(claim.weight for claim in wanting)
    exact = [most * claim.weight / total for claim in wanting]
    given = [int(part) for part in exact]
    rest = [part - whole for part, whole in zip(exact, given, strict=True)]
    # Marks a whole apart over what is left to each: over many turns everybody is met as often as that is large.
    mark, upto = turn * GOLDEN % 1.0, 0.0
    for place, part in enumerate(rest):
        upto += part
        if upto > mark:
            given[place] += 1
            mark += 1.0
    free = most - sum(claim.taken for claim in others)
    return max(0, min(given[wanting.index(mine)], free))


def _is_hungry(scheduler: Scheduler, lane: Lane, now: float) -> bool:
    """Whether it has something to start, and nothing but the lane's own limits in the way."""
    if lane.stopped or scheduler.paused or scheduler.mode != "run":
        return False
    if lane.breaker.open and lane.breaker.failures:
        return False  # One that is open for refusals alone waits for what others leave it.
    stock = lane.stock
    if lane.hold.until > now or (
        lane.queue.peek() is None and (stock.exhausted or (lane.started and not stock.fetching))
    ):
        return False
    return not scheduler.concurrency or len(scheduler.out) < scheduler.concurrency


def _use(scheduler: Scheduler, lane: Lane, now: float) -> float:
    """How much of its rates the lane uses, of the one that it uses most of; none once it starts no more."""
    used = 0.0
    if lane.spent or lane.stopped or lane.hold.until > now or scheduler.paused or scheduler.mode != "run":
        return used
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

    def of(self, meters: Iterable[Meter], part: float, *, leads: bool) -> tuple[Meter, ...]:
        """A meter beside each of these that is as full and as deep, and refills at a part of the rate.

        A day's quota is there for whoever comes first. One job alone, which `leads`, finds out how deep a bucket is, and may
        overdraw its part for that.
        """
        if part >= WHOLE:
            self._end()
            return ()
        before, self._meters = self._meters, {}
        for meter in meters:
            if meter.period_s < DAY_S:
                mine = self._meters[meter] = before.get(meter) or _beside(meter)
                mine.resize(meter.limit * part)
                mine.follow(meter, part if leads else WHOLE)
        return tuple(self._meters.values())

    def _end(self) -> None:
        """The others are gone. What they took of an account that tells no levels is as much as we did, part for part."""
        for meter, mine in self._meters.items():
            if not meter.levelled:
                meter.owe_until(mine.full_at)
        self._meters = {}


def _beside(meter: Meter) -> Meter:
    mine = Meter(
        meter.dimension, meter.limit, meter.period_s, meter.full_at, burst_s=meter.depth_s, name=meter.name + OUR_PART,
    )  # fmt: skip
    mine.whole = meter
    return mine
