"""Notices a server that queues instead of refusing, by the time to its first words.

Such a server (vLLM is one) never says no: beyond what it can serve at once, requests only wait longer. More in
flight then brings no more throughput. The gauge averages the time to the first headers over a round of answers.
The lowest round's average is what an idle server takes; once a round takes twice as long, the surplus is queue,
and the window shrinks in proportion, plus the square root of itself, so that a short queue always stays and the
server never runs dry. Without first headers there is no gauge: whole answers differ too much in length.
"""

from __future__ import annotations

from math import isqrt
from typing import Final

#: A round whose average exceeds the idle one by this factor is queueing. First words also vary with the prompt.
SLOW: Final = 2.0
#: The window never shrinks by more than this in one round.
MOST_SHRINK: Final = 0.5
#: A round is as many answers as were in flight at its beginning, within these bounds.
SHORTEST_ROUND: Final = 10
LONGEST_ROUND: Final = 200


class LatencyGauge:
    """Averages first words over rounds and says which window they ask for."""

    __slots__ = ("_count", "_round", "_sum_s", "idle_s", "queueing")

    def __init__(self) -> None:
        self.idle_s = float("inf")
        self.queueing = False
        self._sum_s = 0.0
        self._count = 0
        self._round = SHORTEST_ROUND

    def observe(self, waited_s: float, in_flight: int, size: int) -> int | None:
        """First headers after so long, with so many in flight; returns the window that a finished round asks for."""
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
