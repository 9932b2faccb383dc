"""Finds a rate that nobody tells, from refusals alone.

A bucket is empty at the moment of a refusal. Between two such moments whatever was accepted is what flowed in:
accepted cost ÷ elapsed time is the rate, whatever the depth. So:

- **Ramp** to the first refusal: ten a second, then in proportion to what was accepted, each round trip. The faster the ramp, the
  larger its overshoot: a handful while few were accepted, later a small share of them. What was accepted by then, less the
  refill, is the depth.
- **Climb** to the next. What the ramp took is depth plus refill; where the climb starts, a bucket of ten seconds would explain
  it. If the bucket is shallower, the climb has some doublings to go; if it is deeper, a refusal comes at once and costs three
  quarters of the pace. Little is allowed at once, so that each wrong guess costs a request or two.
- **Hold** just below the estimate, and let the pace grow the slower the longer the evidence it rests on. The next
  refusal, some time later, is the next measurement. A limit that fell refuses at once again, and is climbed to
  anew. One that rose shows as an overdraft that should have been refused, and is climbed to as well.

Which dimension is limited is not told either. All are measured at once; the one whose measurements agree best with
each other is the one to pace by.
"""

from __future__ import annotations

from math import log
from typing import Final, Literal

import msgspec

from headway.core.lanes.meter import Meter
from headway.core.model import DIMENSIONS, MINUTE_S, Costs, Dimension

#: Starts a second before anything is known (providers.md §4.8).
FIRST_RATE: Final = 10.0
#: A handful at once, not a trickle (providers.md §4.7).
FIRST_BURST_S: Final = 0.6
#: The ramp's pace: what was accepted so far, spent over `seconds`, up to so many a second. A refusal comes back after 0.1 s, so
#: the overshoot is a tenth of the pace: a handful (7), then up to 16 requests, then 4 % of what was accepted.
RAMP_PACES: Final = ((0.4, 70.0), (1.0, 160.0), (2.8, float("inf")))
#: Attempts without a first word during a ramp, to begin with and as a share of those that had one.
FIRST_UNANSWERED: Final = 20.0
UNANSWERED_SHARE: Final = 0.6
#: The first climb starts at the rate that explains the ramp if the bucket holds this much: between the usual second and minute.
LIKELY_DEPTH_S: Final = 10.0
#: And at no less than this, however few were accepted.
SLOWEST_CLIMB: Final = 1.0
#: What is left of the pace after a refusal that came too soon to measure anything: while searching, and later.
SEARCH_DROP: Final = 0.25
HOLD_DROP: Final = 0.5
#: However often it is refused, a lane tries one unit in this time: somebody else may have used up what there was.
SLOWEST_S: Final = 10.0
#: A climb doubles the pace in this time, the first one faster; one after an overdraft takes twice as long.
CLIMB_S: Final = 2.0
FIRST_CLIMB_S: Final = 1.5
#: What a pace allows at once: little while it is only a guess.
CLIMB_BURST_S: Final = 0.3
HOLD_BURST_S: Final = 1.0
#: Less than this between two refusals, or fewer acceptances, is no measurement.
LEAST_EVIDENCE_S: Final = 1.0
LEAST_ACCEPTED: Final = 8
#: After this long a few are enough: slow limits have no more to show.
LONG_ENOUGH_S: Final = 4.0
FEWEST_ACCEPTED: Final = 3
#: Just below the estimate, doubling in so many times the evidence (providers.md §4.8).
HOLD_AT: Final = 1.0
GROWTH: Final = 4.0
GROWTH_S: Final = 60.0
STEADY_S: Final = 66.0
STEADY_SHARE: Final = 0.5
MOST_EVIDENCE_S: Final = 150.0
#: Evidence after which a lower measurement is a change, not a better one.
WELL_KNOWN_S: Final = 20.0
#: Measurements whose logarithms differ by more than this are of two different limits.
SAME: Final = 0.2
#: Seconds of refill beyond the estimate without a refusal: the estimate is too low.
OVERDRAFT_S: Final = 2.0
#: Longer than this between two starts is waiting for a debt, not working at the pace.
LONGEST_STEP_S: Final = 5.0
#: Measurements that are compared to tell which dimension is limited, and how many it takes.
KEPT: Final = 8
TELLING: Final = 3
#: What is sent before the first refusal is known counts as depth too, so a found depth is some way above the truth.
DEPTH_TRUST: Final = 0.97
DEPTH_BLUR_S: Final = 0.5
#: Measurements that vary by less than 3 % leave no doubt; another dimension must be this much clearer to be taken.
DOUBTFUL: Final = 0.03**2
CLEARER: Final = 0.3

