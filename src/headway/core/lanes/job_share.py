"""Jobs that use one lane at the same time: each keeps to its part of every limit, by its weight.

Each job publishes what it wants (a `Claim`), reads the claims of the others, and computes its own part. A job that has nothing to
start, or waits for something else, wants no part. What it uses all the same is subtracted before the rest is shared
out, so that no capacity is lost.

Attempts in flight are shared in whole places, of a configured number or of a cap that was found. The places that the weights
leave over rotate among the jobs; and no job takes a place before another job has left it.

One job leads: it searches for what is unknown, a rate or a cap in flight. The others start nothing until it has found something, and
then keep to their parts. They publish how often they were refused, and the leading job learns from that as from its own refusals.

A part has a meter of its own beside the limit's: the limit's meter still says what the account has left, whichever job
used it. A learned rate is scaled instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.lanes.in_flight.window import OPEN
from headway.core.lanes.learning.rate_finder import LEARNED, Pace
from headway.core.lanes.meters.meter import Meter
from headway.core.model import DAY_S, Costs, Dimension

if TYPE_CHECKING:
    from headway.core.lanes.lane import LaneState
    from headway.core.scheduler import Scheduler

WHOLE: Final = 1.0
#: The name of a meter that keeps a part ends with this.
OUR_PART: Final = " (our part)"
#: The least part of those that have something to start, together, however much others use.
LEAST: Final = 0.02
#: Many small parts, each spent at its own time, meet by chance. So many jobs leave this share of every rate unused, and fewer jobs less.
SPARE: Final = 0.02
SPARE_FROM: Final = 5
SPARE_ALL: Final = 25
#: A part that shrinks to less than this share of itself takes its turn again.
SHRUNK: Final = 0.8
#: After a refusal a part whose bucket holds no request waits for so many times the time between two of its requests.
AFTER_REFUSAL: Final = 1.0
#: A smaller part than this sends so rarely that the level of the account says more than its own.
SMALL: Final = 0.2
#: Claims of up to so many jobs are read at every look, those of more jobs less often, but this often at least.
FEW_JOBS: Final = 10
READ_AT_LEAST_EVERY_S: Final = 0.5
#: How long a job keeps a place that the weights leave over; of more jobs than these it keeps it so many times as long: they read of each
#: other less often, and a place that changes hands is idle meanwhile.
TURN_S: Final = 10.0
LONGER_TURNS: Final = ((40, 4), (20, 2))
GOLDEN: Final = 0.6180339887498949
#: SplitMix64: a random number that all jobs agree on.
GAMMA: Final = 0x9E3779B97F4A7C15
MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
WORD: Final = (1 << 64) - 1
#: A part that differs by a smaller share is not changed; a number in flight of other jobs may differ by this share, or by two.
SAME: Final = 0.03
SAME_FLIGHT: Final = 0.1
#: A use of a job that is not hungry may differ by this, or by less: many small ones that have ended add up.
SAME_USE: Final = 0.01
#: How long jobs wait for the one that searches. The ramp of a minute's bucket takes less, up to 20,000 requests a minute.
SEARCH_S: Final = 20.0
#: A hold that ends later than others know by less than this is the same hold.
SAME_HOLD_S: Final = 0.5
#: A search that is older than this is left to the job that began it.
BEGUN_S: Final = 1.0


class AccountHold(msgspec.Struct, frozen=True, gc=False):
    """The hold of an account, or of one model of it, for other jobs that use it. Without an account it is a hold of the lane."""

    account: str
    model: str
    scope: str
    until_utc: float
    reason: str

    def differs(self, before: AccountHold | None) -> bool:
        """Whether others must know of it: clocks make its end differ a little each time."""
        if before is None or (self.account, self.model, self.scope) != (
            before.account,
            before.model,
            before.scope,
        ):
            return True
        return self.until_utc > before.until_utc + SAME_HOLD_S


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What one job wants of a lane: its weight, whether the lane's limits hold it back (`hungry`), the share of them that it uses.

    If the limits are unknown, `pace` is the rate that it has found so far, and `searching_s` how long it searches without a result.
    `cap` is how many may be in flight for all jobs together, where that was found. `taken` is how many places it has, or may take;
    of an unknown number, how many it has in flight. `refused` and `crowded` count congestion that the leading job judges.
    """

    job: int
    weight: float
    hungry: bool
    use: float
    pace: Pace | None = None
    taken: int = 0
    cap: int | None = None
    searching_s: float | None = None
    refused: int = 0
    crowded: int = 0
    #: Whether it has fewer in flight than it has places.
    idle: bool = False
    #: What it has sent so far, while the limits are unknown: the leading job measures the rate of all.
    sent: Costs | None = None
    #: Its lane or its account is held.
    hold: AccountHold | None = None
    #: By the names of meters: how many seconds of refill are used. Only of clients: what jobs have sent is on record.
    debts: dict[str, float] | None = None

    @property
    def precedence(self) -> tuple[bool, bool, float, int]:
        """The job with the highest one leads: the one that knows something, has begun to search, has the largest weight."""
        knows = self.pace is not None or self.cap is not None
        return knows, (self.searching_s or 0.0) > BEGUN_S, self.weight, -self.job

    def differs(self, before: Claim, *, beside_others: bool) -> bool:
        """Whether others must know of the change at once. Without others only a change of what is wanted counts."""
        if (self.hungry, self.cap) != (before.hungry, before.cap) or _differ(
            _speed(self.pace), _speed(before.pace)
        ):
            return True
        if (self.searching_s is None) != (before.searching_s is None) or (not self.debts) != (
            not before.debts
        ):
            return True
        if self.hold is not None and self.hold.differs(before.hold):
            return True
        known = self.cap is not None or self.sent is None
        if self.taken != before.taken and (known or other_flight(self.taken, before.taken)):
            return True
        return beside_others and (_news(self), self.idle) != (_news(before), before.idle)

    def drifted(self, before: Claim) -> bool:
        """Whether others should know of the change some time. What a hungry job uses is its part, and says nothing."""
        uses_other = abs(self.use - before.use) > min(SAME_USE, SAME_FLIGHT * before.use)
        return (uses_other and not self.hungry) or msgspec.structs.replace(self, use=before.use) != before


