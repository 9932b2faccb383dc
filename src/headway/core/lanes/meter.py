"""One dimension of a lane's limit, kept as virtual time.

A bucket that refills at `rate` is one number: `full_at`, the instant at which it will be full again (the
"theoretical arrival time" of GCRA). Reserving a cost pushes it out by `cost ÷ rate`; time passing brings it
nearer by itself. A start is allowed once the debt it would leave, `full_at − now + cost ÷ rate`, is no
more than the depth. With a depth of nothing this is plain spacing, `next = max(next, t0) + cost × 60 ÷ limit`.
A cost above the depth can never be admitted by that rule; it goes alone, on a full bucket.

Headers correct the meter by replay. Each send remembers where it left `full_at` (its *mark*). When the
response says how much was left at that admission, the difference to the mark is what the meter had wrong,
and the present value moves by it; everything sent since stays charged. `shift` sums these corrections, so
that marks taken before one stay comparable after it, and no log of sends is kept.

Depth. `depth_s` is what is proven: the debt that an accepted request really had. `ceiling_s` is what headers imply, an
upper bound. `reach_s` is how far the lane goes now; where the depth has to be found it is `depth_ramp` that says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headway.core.lanes.depth_ramp import BOLD, FIRST_DEPTH_S, GROWTH, SLOW, DepthRamp
from headway.core.model import DAY_S, DIMENSIONS, MINUTE_S, Dimension, LaneLimits, LimitReport

#: Token costs are estimates: a start must fit with this factor to spare (providers.md §4.2).
TOKEN_SAFETY: Final = 1.15

#: What stays in the bucket: the jitter of the network and some refill (0.15 s + 0.6 s, providers.md §4.1–2), but
#: of a shallow one no more than a share, or nothing would be left to use.
GUARD_S: Final = 0.75
GUARD_SHARE: Final = 0.3

MINIMUM_GAP: Final = "minimum gap"

#: A bucket proven to this share of what it can be is not worth a ramp.
NEARLY: Final = 0.97

#: Two requests, or a request and the news of a refund, may change places on the network within this time.
CROSSING_S: Final = 0.15
CREDITS_KEPT_S: Final = 2.0
BURSTS_KEPT: Final = 64

#: Reported levels are believed up to this much above a minute's worth; one published header set was not.
SANE_RESET: Final = 1.25

#: No bucket is taken to be shallower than this, whatever rounding makes of its headers.
SHALLOWEST_S: Final = 0.1


class Meter:
    """A virtual-time bucket for one dimension and period of a lane."""

    __slots__ = (
        "bursts", "careful", "ceiling_s", "credits", "debt_s", "depth_s", "dimension", "foreign_s", "full_at", "guard_s",
        "implied", "limit", "name", "period_s", "place", "proven_s", "ramp", "rate", "reach_s", "reported", "safety",
        "shift", "since_s", "synced", "synced_seq", "top_s", "unit_s", "used_s", "whole",
    )  # fmt: skip

    def __init__(
        self,
        dimension: Dimension,
        limit: float,
        period_s: float = MINUTE_S,
        now: float = 0.0,
        *,
        burst_s: float | None = None,
        reported: bool = False,
        name: str = "",
    ) -> None:
        self.dimension = dimension
        self.name = name or _name(dimension, period_s)
        self.place = DIMENSIONS.index(dimension)
        self.safety = 1.0 if dimension is Dimension.REQUESTS else TOKEN_SAFETY
        self.period_s = period_s
        self.limit = limit
        self.rate = limit / period_s
        self.reported = reported
        #: The limit that this is only our part of, while other jobs use it too.
        self.whole: Meter | None = None
        if burst_s is None and period_s >= DAY_S:
            burst_s = period_s  # A day's quota is there to be used, not to be spread over the day.
        #: How its depth is found, where nothing says it.
        self.ramp = DepthRamp() if burst_s is None else None
        #: What a request of the lane takes, in seconds of refill.
        self.unit_s = 0.0
        #: Whether what is charged here may be far from what the provider counts: its ramp takes small steps.
        self.careful = False
        #: What the provider's bucket can hold at the most. A reported level is counted from there, whatever depth
        #: of it somebody wants to be used.
        self.ceiling_s = period_s if burst_s is None or reported else burst_s
        self.deepen(FIRST_DEPTH_S if burst_s is None else burst_s)
        self.implied = (0.0, self.ceiling_s * SANE_RESET)
        #: The most that was seen in it, as seconds of refill.
        self.top_s = 0.0
        self.full_at = now
        #: Refunds `(at, seconds)` and beginnings of bursts `(at, mark before)`, the latest last.
        self.credits: deque[tuple[float, float]] = deque()
        self.bursts: deque[tuple[float, float]] = deque([(float("-inf"), now)], maxlen=BURSTS_KEPT)
        self.shift = 0.0
        #: Seconds of refill, all in all, that reports say somebody else has used.
        self.foreign_s = 0.0
        self.synced_seq = -1
        self.synced = (0.0, 0.0)
        #: For `shares`: seconds of refill that were charged, what was owed before the first of them, and how long the
        #: lane had worked before it had this meter; below 0 where it is not known yet.
        self.used_s = 0.0
        self.debt_s = self.since_s = -1.0

    @property
    def windowed(self) -> bool:
        """Whether its allowance comes at once, at the start of each period."""
        return False

    @property
    def probed(self) -> bool:
        """Whether its depth has to be found."""
        return self.ramp is not None

    def deepen(self, proven_s: float, now: float = float("-inf")) -> None:
        """Take the bucket to be this deep (or this shallow), as far as its ceiling goes."""
        self.proven_s = proven_s
        self.depth_s = proven_s if proven_s < self.ceiling_s else self.ceiling_s
        reach_s = self.depth_s
        ramp = self.ramp
        if ramp is not None and self.shallow:
            growth = BOLD if self.reported else SLOW if self.careful else GROWTH
            reach_s = ramp.reach_s(proven_s, self.unit_s, now, growth)
        self.reach_s = reach_s if reach_s < self.ceiling_s else self.ceiling_s
        # What is tested is used to its end: a reserve would only hide where that is.
        tests = self.depth_s < self.reach_s < NEARLY * self.ceiling_s
        self.guard_s = 0.0 if tests else min(GUARD_S, GUARD_SHARE * self.reach_s)

    def follow(self, whole: Meter, part: float) -> None:
        """A part of a limit is as deep as the limit, in seconds. It is overdrawn where the limit's ramp needs all of the bucket."""
        self.ceiling_s, self.proven_s = whole.ceiling_s / part, whole.proven_s
        self.depth_s, self.guard_s = whole.depth_s, whole.guard_s
        self.reach_s = whole.reach_s / part if whole.reach_s > whole.depth_s else whole.depth_s

    def begin_ramp(self, cost: float, *, careful: bool) -> None:
        """What a request of this lane costs is known: go as many of them beyond the first depth as the ramp allows."""
        if self.ramp is not None:
            self.careful = careful
            self.unit_s = cost / self.rate
            self.deepen(self.proven_s)

    def ready_at(self, cost: float, caution: float = 0.0) -> float:
        """The earliest instant at which `cost` may start, with `caution` times the guard kept in reserve."""
        slack = self.reach_s - caution * self.guard_s - self.safety * cost / self.rate
        return self.full_at - slack if slack > 0.0 else self.full_at

    def reserve(self, cost: float, now: float) -> float:
        """Charge a start; returns the mark by which a later header of that request is understood."""
        full_at = self.full_at
        if full_at < now:
            full_at = now
        if self.reported and now - self.bursts[-1][0] > CROSSING_S:
            self.bursts.append((now, full_at - self.shift))
        if self.debt_s < 0.0:
            self.debt_s = full_at - now
        moved = cost / self.rate
        self.used_s += moved
        self.full_at = full_at = full_at + moved
        return full_at - self.shift

    def adjust(self, cost: float) -> None:
        """Charge `cost` more (a negative one is a refund) for something reserved before."""
        moved = cost / self.rate
        self.full_at += moved
        self.shift += moved
        self.used_s += moved

    def credit(self, cost: float, now: float) -> None:
        """The provider has just given back `cost`. Reports on what was sent before do not know that yet."""
        moved = cost / self.rate
        self.full_at -= moved
        self.used_s -= moved
        if self.reported:
            self.credits.append((now, moved))
            if now - self.credits[0][0] > CREDITS_KEPT_S:
                self.credits.popleft()

    def _crossed(self, mark: float, sent_at: float) -> float:
        """How much more than the mark before a send says the provider may have had left, for want of order on the network.

        Sends of one burst arrive in any order, so those before this one may have come after it. And a refund
        that we learned of just after the send may have been in the bucket when it arrived.
        """
        crossed = 0.0
        found = False
        for at, base in reversed(self.bursts):
            if at <= sent_at:
                # A burst lasts up to the time of a crossing, and its end may cross with the beginning of the next one.
                if found and at <= sent_at - 2.0 * CROSSING_S:
                    break
                crossed, found = max(0.0, mark - base), True
        for at, moved in self.credits:
            if sent_at < at <= sent_at + CROSSING_S:
                crossed += moved
        return crossed

    def _owed_since(self, sent_at: float) -> float:
        """The least `full_at` that later sends leave, even if the bucket was full before each of their bursts."""
        least = float("-inf")
        mark = self.full_at - self.shift
        for at, base in reversed(self.bursts):
            if at <= sent_at:
                break
            owed = at + mark - base
            if owed > least:
                least = owed
        return least

    def level(self, now: float, depth_s: float | None = None) -> float:
        """How much is in the bucket; negative where settling charged more than there was."""
        debt_s = max(0.0, self.full_at - now)
        return ((self.depth_s if depth_s is None else depth_s) - debt_s) * self.rate

    def empty(self, now: float) -> None:
        """The provider refused: whatever was thought to be left is not there."""
        self.owe_until(now + self.depth_s)

    def set_limit(self, limit: float, now: float) -> None:
        """Change the rate; what is owed stays owed, in units of cost."""
        if limit == self.limit:
            return
        debt = max(0.0, self.full_at - now) * self.rate
        self.limit = limit
        self.rate = limit / self.period_s
        moved = now + debt / self.rate - self.full_at
        if debt:
            self.full_at += moved
            self.shift += moved

    def resize(self, limit: float) -> None:
        """Another part of the same bucket: as full as it was."""
        self.limit = limit
        self.rate = limit / self.period_s

    def owe_until(self, at: float) -> None:
        """It will not be full before then: somebody else has used of it, too."""
        moved = at - self.full_at
        if moved > 0.0:
            self.full_at += moved
            self.shift += moved

    def sync(
        self,
        report: LimitReport,
        mark: float,
        sent_at: float,
        seq: int,
        cost: float = 0.0,
        *,
        refused: bool = False,
    ) -> None:
        """Take the level that the response to a send reported; older news than known is ignored.

        The words of a refusal tell what is left and not how deep the bucket is. Counted from the ceiling, an empty
        bucket that is shallow would look like a debt of a whole minute: it is counted from the depth that is known.
        """
        if report.remaining is None:
            return
        left_s = report.remaining / self.rate
        if report.reset_s is None and (refused or (seq <= self.synced_seq and not self.top_s)):
            left_s += self.ceiling_s - self.depth_s
        if seq <= self.synced_seq:
            self._overtaken(sent_at, left_s)
            return
        self.synced_seq = seq
        self.synced = (mark, sent_at)
        if report.reset_s is not None:
            self._narrow_ceiling(left_s + report.reset_s, report)
        elif not refused and self.period_s < DAY_S:
            self._raise_ceiling(left_s + cost / self.rate)
        wrong_by = sent_at + self.ceiling_s - left_s - (mark + self.shift)
        blur_s = report.remaining_precision / self.rate
        if wrong_by > blur_s:
            wrong_by -= blur_s
        elif wrong_by < -blur_s:
            wrong_by += blur_s + self._crossed(mark - cost / self.rate, sent_at)
            if wrong_by >= 0.0:
                return
            wrong_by = max(wrong_by, self._owed_since(sent_at) - self.full_at)
        else:
            return
        self.full_at += wrong_by
        self.shift += wrong_by
        self.foreign_s += wrong_by

    def _overtaken(self, sent_at: float, left_s: float) -> None:
        """A report on an earlier send than the newest known.

        Old news, unless the two were sent so close together that they may have arrived the other way round:
        then the later report did not count the earlier send, and this one, which counts both, is the newest.
        """
        mark, newest_sent_at = self.synced
        if newest_sent_at - sent_at < CROSSING_S:
            wrong_by = sent_at + self.ceiling_s - left_s - (mark + self.shift)
            if wrong_by > 0.0:
                self.full_at += wrong_by
                self.shift += wrong_by
                self.foreign_s += wrong_by

    def _narrow_ceiling(self, implied_s: float, report: LimitReport) -> None:
        """Remaining + time until full is the depth, give or take their rounding: keep what all reports agree on.

        A whole period's worth is what most buckets hold: as long as that fits, it is that.
        """
        if implied_s > self.period_s * SANE_RESET:
            return
        blur_s = report.remaining_precision / self.rate
        low, high = implied_s - report.reset_precision_s - blur_s, implied_s + blur_s
        known_low, known_high = self.implied
        if low <= known_low and high >= known_high:
            return
        if low <= known_high and high >= known_low:
            low, high = max(low, known_low), min(high, known_high)
        self.implied = (low, high)  # Where a report agrees with none before, the provider has changed.
        whole = low <= self.period_s <= high
        self.ceiling_s = self.period_s if whole else max(SHALLOWEST_S, (low + high) / 2.0)
        self.deepen(self.proven_s)

    def _raise_ceiling(self, seen_s: float) -> None:
        """Nobody says when it will be full: it is taken to hold no more than was ever seen in it, or was configured.

        That is never too bold. What may start depends on what is left, and what is left is counted from here; only the
        guard and the probes go by how deep the bucket is.
        """
        if seen_s > self.top_s:
            self.top_s = seen_s
            least_s = SHALLOWEST_S if self.ramp is not None else self.proven_s
            moved = min(max(least_s, seen_s), self.period_s) - self.ceiling_s
            self.ceiling_s += moved
            self.full_at += moved  # What is left stays what it was thought to be.
            self.shift += moved
            self.deepen(self.proven_s)

    @property
    def shallow(self) -> bool:
        """Whether the bucket may be deeper than is proven, and that is worth finding out."""
        return self.ramp is not None and self.depth_s < NEARLY * self.ceiling_s

    @property
    def levelled(self) -> bool:
        """Whether levels are reported; usage then has nothing to add."""
        return self.synced_seq >= 0

    def accepted(self, debt_s: float, cost: float, now: float, *, careful: bool) -> None:
        """A request was taken at this debt: the bucket is at least so deep, and the ramp goes on."""
        self.careful = careful
        self.unit_s = cost / self.rate
        self.deepen(max(debt_s, self.proven_s), now)

    def reported_debt_s(self, reports: Iterable[LimitReport]) -> float:
        """The debt at an admission, as its reports say it; 0 where they do not.

        Marks are no proof of it: what may have arrived earlier or later is charged to both sides of a report.
        """
        for report in reports:
            same = report.dimension is self.dimension and report.period_s == self.period_s
            if same and report.remaining is not None and (report.reset_s is not None or self.top_s):
                return self.ceiling_s - (report.remaining + report.remaining_precision) / self.rate
        return 0.0

    def end_ramp(self, debt_s: float, seq: int, now: float) -> None:
        """A request of the ramp was refused, and its charge is given back: what is owed for the others is the depth."""
        assert self.ramp is not None
        self.ramp.end(now, seq)
        self.deepen(max(debt_s, min(self.proven_s, FIRST_DEPTH_S)), now)

    def rest_ramp(self, until: float, seq: int) -> None:
        """Go no further than is proven until then."""
        if self.ramp is not None:
            self.ramp.rest(until, -1 if self.ramp.ended else seq)
            self.deepen(self.proven_s, until - 1e-9)

    def overreached(self, deep_s: float) -> None:
        """An attempt beyond this debt was refused: the bucket ends there."""
        if self.ramp is not None and deep_s < self.proven_s:
            self.deepen(max(deep_s, min(self.proven_s, FIRST_DEPTH_S)))

    def allow_burst(self, burst_s: float) -> None:
        """Another depth for a pace of our own."""
        if burst_s != self.ceiling_s:
            self.ceiling_s = burst_s
            self.deepen(burst_s)

    def recall(self, depth_s: float, now: float, *, ceiling_s: float | None, bottom: bool) -> None:
        """An earlier run has proven this depth; `bottom`: and was refused beyond it. `ceiling_s` is what its headers implied."""
        if self.reported and ceiling_s is not None:
            self.ceiling_s = max(SHALLOWEST_S, min(ceiling_s, self.period_s))
        if self.ramp is not None:
            if bottom:
                self.ramp.end(now, -1)
            self.deepen(depth_s, now)

    def redeepen(self, wanted: Meter) -> None:
        """Take over another meter's settings of the depth."""
        self.ramp = wanted.ramp
        if not self.reported:
            self.ceiling_s = wanted.ceiling_s
        self.deepen(wanted.proven_s)

    def rebuild(self, starts: Iterable[tuple[float, float]], known_at: float = float("inf")) -> None:
        """Restore the level from recorded starts `(at, cost)`, oldest first.

        Where the level was known at `known_at` (it may have been less than our own starts explain), what was started
        since then comes on top of that.
        """
        alone, known = float("-inf"), self.full_at
        for at, cost in starts:
            alone = max(alone, at) + cost / self.rate
            if at > known_at:
                known = max(known, at) + cost / self.rate
        self.full_at = max(known, alone)


