"""How many requests a lane without limits has in flight: as many as bring throughput.

A server that queues gains nothing from a longer queue, and a client that opens ten thousand connections at once only loses. So
the number starts small and doubles while each doubling brings more answers a second. When one brings nothing, the number goes
back to the last that did, and a somewhat larger one is tried again after a while.

Throughput is measured in rounds of twice as many answers as the window is wide. The first round after a change still has answers of
the former window in it and is not counted, nor is a round in which the window was not used.
"""

from __future__ import annotations

from typing import Final

#: In flight at the start.
FIRST_FLIGHT: Final = 16
#: A step that brings less than this is no gain: chance alone varies a round by some percent.
GAIN: Final = 1.1
#: Rounds before a larger number is tried again, and how much larger.
PATIENCE: Final = 16
RETRY: Final = 1.25
#: The least answers in a round.
SHORTEST_ROUND: Final = 64
#: A window counts as used from this share on.
USED_SHARE: Final = 0.8


class FlightLimit:
    """Follows the throughput of one lane."""

    __slots__ = ("_best", "_count", "_good", "_growth", "_most", "_rests", "_settles", "_since")

    def __init__(self, now: float) -> None:
        self._best = 0.0
        self._good = FIRST_FLIGHT
        self._growth = 2.0
        #: Rounds that are left before the next try.
        self._rests = 0
        self._settles = True
        self._since = now
        self._count = 0
        self._most = 0

    def finished(self, now: float, in_flight: int, size: int) -> int | None:
        """An answer is here, of so many that were in flight; returns the next window once a round has shown it."""
        self._count += 1
        self._most = max(self._most, in_flight)
        if self._count < max(SHORTEST_ROUND, 2 * size):
            return None
        throughput = self._count / max(1e-9, now - self._since)
        counts = not self._settles and self._most >= USED_SHARE * size
        self._since, self._count, self._most = now, 0, 0
        self._settles = False
        return self._next(throughput, size) if counts else None

    def _next(self, throughput: float, size: int) -> int | None:
        if self._rests:
            self._rests -= 1
            self._best = throughput
            return None if self._rests else self._change(max(size + 1, int(size * RETRY)))
        if throughput > GAIN * self._best:
            self._best, self._good = throughput, size
            return self._change(int(size * self._growth))
        self._growth, self._rests = RETRY, PATIENCE
        return self._change(self._good)

    def _change(self, size: int) -> int:
        self._settles = True
        return size
