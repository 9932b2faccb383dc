"""What became of a flow: every node with its outcome, its units, times and cost, and the critical path of the run.

Everything comes from aggregates of the records (units and attempts by route, executions of nodes by their last event), so the report
of a million units takes four queries. A node's times are those of its units' attempts; a node without units has those of its events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import accumulate
from typing import Final

import msgspec

from headway.core.unit_states import GOOD, Status
from headway.flows.running.approvals import said_of
from headway.flows.running.flow_form import form_of, nodes_of
from headway.flows.running.unit_ids import node_path
from headway.flows.spec import FlowSpec
from headway.reports.flows.critical_path import PathStep, critical_path
from headway.reports.pauses import Pauses
from headway.stores.records import (
    LIVE,
    Job,
    NodeExecutions,
    RouteTimes,
    RouteUnits,
    State,
    StoredRoute,
)
from headway.stores.store import Store

#: The events that say how an execution of a node is.
_STATUS_OF: Final = {
    "node.ready": "ready",
    "node.started": "running",
    "node.retrying": "running",
    "node.failed": "failed",
    "node.finished": "success",
    "node.skipped": "skipped",
}
#: Of several executions the first of these that occurs is the status of their node.
_FIRST: Final = ("running", "waiting", "ready", "failed", "success", "skipped")
_FAILED: Final = frozenset({Status.FAILED, Status.TIMED_OUT, Status.CANCELLED})
#: States of a job in which its flow may have ended.
_ENDED_JOBS: Final = ("complete", "failed", "cancelled")
_OPEN: Final = frozenset({Status.PENDING, Status.ASSIGNED, Status.RUNNING})


class NodeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A node, a pipeline or a loop. `name` is its path (`sub/fetch`), `kind` that of the node, `pipeline` or `loop`. `status` is one of
    `node_progress.NODE_STATUSES`; `interrupted`: it was running, and no process runs the job.

    `units` are those that exist so far. `throttled` attempts were refused by a rate limit.
    """

    name: str
    kind: str
    status: str
    #: The pipeline or loop that it is in; "" for a step.
    group: str = ""
    reason: str = ""
    units: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    running: int = 0
    attempts: int = 0
    throttled: int = 0
    cost_usd: float = 0.0
    started_utc: float | None = None
    ended_utc: float | None = None
    #: The part of this time in which no process ran the job.
    paused_s: float = 0.0
    #: The step is a part of the critical path.
    critical: bool = False
    #: The first unit that waits for the user; "" if none does.
    waiting: str = ""

    @property
    def has_inside(self) -> bool:
        """Whether its figures are the sums of the nodes inside it."""
        return self.kind in ("pipeline", "loop", "flow")

    @property
    def took_s(self) -> float | None:
        """From the first start to the last end, without pauses between runs; None if it has not run."""
        if self.started_utc is None or self.ended_utc is None:
            return None
        return max(0.0, self.ended_utc - self.started_utc - self.paused_s)


