"""Seconds in which a lane had work waiting. Reports divide by them to say how much of its limits a lane used (`limit_usage`).

They are summed at each start: since the last start, or since the unit could have started, if that is later. Time in which
the lane was held, stopped or paused does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.core.lanes.learning.rate_finder import LEARNED

if TYPE_CHECKING:
    from headway.core.lanes.in_flight.window import Window
    from headway.core.lanes.meters.meter import Meter


class WorkTime:
    """The work time of one lane in a run."""

    __slots__ = ("free_at", "shared_s", "total_s", "window_s", "windowed_s")

    def __init__(self, now: float) -> None:
        self.total_s = 0.0
        #: The same, scaled by our share of the lane's limits at the time.
        self.shared_s = 0.0
        #: The part of it with a limited window, and the sum of seconds times window size.
        self.windowed_s = self.window_s = 0.0
        #: Since when only its limits keep the lane from starting.
        self.free_at = now

    def free(self, at: float) -> None:
        """At this instant a hold, a stop or a pause ended."""
        self.free_at = max(self.free_at, at)

    def add(self, seconds: float, share: float, window: Window) -> None:
        """Add seconds in which a unit waited only for the lane's limits."""
        if seconds > 0.0:
            self.total_s += seconds
            self.shared_s += seconds * share
            if not window.open:
                self.window_s += seconds * window.size
                self.windowed_s += seconds

    def for_meter(self, meter: Meter) -> float:
        """Seconds with work waiting, scaled by our share of this limit. A learned rate is our share already."""
        return self.total_s if meter.name == LEARNED else self.shared_s
