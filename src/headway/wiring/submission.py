"""From an input or an earlier job to a job that is locked and ready to run.

A command enters `submitted` or `reopened` and runs the job that it gets. By then all of the input is in the store, the locks
of the job and of its output file are held, and nothing has been sent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import msgspec

from headway.config import Config, with_overrides
from headway.errors import OutputBusy, UsageError
from headway.jobs.base import FileJobKind, IngestOptions, JobSource, OutputOptions
from headway.jobs.find_or_add import (
    claimed,
    clear_remains,
    find,
    find_or_add,
    ingest,
    predecessors_of,
    siblings_of,
)
from headway.jobs.kinds import KINDS, file_kind_of, run_kind_of
from headway.stores.folder_lock import FolderLock
from headway.stores.job_lock import is_locked
from headway.stores.output_lock import OutputLock
from headway.stores.records import LIVE, Job
from headway.stores.store import Store
from headway.wiring.run_plan import RunFlags, check_route
from headway.wiring.steering.own_budget import BUDGET, budget_text
from headway.wiring.store_access import job_folder, job_lock, open_store

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
        if flags.only_failed and (options.fresh or find(store, config, source) is None):
            raise UsageError(f"{source.name} has not been run yet", hint="run it without --only-failed")
        _must_have_run(store, source)
        locks = partial(job_lock, config, store=store)
        while True:
            clear_remains(store, source.digest, locks)
            job, is_new = find_or_add(store, config, source, flags.output.recorded, options=options)
            if not is_new and job.state != "ingesting":
                if options.name and options.name != job.name:
                    say(f"this was run before as job {job.name}, which continues (--fresh starts a new job)")
                flags = flags.to(output_of(job, source, flags.output))
                file_kind_of(job).check_output(flags.output)
                capped = config if job.good == job.total else with_cap_of(config, job, max_cost, say)
                with reopened(capped, store, job, flags) as ready:
                    yield ready
                return
            with claimed(store, job, locks, is_new=is_new) as is_ours:
                # Not new: its process has just finished or died. Try again.
                if is_new and is_ours:
                    with _ingested(
                        ReadyJob(config, store, job, flags.taken()), source, options, say
                    ) as ready:
                        yield ready
                    return


@contextmanager
def reopened(config: Config, store: Store, job: Job, flags: RunFlags) -> Iterator[ReadyJob]:
    """An earlier job, with its locks."""
    with (
        job_lock(config, job.name, store),
        _tree_lock(config, store, job),
        _output_lock(flags.output, job.name),
    ):
        latest = store.job(job.name) or job  # Another process may have finished it a moment ago.
        yield ReadyJob(config, store, latest, flags.taken())


@contextmanager
def _ingested(new: ReadyJob, source: JobSource, options: IngestOptions, say: Say) -> Iterator[ReadyJob]:
    """A new job with its units, and the lock of its output file. If that fails, the job is removed."""
    config, store, job, flags = new
    siblings = [] if options.fresh else siblings_of(store, config, source)
    predecessors = [] if options.fresh else predecessors_of(store, config, source)
    kind = file_kind_of(job)
    with ExitStack() as stack:
        try:
            kept = [] if options.fresh or not kind.makes_keys else _change_lines(config, store, source, job)
            for line in kept:
                say(line)
            if not (siblings or predecessors or options.fresh or kept):
                _say_why_new(store, source, say)
            stack.enter_context(_tree_lock(config, store, job))
            flags = flags.to(_locked_output(stack, kind, flags.output, job.name, store, say))
            kind.claim_output(flags.output, job.name, store=store)
            check = check_route(config, os.environ)
            job, left_out = ingest(
                store,
                config,
                source,
                job,
                options=options,
                check=check,
                siblings=siblings,
                predecessors=predecessors,
            )
        except BaseException as error:
            store.forget(new.job.id)
            if predecessors and isinstance(
                error, UsageError
            ):  # It may be about the output of the earlier job.
                say(_new_because(predecessors[0]))
            raise
        if left_out:
            say("1 bad row was left out" if left_out == 1 else f"{left_out:,} bad rows were left out")
        if siblings:
            say(_about_sibling(job, siblings[0]))
        elif predecessors:
            say(_about_predecessor(job, predecessors[0]))
        if predecessors and (outdated := kind.outdated_outputs(flags.output, store, job, predecessors[0])):
            say(_about_outdated(flags.output, outdated))
        yield new._replace(job=job, flags=flags)


def _must_have_run(store: Store, source: JobSource) -> None:
    kind = KINDS[source.kind]
    if isinstance(kind, FileJobKind) and kind.makes_keys:
        from headway.wiring.flows.flow_reuse import must_have_run  # A batch does not load what flows need.

        must_have_run(store, source)


def _change_lines(config: Config, store: Store, source: JobSource, job: Job) -> list[str]:
    from headway.wiring.flows.flow_reuse import change_lines

    return change_lines(config, store, source, job)


def _about_outdated(output: OutputOptions, count: int) -> str:
    """The line about files of inputs that are gone."""
    if count == 1:
        return f"{output.path.name} still has 1 answer of an input that is gone"
    return f"{output.path.name} still has {count:,} answers of inputs that are gone"


def _tree_lock(config: Config, store: Store, job: Job) -> AbstractContextManager[object]:
    """The lock of the folder that a job works on, if its kind has one."""
    folder = file_kind_of(job).locked_folder(job)
    if folder is None:
        return nullcontext()

    def busy() -> UsageError:
        others = (one for one in store.jobs() if one.input == job.input and one.name != job.name)
        running = [one.name for one in others if is_locked(job_folder(config, one.name) / "lock")]
        who = f"job '{running[0]}'" if running else "another process"
        return UsageError(
            f"{folder} is being reviewed by {who}",
            hint="one review runs at a time in a tree: wait until it ends",
        )

    return FolderLock(folder, busy)


def _output_lock(output: OutputOptions, job: str) -> AbstractContextManager[object]:
    """The lock of an output. A stream has none."""
    return nullcontext() if output.form in ("stream", "none") else OutputLock(output.lock_path, job)


def output_of(job: Job, source: JobSource, output: OutputOptions) -> OutputOptions:
    """The output of a job that exists: its own, unless the user has named another, or the input is now in another place."""
    keeps = output.is_default and job.out and job.input == source.path
    return output.to(job.out) if keeps else output


def _locked_output(
    stack: ExitStack, kind: FileJobKind, output: OutputOptions, job: str, store: Store, say: Say
) -> OutputOptions:
    """The output of a new job, with its lock in `stack`. Where another job writes or owns the default file, the name of this job is
    added to it. The owner is looked up under the lock: another new job may just have taken the file.
    """
    try:
        with ExitStack() as attempt:
            attempt.enter_context(_output_lock(output, job))
            free = free_output(kind, output, job, store)
            if free.path == output.path:
                stack.push(attempt.pop_all())
                return free
            why = f"has the results of job {kind.output_owner(output, store)}"
    except OutputBusy:
        if not output.is_default or output.force:
            raise
        free = msgspec.structs.replace(output, path=kind.output_for_job(output.path, job))
        why = "is being written by another job"
    say(f"{output.path.name} {why}: this job writes to {free.path.name}")
    stack.enter_context(_output_lock(free, job))
    return free


def free_output(kind: FileJobKind, output: OutputOptions, job: str, store: Store) -> OutputOptions:
    """The output of a new job, as far as it is known without a lock."""
    owner = kind.output_owner(output, store) if output.is_default and not output.force else None
    if owner is None or owner == job:
        return output
    if _has_no_results(store, owner):
        return msgspec.structs.replace(output, force=True)
    return msgspec.structs.replace(output, path=kind.output_for_job(output.path, job))


def _has_no_results(store: Store, name: str) -> bool:
    """Whether no unit of a job has ended, so that a new job may replace its file. Its budget may have been too small to start. A flow without units
    has results all the same.
    """
    job = store.job(name)
    if job is None or job.state in LIVE or run_kind_of(job).counts_nodes:
        return False
    return not any(job.counts.values())


def with_cap_of(config: Config, job: Job, max_cost: float | None, say: Say) -> Config:
    """The settings with the cap of the job's last run, unless `max_cost` sets another, or 0. One that `headway budget` set is above the
    settings.
    """
    own = job.settings.get(BUDGET)
    if own is not None and max_cost is None:
        say(f"the job's own budget applies: {budget_text(own)} (--max-cost sets another)")
        return with_overrides(config, max_cost=own)
    cap = job.settings.get("run", {}).get("max_cost_usd", 0.0)
    if not cap or max_cost is not None or config.run.max_cost_usd:
        return config
    say(f"the job's cap of ${cap:,.10g} still applies (--max-cost sets another; --max-cost 0 removes it)")
    return with_overrides(config, max_cost=cap)


def _say_why_new(store: Store, source: JobSource, say: Say) -> None:
    """Say why a file that was run before is a new job."""
    before = next(
        (job for job in store.jobs() if job.input == source.path and job.state != "ingesting"), None
    )
    if before is not None:
        say(_new_because(before))


def _new_because(before: Job) -> str:
    return f"this is a new job: the input, its models, its prompt or another option of the requests has changed since job {before.name}"


def _about_predecessor(job: Job, earlier: Job) -> str:
    """The line about answers taken from a job of the same input before it changed."""
    if not (n := job.counts["cached"]):
        return _new_because(earlier)
    return (
        f"the input has changed since job {earlier.name}: "
        f"{n:,} of {job.total:,} answers are reused and not requested again"
    )


def _about_sibling(job: Job, sibling: Job) -> str:
    """The line about answers taken from another job of the same rows."""
    n = job.counts["cached"]
    took = (
        f"{n:,} of {job.total:,} answers are reused and not requested again" if n else "it has no answers yet"
    )
    how = "with another --limit"
    if job.form.get("limit") == sibling.form.get("limit"):
        how = "with other attached files"
    return f"these rows were run before {how}, as job {sibling.name}: {took}"
