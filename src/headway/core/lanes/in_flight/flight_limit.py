"""How many requests a lane without a cap has in flight: as many as bring throughput.

A server that queues gains nothing from a longer queue, and a client that opens ten thousand connections at once only loses. So the
number starts small and doubles as long as answers take no longer. Twice as many in flight then bring twice the throughput (Little's
law: the throughput is what is in flight divided by the time of an answer). Where answers take longer, a step must bring at least
the square root of itself. A step that brings less is undone, and after a while a quarter more is tried.

The time of an answer is the median of a cohort: the first requests that are sent after a step, half as many as the window is wide.
It is known when three quarters of them are answered, whatever the slowest take; a mean of the first answers would only
know the quick ones. So a doubling takes little more than the time of an answer, also where that is half a minute. A first cohort can
hide a queue that is still building up, and the median of a few varies by chance: only a second one can stop the ramp. Gains are
measured against the last size without a queue, not against the last step, so that many small steps that each gained by chance do
not add up. Where many are in flight already, a doubling costs thousands of connections: the steps are smaller there, and need clearer
evidence. A cohort during which the window was not used says nothing.
"""

from __future__ import annotations

from typing import Final

#: In flight at the start; and of a lane with a rate, which paces it. Its full bucket may be a minute's requests.
FIRST_FLIGHT: Final = 16
FIRST_PACED_FLIGHT: Final = 1024
#: From so many on it bounds a lane that searches for its limits, too.
FIRST_BLIND_FLIGHT: Final = 128
#: The steps.
DOUBLE: Final = 2.0
#: Two steps double: a server that is full at 2,000 is asked for 2,900 at once, not for 4,000.
HALF_DOUBLE: Final = 2.0**0.5
SMALL_STEP: Final = 1.25
#: What a step must bring, as a power of itself: to be followed by a doubling, and to be kept.
FULL_GAIN: Final = 0.75
LEAST_GAIN: Final = 0.5
NEVER_ENOUGH: Final = float("inf")
#: From so many in flight on, a doubling opens thousands of connections (some 10 KB each), and the cohorts are large enough to be
#: exact: the steps are smaller, the first cohort must show this gain, and a gain that is only worth keeping is followed by small steps.
MANY: Final = 1024
SURE_GAIN: Final = 0.8
#: From so many on, a first cohort alone is never enough to go on.
VERY_MANY: Final = 2 * MANY
#: Cohorts before a larger number is tried again.
PATIENCE: Final = 4
#: The size of a cohort as a share of the window, on the ramp and after it; the least; and how much of it must be answered.
RAMP_COHORT: Final = 0.5
LATER_COHORT: Final = 4.0
SMALLEST_COHORT: Final = 32
ANSWERED: Final = 0.75
#: A cohort that is answered sooner is made larger: an event loop handles answers in batches of some milliseconds.
SHORTEST_S: Final = 0.1
#: A window counts as used from this share on.
USED_SHARE: Final = 0.8


class FlightLimit:
    """Follows the throughput of one lane."""

    __slots__ = (
        "_again", "_began_at", "_cohort", "_first_seq", "_good", "_most", "_ramp", "_rests", "_times", "_unqueued", "_unqueued_s",
        "first", "paced",
    )  # fmt: skip

    def __init__(self, now: float, sent: int = 0, *, paced: bool = False, first: int = FIRST_FLIGHT) -> None:
        #: Whether a rate paces the lane, too.
        self.paced = paced
        self.first = first = FIRST_PACED_FLIGHT if paced else first
        #: The last size without a queue, and the time of an answer then; 0: none is known yet.
        self._unqueued = first
        self._unqueued_s = 0.0
        #: The last size that brought throughput.
        self._good = first
        self._ramp = True
        #: Whether this is the second cohort of a size, and the cohorts that are left before the next try.
        self._again = False
        self._rests = 0
        #: The present cohort: when it began, its first attempt and its size, its times; and the most in flight meanwhile.
        self._began_at, self._first_seq, self._cohort = now, 0, 0
        self._times: list[float] = []
        self._most = 0
        self._begin(first, sent, now)

    def finished(
        self, now: float, seq: int, took_s: float | None, in_flight: int, size: int, sent: int
    ) -> int | None:
        """The attempt number `seq` has ended, of so many in flight and so many sent; None: without an answer.

        Returns the next window once a cohort has shown it.
        """
        if in_flight > self._most:
            self._most = in_flight
        if not self._first_seq <= seq < self._first_seq + self._cohort:
            return None
        if took_s is None:
            took_s = float("inf")
        times = self._times
        times.append(took_s)
        if len(times) < ANSWERED * self._cohort:
            return None
        if now - self._began_at < SHORTEST_S:
            self._cohort *= 2
            return None
        times.sort()
        answer_s, used = times[self._cohort // 2], self._most >= USED_SHARE * size
        size = self._next(answer_s, size) if used else size
        self._begin(size, sent, now)
        return size

    def _begin(self, size: int, sent: int, now: float) -> None:
        """The next cohort is what is sent from now on."""
        self._began_at = now
        self._first_seq = sent + 1
        self._cohort = max(SMALLEST_COHORT, int(size * (RAMP_COHORT if self._ramp else LATER_COHORT)))
        self._times = []
        self._most = 0

    def _next(self, answer_s: float, size: int) -> int:
        if self._rests:
            self._rests -= 1
            if size == self._unqueued:  # Known better now: later cohorts are larger.
                self._unqueued_s = answer_s
            return size if self._rests else _larger(size, SMALL_STEP)
        step = size / self._unqueued
        before_s = self._unqueued_s or answer_s
        gain = step * before_s / max(1e-9, answer_s)
        again, self._again = self._again, False
        if gain >= step ** _gain_for_more(size, again=again):
            self._unqueued, self._unqueued_s = size, (before_s + answer_s) / 2.0
            self._good, self._ramp = size, True
            return _larger(size, _ramp_step(size))
        if not again:
            self._again = True
            return size
        if gain >= step**LEAST_GAIN:
            self._good = size
            if size < MANY or not self._ramp:
                return _larger(size, _ramp_step(size) if self._ramp else SMALL_STEP)
        self._ramp, self._rests = False, PATIENCE
        return self._good


def _gain_for_more(size: int, *, again: bool) -> float:
    """What a step must bring, as a power of itself, to be followed by another."""
    if size < MANY or again:
        return FULL_GAIN
    return SURE_GAIN if size < VERY_MANY else NEVER_ENOUGH


def _ramp_step(size: int) -> float:
    return DOUBLE if size < MANY else HALF_DOUBLE


def _larger(size: int, step: float) -> int:
    return max(size + 1, int(size * step))