class Grant(msgspec.Struct, frozen=True, gc=False):
    """What a job may use of a lane beside others: its part, and whether it leaves the search for a rate to another job."""

    part: float = WHOLE
    follows: bool = False
    pace: Pace | None = None
    #: How many may be in flight, if other jobs use the lane and the number is configured or found; None: all of it.
    places: int | None = None
    #: How many all jobs together may have in flight, as far as that was found; and what others have in flight while it was not.
    cap: int | None = None
    elsewhere: int = 0
    #: Whether other jobs use all of their places: only then one more in flight tests a cap.
    full: bool = True
    #: The claims of the others, for the job that leads.
    others: tuple[Claim, ...] = ()
    #: The share of all weights that belongs to jobs before this one.
    before: float = 0.0

    def differs(self, before: Grant) -> bool:
        """Whether it differs by more than noise. A change to or from the whole always counts."""
        if (self.places, self.follows, self.cap) != (before.places, before.follows, before.cap):
            return True
        if self.full != before.full or other_flight(self.elsewhere, before.elsewhere):
            return True
        if {*map(_news, self.others)} != {*map(_news, before.others)}:
            return True
        if (self.part == WHOLE) != (before.part == WHOLE):
            return True
        return _differ(self.part, before.part) or _differ(_speed(self.pace), _speed(before.pace))


def _speed(pace: Pace | None) -> float:
    return 0.0 if pace is None else pace.rates[pace.place]


def _differ(new: float, old: float) -> bool:
    return abs(new - old) > SAME * old


def _news(claim: Claim) -> tuple[int, int, int, Costs | None]:
    return claim.job, claim.refused, claim.crowded, claim.sent


def read_every_s(jobs: int, look_every_s: float) -> float:
    """How often a job reads the claims of so many: one job more or less among many changes the parts of all others little."""
    return min(max(look_every_s, READ_AT_LEAST_EVERY_S), look_every_s * max(1.0, jobs / FEW_JOBS))


