"""From an input to a job that waits for an engine: all of the input is in the store, and nothing was sent."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

from headway.config import Config
from headway.jobs.base import IngestOptions, JobSource
from headway.jobs.find_or_add import claimed, clear_remains, find_or_add, ingest, predecessors_of, siblings_of
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.serving.suitability import must_suit, route_check
from headway.wiring.store_access import job_lock, job_places, open_store


class HandedOver(NamedTuple):
    """A job that engines may take. `is_waiting`: it was one before. `left_out`: bad rows that were left out."""

    job: Job
    is_new: bool
    is_running: bool
    left_out: int = 0
    is_waiting: bool = False


def hand_over(
    config: Config, source: JobSource, options: IngestOptions, max_cost: float | None
) -> HandedOver:
    """The job of an input, an earlier one or a new one, for the next engine that can run it."""
    with open_store(config) as store:
        handed = _found_or_new(config, store, source, options)
        job = handed.job
        if max_cost is not None:
            store.set_settings(job.id, _with_cap(job, max_cost))
        if job.good < job.total or job.state != "complete":
            store.submissions.add(job.id, time.time())
        return handed


def _found_or_new(config: Config, store: Store, source: JobSource, options: IngestOptions) -> HandedOver:
    locks = partial(job_lock, config, store=store)
    while True:
        clear_remains(store, source.digest, locks)
        job, is_new = find_or_add(store, config, source, "", options=options)
        if not is_new and job.state != "ingesting":
            must_suit(config, store, job)
            waits = store.submissions.open().get(job.id, False)
            return HandedOver(job, False, job_places(config).is_live(job.name), is_waiting=waits)
        with claimed(store, job, locks, is_new=is_new) as is_ours:
            # Not new: its process has just finished or died. Try again.
            if is_new and is_ours:
                return _taken_in(config, store, source, job, options)


def _taken_in(
    config: Config, store: Store, source: JobSource, job: Job, options: IngestOptions
) -> HandedOver:
    """A new job with all of its units. If that fails, the job is removed."""
    try:
        siblings = [] if options.fresh else siblings_of(store, config, source)
        predecessors = [] if options.fresh else predecessors_of(store, config, source)
        check = route_check(config, source.path)
        job, left_out = ingest(
            store, config, source, job, options=options, check=check, siblings=siblings, predecessors=predecessors,
        )  # fmt: skip
        must_suit(config, store, job)
    except BaseException:
        store.forget(job.id)
        raise
    return HandedOver(job, True, False, left_out)


def _with_cap(job: Job, max_cost: float) -> dict[str, Any]:
    """The settings of a job with a cap of its cost, as a run would have left them."""
    run = {**job.settings.get("run", {}), "max_cost_usd": max_cost}
    return {**job.settings, "run": run}
