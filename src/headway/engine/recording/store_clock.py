"""The time that records have: this machine's clock, corrected where the clock of the store's server clearly differs.

Machines that share a store read each other's records: when requests were sent, until when a lane is held. So all of them date by the
clock of the server. A difference that is too small to matter corrects nothing, because a measurement is only as exact as the round trip.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: How often the difference is measured again.
COMPARE_S: Final = 5.0
#: A difference that is corrected. What is measured varies by the length of a round trip.
CLEAR_S: Final = 0.25


class StoreClock:
    """The clock of one store. Any thread may read it; one corrects it."""

    def __init__(self) -> None:
        #: How far the clock of the store is ahead of this machine's.
        self.ahead_s = 0.0
        self._compared_at = float("-inf")

    def utc(self) -> float:
        """Now."""
        return time.time() + self.ahead_s

    def compare(self, ahead_s: Callable[[], float]) -> None:
        """Measure the difference, unless that was done a moment ago. `ahead_s`: how far the clock of the store is ahead, by a round trip."""
        if time.monotonic() - self._compared_at >= COMPARE_S:
            self.correct(ahead_s())
            self._compared_at = time.monotonic()

    def correct(self, ahead_s: float) -> None:
        """The difference was measured."""
        if abs(ahead_s - self.ahead_s) > CLEAR_S:
            self.ahead_s = ahead_s
