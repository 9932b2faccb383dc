"""A flow as a graph with what became of each node: `headway graph --json` with the figures of `headway show JOB NODE`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headway.dashboard.records.job_reading import JobReading, RecordPlace
from headway.dashboard.records.slow_values import LONGEST_S, name_of
from headway.display.flows.graph_rows import graph_rows, inside
from headway.errors import UsageError
from headway.flows.running.approvals import waiting_for
from headway.flows.running.flow_form import form_of
from headway.flows.spec import FlowSpec
from headway.flows.step_text import arrow_label, details, waits_text
from headway.reports.flows.flow_report import FlowReport, NodeOutcome, flow_report
from headway.reports.flows.node_progress import UNIT_NODES
from headway.stores.records import Job
from headway.stores.store import Store

_COUNTS: Final = ("units", "succeeded", "failed", "skipped", "running")
#: Statuses of a node that has begun, so the arrow to it was taken.
_BEGUN: Final = frozenset({"running", "waiting", "success", "failed", "interrupted"})


def flow_answer(place: RecordPlace, store: Store, reading: JobReading) -> dict[str, Any]:
    """The nodes and edges of a flow's job, its critical path, and the questions that wait for the user."""
    job = reading.job
    if job.kind != "flow":
        raise UsageError(f"job {job.name} is no flow", hint=f"'headway status {job.name}' shows it")
    report = report_of(place, store, reading)
    spec = form_of(job).spec
    outcomes = report.by_name()
    lanes = _lanes_of(store, job)
    return {
        "flow": report.flow,
        "nodes": list(_nodes(spec, outcomes, lanes, _known_units(reading))),
        "edges": list(_edges(spec, outcomes)),
        "critical": [step.step for step in report.critical_path],
        "critical_path": report.critical_path,
        "waiting": [{"unit": one.unit, "node": one.node, "question": one.question, "writes": one.writes} for one in _asked(store, job, outcomes)],
        "seconds": report.took_s,
        "cost_usd": report.cost_usd,
    }  # fmt: skip


def report_of(place: RecordPlace, store: Store, reading: JobReading) -> FlowReport:
    """The report of a flow. It takes aggregates over all units, so of a large running one it may be a few seconds old."""
    job = reading.job
    state = (job.attempts, job.ended, job.total, reading.state)
    report = place.slow.get(
        name_of("flow", job), state, lambda own: flow_report(own, job, reading.state), None, LONGEST_S
    )
    return flow_report(store, job, reading.state) if report is None else report


def _known_units(reading: JobReading) -> dict[str, int]:
    """How many units each node of a running flow will have: items that run one after another become units one by one."""
    nodes = {} if reading.live_progress is None else reading.live_progress.nodes
    return {path: node.total for path, node in nodes.items() if node.kind in UNIT_NODES}


def _nodes(
    spec: FlowSpec, outcomes: Mapping[str, NodeOutcome], lanes: Mapping[str, str], known: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    for row in graph_rows(spec):
        one = outcomes.get(row.path)
        counts = {name: 0 if one is None else getattr(one, name) for name in _COUNTS}
        counts["units"] = max(counts["units"], known.get(row.path, 0))
        yield {
            "id": row.path,
            "kind": "" if one is None else one.kind,
            "status": "pending" if one is None else one.status,
            "group": "" if one is None else one.group,
            "depth": row.depth,
            "counts": counts,
            "attempts": 0 if one is None else one.attempts,
            "refused": 0 if one is None else one.throttled,
            "seconds": None if one is None else one.took_s,
            "started_utc": None if one is None else one.started_utc,
            "ended_utc": None if one is None else one.ended_utc,
            "cost_usd": 0.0 if one is None else one.cost_usd,
            "lane": lanes.get(row.path, ""),
            "waits_for": waits_text(row.step),
            "members": inside(spec, row.path),
            "detail": details(row.step),
            "reason": "" if one is None else one.reason,
            "waiting": "" if one is None else one.waiting,
            "critical": one is not None and one.critical,
        }  # fmt: skip


def _edges(spec: FlowSpec, outcomes: Mapping[str, NodeOutcome]) -> Iterator[dict[str, Any]]:
    for row in graph_rows(spec):
        prefix = row.path[: row.path.rfind("/") + 1]
        for one in row.step.after:
            yield {
                "from": prefix + one.id,
                "to": row.path,
                "when": one.when,
                "label": arrow_label(one),
                "taken": _taken(outcomes.get(row.path)),
            }


def _taken(to: NodeOutcome | None) -> bool | None:
    """Whether the run has gone this way; None: that is not known yet."""
    if to is None or to.status in ("pending", "ready"):
        return None
    return to.status in _BEGUN


def _lanes_of(store: Store, job: Job) -> dict[str, str]:
    """The lane that the units of each node go to."""
    return {route.label: route.name for route in store.routes(job.id) if route.label}


def _asked(store: Store, job: Job, outcomes: Mapping[str, NodeOutcome]) -> Any:
    """What waits for the user. Finding that out rebuilds the run, so it is done only if a node says that it waits."""
    return waiting_for(store, job) if any(one.waiting for one in outcomes.values()) else ()
