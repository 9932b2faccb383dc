"""The job of a flow that a Python program runs: found or made in a database, and planned. It has no output file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from headway.config import Config
from headway.engine.run_spec import RunSpec
from headway.flows.running.intake.flow_source import FlowSource
from headway.jobs.base import IngestOptions, OutputOptions
from headway.jobs.find_or_add import claimed, clear_remains, find_or_add, ingest
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.run_plan import RunFlags, check_route, plan_of
from headway.wiring.store_access import job_lock, open_store


@contextmanager
def flow_job(config: Config, source: FlowSource, options: IngestOptions) -> Iterator[tuple[Store, Job]]:
    """The job of a flow with its lock: an earlier one with the same content and inputs, or a new one."""
    with open_store(config) as store:
        locks = partial(job_lock, config, store=store)
        while True:
            clear_remains(store, source.digest, locks)
            job, is_new = find_or_add(store, config, source, "", options=options)
            with claimed(store, job, locks, is_new=is_new) as is_ours:
                if not is_ours:
                    continue  # Another process has just removed it, or died while it filled it.
                if is_new:
                    _take_in(config, store, source, job, options)
                yield store, store.job(job.name) or job
            return


def _take_in(config: Config, store: Store, source: FlowSource, job: Job, options: IngestOptions) -> None:
    try:
        ingest(store, config, source, job, options=options, check=check_route(config, os.environ))
    except BaseException:
        store.forget(job.id)
        raise


def flow_plan(config: Config, store: Store, job: Job, nodes: int | None) -> RunSpec:
    """The plan of a run. `nodes`: how many run at a time."""
    flags = RunFlags(OutputOptions(Path()), taken_utc=time.time(), nodes=nodes)
    return msgspec.structs.replace(plan_of(config, store, job, flags, os.environ), out="")
