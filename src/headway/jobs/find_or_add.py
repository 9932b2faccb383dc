"""Which job an input is, and how a new one is added and filled.

A job is its input's digest together with what the models that it names resolve to. The same again is the same job, whatever
became of limits, keys, addresses or the file's name.

Several processes may be given the same input at once; one of them makes the job. Finding it and adding it is one
transaction (`find_or_add`), so a second process finds what the first has added. A job is `ingesting` until all of its units
are in the store, and the process that takes them in holds the job's lock. A process that dies in the middle leaves such
a job without a lock: the next process removes it (`clear_remains`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import HeadwayError, JobBusy
from headway.jobs.base import IngestOptions, JobSource, RouteCheck
from headway.stores.records import Job, NewJob
from headway.stores.store import Store, free_name

#: Answers that are taken over in one transaction: about a tenth of a second's worth, so that other jobs' commits do not wait.
PAGE: Final = 10_000

#: Makes the lock of a job, by its name.
Locks = Callable[[str], AbstractContextManager[object]]


def find(store: Store, config: Config, digest: str) -> Job | None:
    """The job of this digest, with the present settings; the newest, if it was started over."""
    router = Router(config)
    same = (job for job in store.jobs() if job.digest == digest and job.state != "ingesting")
    return next((job for job in same if _resolves(job, router, config)), None)


def siblings_of(store: Store, config: Config, source: JobSource) -> list[Job]:
    """The jobs of the same rows that differ in how many of them there are to be (`--limit`); the one with the most answers
    first.
    """
    router = Router(config)
    same = [
        job
        for job in store.jobs()
        if job.state != "ingesting"
        and job.digest not in ("", source.digest)
        and source.is_sibling(job)
        and _resolves(job, router, config)
    ]
    return sorted(same, key=lambda job: -job.good)


def _resolves(job: Job, router: Router, config: Config) -> bool:
    """Whether every model that the job's input names still means the same."""
    for raw, known in job.models.items():
        try:
            target = router.route(raw or None)
        except HeadwayError:
            return False
        if (target.provider, identity_of(config.providers[target.provider]), target.model) != known:
            return False
    return True


def name_for(store: Store, source: JobSource) -> str:
    """A name for a new job: the file's, and enough of the digest to tell its versions apart."""
    return free_name(_wanted_name(source), {job.name for job in store.jobs() if job.state != "ingesting"})


def _wanted_name(source: JobSource) -> str:
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", source.stem).strip("-")[:40] or "job"
    return f"{stem}-{source.digest[:6]}"


def find_or_add(
    store: Store, config: Config, source: JobSource, out: str, *, fresh: bool = False
) -> tuple[Job, bool]:
    """The job that an input is, or a new one that is `ingesting`; and whether it is new. `fresh` always makes a new one.

    The job may be one that another process takes in now: its models are not known yet, so its content decides.
    """
    router = Router(config)

    def is_same(job: Job) -> bool:
        return not fresh and job.digest == source.digest and _resolves(job, router, config)

    new = NewJob(
        _wanted_name(source), source.kind, source.path, source.digest, out, time.time(), source.form()
    )
    return store.find_or_add(new, is_same)


def clear_remains(store: Store, digest: str, lock: Locks) -> None:
    """Remove jobs of this content whose process died while it took them in."""
    for job in store.jobs():
        if job.digest == digest and job.state == "ingesting":
            try:
                with lock(job.name):
                    if is_ingesting(store, job):
                        store.forget(job.id)
            except JobBusy:
                continue  # Its process lives.


def is_ingesting(store: Store, job: Job) -> bool:
    """Whether this very job is still in the store and takes in units."""
    now = store.job(job.name)
    return now is not None and now.id == job.id and now.state == "ingesting"


def ingest(
    store: Store,
    config: Config,
    source: JobSource,
    new: Job,
    *,
    options: IngestOptions,
    check: RouteCheck,
    siblings: Sequence[Job] = (),
) -> tuple[Job, int]:
    """Take every unit in; returns the job and how many bad rows were left out. The caller has the job's lock, and
    removes the job if this fails.

    Answers of its `siblings` are taken over.
    """

    def take_over() -> None:
        for sibling in siblings:
            _take_over(store, new.id, sibling.id)

    left_out = source.ingest(store, config, new.id, options=options, check=check, ready=take_over)
    job = store.job(new.name)
    assert job is not None
    return job, left_out


def _take_over(store: Store, job: int, sibling: int) -> None:
    """Answers of the same rows, before the job may run: none of them is paid for twice."""
    after = -1
    while page := store.cache.adopt(job, sibling, after, PAGE, time.time()):
        after = page[-1]
