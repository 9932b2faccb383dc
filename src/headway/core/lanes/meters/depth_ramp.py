"""Finds how deep a bucket is: the lane goes further into it each round trip, until a refusal shows where it ends.

The rate of a limit is known. Its depth is at most what headers imply: a limit may be enforced by the second
while its headers describe a minute. A short job needs little more than a full bucket, so the depth must be found quickly. The
*reach* is how far the lane may go into debt now. It starts just beyond one second's worth. Each accepted request proves the
debt it was sent at, and the reach is a multiple of the proven debt: the ramp grows in proportion, once a round trip.

Most buckets hold one second, ten seconds or a minute: these are the spans that providers document. So the ramp does not
run across such a depth. It goes a few requests beyond it and waits for their answers. At these depths a wrong guess costs
those few requests. At any other depth it costs the rest of one round trip's growth, which is small as long as much work is
left (`pace`). If headers imply the depth, only
these stops are in doubt, and the ramp goes from one to the next at once.

One refusal ends the ramp. By then every accepted request is charged and every refused one is refunded,
so the debt that is left is the depth. Ten minutes later, then twenty, a single request goes beyond it.

Requests of one burst arrive in any order, and refusals come back sooner than answers. So a refusal belongs to the ramp if
its request was sent before the ramp ended, and each further refusal of the burst reduces the depth by its refund.
"""

from __future__ import annotations

from typing import Final

#: An unknown depth is assumed to be this, and the ramp begins here (DESIGN §3).
FIRST_DEPTH_S: Final = 1.0
#: Depths that providers document: per second (Anthropic), ten seconds (Azure), a minute (providers.md §2).
STOPS_S: Final = (1.0, 10.0, 60.0)
#: The reach is this many times the proven debt: two round trips from one stop to the next (`GROWTH`). If headers imply the
#: depth: one (`BOLD`). If sizes are guesses that nothing corrects: a few requests each (`SLOW`).
GROWTH: Final = 10.0**0.5
BOLD: Final = 10.0
SLOW: Final = 1.0
#: While so many units have yet to start, the ramp from the first stop to the last may take this share of the time that they take at
#: the limit. The bucket is used up before the work is done all the same, and a refusal that comes back late has cost little.
PATIENT: Final = 1_000
PATIENCE: Final = 0.8
#: Requests that go beyond a stop. They are the cost if the bucket ends there.
BEYOND: Final = 2.5
#: The least that small requests go beyond it: the network may delay a burst by that much, and estimates are not exact.
LEAST_BEYOND_S: Final = 0.05
#: With reports the least is more by one request, which is how far a report may be off, and by what the bucket refills while a
#: burst arrives: otherwise the reported debt would stay below the stop for ever where requests are small.
LATE_S: Final = 0.02
#: With reports a stop is passed by this much.
LEAST_PROOF_S: Final = 1e-3
BEYOND_SHARE: Final = 0.01
#: The requests of a step go at this many a second, or at so many times the refill if that is more. Refusals are back after
#: 0.1 s: if all were sent in one instant, all would be refused where the bucket ends in between.
STEP_PACE: Final = 600.0
STEP_TIMES: Final = 16.0
STEP_BURST_S: Final = 0.02
#: The pause after a refusal that ended a ramp; it doubles each time.
PAUSE_S: Final = 600.0

_ALWAYS: Final = float("-inf")


class DepthRamp:
    """The ramp of one lane. Its meters share it: a provider counts all its limits over the same span."""

    __slots__ = (
        "_extended_at",
        "_extra_s",
        "_pause_s",
        "ended",
        "last_seq",
        "most_growth",
        "proven_s",
        "rest_until",
    )

    def __init__(self) -> None:
        #: The largest debt that any of the meters has proven possible.
        self.proven_s = FIRST_DEPTH_S
        #: The most that the reach is of the proven debt.
        self.most_growth = GROWTH
        #: Whether a refusal has ended it.
        self.ended = False
        #: The lane's last send when it ended.
        self.last_seq = -1
        self.rest_until = _ALWAYS
        self._pause_s = PAUSE_S
        #: How much further than planned it goes beyond a stop, because reports stay behind; and since when.
        self._extra_s = 0.0
        self._extended_at = _ALWAYS

    def reach_s(
        self, proven_s: float, unit_s: float, now: float, growth: float, *, reported: bool = False
    ) -> float:
        """The debt up to which a meter may go; a request takes `unit_s` of its refill.

        `reported`: the proven debt comes from reports, less their possible error, so a little beyond a stop proves that the
        bucket does not end there. A mark says when a request was sent, which proves less.
        """
        if self.ended:
            return proven_s if now < self.rest_until else proven_s + unit_s
        proven_s = self.proven_s = max(proven_s, self.proven_s)
        if not reported and growth > self.most_growth:
            growth = self.most_growth
        for stop_s in STOPS_S:
            beyond_s = max(BEYOND * unit_s, LEAST_BEYOND_S, BEYOND_SHARE * stop_s)
            if reported:
                beyond_s = max(beyond_s, LEAST_BEYOND_S + unit_s + LATE_S) + self._extra_s
            if proven_s < stop_s + (LEAST_PROOF_S if reported else beyond_s / 2.0):
                return min(stop_s + beyond_s, max(proven_s + beyond_s, growth * proven_s))
        return growth * proven_s

    def pace(self, round_trip_s: float, left_s: float) -> None:
        """An answer took so long; the units that have yet to start take `left_s` at the limit."""
        trips = max(1.0, PATIENCE * left_s / max(round_trip_s, LATE_S))
        self.most_growth = max((STOPS_S[-1] / STOPS_S[0]) ** (1.0 / trips), 1.0)

    def hurry(self) -> None:
        """Little work is left, or it is not known how much."""
        self.most_growth = GROWTH

    def extend(self, sent_at: float, unit_s: float, now: float) -> None:
        """A request that was sent at the reach was accepted, and its report shows a smaller debt: go a little further.

        A burst arrives while the bucket refills, so the debt at the provider is smaller than what was charged. Once a round
        trip: only what was sent after the last extension shows what that did.
        """
        if sent_at > self._extended_at:
            self._extended_at = now
            self._extra_s += max(unit_s, LEAST_BEYOND_S)

    def end(self, now: float, seq: int) -> None:
        """A request beyond the proven depth was refused; the lane's last send is number `seq`."""
        if now >= self.rest_until:
            self.rest(now + self._pause_s, seq)
            self._pause_s *= 2.0

    def rest(self, until: float, seq: int) -> None:
        """Go no further than proven until then."""
        self.ended = True
        self.last_seq = seq
        self.rest_until = max(self.rest_until, until)
