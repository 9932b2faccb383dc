"""From an input or an earlier job to a job that is locked and ready to run.

A command enters `submitted` or `reopened` and runs the job that it gets. By then all of the input is in the store, the locks
of the job and of its output file are held, and nothing has been sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from headway.config import Config, with_overrides
from headway.errors import UsageError
from headway.jobs.base import IngestOptions, JobSource
from headway.jobs.find_or_add import (
    clear_remains,
    find,
    find_or_add,
    ingest,
    is_ingesting,
    siblings_of,
)
from headway.jobs.kinds import file_kind_of
from headway.stores.output_lock import OutputLock
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.run_plan import RunFlags, check_route
from headway.wiring.store_access import job_lock, open_store

#: Prints one line.
Say = Callable[[str], None]


class ReadyJob(NamedTuple):
    """A job that can be run now, with its settings and its store."""

    config: Config
    store: Store
    job: Job
    flags: RunFlags


@contextmanager
def submitted(
    config: Config,
    source: JobSource,
    flags: RunFlags,
    options: IngestOptions,
    max_cost: float | None,
    say: Say,
) -> Iterator[ReadyJob]:
    """The job of an input: an earlier one, or a new one with all its units."""
    with open_store(config) as store:
        if flags.only_failed and (options.fresh or find(store, config, source.digest) is None):
            raise UsageError(f"{source.name} has not been run yet", hint="run it without --only-failed")
        while True:
            clear_remains(store, source.digest, lambda name: job_lock(config, name))
            job, is_new = find_or_add(store, config, source, str(flags.output.path), fresh=options.fresh)
            if not is_new and job.state != "ingesting":
                capped = config if job.good == job.total else with_cap_of(config, job, max_cost, say)
                with reopened(capped, store, job, flags) as ready:
                    yield ready
                return
            with job_lock(config, job.name):
                # Not new: its process has just finished or died. New and gone: another process removed it as the remains of
                # a dead one before it was locked. Try again in both cases.
                if is_new and is_ingesting(store, job):
                    with _ingested(
                        ReadyJob(config, store, job, flags.taken()), source, options, say
                    ) as ready:
                        yield ready
                    return


@contextmanager
def reopened(config: Config, store: Store, job: Job, flags: RunFlags) -> Iterator[ReadyJob]:
    """An earlier job, with its locks."""
    with job_lock(config, job.name), OutputLock(flags.output.path, job.name):
        latest = store.job(job.name) or job  # Another process may have finished it a moment ago.
        yield ReadyJob(config, store, latest, flags.taken())


@contextmanager
def _ingested(new: ReadyJob, source: JobSource, options: IngestOptions, say: Say) -> Iterator[ReadyJob]:
    """A new job with its units, and the lock of its output file. If that fails, the job is removed."""
    config, store, job, flags = new
    siblings = [] if options.fresh else siblings_of(store, config, source)
    if not (siblings or options.fresh):
        _say_why_new(store, source, say)
    with ExitStack() as stack:
        try:
            stack.enter_context(OutputLock(flags.output.path, job.name))
            file_kind_of(job).claim_output(flags.output, job.name, store=store)
            check = check_route(config, os.environ)
            job, left_out = ingest(
                store, config, source, job, options=options, check=check, siblings=siblings
            )
        except BaseException:
            store.forget(new.job.id)
            raise
        if left_out:
            say("1 bad row was left out" if left_out == 1 else f"{left_out:,} bad rows were left out")
        if siblings:
            say(_about_sibling(job, siblings[0]))
        yield new._replace(job=job)


def with_cap_of(config: Config, job: Job, max_cost: float | None, say: Say) -> Config:
    """The settings with the cap of the job's last run, unless `max_cost` sets another, or 0."""
    cap = job.settings.get("run", {}).get("max_cost_usd", 0.0)
    if not cap or max_cost is not None or config.run.max_cost_usd:
        return config
    say(f"the job's cap of ${cap:,.10g} still holds (--max-cost sets another, --max-cost 0 none)")
    return with_overrides(config, max_cost=cap)


def _say_why_new(store: Store, source: JobSource, say: Say) -> None:
    """Say why a file that was run before is a new job."""
    before = next(
        (job for job in store.jobs() if job.input == source.path and job.state != "ingesting"), None
    )
    if before is not None:
        say(f"this is a new job: the file, its models or what is asked have changed since job {before.name}")


def _about_sibling(job: Job, sibling: Job) -> str:
    """The line about answers taken from another job of the same rows."""
    n = job.counts["cached"]
    took = (
        f"{n:,} of {job.total:,} answers are taken over and not sent again" if n else "it has no answers yet"
    )
    return f"these rows were run before with another --limit, as job {sibling.name}: {took}"
