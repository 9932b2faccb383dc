"""The least rate that explains the latest starts: what was accepted beyond a whole bucket must have flowed in.

A bucket that is full loses what flows in. Where it holds only a request or two, it is full most of the time at any pace below the
limit. What was accepted between two refusals is then our own pace, and less than what would have been accepted. But several
starts in a row that were accepted out of a bucket of known depth show how fast it was refilled, at least.
"""

from __future__ import annotations

from collections import deque
from typing import Final

#: The starts that are compared. More would say something of deeper buckets, too, and those save what is not used.
KEPT: Final = 16
#: Starts within a shorter time say little: the network delays each differently.
LEAST_S: Final = 1.0


class RecentStarts:
    """The latest starts of a lane that were not refused. The bucket gave `depth` requests at once, at the most."""

    __slots__ = ("_at", "_last_seq", "depth")

    def __init__(self) -> None:
        self._at: deque[float] = deque(maxlen=KEPT)
        self._last_seq = -1
        #: Infinity: not known.
        self.depth = float("inf")

    @property
    def drained(self) -> bool:
        """Whether the bucket has been empty, so that its depth is known."""
        return self._last_seq >= 0

    def add(self, at: float) -> None:
        """A start."""
        self._at.append(at)

    def drain(self, taken: float, seq: int) -> None:
        """The bucket is empty for the first time. It gave `taken`, unless sends up to number `seq` are refused yet."""
        self.depth = taken
        self._last_seq = seq

    def turned_back(self, seq: int, at: float) -> None:
        """Send number `seq`, which started at `at`, was refused."""
        if seq <= self._last_seq:
            self.depth -= 1.0
        if at in self._at:
            self._at.remove(at)

    def proven_rate(self, refused_at: float) -> float:
        """Requests a second that must have flowed in before this refusal and after the one before it; 0: the starts show nothing.

        They are forgotten: the limit may have fallen.
        """
        starts = [at for at in self._at if at < refused_at]
        self._at = deque((at for at in self._at if at >= refused_at), KEPT)
        depth = max(1.0, self.depth)
        rates = [
            (len(starts) - place - depth) / (starts[-1] - at)
            for place, at in enumerate(starts)
            if starts[-1] - at >= LEAST_S
        ]
        return max(0.0, max(rates, default=0.0))


def at_least(requests: float, rates: list[float]) -> list[float]:
    """The rates of all dimensions; or, in the same proportions, so many requests a second if that is more."""
    return [rate * max(1.0, requests / rates[0]) for rate in rates] if rates[0] else rates