def other_flight(new: int, old: int) -> bool:
    """Whether a number in flight differs by more than noise."""
    return abs(new - old) > max(2.0, SAME_FLIGHT * old)


def claim_of(
    scheduler: Scheduler, lane: LaneState, job: int, weight: float, now: float, *, comes_later: bool = False
) -> Claim:
    """The claim of this job on a lane now. `comes_later`: its units come one by one, so an empty queue is not its end."""
    hungry, use = _is_hungry(scheduler, lane, now), _use(scheduler, lane, now, comes_later=comes_later)
    searching_s = _searching_s(lane, now)
    return Claim(
        job,
        weight,
        hungry,
        use,
        _pace(lane, searching_s),
        _taken(lane, lane.cap.places, hungry=hungry),
        lane.cap.found(lane.window),
        searching_s,
        lane.cap.refused,
        lane.cap.crowded,
        lane.in_flight < (lane.cap.places or 0),
        None if lane.limits.finder is None else lane.limits.finder.sent_so_far,
        debts=_debts(lane, now) if comes_later else None,
    )


def _debts(lane: LaneState, now: float) -> dict[str, float]:
    return {
        meter.name: meter.full_at - now
        for meter in lane.limits.meters
        if meter.whole is None and meter.name != LEARNED and meter.full_at > now
    }


def owed_to(claims: Iterable[Claim]) -> dict[str, float]:
    """What others have used of a lane's limits, by the names of meters: a job that has sent nothing yet finds no more than the rest."""
    owed: dict[str, float] = {}
    for claim in claims:
        for name, debt_s in (claim.debts or {}).items():
            owed[name] = max(debt_s, owed.get(name, 0.0))
    return owed


def _pace(lane: LaneState, searching_s: float | None) -> Pace | None:
    """The pace that others may follow; None while it is only a first guess."""
    finder = lane.limits.finder
    if finder is None or (searching_s is not None and searching_s < SEARCH_S):
        return None
    return None if finder.mode == "ramp" and lane.cap.follows else finder.pace(lane.limits.part)


def _searching_s(lane: LaneState, now: float) -> float | None:
    """How long this job searches for others, too, without a result; None: it does not."""
    finder, cap, window = lane.limits.finder, lane.cap, lane.window
    if finder is None or cap.follows or cap.places is not None:
        return None
    if finder.mode == "ramp" and window.ceiling >= OPEN:
        return max(0.0, now - lane.traffic.first_start_at)
    if window.suspected and not cap.elsewhere:
        return max(0.0, now - cap.event_at)
    return None


def opening_claim(mine: Claim, lane: LaneState) -> Claim:
    """The claim on a lane that was opened for a call: until its first start the call is on its way."""
    return mine if lane.traffic.started else msgspec.structs.replace(mine, hungry=True)


def promised(mine: Claim, lane: LaneState, grant: Grant) -> Claim:
    """The claim of a job with this grant. Other jobs must see the places before it takes them."""
    return msgspec.structs.replace(mine, taken=_taken(lane, grant.places, hungry=mine.hungry))


def _taken(lane: LaneState, places: int | None, *, hungry: bool) -> int:
    most = _least(lane.limits.settings.max_concurrency, lane.cap.found(lane.window))
    if most is None and lane.limits.finder is None:
        return 0
    taken = lane.cap.taken(lane.window, lane.in_flight)
    if most is None or not hungry:
        return taken
    return max(taken, most if places is None else places)


def _least(configured: int | None, cap: int | None) -> int | None:
    """How many may be in flight, by the settings (0: not limited) and by a cap that was found."""
    return min((most for most in (configured or None, cap) if most is not None), default=None)


