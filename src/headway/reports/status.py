"""The state of a job, as `headway status` shows it, and its lanes that cannot continue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from headway.config.kinds.python import PYTHON
from headway.core.model import Kind
from headway.core.reasons import DeadlinePassed, EndReason, RunBudgetSpent, StopReason, UpstreamUnfinished
from headway.jobs.kinds import KINDS, has_nodes
from headway.reason_text import unit_error
from headway.reports.flows.node_progress import NodeProgress, nodes_of_report, status_counts
from headway.reports.jobs import Failure, JobReport, job_report, state_of
from headway.reports.run_progress import Progress, read_progress
from headway.reports.usage import cached_units
from headway.stores.answer_cache import CallsSaved
from headway.stores.job_lock import JobPlaces
from headway.stores.records import LIVE, Job
from headway.stores.run_error import read_run_error
from headway.stores.store import Store

#: The status of units that were in flight when their process died, until the job is resumed.
UNKNOWN: Final = "unknown"


class FailureExample(msgspec.Struct, frozen=True):
    """The first unit of a failure: its id, and whether a function of the user ended with an exception."""

    custom_id: str
    raised: bool


class StatusReport(msgspec.Struct, frozen=True):
    """The state of a job.

    `progress` is set while a process runs the job. `stops` are lanes that cannot continue. `unknown` are the ids of units
    that a dead process may have sent. `examples` are the first units of each failure.
    """

    job: JobReport
    live: bool
    stops: dict[str, EndReason]
    per_lane: dict[str, dict[str, int]]
    progress: Progress | None
    unknown: Sequence[str]
    cached: CallsSaved
    examples: Sequence[FailureExample]
    #: The error that ended the latest run; "" if there was none.
    error: str = ""
    #: Why units wait for another attempt.
    to_retry: Sequence[Failure] = ()
    #: The nodes of a flow, by their path: of a job that runs those that matter most; and how many there are by status.
    nodes: Mapping[str, NodeProgress] = {}
    node_counts: Mapping[str, int] = {}


def status_report(store: Store, job: Job, places: JobPlaces) -> StatusReport:
    """The present state of a job."""
    state, folder = state_of(places, job), places.folder / job.name
    live = state in LIVE
    report = job_report(store, job, state)
    per_lane = _per_lane(store, job)
    if not live:
        per_lane = {name: _without_process(counts) for name, counts in per_lane.items()}
    progress = read_progress(places, job.name) if live else None
    stops: dict[str, EndReason] = {}
    stops |= stops_left(store, job) if progress is None else stops_now(progress)
    nodes = {} if progress is None else progress.nodes
    counts_of_nodes = {} if progress is None else progress.node_counts
    if not nodes and has_nodes(job):
        from headway.reports.flows.flow_report import flow_report  # Only for jobs that are flows.

        nodes = nodes_of_report(flow_report(store, job, state))
        counts_of_nodes = status_counts(nodes.values())
    died = any(UNKNOWN in counts for counts in per_lane.values())
    return StatusReport(
        job=report,
        live=live,
        stops=stops,
        per_lane=per_lane,
        progress=progress,
        unknown=[unit.custom_id for unit in store.unknown_outcomes(job.id)] if died else [],
        cached=cached_units(store, job),
        examples=failure_examples(store, job, report.failures),
        error="" if live else read_run_error(folder),
        to_retry=() if stops else units_to_retry(store, job),
        nodes=nodes,
        node_counts=counts_of_nodes,
    )


def units_to_retry(store: Store, job: Job) -> list[Failure]:
    """Why the last attempt at units failed that are not finished, the most frequent reason first."""
    return [] if job.ended >= job.total else [Failure(*row) for row in store.to_retry(job.id)]


def failure_examples(store: Store, job: Job, failures: Sequence[Failure]) -> list[FailureExample]:
    """The first unit of each failure."""
    only_calls = job.kind in KINDS and not KINDS[job.kind].sends_requests
    functions = {route.provider for route in store.routes(job.id) if only_calls or route.kind == PYTHON.name}
    if job.kind == "flow":  # What a tool returned may not fit either, and its exception has a name.
        functions = set()
    examples = []
    for failure in failures:
        unit = store.results(job.id, failure.first - 1, 1)[0]
        raised = failure.code == Kind.INVALID and unit.provider in functions
        examples.append(FailureExample(unit.custom_id, raised))
    return examples


def _per_lane(store: Store, job: Job) -> dict[str, dict[str, int]]:
    """Counts by status for each lane. If there is only one and no process died, the job has the counts."""
    routes = store.routes(job.id)
    if len(routes) > 1 or job.state in LIVE:
        return store.per_lane(job.id)
    counts = {"pending": job.total - job.ended, **job.counts}
    return {route.name: {status: n for status, n in counts.items() if n} for route in routes}


def _without_process(counts: dict[str, int]) -> dict[str, int]:
    """Counts of a job without a process: the outcome of units in flight is unknown."""
    left = sum(counts.get(status, 0) for status in ("assigned", "running"))
    rest = {status: n for status, n in counts.items() if status not in ("assigned", "running")}
    return {**rest, UNKNOWN: left} if left else rest


def stops_now(progress: Progress) -> dict[str, StopReason]:
    """The stopped lanes of a running job, by name."""
    waits = {name: lane.waits_for for name, lane in progress.lanes.items()}
    return {name: wait.stop for name, wait in waits.items() if wait is not None and wait.stop is not None}


def stops_left(store: Store, job: Job) -> dict[str, EndReason]:
    """The lanes that stopped in the latest run, by name, without those that only the end of the run left unfinished."""
    if job.ended >= job.total:
        return {}
    names = {str(route.id): route.name for route in store.routes(job.id)}
    return {names[route]: reason for route, reason in job.unfinished.items() if _is_of_lane(reason)}


def _is_of_lane(reason: EndReason) -> bool:
    if isinstance(reason, RunBudgetSpent | DeadlinePassed | UpstreamUnfinished):
        return False
    return unit_error(reason)[0] != "interrupted"
