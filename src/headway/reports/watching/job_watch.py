"""All jobs of a store that run now, looked at again and again: they appear when they begin and leave shortly after their end.

A job whose process was killed stays, as interrupted. Nothing is needed but the store and the files of the jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.core.snapshot import LaneView
from headway.engine.observer import View
from headway.reports.run_progress import Progress, read_progress
from headway.reports.watched_run import view_of
from headway.stores.job_lock import JobPlaces
from headway.stores.records import LIVE, Job, State
from headway.stores.run_summary import read_summary
from headway.stores.store import Store

#: A job that ended is shown for so long.
ENDED_S: Final = 10.0
#: A job that was interrupted before this watch began is shown if that is not longer ago.
INTERRUPTED_S: Final = 86_400.0


class JobSight(msgspec.Struct, frozen=True):
    """A job as it was last seen. `view`: what its run shows; None if it has shown nothing yet. `end`: how its run ended, in one line."""

    job: Job
    state: State
    live: bool
    began_utc: float
    progress: Progress | None = None
    end: str = ""

    @property
    def view(self) -> View | None:
        """What the run's own displays had."""
        return None if self.progress is None else view_of(self.progress)

    @property
    def lanes(self) -> tuple[LaneView, ...]:
        """Its lanes."""
        view = self.view
        return () if view is None else view.snapshot.lanes


class JobWatch:
    """Looks at the jobs of a store. `jobs` says where their files are."""

    def __init__(self, store: Store, jobs: JobPlaces) -> None:
        self._store, self._jobs = store, jobs
        #: Jobs that were seen alive: their number → when they were last seen so.
        self._alive: dict[int, float] = {}

    def look(self, now_utc: float) -> list[JobSight]:
        """The jobs as they are now: first those that run, the latest first, then those that do not."""
        running = self._store.jobs_in(LIVE)
        gone = self._alive.keys() - {job.id for job in running}
        ended = [job for job in map(self._store.job_by_id, sorted(gone)) if job is not None]
        starts = self._store.run_starts_among([job.id for job in (*running, *ended)])
        sights = [*self._running(running, starts, now_utc), *self._ended(ended, starts, now_utc)]
        return sorted(sights, key=lambda one: (not one.live, -one.began_utc, -one.job.id))

    def _running(self, jobs: list[Job], starts: dict[int, float], now_utc: float) -> Iterator[JobSight]:
        for job in jobs:
            began_utc = starts.get(job.id, job.created_utc)
            progress = self._progress(job, began_utc)
            if self._jobs.is_live(job.name):
                self._alive[job.id] = now_utc
                yield JobSight(job, job.state, True, began_utc, progress)
                continue
            after = self._store.job_by_id(job.id)
            if after is None or after.state not in LIVE:
                continue  # It has just ended: the next look finds its end.
            latest_utc = began_utc if progress is None else progress.updated_utc
            if job.id in self._alive or now_utc - latest_utc < INTERRUPTED_S:
                yield JobSight(after, "interrupted", False, began_utc, progress)

    def _ended(self, jobs: list[Job], starts: dict[int, float], now_utc: float) -> Iterator[JobSight]:
        for job in jobs:
            if now_utc - self._alive[job.id] > ENDED_S:
                del self._alive[job.id]
                continue
            began_utc = starts.get(job.id, job.created_utc)
            summary = read_summary(self._jobs.folder / job.name)
            end = summary.lines[0] if summary is not None and summary.lines else ""
            yield JobSight(job, job.state, False, began_utc, self._progress(job, began_utc), end)

    def _progress(self, job: Job, began_utc: float) -> Progress | None:
        """What the latest run has shown; None if that is of an earlier run."""
        progress = read_progress(self._jobs, job.name)
        return progress if progress is not None and progress.updated_utc >= began_utc else None


def sight_fields(sight: JobSight, resume: str) -> dict[str, object]:
    """A job as the fields of a JSON object. `resume`: the command that goes on with it, if no process runs it."""
    job, progress = sight.job, sight.progress
    totals = None if progress is None else progress.totals
    rate = sum(lane.rate_per_s for lane in sight.lanes) if sight.live else None
    return {
        "job": job.name,
        "kind": job.kind,
        "state": sight.state,
        "live": sight.live,
        "total": job.total,
        "ended": job.ended,
        "counts": job.counts,
        "attempts": job.attempts,
        "refused": job.refused,
        "cost_usd": job.known_usd,
        "started_utc": sight.began_utc,
        "updated_utc": None if progress is None else progress.updated_utc,
        "in_flight": totals.in_flight if totals is not None and sight.live else 0,
        "rate_per_s": None if rate is None else round(rate, 4),
        "eta_s": totals.eta_s if totals is not None and sight.live else None,
        "lanes": {} if progress is None else progress.lanes,
        "resume": resume or None,
    }
