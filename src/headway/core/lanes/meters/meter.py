"""One dimension of a lane's limit, kept as virtual time.

A bucket that refills at `rate` is one number: `full_at`, the instant at which it will be full again (the
"theoretical arrival time" of GCRA). Reserving a cost moves it later by `cost ÷ rate`; the passing of time needs no
update. A start is allowed once the debt it would leave, `full_at − now + cost ÷ rate`, is no
more than the depth. With a depth of 0 this is plain spacing, `next = max(next, t0) + cost × 60 ÷ limit`.
A cost above the depth can never be admitted by that rule; it goes alone, on a full bucket.

Headers correct the meter by replay. Each send remembers where it left `full_at` (its *mark*). When the
response says how much was left at that admission, the difference to the mark is the error of the meter,
and the present value moves by it; everything sent since stays charged. `shift` sums these corrections, so
that marks taken before a correction stay comparable after it, and no log of sends is kept.

Depth. `depth_s` is what is proven: the debt that an accepted request really had. `ceiling_s` is what headers imply, an
upper bound. `reach_s` is how far the lane goes now; if the depth has to be found, `depth_ramp` decides it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from headway.core.lanes.meters.depth_ramp import BOLD, FIRST_DEPTH_S, GROWTH, SLOW, DepthRamp
from headway.core.model import DAY_S, DIMENSIONS, MINUTE_S, Dimension, LaneLimits, LimitReport

#: Token costs are estimates: a start must fit with this factor to spare (providers.md §4.2).
TOKEN_SAFETY: Final = 1.15
#: A request that is larger than the bucket goes when everything is paid back, and there is no room to keep a reserve in. It
#: waits this much longer for each unit of caution that refusals added: the network may have delayed the one before it.
EARLY_S: Final = 0.05

#: What stays in the bucket: the jitter of the network and some refill (0.15 s + 0.6 s, providers.md §4.1–2), but
#: no more than a share of a shallow bucket, or nothing would be left to use.
GUARD_S: Final = 0.75
GUARD_SHARE: Final = 0.3

MINIMUM_GAP: Final = "minimum gap"

#: A bucket that is proven to this share of its ceiling needs no ramp.
NEARLY: Final = 0.97

#: Two requests, or a request and a refund, may overtake each other on the network within this time.
CROSSING_S: Final = 0.15
CREDITS_KEPT_S: Final = 2.0
#: Enough for answers that take a minute: a report is compared with the burst that its request belongs to.
BURSTS_KEPT: Final = 512

#: Reported levels are believed up to this factor above a minute's worth; one published header set was wrong.
SANE_RESET: Final = 1.25

#: No bucket is assumed to be shallower than this: headers are rounded.
SHALLOWEST_S: Final = 0.1


class Meter:
    """A virtual-time bucket for one dimension and period of a lane."""

    __slots__ = (
        "bursts", "careful", "ceiling_s", "credits", "debt_s", "depth_s", "dimension", "foreign_s", "full_at", "given_back_s",
        "guard_s", "implied", "limit", "name", "period_s", "place", "proven_s", "ramp", "rate", "reach_s", "reported", "safety",
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
        #: The limit of which this meter keeps our part, while other jobs use it, too.
        self.whole: Meter | None = None
        if burst_s is None and period_s >= DAY_S:
            burst_s = period_s  # A day's quota may be used at once; it is not spread over the day.
        #: Finds the depth, if it is not given.
        self.ramp = DepthRamp() if burst_s is None else None
        #: The cost of a request of the lane, in seconds of refill.
        self.unit_s = 0.0
        #: Whether the charges may be far from what the provider counts: then the ramp takes small steps.
        self.careful = False
        #: The most that the provider's bucket can hold. A reported level is counted from there, whatever burst is
        #: configured.
        self.ceiling_s = period_s if burst_s is None or reported else burst_s
        self.deepen(FIRST_DEPTH_S if burst_s is None else burst_s)
        self.implied = (0.0, self.ceiling_s * SANE_RESET)
        #: The highest level that was seen, in seconds of refill.
        self.top_s = 0.0
        self.full_at = now
        #: Refunds `(at, seconds)` and starts of bursts `(at, mark before)`, the latest last.
        self.credits: deque[tuple[float, float]] = deque()
        self.bursts: deque[tuple[float, float]] = deque([(float("-inf"), now)], maxlen=BURSTS_KEPT)
        self.shift = 0.0
        #: For `other_clients`: the seconds of refill that other clients have used in total, by the reports, and the most that one
        #: report has given back since the last look.
        self.foreign_s = self.given_back_s = 0.0
        self.synced_seq = -1
        self.synced = (0.0, 0.0)
        #: For `limit_usage`: the seconds of refill that were charged, the debt before the first charge, and the lane's work
        #: time before it had this meter; below 0: not known yet.
        self.used_s = 0.0
        self.debt_s = self.since_s = -1.0

    @property
    def windowed(self) -> bool:
        """Whether the whole allowance comes at once, at the start of each period."""
        return False

    @property
    def probed(self) -> bool:
        """Whether its depth has to be found."""
        return self.ramp is not None

    def deepen(self, proven_s: float, now: float = float("-inf")) -> None:
        """Set the proven depth, up to the ceiling, and compute the reach."""
        self.proven_s = proven_s
        self.depth_s = proven_s if proven_s < self.ceiling_s else self.ceiling_s
        reach_s = self.depth_s
        ramp = self.ramp
        if ramp is not None and self.shallow:
            growth = BOLD if self.reported else SLOW if self.careful else GROWTH
            reach_s = ramp.reach_s(proven_s, self.unit_s, now, growth, reported=self.reported)
        elif ramp is not None and not ramp.ended:
            reach_s = self.ceiling_s  # The rest is less than what a step goes beyond a stop.
        self.reach_s = reach_s if reach_s < self.ceiling_s else self.ceiling_s
        # A depth that is being tested is used to its end: a reserve would hide where the end is.
        tests = self.depth_s < self.reach_s < NEARLY * self.ceiling_s
        self.guard_s = 0.0 if tests else min(GUARD_S, GUARD_SHARE * self.reach_s)

    def follow(self, whole: Meter, part: float) -> None:
        """Take the depth of the limit, in seconds. A part may be overdrawn if the limit's ramp needs the whole bucket."""
        self.ceiling_s, self.proven_s = whole.ceiling_s / part, whole.proven_s
        self.depth_s, self.guard_s = whole.depth_s, whole.guard_s
        self.reach_s = (
            whole.reach_s / part if whole.shallow and whole.reach_s > whole.depth_s else whole.depth_s
        )

    def begin_ramp(self, cost: float, *, careful: bool) -> None:
        """The cost of a request is known: let the ramp go beyond the first depth."""
        if self.ramp is not None:
            self.careful = careful
            self.unit_s = cost / self.rate
            self.deepen(self.proven_s)

    def ready_at(self, cost: float, caution: float = 0.0) -> float:
        """The earliest instant at which `cost` may start, with `caution` times the guard kept in reserve."""
        slack = self.slack_s(cost, caution)
        return self.full_at - slack if slack > 0.0 else self.paid_at(cost, caution)

    def slack_s(self, cost: float, caution: float) -> float:
        """The debt beside which `cost` still fits; below 0 it fits only beside none."""
        return self.reach_s - caution * self.guard_s - self.safety * cost / self.rate

    def paid_at(self, cost: float, caution: float) -> float:
        """When everything is paid back: a start that leaves nothing of the bucket, or the reserve, waits until then."""
        if cost < self.rate * self.reach_s or caution <= 1.0:
            return self.full_at
        return self.full_at + EARLY_S * (caution - 1.0)

    def reserve(self, cost: float, now: float) -> float:
        """Charge a start. Returns its mark, which the report in its response is compared with."""
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

    def redate(self, cost: float, waiting: float, now: float) -> float:
        """A start that was charged `cost` is written now, and others that were charged `waiting` are still to be written.

        A full bucket did not refill while they waited. Returns the mark of the start. Marks of what was written earlier stay.
        """
        owed_until = now + (cost + waiting) / self.rate
        if owed_until > self.full_at:
            self.full_at = owed_until
        mark = self.mark_before(self.full_at - self.shift, waiting)
        if self.reported and now - self.bursts[-1][0] > CROSSING_S:
            self.bursts.append((now, mark - cost / self.rate))
        return mark

    def mark_before(self, mark: float, waiting: float) -> float:
        """A mark without what is written after it."""
        return mark - waiting / self.rate

    def adjust(self, cost: float) -> None:
        """Charge `cost` more for an earlier start; a negative cost is a refund."""
        moved = cost / self.rate
        self.full_at += moved
        self.shift += moved
        self.used_s += moved

    def credit(self, cost: float, now: float) -> None:
        """The provider has just refunded `cost`. Reports on earlier sends do not contain that yet."""
        moved = cost / self.rate
        self.full_at -= moved
        self.used_s -= moved
        if self.reported:
            self.credits.append((now, moved))
            if now - self.credits[0][0] > CREDITS_KEPT_S:
                self.credits.popleft()

    def _crossed(self, mark: float, sent_at: float) -> float:
        """How much more than the mark before a send the provider may have had left, because the network keeps no order.

        Sends of one burst arrive in any order, so those before this one may have arrived after it. And a refund
        that we learned of just after the send may have been in the bucket when it arrived.
        """
        crossed = 0.0
        found = False
        for at, base in reversed(self.bursts):
            if at <= sent_at:
                # A burst lasts up to `CROSSING_S`, and its end may arrive after the beginning of the next one.
                if found and at <= sent_at - 2.0 * CROSSING_S:
                    break
                crossed, found = max(0.0, mark - base), True
        for at, moved in self.credits:
            if sent_at < at <= sent_at + CROSSING_S:
                crossed += moved
        return crossed

    def _owed_since(self, sent_at: float) -> float:
        """The smallest `full_at` after later sends: the bucket may have been full before each of their bursts."""
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
        """How much is in the bucket; negative if usage was larger than the rest."""
        debt_s = max(0.0, self.full_at - now)
        return ((self.depth_s if depth_s is None else depth_s) - debt_s) * self.rate

    def empty(self, now: float) -> None:
        """The provider refused: the bucket is empty."""
        self.owe_until(now + self.depth_s)

    def set_limit(self, limit: float, now: float) -> None:
        """Change the rate; the debt stays the same in units of cost."""
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
        """Change the part of the same bucket; it stays as full as it was."""
        self.limit = limit
        self.rate = limit / self.period_s

    def owe_until(self, at: float) -> None:
        """It will not be full before then: others have used it, too."""
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
        """Take the level that the response to a send reported; a report older than the newest is ignored.

        A refusal says what is left and not how deep the bucket is. Counted from the ceiling, an empty bucket that is
        shallow would look like a debt of a whole minute, so it is counted from the known depth. And a refusal outweighs its own
        report: a report that says that much is left describes another span than the one that refused,
        so the level rises by no more than the request was charged.
        """
        if report.remaining is None:
            return
        left_s = report.remaining / self.rate
        if report.reset_s is None and (refused or (seq <= self.synced_seq and not self.top_s)):
            left_s += self.ceiling_s - self.depth_s
        if seq <= self.synced_seq and sent_at <= self.synced[1]:
            self._overtaken(sent_at, left_s)
            return
        self.synced_seq = max(seq, self.synced_seq)
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
            least = -cost / self.rate if refused else self._owed_since(sent_at) - self.full_at
            wrong_by = max(wrong_by, least)
            self.given_back_s = max(self.given_back_s, -wrong_by)
        else:
            return
        self.full_at += wrong_by
        self.shift += wrong_by
        self.foreign_s += wrong_by

    def _overtaken(self, sent_at: float, left_s: float) -> None:
        """Take a report on an earlier send than the newest known.

        It is out of date, unless the two were sent so close together that they may have arrived in the other order:
        then the later report did not count the earlier send, and this report, which counts both, is the newest.
        """
        mark, newest_sent_at = self.synced
        if newest_sent_at - sent_at < CROSSING_S:
            wrong_by = sent_at + self.ceiling_s - left_s - (mark + self.shift)
            if wrong_by > 0.0:
                self.full_at += wrong_by
                self.shift += wrong_by
                self.foreign_s += wrong_by

    def _narrow_ceiling(self, implied_s: float, report: LimitReport) -> None:
        """Remaining + time until full is the depth, within their rounding: keep the interval that all reports agree on.

        Most buckets hold a whole period's worth: that is assumed while it is in the interval.
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
        self.implied = (
            low,
            high,
        )  # A report that agrees with none before shows that the provider has changed.
        whole = low <= self.period_s <= high
        self.ceiling_s = self.period_s if whole else max(SHALLOWEST_S, (low + high) / 2.0)
        self.deepen(self.proven_s)

    def _raise_ceiling(self, seen_s: float) -> None:
        """No reset is reported: assume that the bucket holds no more than the highest level seen, or the configured burst.

        That is never too bold. Starts depend on what is left, which is counted from the ceiling; only the
        guard and the probes depend on the depth.
        """
        if seen_s > self.top_s:
            self.top_s = seen_s
            least_s = SHALLOWEST_S if self.ramp is not None else self.proven_s
            moved = min(max(least_s, seen_s), self.period_s) - self.ceiling_s
            self.ceiling_s += moved
            self.full_at += moved  # What is left stays the same.
            self.shift += moved
            self.deepen(self.proven_s)

    @property
    def shallow(self) -> bool:
        """Whether the bucket may be deeper than proven by an amount that is worth a test."""
        return self.ramp is not None and self.depth_s < NEARLY * self.ceiling_s

    @property
    def levelled(self) -> bool:
        """Whether levels are reported; then usage adds nothing."""
        return self.synced_seq >= 0

    def accepted(self, debt_s: float, cost: float, now: float, *, careful: bool) -> None:
        """A request was accepted at this debt: the bucket is at least so deep, and the ramp goes on."""
        self.careful = careful
        self.unit_s = cost / self.rate
        self.deepen(max(debt_s, self.proven_s), now)

    def reported_debt_s(self, reports: Iterable[LimitReport]) -> float:
        """The debt at an admission, by its reports; 0 if they do not say.

        Marks do not prove it: a send that may have arrived earlier or later is charged on both sides of a report.
        """
        for report in reports:
            same = report.dimension is self.dimension and report.period_s == self.period_s
            if same and report.remaining is not None and (report.reset_s is not None or self.top_s):
                return self.ceiling_s - (report.remaining + report.remaining_precision) / self.rate
        return 0.0

    def end_ramp(self, debt_s: float, seq: int, now: float) -> None:
        """A request of the ramp was refused and refunded: the debt of the others is the depth."""
        assert self.ramp is not None
        self.ramp.end(now, seq)
        self.deepen(max(debt_s, min(self.proven_s, FIRST_DEPTH_S)), now)

    def rest_ramp(self, until: float, seq: int) -> None:
        """Go no further than proven until then."""
        if self.ramp is not None:
            self.ramp.rest(until, -1 if self.ramp.ended else seq)
            self.deepen(self.proven_s, until - 1e-9)

    def overreached(self, deep_s: float) -> None:
        """An attempt beyond this debt was refused: the bucket ends there."""
        if self.ramp is not None and deep_s < self.proven_s:
            self.deepen(max(deep_s, min(self.proven_s, FIRST_DEPTH_S)))

    def allow_burst(self, burst_s: float) -> None:
        """Set another depth for a pace of our own."""
        if burst_s != self.ceiling_s:
            self.ceiling_s = burst_s
            self.deepen(burst_s)

    def recall(self, depth_s: float, now: float, *, ceiling_s: float | None, bottom: bool) -> None:
        """Take the depth that an earlier run has proven. `bottom`: it was refused beyond it. `ceiling_s`: what headers implied."""
        if self.reported and ceiling_s is not None:
            self.ceiling_s = max(SHALLOWEST_S, min(ceiling_s, self.period_s))
        if self.ramp is not None:
            if bottom:
                self.ramp.end(now, -1)
            self.deepen(depth_s, now)

    def redeepen(self, wanted: Meter) -> None:
        """Take the depth settings of another meter."""
        self.ramp = wanted.ramp
        if not self.reported:
            self.ceiling_s = wanted.ceiling_s
        self.deepen(wanted.proven_s)

    def rebuild(self, starts: Iterable[tuple[float, float]], known_at: float = float("inf")) -> None:
        """Restore the level from recorded starts `(at, cost)`, oldest first.

        If the level was known at `known_at` (it may have been less than our own starts explain), later starts are charged
        on top of it.
        """
        alone, known = float("-inf"), self.full_at
        for at, cost in starts:
            alone = max(alone, at) + cost / self.rate
            if at > known_at:
                known = max(known, at) + cost / self.rate
        self.full_at = max(known, alone)


def meters_of(limits: LaneLimits, now: float) -> Iterator[Meter]:
    """A full meter for every configured limit; 0 means unlimited and needs none."""
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
    """A readable name: "input tokens per minute"."""
    span = {DAY_S: "day", MINUTE_S: "minute", 1.0: "second"}.get(period_s, f"{period_s:g} s")
    return f"{dimension.replace('_', ' ')} per {span}"
