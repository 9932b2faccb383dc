"""Finds the job of an input, or adds a new one and fills it.

A job is identified by the digest of its input and by the targets of the models in it. Limits, keys, addresses and the name of the
file may change: the job stays the same.

If several processes get the same input at once, one of them adds the job. Finding and adding are one transaction
(`find_or_add`), so the second process finds the job of the first. A job is `ingesting` until all of its units are in the
store, and the process that adds them holds the lock of the job. If that process dies, the job remains without a lock: the next
process removes it (`clear_remains`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import islice
from typing import Final, Protocol

from headway.config import Config, identity_of
from headway.config.routing import Router
from headway.errors import HeadwayError, JobBusy, UsageError
from headway.jobs.base import IngestOptions, JobSource, RouteCheck
from headway.stores.records import Job, NewJob
from headway.stores.store import Store, free_name

#: Answers that are copied in one transaction: about 0.1 s, so that the commits of other jobs do not wait.
PAGE: Final = 10_000

#: Earlier versions of an input whose answers are searched, the newest first. A job has those of its own predecessors, except for rows
#: that it did not have (a sample with `--limit`, a shorter file).
MOST_PREDECESSORS: Final = 5

#: Makes the lock of a job, by its name.
Locks = Callable[[str], AbstractContextManager[object]]


def find(store: Store, config: Config, source: JobSource) -> Job | None:
    """The job of this input with the same targets under the current settings; the newest one, if there are several."""
    router = Router(config)
    same = (
        job
        for job in store.jobs()
        if job.digest == source.digest and job.state != "ingesting" and source.continues(store, job)
    )
    return next((job for job in same if resolves(job, router, config)), None)


def siblings_of(store: Store, config: Config, source: JobSource) -> list[Job]:
    """The jobs with the same rows and another `--limit`; the one with the most answers first."""
    router = Router(config)
    same = [
        job
        for job in store.jobs()
        if job.state != "ingesting"
        and job.digest not in ("", source.digest)
        and source.is_sibling(job)
        and resolves(job, router, config)
    ]
    return sorted(same, key=lambda job: -job.good)


class ChangingInput(Protocol):
    """The part of an input that finds its earlier versions (see `JobSource`)."""

    @property
    def digest(self) -> str: ...

    def is_sibling(self, job: Job) -> bool: ...

    def is_predecessor(self, job: Job) -> bool: ...


def predecessors_of(store: Store, config: Config, source: ChangingInput) -> list[Job]:
    """The jobs that asked the same about an earlier content of the input, the newest first."""
    router = Router(config)
    earlier = (
        job
        for job in store.jobs()
        if job.state != "ingesting"
        and job.good
        and job.digest not in ("", source.digest)
        and source.is_predecessor(job)
        and not source.is_sibling(job)
        and resolves(job, router, config)
    )
    return list(islice(earlier, MOST_PREDECESSORS))


def resolves(job: Job, router: Router, config: Config) -> bool:
    """Whether every model in the job's input still has the same target."""
    for raw, recorded in job.models.items():
        try:
            target = router.route(raw or None)
        except HeadwayError:
            return False
        if (target.provider, identity_of(config.providers[target.provider]), target.model) != recorded:
            return False
    return True


def name_for(store: Store, source: JobSource, name: str = "") -> str:
    """A free name for a new job: the name of the file, and enough of the digest to distinguish its versions; or a given name."""
    return free_name(
        name or _wanted_name(source), {job.name for job in store.jobs() if job.state != "ingesting"}
    )


def _wanted_name(source: JobSource) -> str:
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", source.stem).strip("-")[:40] or "job"
    return f"{stem}-{source.digest[:6]}"


def find_or_add(
    store: Store, config: Config, source: JobSource, out: str, *, options: IngestOptions
) -> tuple[Job, bool]:
    """The job of an input, or a new one that is `ingesting`; and whether it is new. `options.fresh` always adds a new job.

    Another process may still be filling the job: its models are not known yet, so only its content decides.
    """
    router = Router(config)

    def is_same(job: Job) -> bool:
        return (
            not options.fresh
            and job.digest == source.digest
            and source.continues(store, job)
            and resolves(job, router, config)
        )

    if options.name:
        _must_be_free(store, options.name, is_same)
    form = source.form()
    if options.fresh:
        form["fresh"] = True
    new = NewJob(
        options.name or _wanted_name(source),
        source.kind,
        source.path,
        source.digest,
        out,
        time.time(),
        form,
    )
    return store.find_or_add(new, is_same)


def _must_be_free(store: Store, name: str, is_same: Callable[[Job], bool]) -> None:
    """Raise if another job has the name that the user has chosen, unless the input has a job already."""
    taken = store.job(name)
    if taken is None or taken.state == "ingesting" or any(is_same(job) for job in store.jobs()):
        return
    raise UsageError(
        f"--name {name}: there is a job of that name, and it asks something else", hint="choose another name"
    )


def clear_remains(store: Store, digest: str, lock: Locks) -> None:
    """Remove jobs with this content whose process died while it filled them."""
    for job in store.jobs():
        if job.digest == digest and job.state == "ingesting":
            try:
                with lock(job.name):
                    if is_ingesting(store, job):
                        store.forget(job.id)
            except JobBusy:
                continue  # Its process is alive.


def is_ingesting(store: Store, job: Job) -> bool:
    """Whether the same job is still in the store and still `ingesting`."""
    now = store.job(job.name)
    return now is not None and now.id == job.id and now.state == "ingesting"


@contextmanager
def claimed(store: Store, job: Job, locks: Locks, *, is_new: bool) -> Iterator[bool]:
    """Hold the lock of a job that was found or added a moment ago. False: it is not as it was found, so look again.

    Before a new job is locked, another process may take it for the remains of a dead one, and remove it.
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locks(job.name))
        except JobBusy:
            if not is_new:
                raise
            yield False
        else:
            yield is_new == is_ingesting(store, job)


def ingest(
    store: Store,
    config: Config,
    source: JobSource,
    new: Job,
    *,
    options: IngestOptions,
    check: RouteCheck,
    siblings: Sequence[Job] = (),
    predecessors: Sequence[Job] = (),
) -> tuple[Job, int]:
    """Add every unit; returns the job and how many bad rows were left out. The caller holds the job's lock, and removes the job
    if this fails.

    Answers of its `siblings` are copied, and then those of its `predecessors`.
    """

    def copy_answers() -> None:
        for sibling in siblings:
            _copy_answers(store, new.id, sibling.id)
        for earlier in predecessors:
            store.unchanged.adopt(new.id, earlier.id, source.row_numbers, time.time())

    left_out = source.ingest(store, config, new.id, options=options, check=check, ready=copy_answers)
    job = store.job(new.name)
    assert job is not None
    return job, left_out


def _copy_answers(store: Store, job: int, sibling: int) -> None:
    """Copy the answers of the same rows before the job may run, so that nothing is paid for twice."""
    after = -1
    while page := store.cache.adopt(job, sibling, after, PAGE, time.time()):
        after = page[-1]