def grant_of(mine: Claim, others: Sequence[Claim], most: int | None = None, turn: int = 0) -> Grant:
    """What a job may use of a lane's limits beside these others; by the settings they may have `most` in flight together.

    Of the jobs that have something to start, one leads and searches for what is unknown.
    """
    hungry = [claim for claim in others if claim.hungry]
    used = sum(claim.use for claim in others if not claim.hungry)
    wanted = mine.weight + sum(claim.weight for claim in hungry)
    part = max(LEAST, min(WHOLE, WHOLE - used)) * _rest(1 + len(hungry)) * mine.weight / wanted
    before = sum(claim.weight for claim in hungry if claim.job < mine.job) / wanted
    leader = max([mine, *hungry], key=lambda claim: claim.precedence)
    most = _least(most, leader.cap)
    places = _places(mine, hungry, others, most, turn) if most and others else None
    searching = leader.searching_s is not None and leader.searching_s < SEARCH_S
    if leader is not mine:
        return Grant(part, True, leader.pace, 0 if searching else places, leader.cap, before=before)
    elsewhere = 0 if most else sum(claim.taken for claim in others)
    full = not any(claim.idle for claim in others)
    if searching:  # The others wait: what we find is the whole.
        part, places = WHOLE, None
    return Grant(part, False, None, places, mine.cap, elsewhere, full, tuple(others), before)


def _rest(jobs: int) -> float:
    """The share of a rate that so many jobs use together."""
    many = (jobs - SPARE_FROM) / (SPARE_ALL - SPARE_FROM)
    return WHOLE - SPARE * max(0.0, min(WHOLE, many))


