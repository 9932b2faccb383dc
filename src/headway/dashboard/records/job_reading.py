"""A job as its records and the files of its process show it at one instant."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headway.config import Config
from headway.dashboard.records.search_indexes import SearchIndexes
from headway.dashboard.records.slow_values import SlowValues
from headway.reports.jobs import state_of
from headway.reports.run_progress import Progress, read_progress
from headway.stores.job_lock import JobPlaces
from headway.stores.records import LIVE, Job, State
from headway.stores.store import Store

#: What the user can do now for a job in a state, in one line; "" if nothing.
NextStep = Callable[[Store, Job, str], str]


class RecordPlace(NamedTuple):
    """Where the records are, and what is kept between readings. `flags` are those with which a command finds the same records."""

    config: Config
    jobs: JobPlaces
    flags: tuple[str, ...]
    next_step: NextStep
    slow: SlowValues
    indexes: SearchIndexes


class JobReading(NamedTuple):
    """A job. `progress` is the last that its process wrote, also after its end; None if it wrote none."""

    job: Job
    state: State
    progress: Progress | None

    @property
    def is_live(self) -> bool:
        """Whether a process runs it."""
        return self.state in LIVE

    @property
    def live_progress(self) -> Progress | None:
        """The progress of the process that runs it."""
        return self.progress if self.is_live else None


class NoSuchJob(Exception):
    """There is no job of this name."""


class NoSuchUnit(Exception):
    """The job has no unit of this index."""


def read_job(place: RecordPlace, store: Store, name: str) -> JobReading:
    """A job by its whole name. Raises `NoSuchJob`."""
    job = store.job(name)
    if job is None:
        raise NoSuchJob(name)
    return reading_of(place, job)


def reading_of(place: RecordPlace, job: Job, *, with_progress: bool = True) -> JobReading:
    """A job as it is now. Without `with_progress` only a running job has its progress."""
    state = state_of(place.jobs, job)
    wanted = with_progress or state in LIVE
    return JobReading(job, state, read_progress(place.jobs, job.name) if wanted else None)
