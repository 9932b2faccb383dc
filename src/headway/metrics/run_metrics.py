"""The numbers of one run: an observer that keeps them, and gives them to a scrape from another thread.

Nothing is computed while the run works except sums; the text is made when it is scraped. The counters begin at 0 with every
process, also if it resumes a job: this is what Prometheus expects of a process that was restarted.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from typing import Final

from headway.core.reasons import WaitCode
from headway.core.unit_states import Status
from headway.engine.observer import Observer, Recorded, View
from headway.metrics.counted import AttemptTotals
from headway.metrics.families import COMMITS, UNITS, WAITS
from headway.metrics.labels import LabelValues, short
from headway.metrics.lane_gauges import lane_gauges
from headway.metrics.text_format import Distribution, Exposition, Labels, Samples
from headway.stores.records import Job, JobEvent, UnknownOutcome

#: Upper bounds in seconds: a commit takes 1 ms on an SSD, and 1 s on a busy network disk.
BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class RunMetrics(Observer):
    """Called on the engine's loop; `exposition` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lanes = LabelValues()
        self._totals = AttemptTotals()
        self._waits: dict[Labels, float] = {}
        self._commits = [0] * (len(BOUNDS_S) + 1)
        self._commit_s = 0.0
        self._view: View | None = None

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """Do nothing: the first view has the job."""

    def noted(self, event: JobEvent) -> None:
        """Do nothing: events are no numbers."""

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: views count units."""

    def moved(self, view: View) -> None:
        with self._lock:
            if self._view is None:
                lanes = [self._lanes.of(name) for name in view.names.values()]
                self._totals.see(lanes)
                self._waits |= {(lane, str(WaitCode.PACE)): 0.0 for lane in lanes}
            self._view = view

    def recorded(self, recorded: Recorded) -> None:
        attempts = recorded.attempts
        ends = Counter((attempt.lane, attempt.outcome, attempt.kind) for attempt in attempts)
        with self._lock:
            self._commits[bisect_left(BOUNDS_S, recorded.took_s)] += 1
            self._commit_s += recorded.took_s
            for (lane, outcome, kind), n in ends.items():
                self._totals.add(self._lanes.of(recorded.lanes[lane]), outcome, kind, n)
            for (lane, reason, _), seconds in recorded.waits.items():
                labels = (self._lanes.of(recorded.lanes[lane]), reason)
                self._waits[labels] = self._waits.get(labels, 0.0) + seconds
            for attempt in attempts:
                if attempt.input_tokens or attempt.output_tokens or attempt.cost_usd:
                    self._totals.use(
                        self._lanes.of(recorded.lanes[attempt.lane]),
                        attempt.input_tokens or 0,
                        attempt.output_tokens or 0,
                        attempt.cost_usd or 0.0,
                    )

    def exposition(self) -> Exposition:
        """The numbers now."""
        with self._lock:
            view, samples = self._view, self._totals.samples()
            samples[WAITS] = dict(self._waits)
            commits = Distribution(BOUNDS_S, list(self._commits), self._commit_s)
            if view is not None:
                lanes = [(self._lanes.of(view.names[lane.key]), lane) for lane in view.snapshot.lanes]
                samples |= lane_gauges(lanes)
                samples[UNITS] = unit_counts(view)
        return Exposition(samples, {COMMITS: commits})


def unit_counts(view: View) -> Samples:
    """The units of a job by status; the whole job, not only this run."""
    job, running = short(view.job), view.snapshot.in_flight
    counts = {
        **view.counts,
        Status.RUNNING: running,
        Status.PENDING: max(0, view.total - view.ended - running),
    }
    return {(job, str(status)): count for status, count in counts.items()}
