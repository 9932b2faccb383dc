"""Finds an unknown rate from refusals alone.

A bucket is empty at the moment of a refusal. What was accepted between two such moments is what flowed in:
accepted cost ÷ elapsed time is the rate, whatever the depth. So:

- **Ramp** to the first refusal: ten a second, then in proportion to what was accepted, each round trip (`rate_ramp`). What was
  accepted by then, less the refill, is the depth.
- **Climb** to the next refusal. The lane waits until all refusals of the ramp's overshoot are back. What was accepted of it
  flowed in meanwhile, so it is a first, rough measurement, and the climb starts below it. Little is allowed at once, so each
  wrong guess costs a request or two.
- **Hold** just below the estimate, and let the pace grow: the longer its evidence, the slower. The next
  refusal, some time later, is the next measurement. After a limit fell, a refusal comes at once, and a new climb
  begins. A limit that rose shows as an overdraft that should have been refused, and a new climb begins as well.

It is also unknown which dimension is limited. All are measured at once, and the pace follows the one whose measurements agree
best with each other.
"""

from __future__ import annotations

from math import log
from typing import Final, Literal

import msgspec

from headway.core.lanes.learning.boundary_search import BoundarySearch
from headway.core.lanes.learning.rate_ramp import FIRST_RATE, Overshoot, overshoot_rate, ramp_pace
from headway.core.lanes.learning.recent_starts import RecentStarts, at_least
from headway.core.lanes.learning.silent_windows import DEEPEST_S, SilentWindow, shows_windows
from headway.core.lanes.meters.meter import Meter
from headway.core.model import DIMENSIONS, MINUTE_S, Costs, Dimension

#: A handful at once, not one by one (providers.md §4.7).
FIRST_BURST_S: Final = 0.6
#: So many at once while the pace is only a guess: a burst adds to the overshoot.
GUESS_BURST: Final = 2.0
#: Attempts without first headers during a ramp: the first number, and the share of those that had them. While no answer was
#: late, the server does not seem to queue, and the share is larger.
FIRST_UNANSWERED: Final = 20.0
UNANSWERED_SHARE: Final = 0.5
PROMPT_SHARE: Final = 1.0
#: Until the overshoot is measured, the bucket is assumed to hold this much: between the usual second and minute.
LIKELY_DEPTH_S: Final = 10.0
#: The slowest start of a climb, however few were accepted.
SLOWEST_CLIMB: Final = 1.0
#: The factor for the pace after a refusal that came too soon to measure anything: while searching, and later.
SEARCH_DROP: Final = 0.25
HOLD_DROP: Final = 0.5
#: However often it is refused, a lane tries one unit in this time: other clients may have emptied the bucket.
SLOWEST_S: Final = 10.0
#: A refusal found less than one request in the bucket: half of one, on average.
FOUND_EMPTY: Final = 0.5
#: A climb doubles the pace in this time; the first climb is faster, and one after an overdraft takes twice as long.
CLIMB_S: Final = 2.0
FIRST_CLIMB_S: Final = 1.25
#: A climb doubles a slow pace in the time of so many starts.
FEWEST_STARTS: Final = 2.0
#: The burst that a pace allows: small while the pace is only a guess.
CLIMB_BURST_S: Final = 0.3
HOLD_BURST_S: Final = 1.0
#: A measurement needs so much time between two refusals, and so many acceptances.
LEAST_EVIDENCE_S: Final = 1.0
LEAST_ACCEPTED: Final = 8
#: After this long fewer acceptances are enough: slow limits allow no more.
LONG_ENOUGH_S: Final = 4.0
FEWEST_ACCEPTED: Final = 3
#: The factor of the estimate to hold at; the pace doubles in so many times the evidence (providers.md §4.8).
HOLD_AT: Final = 1.0
GROWTH: Final = 4.0
GROWTH_S: Final = 60.0
STEADY_S: Final = 66.0
STEADY_SHARE: Final = 1.25
MOST_EVIDENCE_S: Final = 150.0
#: The same for a rate of an earlier run. It may be a little low: a bucket of a second is full at times, and what it turns away then is
#: not measured. Full evidence: one per cent in 100 seconds.
RECALLED_GROWTH: Final = 48.0
#: After so much evidence a lower measurement is a change of the limit, not a better measurement.
WELL_KNOWN_S: Final = 20.0
#: The weight of an earlier second against one of the latest measurement: refunds make the first measurements too high.
EARLIER: Final = 0.5
#: A climb that has come to so many times a measured rate disproves it: it was about something else, such as the number in flight.
FAR_BEYOND: Final = 4.0
#: Measurements whose logarithms differ by more than this belong to two different limits.
SAME: Final = 0.2
#: After so many seconds of refill beyond the estimate without a refusal, the estimate is too low.
OVERDRAFT_S: Final = 2.0
#: A longer time between two starts is a wait for a debt, not work at the pace.
LONGEST_STEP_S: Final = 5.0
#: How many measurements are compared to find the limited dimension, and how many are needed.
KEPT: Final = 8
TELLING: Final = 3
#: What is sent before the first refusal arrives counts as depth, too, so a measured depth is too large: by this factor, and this blur.
DEPTH_TRUST: Final = 0.97
DEPTH_BLUR_S: Final = 0.5
#: Measurements that vary by less than 3 % are clear; another dimension must vary by less than this share to be chosen. Few measurements
#: agree by chance: of three, in a quarter of all cases. So the share is a sixth of this for three, and grows with each one more.
DOUBTFUL: Final = 0.03**2
CLEARER: Final = 0.3

