"""The job of a data frame: found or made in a database, and planned. It has no output file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from headway.batch.intake import RowIntake
from headway.config import Config
from headway.config.routing import Router
from headway.engine.run_spec import RunSpec
from headway.jobs.base import AnswerCheck, IngestOptions, OutputOptions
from headway.jobs.find_or_add import claimed, clear_remains, predecessors_of, resolves
from headway.questions.frame_source import FrameSource
from headway.stores.records import Job, NewJob
from headway.stores.store import Store
from headway.wiring.run_plan import RunFlags, check_route, plan_of
from headway.wiring.store_access import job_lock, open_store


@contextmanager
def frame_job(config: Config, source: FrameSource) -> Iterator[tuple[Store, Job]]:
    """The job of a frame with its lock: an earlier one with the same rows and question, or a new one."""
    with open_store(config) as store:
        router, locks = Router(config), partial(job_lock, config, store=store)
        while True:
            clear_remains(store, source.digest, locks)
            new = NewJob(
                f"{source.stem}-{source.digest[:6]}",
                source.kind,
                source.path,
                source.digest,
                "",
                time.time(),
                source.form(),
            )
            job, is_new = store.find_or_add(
                new, lambda job: job.digest == source.digest and resolves(job, router, config)
            )
            with claimed(store, job, locks, is_new=is_new) as is_ours:
                if not is_ours:
                    continue  # Another process has just removed it, or died while it filled it.
                if is_new:
                    _take_in(config, store, source, job)
                yield store, store.job(job.name) or job
            return


def _take_in(config: Config, store: Store, source: FrameSource, job: Job) -> None:
    """Store a unit for each row. Rows that make no request have none. Rows that a frame had before keep their answers."""
    options = IngestOptions(skip_bad=True)
    predecessors = predecessors_of(store, config, source)

    def copy_answers() -> None:
        for earlier in predecessors:
            store.unchanged.adopt(job.id, earlier.id, source.row_numbers, time.time())

    try:
        RowIntake(store, config, source, job.id, options, check_route(config, os.environ)).run(copy_answers)
    except BaseException:
        store.forget(job.id)
        raise


def frame_plan(config: Config, store: Store, job: Job, check: AnswerCheck | None) -> RunSpec:
    """The plan of a run. `check` validates answers."""
    flags = RunFlags(OutputOptions(Path()), taken_utc=time.time(), answer_check=check)
    return msgspec.structs.replace(plan_of(config, store, job, flags, os.environ), out="")
