"""Detects a server that queues instead of refusing, by the time to its first headers.

Such a server (vLLM is one) never refuses: beyond what it can serve at once, requests only wait longer, and more in
flight brings no more throughput. The gauge averages the time to the first headers over a round of answers.
The lowest average is the time of an idle server. Once a round takes twice as long, the surplus is time in the queue,
and the window shrinks in proportion, plus its square root, so that a short queue always stays and the
server never runs dry. Without first headers nothing is measured: whole answers differ too much in length.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

#: A round whose average exceeds the idle one by this factor is queueing. The time also varies with the prompt.
SLOW: Final = 2.0
#: The window never shrinks by more than this in one round.
MOST_SHRINK: Final = 0.5
#: A round is as many answers as were in flight at its beginning, within these bounds.
SHORTEST_ROUND: Final = 10
LONGEST_ROUND: Final = 200


class LatencyGauge:
    """Averages the time to the first headers over rounds, and computes the window that fits."""

    __slots__ = ("_count", "_round", "_sum_s", "idle_s", "late", "queueing")

    def __init__(self) -> None:
        self.idle_s = float("inf")
        self.queueing = False
        #: Whether a single answer was late: perhaps it was in a queue.
        self.late = False
        self._sum_s = 0.0
        self._count = 0
        self._round = SHORTEST_ROUND

    def observe(self, waited_s: float, in_flight: int, size: int) -> int | None:
        """Add the time to the first headers of an attempt. Returns a new window at the end of a round; None: no change."""
        if waited_s > SLOW * self.idle_s:
            self.late = True
        self._sum_s += waited_s
        self._count += 1
        if self._count < self._round:
            return None
        average_s = self._sum_s / self._count
        self._sum_s, self._count = 0.0, 0
        self._round = max(SHORTEST_ROUND, min(LONGEST_ROUND, in_flight))
        self.idle_s = min(self.idle_s, average_s)
        slow = average_s > SLOW * self.idle_s
        if not slow and not self.queueing:
            return None
        self.queueing = True
        size = min(size, in_flight)
        share = min(1.0, max(MOST_SHRINK, SLOW * self.idle_s / average_s))
        return max(1, int(size * share) + isqrt(size))