#: A bucket this deep has room for refunds; so has one that accepted so many requests of a ramp.
DEEP_S: Final = 5.0
MANY: Final = 40


LEARNED: Final = "learned pace"

_PLACES: Final = range(len(DIMENSIONS))


class Pace(msgspec.Struct, frozen=True, gc=False):
    """What a job has measured of a whole account so far, for other jobs on the same account."""

    rates: tuple[float, ...]
    place: int
    depth_s: float
    evidence_s: float


class RateFinder:
    """Paces one lane by one meter, and learns the rate of that meter."""

    def __init__(self, now: float, prefer: Dimension) -> None:
        self.mode: Literal["ramp", "climb", "hold"] = "ramp"
        self.meter = Meter(
            Dimension.REQUESTS, FIRST_RATE * MINUTE_S, now=now, burst_s=FIRST_BURST_S, name=LEARNED
        )
        self.place = DIMENSIONS.index(prefer)
        #: The latest measured rate of each dimension, and the factor of it that is the pace.
        self.rates = [0.0, 0.0, 0.0, 0.0]
        self.factor = 1.0
        self.evidence_s = 0.0
        self.depth_s = 1.0
        #: Whether it cannot pace any slower.
        self.slowest = False
        self.began_at = self.empty_at = self._paced_at = now
        self._doubling_s = CLIMB_S
        self._regaining = False
        #: After the ramp's first refusal: what is sent until then, at the same pace, measures the rate.
        self._overshoot: Overshoot | None = None
        #: When the last attempt of the overshoot was sent.
        self._overshot_at = now
        self._accepted = 0
        self._empty_seq = 0
        self._count = 0
        self._starts = RecentStarts()
        #: Whether a deep bucket was empty for the first time.
        self._drained = False
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._ramp: tuple[float, list[float]] = (0.0, self._sums)
        #: The latest measurements: in what time, and the rates.
        self._measured: list[tuple[float, list[float]]] = []
        #: The share that is left of a well-known rate after it fell, for a notice.
        self.fell_to = 1.0
        #: Whether the rate is from an earlier run and nothing contradicts it; and whether the bucket has not been empty since.
        self._recalled = False
        self._unproven = False
        #: Where its allowance comes in fixed windows: what keeps to them. `_no_windows`: it was a bucket after all.
        self.windows: SilentWindow | None = None
        self._taken_at = now
        self._no_windows = False
        #: Whether another job searches, and this one keeps to its part of the rate that it finds.
        self.follows = False
        #: Our part of the account. All that its jobs have sent counts in a measurement, in proportion to it.
        self.part = 1.0
        #: What this job has sent and was not refused, for the job that searches.
        self.totals = [0.0, 0.0, 0.0, 0.0]

    def recall(
        self, rates: tuple[float, ...], place: int, depth_s: float, evidence_s: float, now: float
    ) -> None:
        """Continue with the rates of an earlier run. The bucket is full again; probes find its depth anew."""
        self.mode = "hold"
        self.rates, self.place = list(rates), place
        self.depth_s, self.evidence_s = depth_s, max(LEAST_EVIDENCE_S, evidence_s)
        self.factor = HOLD_AT
        self._recalled = self._unproven = True
        limit = rates[place] * HOLD_AT * MINUTE_S
        self.meter = Meter(DIMENSIONS[place], limit, now=now, name=LEARNED)
        self.meter.ceiling_s = max(1.0, depth_s)

    def recall_windows(self, rates: tuple[float, ...], place: int, length_s: float, now: float) -> None:
        """Go on with fixed windows that an earlier run found. Where their boundaries are shows again."""
        self.mode = "hold"
        self.rates, self.place = list(rates), place
        self.depth_s = length_s
        self.evidence_s = LEAST_EVIDENCE_S
        search = BoundarySearch(now, now, length_s)
        self.windows = SilentWindow(DIMENSIONS[place], rates[place] * length_s, 0.0, search, LEARNED)
        self.meter = self.windows

    def adopt(self, rates: tuple[float, ...], place: int, evidence_s: float, now: float) -> None:
        """Continue at rates that refusals have just proven: the bucket is empty."""
        self.mode = "hold"
        self.rates, self.place = list(rates), place
        self.evidence_s = max(LEAST_EVIDENCE_S, evidence_s)
        self.factor = HOLD_AT
        self.empty_at = self._paced_at = now
        self.meter = Meter(
            DIMENSIONS[place], rates[place] * MINUTE_S, now=now, burst_s=HOLD_BURST_S, name=LEARNED
        )
        self.meter.empty(now)

    def scale(self, ratio: float) -> None:
        """This job's part has changed by `ratio`: scale the rates and the sums that they are measured from."""
        if self.mode == "ramp":
            return
        if self.windows is not None:
            self.windows.scale(ratio)
        else:
            self.meter.resize(self.meter.limit * ratio)
        self.rates = [rate * ratio for rate in self.rates]
        self._sums = [total * ratio for total in self._sums]
        self._measured = [(took_s, [rate * ratio for rate in rates]) for took_s, rates in self._measured]
        ramp_s, sums = self._ramp
        self._ramp = (ramp_s, [total * ratio for total in sums])

    def pace(self, part: float) -> Pace | None:
        """The present pace of the whole account, of which we have `part`. That of a ramp is its own, whatever our part."""
        if self.mode == "ramp":
            return Pace((self.meter.rate, 0.0, 0.0, 0.0), DIMENSIONS.index(Dimension.REQUESTS), 1.0, 0.0)
        rates = tuple(rate * self.factor / part for rate in self.rates)
        return Pace(rates, self.place, self.depth_s, self.evidence_s)

    def follow(self, pace: Pace | None, part: float, now: float) -> None:
        """Leave the search to another job, and keep to a part of the pace that it has found so far."""
        self.follows = True
        if pace is None:
            return
        self.mode = "hold" if pace.evidence_s else "climb"
        self.windows = None
        self.rates, self.place = [rate * part for rate in pace.rates], pace.place
        self.depth_s, self.evidence_s = pace.depth_s, pace.evidence_s
        self.factor = HOLD_AT
        limit = self.rates[self.place] * MINUTE_S
        if self.meter.place != self.place or self.meter.probed or isinstance(self.meter, SilentWindow):
            owes_until = self.meter.full_at
            self.meter = Meter(DIMENSIONS[self.place], limit, now=now, burst_s=1.0, name=LEARNED)
            self.meter.full_at = owes_until
        self.meter.resize(limit)

    def lead(self, now: float) -> None:
        """No other job searches any more: continue from what is known."""
        if self.follows:
            self.follows = False
            self._paced_at = now
            self._measured.clear()
            self._restart(now, [])

    @property
    def sent_so_far(self) -> Costs:
        """What this job has sent and was not refused."""
        requests, tokens, tokens_in, tokens_out = self.totals
        return requests, tokens, tokens_in, tokens_out

    @property
    def found(self) -> bool:
        """Whether a rate was measured, and no climb has gone far beyond it without a refusal since."""
        return self.mode == "hold" or (self.evidence_s > 0.0 and self.factor <= FAR_BEYOND)

    @property
    def window_s(self) -> float | None:
        """How long its fixed windows are, where it has found some."""
        return None if self.windows is None else self.windows.length_s or None

    @property
    def glimpsed(self) -> tuple[float, float] | None:
        """Bounds of the limit in requests a second, after a first refusal and before a measurement; None otherwise.

        The upper bound is all that was accepted since the beginning, which includes the bucket's depth. The lower one is what was
        accepted since the bucket was first empty, at a pace that may have been below the limit.
        """
        if self.found or self.mode == "ramp":
            return None
        ramp_s, sums = self._ramp
        since_s = self._paced_at - self.empty_at
        since = max(0.0, self._sums[0])
        most = (sums[0] + since) / max(LEAST_EVIDENCE_S, ramp_s + since_s)
        least = since / since_s if since_s >= LEAST_EVIDENCE_S else SEARCH_DROP * most
        return min(least, most), most

    # -- events --------------------------------------------------------------------------------

    def sent(self, costs: Costs, now: float) -> None:
        """Count an attempt as accepted until it is refused."""
        self._starts.add(now)
        if self._overshoot is not None:
            self._overshoot.sent += 1
        for place in _PLACES:
            self.totals[place] += costs[place]
        self.count(costs)

    def count(self, costs: Costs, sign: float = 1.0) -> None:
        """What this job or another one has sent counts since the bucket was empty; or, with a sign, it does not any more."""
        self._count += int(sign * costs[0])
        for place in _PLACES:
            self._sums[place] += sign * self.part * costs[place]

    def accepted(self, now: float, sent_at: float, left: float = float("inf")) -> None:
        """An attempt was accepted: the ramp goes on. `left`: how many units have yet to start."""
        self._accepted += 1
        self.slowest = False
        self.may_have_taken(sent_at)
        if self.windows is not None:
            self.windows.taken(sent_at, now)
            self._take_allowance()
        if self.mode == "ramp" and not self.follows:
            pace = ramp_pace(self._accepted, left)
            self.meter.set_limit(pace * MINUTE_S, now)
            self.meter.allow_burst(GUESS_BURST / pace)

    def most_unanswered(self, *, late: bool) -> float:
        """How many attempts may be without first headers during the ramp: a server may queue instead of refusing.

        `late`: one answer was late.
        """
        if self.mode != "ramp":
            return float("inf")
        return max(FIRST_UNANSWERED, (UNANSWERED_SHARE if late else PROMPT_SHARE) * self._accepted)

    def settled(self, more: Costs, seq: int) -> None:
        """Send number `seq` of the lane has cost `more` than estimated."""
        for place in _PLACES:
            self.totals[place] += more[place]
            if seq > self._empty_seq:
                self._sums[place] += self.part * more[place]

    def credited(self, given_back: Costs, seq: int) -> None:
        """The provider refunds this for send number `seq`: it flows into the bucket like any refill.

        Refunds for what was sent before the bucket was empty count only if a deep bucket was drained at once: then much of it is
        still in flight. At a steady pace, late refunds at the end of a measurement equal those at its beginning.
        """
        counts = seq > self._empty_seq or self._drained
        for place in _PLACES:
            self.totals[place] -= given_back[place]
            if counts:
                self._sums[place] -= self.part * given_back[place]

    def turned_back(self, costs: Costs, seq: int, sent_at: float) -> None:
        """Send number `seq` was refused: do not count it."""
        self._starts.turned_back(seq, sent_at)
        for place in _PLACES:
            self.totals[place] -= costs[place]
        if seq > self._empty_seq:
            self.count(costs, -1.0)

    def may_have_taken(self, sent_at: float) -> None:
        """What was sent at this instant was accepted, or may have been."""
        self._taken_at = max(self._taken_at, sent_at)

    def window_closed(
        self, sent_at: float, boundary: tuple[float, float] | None, mean: Costs, now: float
    ) -> bool:
        """Whether a refusal is a fixed window's end. `boundary`: between these the provider says to come back."""
        if self.windows is None:
            self._count_what_is_estimated(mean)
            if not self._shows_windows(sent_at, boundary, mean):
                return False
            self._enter_windows(mean)
        assert self.windows is not None
        if not self.windows.refused(sent_at, boundary):
            self._leave_windows(sent_at, now)
            return False
        self.slowest = self.windows.too_long(now)
        return True

    def _shows_windows(self, sent_at: float, boundary: tuple[float, float] | None, mean: Costs) -> bool:
        """Whether nothing is accepted for longer than any bucket would need that took what was accepted before."""
        if self._no_windows or self.follows or (self.mode == "ramp" and boundary is None):
            return False
        if self._starts.depth < 1.0:
            return False  # All of the ramp was refused: nothing was ever given.
        ramping = self.mode == "ramp"
        run_s, sums = (sent_at - self.began_at, self._sums) if ramping else self._ramp
        dry_until = sent_at if boundary is None else boundary[0]
        return shows_windows(sums[self.place], run_s, mean[self.place], dry_until - self._taken_at)

    def _enter_windows(self, mean: Costs) -> None:
        """From now on the allowance of each window is spent when it comes."""
        run, mean_cost = self._sums[self.place], mean[self.place]
        if self.mode != "ramp":
            run += self._ramp[1][self.place]
        self.mode = "hold"
        self._overshoot = None
        self.rates = [cost * run / mean_cost / MINUTE_S for cost in mean]
        self.factor = 1.0
        search = BoundarySearch(self.began_at, self._taken_at)
        self.meter = self.windows = SilentWindow(DIMENSIONS[self.place], run, mean_cost, search, LEARNED)

    def _leave_windows(self, sent_at: float, now: float) -> None:
        """It is a bucket after all, at some rate below what its windows would have given."""
        self.windows, self._no_windows = None, True
        self.meter = Meter(
            DIMENSIONS[self.place], self.rates[self.place] * MINUTE_S, now=now, burst_s=1.0, name=LEARNED
        )
        self._climb(CLIMB_S)
        self._restart(sent_at, [])
        self.evidence_s = 0.0

    def _take_allowance(self) -> None:
        """What a window gives, and how long it is, as a rate and a depth."""
        assert self.windows is not None
        if self.windows.length_s and self.windows.rate != self.rates[self.place]:
            ratio = self.windows.rate / self.rates[self.place]
            self.rates = [rate * ratio for rate in self.rates]
            self.depth_s = self.windows.length_s
            self.evidence_s = min(MOST_EVIDENCE_S, max(self.evidence_s, 2.0 * self.windows.length_s))

    def refused(self, sent_at: float, seq: int, since: list[Costs], mean: Costs, now: float) -> None:
        """A new congestion event: the bucket was empty when send number `seq` was sent.

        `since` is what was sent after it, `mean` the average cost of a unit.
        """
        if self.follows:
            if self.mode == "ramp":
                self.meter.set_limit(max(self.meter.limit * HOLD_DROP, MINUTE_S / SLOWEST_S), now)
            return
        self._count_what_is_estimated(mean)
        alone = self.part == 1.0  # Otherwise others empty the bucket as well.
        least = self._starts.proven_rate(sent_at) if alone else 0.0
        self._overshoot = None
        drains = self._unproven and self.depth_s > DEEP_S
        drains = drains or (self.mode == "ramp" and self._accepted >= MANY)
        self._empty_seq = seq if self.mode == "ramp" or not self.too_soon(sent_at) else self._empty_seq
        if self.mode == "ramp":
            self._end_ramp(mean, sent_at)
            self._starts.drain(self._ramp[1][0], seq + len(since))
            self._restart(sent_at, since)
            self._overshoot = Overshoot(sent_at, now, len(since))
        elif self._unproven:
            # It is empty for the first time, so nothing can be measured yet. The rate is between the recalled one and the present pace.
            self.factor = (HOLD_AT + self.factor) / 2.0
            self._restart(sent_at, since)
            self.meter.redeepen(Meter(self.meter.dimension, self.meter.limit, burst_s=1.0))
            self.meter.full_at = now + self.meter.depth_s
        elif self._regaining and least > self.rates[0]:
            self.mode, self.factor = "hold", HOLD_AT
            self.rates = at_least(least, self.rates)
            self._restart(sent_at, since)
        elif self._regaining:
            self.factor *= HOLD_DROP  # What was accepted since then belongs to two different limits.
            self._climb(CLIMB_S)
            self._restart(sent_at, since)
        elif self.too_soon(sent_at):
            self.factor *= HOLD_DROP if self.mode == "hold" else SEARCH_DROP
            if least and self.rates[0]:
                self.factor = max(self.factor, least / self.rates[0])
            self._climb(CLIMB_S)
        else:
            self._measure(sent_at - self.empty_at, since, least)
            self._restart(sent_at, since)
        if self.rates[self.place] > 0.0:
            floor = mean[self.place] / (SLOWEST_S * self.rates[self.place])
            self.slowest = self.factor <= floor
            self.factor = max(self.factor, floor)
        self._drained = drains or (self._drained and self.empty_at != sent_at)
        self._paced_at = now
        if not self.overshooting:
            self._set_pace(now)

    def overshoots(self, sent_at: float) -> bool:
        """Whether what was sent at this instant belongs to the overshoot of the ramp, so that its refusal says nothing new."""
        if self._overshoot is not None:
            return self._overshoot.refused(sent_at)
        return self.empty_at < sent_at <= self._overshot_at

    @property
    def overshooting(self) -> bool:
        """Whether the lane goes on at the pace of the ramp although that was refused."""
        return self._overshoot is not None and not self._overshoot.ended

    def overshoot_further(self) -> None:
        """Go on at the pace of the ramp: a refused attempt counts for it."""
        self.meter.adjust(1.0)

    def end_overshoot(self, now: float) -> None:
        """The lane has to wait: what was sent so far is the overshoot."""
        if self._overshoot is not None and not self._overshoot.ended:
            self._overshoot.stop(now)
            self._overshot_at = now
            self._set_pace(now)

    def emptied(self, mean: Costs, now: float) -> None:
        """There is less than one request in the bucket: the next try is due once the rest of one has flowed in at the present pace.

        `mean`: the average cost of a unit. A bucket holds a minute at the most, so what the ramp was given bounds the wait.
        """
        one_s = min(mean[self.meter.place] / self.meter.rate, SLOWEST_S)
        if self._starts.drained:
            one_s = min(one_s, (DEEPEST_S + self._ramp[0]) / max(1.0, self._starts.depth))
        self.meter.owe_until(now + max(self.meter.depth_s, FOUND_EMPTY * one_s))

    def too_soon(self, now: float) -> bool:
        """Whether too little was accepted since the bucket was empty to measure a rate."""
        elapsed_s = now - self.empty_at
        enough = LEAST_ACCEPTED if elapsed_s < LONG_ENOUGH_S else FEWEST_ACCEPTED
        return elapsed_s < LEAST_EVIDENCE_S or self._count < enough or self._sums[self.place] <= 0.0

    def advance(self, now: float) -> None:
        """Let the pace grow with time if it was really used."""
        used_s = min(now, self.meter.full_at, self._paced_at + LONGEST_STEP_S) - self._paced_at
        self._paced_at = now
        if self._overshoot is not None:
            self._start_after_ramp(self._overshoot, now)
            return
        if self.mode == "ramp" or used_s <= 0.0 or self.follows or self.windows is not None:
            return
        if self.mode == "climb":
            one_s = 1.0 / (self.rates[0] * self.factor) if self.rates[0] else 0.0
            self.factor *= 2.0 ** (used_s / max(self._doubling_s, FEWEST_STARTS * one_s))
        elif now - self.empty_at > min(STEADY_S, STEADY_SHARE * self.evidence_s):
            self.factor *= 2.0 ** (used_s / self._growth_s)
        if self.mode == "hold" and self._overdrawn(now):
            self._recalled = False
            self._climb(2.0 * CLIMB_S, regaining=True)
        self._set_pace(now)

    @property
    def _growth_s(self) -> float:
        """The time in which the pace doubles while it holds."""
        if self._recalled:
            return RECALLED_GROWTH * self.evidence_s
        return min(GROWTH_S, GROWTH * self.evidence_s)

    # -- measurements -------------------------------------------------------------------------------

    def _end_ramp(self, mean: Costs, sent_at: float) -> None:
        """The first refusal: the bucket is drained. The pace of the ramp is only where the climb starts from."""
        self._ramp = (sent_at - self.began_at, self._sums)
        self.rates = [self.meter.rate * cost for cost in mean]
        ramp_s, sums = self._ramp
        likely = sums[0] / (LIKELY_DEPTH_S + ramp_s)
        self.factor = min(1.0, max(SLOWEST_CLIMB, likely) / self.meter.rate)
        self._climb(FIRST_CLIMB_S)

    def _count_what_is_estimated(self, mean: Costs) -> None:
        """Units without estimates are still requests, whatever their usage turns out to be."""
        if mean[self.place] <= 0.0:
            self.place = DIMENSIONS.index(Dimension.REQUESTS)

    def _start_after_ramp(self, overshoot: Overshoot, now: float) -> None:
        """An attempt starts after the first refusal of the ramp: one of the overshoot, or the first one after it."""
        if not overshoot.start(now):
            self._take_overshoot(overshoot)
            self._set_pace(now)
        elif overshoot.ended:
            self._overshot_at = now
            self.meter.owe_until(now + self.meter.depth_s + overshoot.took_s)

    def _take_overshoot(self, overshoot: Overshoot) -> None:
        """All refusals of the overshoot are back: what was accepted of it shows where the climb starts."""
        self._overshoot = None
        if self.mode == "climb":
            ramp_s, sums = self._ramp
            taken = max(0, min(overshoot.sent, self._count))
            rate = overshoot_rate(taken, overshoot.lasted_s, sums[0] + taken, ramp_s)
            self.factor = max(SLOWEST_CLIMB, rate) / self.rates[0]

    def _climb(self, doubling_s: float, *, regaining: bool = False) -> None:
        self.mode = "climb"
        self._doubling_s = doubling_s
        self._regaining = regaining

    def _restart(self, empty_at: float, since: list[Costs]) -> None:
        """Start to count at an empty bucket."""
        self.empty_at = empty_at
        self._unproven = False
        self._count = 0
        self._sums = [0.0, 0.0, 0.0, 0.0]
        for costs in since:
            self.count(costs)

    def _measure(self, elapsed_s: float, since: list[Costs], least: float) -> None:
        """Measure the rates: what was accepted since the bucket was last empty is what flowed in, and at least `least` requests."""
        sent_since = [self.part * sum(costs[place] for costs in since) for place in _PLACES]
        rates = [max(0.0, self._sums[place] - sent_since[place]) / elapsed_s for place in _PLACES]
        place = self.place
        if rates[place] <= 0.0:
            return
        rates = at_least(least, rates)
        same = self.evidence_s > 0.0 and abs(log(rates[place] / self.rates[place])) < SAME
        if same:
            weight = elapsed_s / (elapsed_s + EARLIER * self.evidence_s)
            self.rates = [old + weight * (new - old) for old, new in zip(self.rates, rates, strict=True)]
            self.evidence_s = min(MOST_EVIDENCE_S, self.evidence_s + elapsed_s)
        else:
            self._recalled = False
            known = self.evidence_s >= WELL_KNOWN_S
            self.fell_to = min(1.0, rates[place] / self.rates[place]) if known else 1.0
            self.rates = rates
            self.evidence_s = elapsed_s
            self._measured.clear()
        self.mode = "hold"
        self.factor = HOLD_AT
        self._measured = [*self._measured[1 - KEPT :], (elapsed_s, rates)]
        self._choose_dimension()
        self._measure_depth()

    def _choose_dimension(self) -> None:
        """Pace by the dimension whose measurements agree best; keep the present one if the difference is small."""
        if len(self._measured) < TELLING:
            return
        spreads = {place: self._spread(place) for place in _PLACES if self.rates[place] > 0.0}
        best = min(spreads, key=lambda place: spreads[place])
        present = spreads[self.place]
        clearer = CLEARER * (len(self._measured) - TELLING + 1) / (KEPT - TELLING + 1)
        if present > DOUBTFUL and spreads[best] < clearer * present:
            self.place = best

    def _spread(self, place: int) -> float:
        """The variance of the measurements of a dimension, relative to their mean. The longer one took, the more it counts."""
        logs = [(took_s, log(rates[place])) for took_s, rates in self._measured if rates[place] > 0.0]
        total_s = sum(took_s for took_s, _ in logs)
        mean = sum(took_s * one for took_s, one in logs) / total_s
        return sum(took_s * (one - mean) ** 2 for took_s, one in logs) / total_s

    def _measure_depth(self) -> None:
        """The depth is what the ramp took, less what flowed in meanwhile."""
        ramp_s, sums = self._ramp
        measured_s = sums[self.place] / self.rates[self.place] - ramp_s
        self.depth_s = max(1.0, measured_s * DEPTH_TRUST - DEPTH_BLUR_S)

    def _overdrawn(self, now: float) -> bool:
        """Whether more was accepted than the estimate can explain."""
        rate = self.rates[self.place]
        explained = rate * (now - self.empty_at + OVERDRAFT_S + (self.depth_s if self._unproven else 0.0))
        return self._count >= LEAST_ACCEPTED and self._sums[self.place] > explained

    def _set_pace(self, now: float) -> None:
        """Set the meter to the pace. In another dimension it is a new meter with the same debt."""
        limit = self.rates[self.place] * self.factor * MINUTE_S
        if self.meter.place == self.place:
            self.meter.set_limit(limit, now)
        else:
            owes_until = self.meter.full_at
            self.meter = Meter(DIMENSIONS[self.place], limit, now=now, burst_s=1.0, name=LEARNED)
            self.meter.full_at = owes_until
        if not self.meter.probed:
            self.meter.allow_burst(self._climb_burst_s() if self.mode == "climb" else HOLD_BURST_S)

    def _climb_burst_s(self) -> float:
        pace = self.rates[0] * self.factor
        return min(CLIMB_BURST_S, GUESS_BURST / pace) if pace > 0.0 else CLIMB_BURST_S
