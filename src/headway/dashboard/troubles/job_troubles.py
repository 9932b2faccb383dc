"""What is wrong with a job: its process, its state, its lanes, its failures, what waits for the user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from headway.core.reasons import EndReason
from headway.dashboard.records.job_reading import JobReading, RecordPlace
from headway.dashboard.records.slow_values import name_of, patience_for
from headway.dashboard.troubles.failure_troubles import CountedFailure, failure_troubles, retry_troubles
from headway.dashboard.troubles.lane_troubles import lane_trouble, stopped_trouble
from headway.dashboard.troubles.pace_troubles import pace_troubles
from headway.dashboard.troubles.trouble import PageAction, Trouble, command_line, job_path, worst_first
from headway.display.formatting import units
from headway.display.stop_advice import advice_on, stop_reason_text
from headway.jobs.kinds import KINDS
from headway.reason_text import stop_text
from headway.reports.flows.node_progress import NodeProgress, nodes_of_report
from headway.reports.jobs import Failure, failures_of
from headway.reports.status import failure_examples, stops_left, stops_now, units_to_retry
from headway.stores.records import Job
from headway.stores.run_error import read_run_error
from headway.stores.store import Store

#: Of a job that ended before its end: why, and what to do.
_ENDS: Final = {
    "stopped": "The job stopped: a lane cannot continue.",
    "deadline": "The job stopped at the limit of its time (--max-duration or --max-wait).",
    "budget": "The job stopped: its budget is used up.",
    "parked": "The job is parked until a hold is over or a question is answered.",
    "interrupted": "The job was interrupted.",
    "cancelled": "The job was cancelled.",
}
#: What to do then, where the card has the command below it already.
_STEPS: Final = {"stopped": "Resume it when the cause is removed: nothing that was finished is sent again."}
_FAILED_FLOW: Final = "The flow failed: a node did not succeed."
_DIED: Final = (
    "No process runs this job: the last process ended unexpectedly. Nothing that was finished is lost."
)
_PAUSED: Final = "The job is paused: units in flight finish, and no more start."


def brief_troubles(place: RecordPlace, reading: JobReading) -> list[Trouble]:
    """What is wrong with a job, without a look at its units: for lists of jobs."""
    job = reading.job
    found = [*_of_state(place, reading, None), *_of_lanes(place, reading, None)]
    if failed := job.counts["failed"] + job.counts["timed_out"]:
        found.append(
            Trouble(level="error", what=f"{units(failed)} failed.", do="The page of the job says why.")
        )
    return worst_first(found, place.flags)


def troubles_of(place: RecordPlace, store: Store, reading: JobReading) -> list[Trouble]:
    """Everything that is wrong with a job."""
    nodes = list(_of_nodes(place, store, reading))
    lanes = list(_of_lanes(place, reading, store))
    state = [] if nodes and reading.state == "parked" else list(_of_state(place, reading, store))
    causes_first = [*lanes, *state] if reading.state == "stopped" else [*state, *lanes]
    progress = reading.live_progress
    job, is_flow = reading.job.name, reading.job.kind == "flow"
    pace = () if progress is None else pace_troubles(job, progress, place.flags, is_flow=is_flow)
    return worst_first([*nodes, *causes_first, *_of_units(place, reading), *pace], place.flags)


def failures_in(place: RecordPlace, job: Job) -> list[CountedFailure]:
    """The failures of a job by code, each with its first unit. Counting them takes a scan, so they may be a few seconds old."""
    ends = tuple(job.counts[name] for name in ("failed", "timed_out", "skipped", "cancelled"))
    if not any(ends):
        return []
    nothing: list[CountedFailure] = []
    patience_s = patience_for(job.total)
    return place.slow.get(name_of("failures", job), ends, lambda own: _counted(own, job), nothing, patience_s)


def _counted(store: Store, job: Job) -> list[CountedFailure]:
    failures = failures_of(store, job)
    return list(zip(failures, failure_examples(store, job, failures), strict=True))


def _of_state(place: RecordPlace, reading: JobReading, store: Store | None) -> Iterator[Trouble]:
    job, state = reading.job, reading.state
    if state == "paused":
        yield Trouble(
            level="warning",
            what=_PAUSED,
            do="Resume it.",
            command=command_line(place.flags, "resume", job.name),
            action=PageAction(job_path(job.name, "resume")),
        )
    failed_flow = state == "failed" and job.kind == "flow"  # A node may have failed that has no units.
    if (state not in _ENDS and not failed_flow) or job.kind not in KINDS:
        return
    error = read_run_error(place.jobs.folder / job.name)
    died = state == "interrupted" and job.state != "interrupted"
    ended = _FAILED_FLOW if failed_flow else _ENDS[state]
    what = f"The latest run ended with an error: {error}" if error else _DIED if died else ended
    step = place.next_step(store, job, state) if store is not None else ""
    yield Trouble(
        level="error" if error or died or state in ("stopped", "failed") else "warning",
        what=what,
        do=_STEPS.get(state, "") or (f"{step[:1].upper()}{step[1:]}" if step else "Resume it."),
        command=command_line(place.flags, "resume", job.name),
        action=PageAction(job_path(job.name, "resume")),
    )
    if state == "budget":
        yield Trouble(
            level="warning",
            what="Nothing more fits into the budget of the job.",
            do="Raise the budget, then resume the job.",
            command=command_line(place.flags, "budget", job.name, "USD"),
            action=PageAction(job_path(job.name, "budget"), {}, ("max_cost_usd",)),
        )


def _of_nodes(place: RecordPlace, store: Store, reading: JobReading) -> Iterator[Trouble]:
    """Nodes of a flow that wait for the user, while it runs and while it is parked."""
    job, is_live = reading.job, reading.is_live
    nodes: Mapping[str, NodeProgress] = {} if reading.live_progress is None else reading.live_progress.nodes
    if reading.state == "parked" and job.kind == "flow":
        from headway.dashboard.answers.flow_answer import report_of  # Only for jobs that are flows.

        nodes = nodes_of_report(report_of(place, store, reading))
    for name, node in nodes.items():
        for unit in node.waiting:
            yield Trouble(
                level="warning",
                what=f"{unit} waits for your answer.",
                do=f"Approve or reject it; {'the flow goes on at once' if is_live else 'then resume the job'}.",
                command=command_line(place.flags, "approve", job.name, unit),
                action=PageAction(job_path(job.name, "approve"), {"node": unit}, ("answer", "note")),
                node=name,
            )


def _of_lanes(place: RecordPlace, reading: JobReading, store: Store | None) -> Iterator[Trouble]:
    progress = reading.live_progress
    stops: dict[str, EndReason] = {}
    if progress is not None:
        stops |= stops_now(progress)
    elif store is not None:
        stops |= stops_left(store, reading.job)
    for name, reason in sorted(stops.items()):
        text = stop_reason_text(reason) if progress is None else stop_text(reason)  # type: ignore[arg-type]
        advice = advice_on(place.config, name, reason, os.environ)
        yield stopped_trouble(name, text, advice, reason, place.flags, is_live=reading.is_live)
    for name, lane in ({} if progress is None else progress.lanes).items():
        yield from lane_trouble(name, lane, place.flags)


def _of_units(place: RecordPlace, reading: JobReading) -> Iterator[Trouble]:
    job = reading.job
    yield from failure_troubles(job.name, failures_in(place, job), place.flags)
    if job.ended < job.total:
        yield from retry_troubles(_waiting_units(place, job), is_live=reading.is_live)


def _waiting_units(place: RecordPlace, job: Job) -> list[Failure]:
    """Units that wait for another attempt. Counting them takes a scan, too."""
    state, patience_s = (job.attempts, job.ended), patience_for(job.total)
    nothing: list[Failure] = []
    return place.slow.get(
        name_of("to retry", job), state, lambda own: units_to_retry(own, job), nothing, patience_s
    )
