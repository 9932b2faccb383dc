"""Which job and which unit a name means."""

from __future__ import annotations

import re

from headway.errors import UsageError
from headway.stores.records import LIVE, Job
from headway.stores.store import Store


def find_job(store: Store, name: str | None) -> Job:
    """A job by its name or the beginning of it. A file's name means the latest job of that file, None the latest of all."""
    jobs = [job for job in store.jobs() if job.state != "ingesting"]
    if not jobs:
        raise UsageError("there are no jobs yet", hint="'headway run FILE' starts one")
    if name is None:
        return _latest(jobs)
    exact = [job for job in jobs if job.name == name]
    versions = [job for job in jobs if re.fullmatch(re.escape(name) + r"-[0-9a-f]{6}(-\d+)?", job.name)]
    close = exact or versions or [job for job in jobs if job.name.startswith(name)]
    if len(close) == 1 or (close and not exact and close == versions):
        return _latest(close)
    if close:
        raise UsageError(
            f"'{name}' may be {', '.join(job.name for job in close[:5])}", hint="write more of it"
        )
    raise UsageError(f"there is no job '{name}'", hint="'headway jobs' lists them")


def _latest(jobs: list[Job]) -> Job:
    return max(jobs, key=lambda job: (job.state in LIVE, job.finished_utc or job.created_utc, job.id))


def find_unit(store: Store, job: Job, name: str) -> int:
    """The index of a unit, from its id or its index."""
    index = store.index_of(job.id, name)
    if index is not None:
        return index
    if name.isdecimal() and int(name) < job.total:
        return int(name)
    raise UsageError(
        f"job '{job.name}' has no unit '{name}'", hint=f"an id of the input, or an index below {job.total}"
    )
