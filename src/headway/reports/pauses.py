"""The time between the runs of a job, in which no process worked on it. PURE."""

from __future__ import annotations

from collections.abc import Iterable

from headway.stores.records import JobEvent
from headway.stores.store import BEGAN, ENDED, LOST


class Pauses:
    """The pauses of a job, from the events of its runs. The end of a run whose process died was not recorded: the last of `instants`
    before the next run stands for it.
    """

    def __init__(self, events: Iterable[JobEvent], instants: Iterable[float] = ()) -> None:
        self._spans: list[tuple[float, float]] = []
        known = sorted(instants)
        ended: float | None = None
        for event in events:
            if event.what == ENDED:
                ended = event.at_utc
            elif event.what == LOST:
                ended = max((one for one in known if one < event.at_utc), default=None)
            elif event.what == BEGAN:
                if ended is not None:
                    self._spans.append((ended, event.at_utc))
                ended = None

    def between(self, start: float, end: float) -> float:
        """How many seconds of this time no process worked on the job."""
        overlaps = (min(end, last) - max(start, first) for first, last in self._spans)
        return sum(one for one in overlaps if one > 0.0)