def meters_of(limits: LaneLimits, now: float) -> Iterator[Meter]:
    """A full meter for every configured limit; 0 is unlimited and needs none."""
    rows = (
        (Dimension.REQUESTS, limits.rpm, MINUTE_S),
        (Dimension.TOKENS, limits.tpm, MINUTE_S),
        (Dimension.INPUT, limits.input_tpm, MINUTE_S),
        (Dimension.OUTPUT, limits.output_tpm, MINUTE_S),
        (Dimension.REQUESTS, limits.rpd, DAY_S),
        (Dimension.TOKENS, limits.tpd, DAY_S),
    )
    for dimension, limit, period_s in rows:
        if limit:
            burst_s = limits.burst_s if period_s < DAY_S else None
            yield Meter(dimension, limit, period_s, now, burst_s=burst_s)
    if limits.min_gap_s > 0.0:
        per_minute = MINUTE_S / limits.min_gap_s
        yield Meter(Dimension.REQUESTS, per_minute, now=now, burst_s=0.0, name=MINIMUM_GAP)


def _name(dimension: Dimension, period_s: float) -> str:
    """As people say it: "input tokens per minute"."""
    span = {DAY_S: "day", MINUTE_S: "minute", 1.0: "second"}.get(period_s, f"{period_s:g} s")
    return f"{dimension.replace('_', ' ')} per {span}"
