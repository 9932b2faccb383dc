"""The numbers of all jobs of a store, for `headway ui`: the same families as a run has, from the records and from `progress.json`.

Counters are over all runs. Attempts are counted on from scrape to scrape, because a store may have millions; the first scrapes may end
before all of them are counted, and then the families of attempts are left out. Durations of commits are known to the runs alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from headway.core.snapshot import LaneView
from headway.core.unit_states import Status
from headway.errors import StoreError
from headway.metrics.counted import AttemptTotals
from headway.metrics.families import UNITS, WAITS
from headway.metrics.labels import LabelValues, short
from headway.metrics.lane_gauges import lane_gauges
from headway.metrics.text_format import Exposition, Labels, Samples, format_of, written
from headway.reports.lanes import lane_reports
from headway.reports.run_progress import LaneProgress, Progress, read_progress
from headway.stores.job_lock import JobPlaces
from headway.stores.records import Job
from headway.stores.store import Store

#: Jobs with samples: all that run, and the newest others up to this many.
MOST_JOBS: Final = 50
#: Attempts that are counted by one query, and how long a scrape counts.
PAGE: Final = 100_000
COUNTING_S: Final = 2.0
_NOTHING: Final = LaneView("", 0, 0, 0, 0, 0, 0, 0, 0, None, 0.0, 0.0, (), "", 0.0, None, None)


class StoreMetrics:
    """`open_store` opens the store for reading. `text` takes milliseconds, and may be called in any thread."""

    def __init__(self, open_store: Callable[[], Store], jobs: JobPlaces) -> None:
        self._open_store, self._jobs = open_store, jobs
        self._lock = threading.Lock()
        self._lanes = LabelValues()
        self._totals = AttemptTotals()
        self._waits: dict[Labels, float] = {}
        #: The number of the last attempt that is counted.
        self._counted = 0

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """The numbers now, and the content type, for an Accept header."""
        content_type = format_of(accept)
        with self._lock, self._open_store() as store:
            exposition = self._exposition(store)
        return written(exposition, content_type), content_type

    def _exposition(self, store: Store) -> Exposition:
        jobs = store.jobs()
        running = [job for job in jobs if job.finished_utc is None and self._jobs.is_live(job.name)]
        progress = {job.name: read_progress(self._jobs, job.name) for job in running}
        names = {
            lane.id: lane.name for lane in sorted(store.lanes(), key=lambda lane: -(lane.updated_utc or 0.0))
        }
        is_complete = self._count(store, names)
        samples = self._totals.samples() if is_complete else {}
        samples[WAITS] = self._wait_samples(store, names)
        shown = [*running, *(job for job in jobs if job.name not in progress)][: max(MOST_JOBS, len(running))]
        samples[UNITS] = _units(shown, progress)
        samples |= lane_gauges(self._views(store, [one for one in progress.values() if one is not None]))
        return Exposition(samples)

    def _count(self, store: Store, names: dict[int, str]) -> bool:
        """Count the attempts since the last scrape. Returns whether there are no more."""
        last, until = store.tally.last(), time.monotonic() + COUNTING_S
        self._counted = min(self._counted, last)  # The latest attempts were removed, with their job.
        self._totals.see(self._lanes.of(name) for name in names.values())
        while self._counted < last and time.monotonic() < until:
            up_to = min(last, self._counted + PAGE)
            for row in store.tally.attempts(self._counted, up_to):
                lane = self._lanes.of(names.get(row.lane or 0, "(no lane)"))
                self._totals.add(lane, row.outcome, row.kind, row.attempts)
                self._totals.use(lane, row.input_tokens, row.output_tokens, row.cost_usd)
            self._counted = up_to
        return self._counted >= last

    def _wait_samples(self, store: Store, names: dict[int, str]) -> Samples:
        """The seconds waited; none in a store of an older Headway. Those of a removed job stay counted."""
        try:
            rows = store.tally.waits()
        except StoreError:
            return {}
        now: dict[Labels, float] = {}
        for lane, reason, seconds in rows:
            labels: Labels = (self._lanes.of(names.get(lane, "(no lane)")), reason)
            now[labels] = now.get(labels, 0.0) + seconds
        for labels, seconds in now.items():
            self._waits[labels] = max(seconds, self._waits.get(labels, 0.0))
        return dict(self._waits)

    def _views(self, store: Store, running: Iterable[Progress]) -> list[tuple[str, LaneView]]:
        """The lanes of the jobs that run: counts of each job, with what the lane has recorded of its limits."""
        seen = {report.lane: report.seen for report in lane_reports(store)}
        return [
            (self._lanes.of(name), _view(seen.get(name) or _NOTHING, lane))
            for progress in running
            for name, lane in progress.lanes.items()
        ]


def _view(seen: LaneView, lane: LaneProgress) -> LaneView:
    return msgspec.structs.replace(
        seen,
        in_flight=lane.in_flight,
        remaining=lane.remaining,
        waiting_for_others=lane.waiting_for_others,
        window=lane.window,
    )


def _units(jobs: Iterable[Job], progress: dict[str, Progress | None]) -> Samples:
    """The units of jobs by status."""
    samples: dict[Labels, float] = {}
    for job in jobs:
        now = progress.get(job.name)
        running = 0 if now is None else now.totals.in_flight
        left = max(0, job.total - job.ended - running)
        for status, count in {**job.counts, Status.RUNNING: running, Status.PENDING: left}.items():
            samples[short(job.name), str(status)] = count
    return samples