class FlowReport(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a flow. `nodes` are in the order of the file: pipelines and loops before their members, inner flows after their node."""

    job: str
    flow: str
    state: State
    started_utc: float | None
    ended_utc: float | None
    cost_usd: float
    nodes: tuple[NodeOutcome, ...]
    critical_path: tuple[PathStep, ...]
    #: The part of the time in which no process ran the job.
    paused_s: float = 0.0

    @property
    def took_s(self) -> float | None:
        """From the start to the last end, without pauses between runs; None if nothing has run."""
        if self.started_utc is None or self.ended_utc is None:
            return None
        return max(0.0, self.ended_utc - self.started_utc - self.paused_s)

    def by_name(self) -> dict[str, NodeOutcome]:
        """The nodes by their name."""
        return {node.name: node for node in self.nodes}


def flow_report(store: Store, job: Job, state: State) -> FlowReport:
    """The report of a flow's job. `state` is the job's as it really is: `interrupted` if its process died."""
    spec = form_of(job).spec
    is_live = state in LIVE
    figures = _Figures(
        store.routes(job.id), store.route_units(job.id), store.route_times(job.id),
        store.node_executions(job.id, tuple(_STATUS_OF)), store.node_spans(job.id), is_live=is_live, is_over=_is_over(store, job, state), said=said_of(store, job),
    )  # fmt: skip
    nodes = [figures.node(one.path, one.node.kind) for one in nodes_of(spec)]
    rows = _with_groups(spec, _with_inner(nodes), is_live=is_live)
    pauses = Pauses(
        store.events(job.id), (at for row in rows for at in (row.started_utc, row.ended_utc) if at)
    )
    rows = [_with_pauses(row, pauses) for row in rows]
    steps = frozenset(spec.step_order)
    times = {
        row.name: (row.started_utc, row.ended_utc)
        for row in rows
        if row.name in steps and row.started_utc is not None and row.ended_utc is not None
    }
    began = min((start for start, _ in times.values()), default=0.0)
    path = critical_path(
        {step: [one.id for one in spec.step(step).after] for step in spec.step_order},
        times,
        began,
        pauses.between,
    )
    ended = max((end for _, end in times.values()), default=None)
    on_path = {step.step for step in path}
    return FlowReport(
        job=job.name,
        flow=spec.name,
        state=state,
        started_utc=job.started_utc,
        ended_utc=ended,
        cost_usd=job.cost_usd,
        nodes=tuple(
            msgspec.structs.replace(row, critical=True) if row.name in on_path else row for row in rows
        ),
        critical_path=path,
        paused_s=pauses.between(job.started_utc, ended) if job.started_utc and ended else 0.0,
    )


def _with_pauses(node: NodeOutcome, pauses: Pauses) -> NodeOutcome:
    if node.started_utc is None or node.ended_utc is None:
        return node
    return msgspec.structs.replace(node, paused_s=pauses.between(node.started_utc, node.ended_utc))


def _is_over(store: Store, job: Job, state: State) -> bool:
    """Whether nothing of the flow goes on by itself: it has ended, and no human node waits."""
    if state not in _ENDED_JOBS:
        return False
    ends = [one for one in store.node_executions(job.id, ("run.started", "run.finished")) if not one.node]
    return any(
        one.type == "run.finished" and msgspec.json.decode(one.data).get("status") != "waiting"
        for one in ends
    )


class _Figures:
    """The aggregates by node."""

    def __init__(
        self,
        routes: Iterable[StoredRoute],
        units: Iterable[RouteUnits],
        times: Iterable[RouteTimes],
        executions: Iterable[NodeExecutions],
        spans: Mapping[str, tuple[float, float]],
        *,
        is_live: bool,
        is_over: bool,
        said: Collection[str] = (),
    ) -> None:
        self._said, self._said_of = said, Counter(map(node_path, said))
        self._spans, self._is_live, self._is_over = spans, is_live, is_over
        nodes = {route.id: route.label for route in routes}
        self._units: dict[str, list[RouteUnits]] = {}
        for units_row in units:
            self._units.setdefault(nodes[units_row.route], []).append(units_row)
        self._times: dict[str, list[RouteTimes]] = {}
        for times_row in times:
            self._times.setdefault(nodes[times_row.route], []).append(times_row)
        self._executions: dict[str, dict[str, NodeExecutions]] = {}
        for one in executions:
            self._executions.setdefault(one.node, {})[_STATUS_OF[one.type]] = one

    def node(self, name: str, kind: str) -> NodeOutcome:
        """One node, without those inside it."""
        units, times = self._units.get(name, ()), self._times.get(name, ())
        status, executions = self._status(name, kind), self._executions.get(name, {})
        told = executions.get(status)
        reason = "" if told is None else str(msgspec.json.decode(told.data).get("reason") or "")
        starts = [row.started_utc for row in (*units, *times) if row.started_utc is not None]
        ends = [row.ended_utc for row in (*units, *times) if row.ended_utc is not None]
        if not starts and name in self._spans:
            starts = [self._spans[name][0]]
            ends = [] if status in ("running", "waiting") else [self._spans[name][1]]
        return NodeOutcome(
            name=name,
            kind=kind,
            status=status,
            reason=reason,
            units=sum(row.count for row in units),
            succeeded=_count(units, GOOD),
            failed=_count(units, _FAILED),
            skipped=executions["skipped"].count if "skipped" in executions else 0,
            running=_count(units, {Status.ASSIGNED, Status.RUNNING}),
            attempts=sum(row.attempts for row in times),
            throttled=sum(row.throttled for row in times),
            cost_usd=sum(row.cost_usd for row in times),
            started_utc=min(starts, default=None),
            ended_utc=max(ends, default=None),
            waiting=self._asked(told, name) if told is not None and status == "waiting" else "",
        )

    def _status(self, name: str, kind: str) -> str:
        executions = self._executions.get(name)
        if executions is None and self._is_over and name not in self._units:
            return "skipped"
        if executions is None:  # A job of a version without events, or a node that has not begun.
            return self._status_by_units(self._units.get(name, ()))
        status = next(one for one in _FIRST if one in executions)
        if self._is_over and status in ("running", "ready"):
            return "skipped"  # A failure has stopped the run.
        if status == "running" and kind == "human" and self._asks(name, executions):
            executions["waiting"] = executions["running"]
            return "waiting"
        if self._is_live or status not in ("running", "ready"):
            return status
        return "interrupted" if status == "running" else "pending"

    def _asked(self, first: NodeExecutions, name: str) -> str:
        """What to approve: the first unit, or, if that has its answer and others wait, the node."""
        return name if first.unit in self._said else first.unit or name

    def _asks(self, name: str, executions: Mapping[str, NodeExecutions]) -> bool:
        """Whether a human node has a question without an answer. An answer is taken in by the next run."""
        taken = sum(executions[one].count for one in ("success", "failed") if one in executions)
        return executions["running"].count > self._said_of[name] - taken

    def _status_by_units(self, units: Sequence[RouteUnits]) -> str:
        if not units:
            return "pending"
        if _count(units, _OPEN):
            return "running" if self._is_live else "interrupted"
        return "failed" if _count(units, _FAILED) else "success"


def _count(units: Iterable[RouteUnits], statuses: Iterable[str]) -> int:
    return sum(row.count for row in units if row.status in statuses)


def _with_inner(nodes: Sequence[NodeOutcome]) -> list[NodeOutcome]:
    """Nodes of kind `flow` have the sums and the times of the nodes inside them."""
    inside: dict[str, list[NodeOutcome]] = {}
    for node in nodes:
        if node.kind != "flow":
            for flow in accumulate(node.name.split("/")[:-1], "{}/{}".format):
                inside.setdefault(flow, []).append(node)
    return [_joined(node, inside.get(node.name, ())) if node.kind == "flow" else node for node in nodes]


def _with_groups(spec: FlowSpec, nodes: Sequence[NodeOutcome], *, is_live: bool) -> list[NodeOutcome]:
    """The steps of the flow in its order, pipelines and loops before their members."""
    by_name = {node.name: node for node in nodes}
    inner: dict[str, list[NodeOutcome]] = {}
    for node in nodes:
        if "/" in node.name:
            inner.setdefault(node.name.partition("/")[0], []).append(node)
    rows: list[NodeOutcome] = []
    for step in spec.step_order:
        if step in spec.nodes:
            rows += [by_name[step], *inner.get(step, ())]
            continue
        members = [msgspec.structs.replace(by_name[member], group=step) for member in spec.members(step)]
        kind = "pipeline" if step in spec.pipelines else "loop"
        status = _group_status({one.status for one in members}, is_live=is_live)
        if kind == "pipeline" and status == "failed" and _gets_through(members[-1]):
            status, members = "success", [_done(one) for one in members]
        group = _joined(NodeOutcome(name=step, kind=kind, status=status), members)
        rows.append(_with_limit(group, spec, members) if step in spec.loops else group)
        for member in members:
            rows += [member, *inner.get(member.name, ())]
    return rows


def _with_limit(group: NodeOutcome, spec: FlowSpec, members: Sequence[NodeOutcome]) -> NodeOutcome:
    """A loop that has ended says which of its limits it has used up. Whether its condition was true then is in the state."""
    loop = spec.loops[group.name]
    if group.status != "success":
        return group
    iterations = max((one.units for one in members if spec.nodes[one.name].for_each is None), default=0)
    if iterations >= loop.max_iters:
        return msgspec.structs.replace(
            group, reason=f"all {loop.max_iters:,} iterations were used (max_iters)"
        )
    if loop.budget_usd is not None and group.cost_usd >= loop.budget_usd:
        return msgspec.structs.replace(group, reason=f"its budget of ${loop.budget_usd:g} was used")
    return group


def _gets_through(last: NodeOutcome) -> bool:
    """Whether an item of a pipeline got through its last stage: then the pipeline has succeeded, whatever became of other items."""
    return last.status == "success" or last.succeeded > 0


def _done(member: NodeOutcome) -> NodeOutcome:
    """A stage of a pipeline that has succeeded: its failures ended their items, and are counted beside it."""
    return msgspec.structs.replace(member, status="success") if member.status == "failed" else member


def _group_status(states: Set[str], *, is_live: bool) -> str:
    """The status of a pipeline or loop, by those of its members. Itself it does not wait for the user: a member does."""
    has_begun = states & {"success", "failed"} and states & {"pending", "ready"}
    if is_live and (has_begun or states & {"running", "waiting"}):
        return "running"
    if states & {"waiting"}:
        return "interrupted" if states & {"interrupted"} else "pending"
    if has_begun:
        return "interrupted"
    order = ("interrupted", "failed", "ready", "pending", "success", "skipped")
    return next(one for one in order if one in states)


def _joined(node: NodeOutcome, inside: Sequence[NodeOutcome]) -> NodeOutcome:
    """A node with the sums and the times of those inside it."""
    if not inside:
        return node
    sums = ("units", "succeeded", "failed", "running", "attempts", "throttled", "cost_usd")
    starts = [one.started_utc for one in inside if one.started_utc is not None]
    ends = [one.ended_utc for one in inside if one.ended_utc is not None]
    return msgspec.structs.replace(
        node,
        **{name: sum(getattr(one, name) for one in inside) for name in sums},
        started_utc=min(starts, default=node.started_utc),
        ended_utc=max(ends, default=node.ended_utc),
        waiting=next((one.waiting for one in inside if one.waiting), ""),
    )


def last_job_of(store: Store, path: str) -> Job | None:
    """The latest job of a flow file; None if it was not run."""
    jobs = [
        job for job in store.jobs() if job.kind == "flow" and job.input == path and job.state != "ingesting"
    ]
    starts = store.run_starts()
    return max(jobs, key=lambda job: (starts.get(job.id, 0.0), job.id), default=None)
