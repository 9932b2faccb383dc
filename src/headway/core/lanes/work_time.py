"""Seconds in which a lane had work waiting, for the shares of its limits that it used (`shares`).

They are summed at starts: since the last start, or since the unit might have gone, if that was later. Time in which the
lane was held, stopped or paused does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.core.lanes.rate_finder import LEARNED

if TYPE_CHECKING:
    from headway.core.lanes.meter import Meter
    from headway.core.lanes.window import Window


class WorkTime:
    """Of one lane, over a run."""

    __slots__ = ("free_at", "shared_s", "total_s", "window_s", "windowed_s")

    def __init__(self, now: float) -> None:
        self.total_s = 0.0
        #: The same, scaled by our share of the lane's limits at the time.
        self.shared_s = 0.0
        #: How much of it the lane had a window, and the same times the window's size.
        self.windowed_s = self.window_s = 0.0
        #: Since when nothing but its limits keeps the lane from starting.
        self.free_at = now

    def free(self, at: float) -> None:
        """What kept the lane from starting anything is over since then."""
        self.free_at = max(self.free_at, at)

    def add(self, seconds: float, share: float, window: Window) -> None:
        """For so long there was something to start, and the lane's limits did not allow it."""
        if seconds > 0.0:
            self.total_s += seconds
            self.shared_s += seconds * share
            if not window.open:
                self.window_s += seconds * window.size
                self.windowed_s += seconds

    def for_meter(self, meter: Meter) -> float:
        """Seconds with work waiting, scaled by our share of this limit: a rate that was found is ours alone."""
        return self.total_s if meter.name == LEARNED else self.shared_s