def _places(
    mine: Claim, hungry: Sequence[Claim], others: Sequence[Claim], most: int, turn: int
) -> int | None:
    """How many of `most` places belong to this job now; None if no other job wants or has one."""
    if not hungry and not any(claim.taken for claim in others):
        return None
    wanting = sorted([mine, *hungry], key=lambda claim: claim.job)
    total = sum(claim.weight for claim in wanting)
    exact = [most * claim.weight / total for claim in wanting]
    given = [int(part) for part in exact]
    rest = [part - whole for part, whole in zip(exact, given, strict=True)]
    longer = next((times for jobs, times in LONGER_TURNS if len(wanting) > jobs), 1)
    share_out = _by_marks if longer == 1 else _by_lot
    for place in share_out(wanting, rest, turn // longer):
        given[place] += 1
    # Free places go to those that lack some, in the order of jobs: two jobs that see the same ones do not both take them.
    place = wanting.index(mine)
    lacking = sum(max(0, given[before] - wanting[before].taken) for before in range(place))
    left = most - sum(claim.taken for claim in others)
    free = max(0, left - mine.taken - lacking)
    return max(0, min(given[place], left, mine.taken + free))


def _by_marks(wanting: Sequence[Claim], rest: Sequence[float], turn: int) -> Iterator[int]:
    """The jobs that get one more place in this turn. The fractions lie end to end, and marks lie a whole place apart: over many turns a job is
    hit in proportion to its fraction.
    """
    mark, upto = turn * GOLDEN % 1.0, 0.0
    for place, part in enumerate(rest):
        upto += part
        if upto > mark:
            yield place
            mark += 1.0


def _by_lot(wanting: Sequence[Claim], rest: Sequence[float], turn: int) -> list[int]:
    """The same for many jobs, some of which always come or go: that moves one place, where it would move most of the marks.

    Each job has a lot in each turn, and the best ones by the odds of the fractions win (Pareto sampling).
    """
    lots = []
    for place, (claim, part) in enumerate(zip(wanting, rest, strict=True)):
        if part > 0.0:
            lot = _lot(claim.job, turn)
            lots.append((lot * (1.0 - part) / ((1.0 - lot) * part), place))
    return [place for _, place in sorted(lots)[: round(sum(rest))]]


def _lot(job: int, turn: int) -> float:
    """A random number between 0 and 1."""
    word = (job + turn * MIX[0][1] + 1) * GAMMA & WORD
    for shift, factor in MIX:
        word = (word ^ word >> shift) * factor & WORD
    return (word >> 11) / (1 << 53)


def _is_hungry(scheduler: Scheduler, lane: LaneState, now: float) -> bool:
    """Whether the job has something to start and waits only for the lane's own limits."""
    if lane.stopped or scheduler.paused or scheduler.mode != "run":
        return False
    if lane.breaker.open and lane.breaker.failures:
        return False  # A breaker that is open only for refusals waits for capacity, so it does not count.
    stock = lane.stock
    if lane.hold.until > now or (
        lane.queue.peek() is None and (stock.exhausted or (lane.traffic.started and not stock.fetching))
    ):
        return False
    return not scheduler.concurrency or len(scheduler.out) < scheduler.concurrency


def _use(scheduler: Scheduler, lane: LaneState, now: float, *, comes_later: bool) -> float:
    """The share that the lane uses of its most used rate; 0 once it starts nothing more."""
    used = 0.0
    if (
        (lane.spent and not comes_later)
        or lane.stopped
        or lane.hold.until > now
        or scheduler.paused
        or scheduler.mode != "run"
    ):
        return used
    rate, mean = lane.traffic.rate_at(now), lane.traffic.mean_costs()
    for meter in lane.limits.meters:
        if meter.whole is None and meter.period_s < DAY_S:
            of = lane.limits.part if meter.name == LEARNED else WHOLE
            used = max(used, rate * mean[meter.place] / meter.rate * of)
    return min(WHOLE, used)


class Parts:
    """The meters of this job's part of a lane's limits; none while no other job uses the lane."""

    __slots__ = ("_before", "_meters", "_now")

    def __init__(self) -> None:
        self._meters: dict[Meter, Meter] = {}
        self._before = self._now = 0.0

    def begin(self, before: float, now: float) -> None:
        """Parts that are made from now on are those of a job with so much of all weights before it."""
        self._before, self._now = before, now

    def of(self, meters: Iterable[Meter], part: float, *, leads: bool) -> tuple[Meter, ...]:
        """A meter beside each of these, as full and as deep, that refills at a part of the rate.

        A day's quota is not shared: it goes to the job that comes first. Only the job that `leads` tests how deep a bucket is,
        and may overdraw its part for that.
        """
        if part >= WHOLE:
            self._end()
            return ()
        before, self._meters = self._meters, {}
        for meter in meters:
            if meter.period_s < DAY_S:
                mine = self._meters[meter] = before.get(meter) or _beside(meter)
                shrinks = meter not in before or meter.limit * part < SHRUNK * mine.limit
                mine.resize(meter.limit * part)
                mine.follow(meter, part if leads else WHOLE)
                if shrinks:
                    self._take_turn(mine)
        return tuple(self._meters.values())

    def _take_turn(self, mine: Meter) -> None:
        """If a part's bucket cannot hold one request, the first requests of all jobs go one after another, not all at once."""
        wait_s = _request_s(mine) - mine.depth_s
        if wait_s > 0.0:
            mine.owe_until(max(mine.full_at, self._now) + self._before * wait_s)

    def refused(self, now: float) -> None:
        """A request was refused. A part whose bucket cannot hold one waits a good while: if all that were refused came back at once, they would
        be refused again, and others with them.
        """
        for mine in self._meters.values():
            request_s = _request_s(mine)
            if request_s > mine.depth_s:
                mine.owe_until(now + AFTER_REFUSAL * request_s)

    def level(self) -> None:
        """The account's levels were reported or proven: no part is fuller than the whole, which others have used, too."""
        for whole, mine in self._meters.items():
            mine.owe_until(whole.full_at)

    def _end(self) -> None:
        """The other jobs have ended. If no levels are reported, they are assumed to have used their parts as we used ours."""
        for meter, mine in self._meters.items():
            if not meter.levelled:
                meter.owe_until(mine.full_at)
        self._meters = {}


def _request_s(mine: Meter) -> float:
    """How long a part refills for one request."""
    whole = mine.whole
    assert whole is not None
    unit = 1.0 if whole.dimension is Dimension.REQUESTS else whole.unit_s * whole.rate
    return unit / mine.rate


def _beside(meter: Meter) -> Meter:
    mine = Meter(
        meter.dimension, meter.limit, meter.period_s, meter.full_at, burst_s=meter.depth_s, name=meter.name + OUR_PART,
    )  # fmt: skip
    mine.whole = meter
    return mine