#: In a bucket this deep what is given back finds room. So it does where a ramp had so many accepted.
DEEP_S: Final = 5.0
MANY: Final = 40


LEARNED: Final = "learned pace"

_PLACES: Final = range(len(DIMENSIONS))


class Pace(msgspec.Struct, frozen=True, gc=False):
    """What a job has found of a whole account so far, for others who would search for the same."""

    rates: tuple[float, ...]
    place: int
    depth_s: float
    evidence_s: float


class Finder:
    """Paces one lane by one learned meter, and learns its rate."""

    def __init__(self, now: float, prefer: Dimension) -> None:
        self.mode: Literal["ramp", "climb", "hold"] = "ramp"
        self.meter = Meter(
            Dimension.REQUESTS, FIRST_RATE * MINUTE_S, now=now, burst_s=FIRST_BURST_S, name=LEARNED
        )
        self.place = DIMENSIONS.index(prefer)
        #: The rate that each dimension had when last measured, and the factor of it that is the pace.
        self.rates = [0.0, 0.0, 0.0, 0.0]
        self.factor = 1.0
        self.evidence_s = 0.0
        self.depth_s = 1.0
        #: Whether it has no way left to be gentler.
        self.slowest = False
        self.began_at = self.empty_at = self._paced_at = now
        self._doubling_s = CLIMB_S
        self._regaining = False
        self._accepted = 0
        self._empty_seq = 0
        self._count = 0
        #: Whether the bucket was deep, and empty for the first time.
        self._drained = False
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._ramp: tuple[float, list[float]] = (0.0, self._sums)
        self._measured: list[list[float]] = []
        #: What is left of a rate that was well known, after it fell; for whoever wants to tell.
        self.fell_to = 1.0
        #: Set while the bucket has not been empty yet since an earlier run's knowledge was taken up.
        self._unproven = False
        #: Whether another job searches, and this one keeps to its part of what that finds.
        self.follows = False

    def recall(
        self, rates: tuple[float, ...], place: int, depth_s: float, evidence_s: float, now: float
    ) -> None:
        """Go on with what an earlier run found. The bucket is full again; its depth is proven anew by probes."""
        self.mode = "hold"
        self.rates, self.place = list(rates), place
        self.depth_s, self.evidence_s = depth_s, max(LEAST_EVIDENCE_S, evidence_s)
        self.factor = HOLD_AT
        self._unproven = True
        limit = rates[place] * HOLD_AT * MINUTE_S
        self.meter = Meter(DIMENSIONS[place], limit, now=now, name=LEARNED)
        self.meter.ceiling_s = max(1.0, depth_s)

    def adopt(self, rates: tuple[float, ...], place: int, evidence_s: float, now: float) -> None:
        """Go on at rates that refusals have just proven: the bucket is empty."""
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
        """Another part of what there is: what was found counts for that much, and so does what it rests on."""
        if self.mode == "ramp":
            return
        self.meter.resize(self.meter.limit * ratio)
        self.rates = [rate * ratio for rate in self.rates]
        self._sums = [total * ratio for total in self._sums]
        self._measured = [[rate * ratio for rate in found] for found in self._measured]
        ramp_s, sums = self._ramp
        self._ramp = (ramp_s, [total * ratio for total in sums])

    def pace(self, part: float) -> Pace | None:
        """The present pace, if it is more than a first guess, of the account that we have a part of."""
        if self.mode == "ramp":
            return None
        rates = tuple(rate * self.factor / part for rate in self.rates)
        return Pace(rates, self.place, self.depth_s, self.evidence_s)

    def follow(self, pace: Pace | None, part: float, now: float) -> None:
        """Leave the search to another job, and keep to a part of what it has found so far."""
        self.follows = True
        if pace is None:
            return
        self.mode = "hold" if pace.evidence_s else "climb"
        self.rates, self.place = [rate * part for rate in pace.rates], pace.place
        self.depth_s, self.evidence_s = pace.depth_s, pace.evidence_s
        self.factor = HOLD_AT
        limit = self.rates[self.place] * MINUTE_S
        if self.meter.place != self.place or self.meter.probed:
            owes_until = self.meter.full_at
            self.meter = Meter(DIMENSIONS[self.place], limit, now=now, burst_s=1.0, name=LEARNED)
            self.meter.full_at = owes_until
        self.meter.resize(limit)

    def lead(self, now: float) -> None:
        """Nobody else searches any more: go on from what is known."""
        if self.follows:
            self.follows = False
            self._paced_at = now
            self._measured.clear()
            self._restart(now, [])

    @property
    def found(self) -> bool:
        """Whether there is something to remember."""
        return self.mode == "hold" or self.evidence_s > 0.0

    @property
    def glimpsed(self) -> tuple[float, float] | None:
        """Requests a second that the limit is likely between, where it was met and nothing could be measured yet.

        The bucket's depth is in the upper one: all that was accepted since the beginning. The lower one is what was accepted
        since the bucket was first empty, at a pace that may well have been below the limit.
        """
        if self.found or self.mode == "ramp":
            return None
        ramp_s, sums = self._ramp
        since_s = self._paced_at - self.empty_at
        since = max(0.0, self._sums[0])
        most = (sums[0] + since) / max(LEAST_EVIDENCE_S, ramp_s + since_s)
        least = since / since_s if since_s >= LEAST_EVIDENCE_S else SEARCH_DROP * most
        return min(least, most), most

    # -- what happens --------------------------------------------------------------------------------

    def sent(self, costs: Costs) -> None:
        """An attempt goes out; it counts as accepted until it turns out otherwise."""
        self._count += 1
        for place in _PLACES:
            self._sums[place] += costs[place]

    def accepted(self, now: float) -> None:
        """An attempt was taken: a ramp goes on."""
        self._accepted += 1
        self.slowest = False
        if self.mode == "ramp" and not self.follows:
            self.meter.set_limit(_ramp_pace(self._accepted) * MINUTE_S, now)

    @property
    def most_unanswered(self) -> float:
        """How many may be out without a first word while the ramp goes on: a server may queue instead of refusing."""
        return (
            max(FIRST_UNANSWERED, UNANSWERED_SHARE * self._accepted) if self.mode == "ramp" else float("inf")
        )

    def settled(self, more: Costs, seq: int) -> None:
        """Send number `seq` of the lane turns out to have cost so much more."""
        if seq > self._empty_seq:
            for place in _PLACES:
                self._sums[place] += more[place]

    def credited(self, given_back: Costs, seq: int) -> None:
        """The provider gives this back for send number `seq`: it flows into the bucket like any refill.

        What was sent before the bucket was empty counts only where a deep one was drained at once: then much of it is still in
        flight. At a steady pace as much comes back late at the end of a measurement as at its beginning.
        """
        if seq > self._empty_seq or self._drained:
            for place in _PLACES:
                self._sums[place] -= given_back[place]

    def turned_back(self, costs: Costs, seq: int) -> None:
        """Send number `seq` was not accepted after all."""
        if seq > self._empty_seq:
            self._count -= 1
            for place in _PLACES:
                self._sums[place] -= costs[place]

    def refused(self, sent_at: float, seq: int, since: list[Costs], mean: Costs, now: float) -> None:
        """A new refusal, not one of a burst: the bucket was empty when send number `seq` went out.

        `since` is what has been sent after it, `mean` what a unit costs on average.
        """
        if self.follows:
            if self.mode == "ramp":
                self.meter.set_limit(max(self.meter.limit * HOLD_DROP, MINUTE_S / SLOWEST_S), now)
            return
        drains = self._unproven and self.depth_s > DEEP_S
        drains = drains or (self.mode == "ramp" and self._accepted >= MANY)
        self._empty_seq = seq if self.mode == "ramp" or not self.too_soon(sent_at) else self._empty_seq
        if self.mode == "ramp":
            self._end_ramp(mean, sent_at)
            self._restart(sent_at, since)
        elif self._unproven:
            self._restart(sent_at, since)  # The first time that it is empty: nothing to measure from.
            self.meter.redeepen(Meter(self.meter.dimension, self.meter.limit, burst_s=1.0))
            self.meter.full_at = now + self.meter.depth_s
        elif self._regaining:
            self.factor *= HOLD_DROP  # What was accepted since the last empty is of two different limits.
            self._climb(CLIMB_S)
            self._restart(sent_at, since)
        elif self.too_soon(sent_at):
            self.factor *= HOLD_DROP if self.mode == "hold" else SEARCH_DROP
            self._climb(CLIMB_S)
        else:
            self._measure(sent_at - self.empty_at, since)
            self._restart(sent_at, since)
        if self.rates[self.place] > 0.0:
            floor = mean[self.place] / (SLOWEST_S * self.rates[self.place])
            self.slowest = self.factor <= floor
            self.factor = max(self.factor, floor)
        self._drained = drains or (self._drained and self.empty_at != sent_at)
        self._paced_at = now
        self._set_pace(now)

    def too_soon(self, now: float) -> bool:
        """Whether too little has happened since the bucket was empty to measure anything."""
        elapsed_s = now - self.empty_at
        enough = LEAST_ACCEPTED if elapsed_s < LONG_ENOUGH_S else FEWEST_ACCEPTED
        return elapsed_s < LEAST_EVIDENCE_S or self._count < enough or self._sums[self.place] <= 0.0

    def advance(self, now: float) -> None:
        """Time has passed: the pace grows if it was really used."""
        used_s = min(now, self.meter.full_at, self._paced_at + LONGEST_STEP_S) - self._paced_at
        self._paced_at = now
        if self.mode == "ramp" or used_s <= 0.0 or self.follows:
            return
        if self.mode == "climb":
            self.factor *= 2.0 ** (used_s / self._doubling_s)
        elif not self._unproven and now - self.empty_at > min(STEADY_S, STEADY_SHARE * self.evidence_s):
            self.factor *= 2.0 ** (used_s / min(GROWTH_S, GROWTH * self.evidence_s))
        if self.mode == "hold" and self._overdrawn(now):
            self._climb(2.0 * CLIMB_S, regaining=True)
        self._set_pace(now)

    # -- what is learned -------------------------------------------------------------------------------

    def _end_ramp(self, mean: Costs, sent_at: float) -> None:
        """The first refusal: the bucket is drained. The ramp's pace says little; it is only a place to start from."""
        self._ramp = (sent_at - self.began_at, self._sums)
        if mean[self.place] <= 0.0:
            self.place = DIMENSIONS.index(
                Dimension.REQUESTS
            )  # Units without estimates are at least requests.
        self.rates = [self.meter.rate * cost for cost in mean]
        ramp_s, sums = self._ramp
        likely = sums[0] / (LIKELY_DEPTH_S + ramp_s)
        self.factor = min(1.0, max(SLOWEST_CLIMB, likely) / self.meter.rate)
        self._climb(FIRST_CLIMB_S)

    def _climb(self, doubling_s: float, *, regaining: bool = False) -> None:
        self.mode = "climb"
        self._doubling_s = doubling_s
        self._regaining = regaining

    def _restart(self, empty_at: float, since: list[Costs]) -> None:
        """Count anew from an empty bucket."""
        self.empty_at = empty_at
        self._unproven = False
        self._count = 0
        self._sums = [0.0, 0.0, 0.0, 0.0]
        for costs in since:
            self.sent(costs)

    def _measure(self, elapsed_s: float, since: list[Costs]) -> None:
        """Between two empties: what was accepted is what flowed in."""
        sent_since = [sum(costs[place] for costs in since) for place in _PLACES]
        found = [max(0.0, self._sums[place] - sent_since[place]) / elapsed_s for place in _PLACES]
        place = self.place
        if found[place] <= 0.0:
            return
        same = self.evidence_s > 0.0 and abs(log(found[place] / self.rates[place])) < SAME
        if same:
            weight = elapsed_s / (elapsed_s + self.evidence_s)
            self.rates = [old + weight * (new - old) for old, new in zip(self.rates, found, strict=True)]
            self.evidence_s = min(MOST_EVIDENCE_S, self.evidence_s + elapsed_s)
        else:
            known = self.evidence_s >= WELL_KNOWN_S
            self.fell_to = min(1.0, found[place] / self.rates[place]) if known else 1.0
            self.rates = found
            self.evidence_s = elapsed_s
            self._measured.clear()
        self.mode = "hold"
        self.factor = HOLD_AT
        self._measured = [*self._measured[1 - KEPT :], found]
        self._choose_dimension()
        self._measure_depth()

    def _choose_dimension(self) -> None:
        """Pace by the dimension whose measurements agree best; the present one wins where it is close."""
        if len(self._measured) < TELLING:
            return
        spreads = {place: self._spread(place) for place in _PLACES if self.rates[place] > 0.0}
        best = min(spreads, key=lambda place: spreads[place])
        present = spreads[self.place]
        if present > DOUBTFUL and spreads[best] < CLEARER * present:
            self.place = best

    def _spread(self, place: int) -> float:
        """The variance of what was measured, as a share of it."""
        logs = [log(found[place]) for found in self._measured if found[place] > 0.0]
        mean = sum(logs) / len(logs)
        return sum((one - mean) ** 2 for one in logs) / len(logs)

    def _measure_depth(self) -> None:
        """What the ramp took, less what flowed in meanwhile, was in the bucket."""
        ramp_s, sums = self._ramp
        found_s = sums[self.place] / self.rates[self.place] - ramp_s
        self.depth_s = max(1.0, found_s * DEPTH_TRUST - DEPTH_BLUR_S)

    def _overdrawn(self, now: float) -> bool:
        """More was accepted than the estimate can explain."""
        rate = self.rates[self.place]
        explained = rate * (now - self.empty_at + OVERDRAFT_S + (self.depth_s if self._unproven else 0.0))
        return self._count >= LEAST_ACCEPTED and self._sums[self.place] > explained

    def _set_pace(self, now: float) -> None:
        """The meter follows; in another dimension it is another meter that owes as long."""
        limit = self.rates[self.place] * self.factor * MINUTE_S
        if self.meter.place == self.place:
            self.meter.set_limit(limit, now)
        else:
            owes_until = self.meter.full_at
            self.meter = Meter(DIMENSIONS[self.place], limit, now=now, burst_s=1.0, name=LEARNED)
            self.meter.full_at = owes_until
        if not self.meter.probed:
            self.meter.allow_burst(CLIMB_BURST_S if self.mode == "climb" else HOLD_BURST_S)


def _ramp_pace(accepted: int) -> float:
    """Starts a second after so many acceptances."""
    return max(FIRST_RATE, *(min(most, accepted / seconds) for seconds, most in RAMP_PACES))
