"""Finds how deep a bucket is: the lane goes further into it each round trip, until a refusal says where it ends.

What is known of a limit is its rate, and at the most its depth is what headers imply: a limit may be enforced by the second
while its headers speak of the minute. A full bucket is most of what a short job needs, so the depth is found quickly. The
*reach* is how far the lane may go into debt now. It starts just beyond one second's worth. Each accepted request proves the
debt it was sent at, and the reach is a multiple of what is proven: the ramp grows in proportion, once a round trip.

Most buckets hold one second, ten seconds or a minute: these are the spans that providers document. So the ramp does not
run across such a depth. It goes a few requests beyond it and waits for their answers. At these depths a wrong guess costs
those few requests. At any other depth it costs the rest of one round trip's growth. Where headers imply the depth, only
these stops are in doubt, and the ramp goes from one to the next at once.

One refusal ends the ramp. By then everything that was accepted has been charged and everything refused has been given back,
so the debt that is left is the depth. Ten minutes later, then twenty, a single request goes beyond it.

Requests of one burst arrive in any order, and refusals come back sooner than answers. So a refusal belongs to the ramp if
its request was sent before the ramp ended, and each further one of the burst makes the depth smaller by what it gave back.
"""

from __future__ import annotations

from typing import Final

#: Where the depth is unknown it is taken to be this, and the ramp begins here (DESIGN §3).
FIRST_DEPTH_S: Final = 1.0
#: Depths that providers document: per second (Anthropic), ten seconds (Azure), a minute (providers.md §2).
STOPS_S: Final = (1.0, 10.0, 60.0)
#: The reach is this many times what is proven: two round trips from one stop to the next. Where headers imply the depth:
#: one. Where sizes are guesses and nothing corrects them: a few requests each.
GROWTH: Final = 10.0**0.5
BOLD: Final = 10.0
SLOW: Final = 1.0
#: Requests that go beyond a stop. They are what the stop costs where the bucket ends there.
BEYOND: Final = 2.5
#: The least that they go beyond it, where each is small: the network may delay a burst by that much, and estimates err.
LEAST_BEYOND_S: Final = 0.05
BEYOND_SHARE: Final = 0.01
#: What a ramp adds goes at this many requests a second, or so many times the refill where that is more. Refusals are back after
#: 0.1 s: one instant for all of it would make all of it the price where the bucket ends in between.
STEP_PACE: Final = 600.0
STEP_TIMES: Final = 16.0
STEP_BURST_S: Final = 0.02
#: The pause after the refusal that ended a ramp; doubles with each.
PAUSE_S: Final = 600.0

_ALWAYS: Final = float("-inf")


class DepthRamp:
    """The ramp of one lane. Its meters share it: a provider counts all its limits over the same span."""

    __slots__ = ("_pause_s", "ended", "last_seq", "proven_s", "rest_until")

    def __init__(self) -> None:
        #: The largest debt that any of the meters has proven.
        self.proven_s = FIRST_DEPTH_S
        #: Whether a refusal has ended it.
        self.ended = False
        #: The lane's last send when it ended.
        self.last_seq = -1
        self.rest_until = _ALWAYS
        self._pause_s = PAUSE_S

    def reach_s(self, proven_s: float, unit_s: float, now: float, growth: float) -> float:
        """The debt that a meter may go to, whose requests take `unit_s` of refill."""
        if self.ended:
            return proven_s if now < self.rest_until else proven_s + unit_s
        proven_s = self.proven_s = max(proven_s, self.proven_s)
        for stop_s in STOPS_S:
            beyond_s = max(BEYOND * unit_s, LEAST_BEYOND_S, BEYOND_SHARE * stop_s)
            if proven_s < stop_s + beyond_s / 2.0:
                return min(stop_s + beyond_s, max(proven_s + beyond_s, growth * proven_s))
        return growth * proven_s

    def end(self, now: float, seq: int) -> None:
        """A request beyond the proven depth was refused; the lane's last send is number `seq`."""
        if now >= self.rest_until:
            self.rest(now + self._pause_s, seq)
            self._pause_s *= 2.0

    def rest(self, until: float, seq: int) -> None:
        """Go no further than is proven until then."""
        self.ended = True
        self.last_seq = seq
        self.rest_until = max(self.rest_until, until)
