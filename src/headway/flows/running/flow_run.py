"""A run of a flow: which units come next, and how it ended. PURE: no clock, no files, no store.

`advance` is given the recorded ends of units and returns the units to start now. A run that is resumed gets all recorded
ends at once; an end may come before its unit's turn, and waits for it. The result depends on the ends alone, never on
their order, unless a `fail_run` stops the rest:

- A step starts when everything that it waits for has ended. There are no waves.
- `runtime.concurrency` counts steps that run. A pipeline or a loop is one of them. A `human` node that waits counts as none.
- All iterations of a `for_each` run, also after more failures than it tolerates: a resume needs only those that failed.
- A step is skipped if a step before it failed, or was skipped, by an edge. It is also skipped if a step failed whose
  fields it reads. A writer that its own condition skipped does no harm as long as the field has a value.

The status of a run: `failed` if a `fail_run` stopped it or no step succeeded; `partial` if a step failed, or was skipped
because of a failure; otherwise `success`. Steps that a condition skipped count as neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from headway.flows.expressions import parse_expression
from headway.flows.running.node_run import NextUnit, NodeRun, NodeStatus, UnitEnd
from headway.flows.running.state_fold import SetOnceConflict, StateFold, Write
from headway.flows.spec import AUTO, Dependency, FlowSpec, LoopSpec, NodeSpec, PipelineSpec

RunStatus = Literal["running", "waiting", "success", "partial", "failed"]


class NodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """A node, a pipeline or a loop in the results file."""

    status: NodeStatus
    reason: str = ""
    units: int = 0
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    cost_usd: float = 0.0


class FlowRun:
    """The run of one flow. `inputs` are the values of `--arg` and `--state`; `concurrency` replaces the file's."""

    def __init__(self, spec: FlowSpec, inputs: Mapping[str, Any], concurrency: int | None = None) -> None:
        self.spec = spec
        self.fold = StateFold(spec, inputs)
        #: The reason of a `fail_run`; "" if nothing has stopped the run.
        self.stopped = ""
        self._concurrency = spec.concurrency if concurrency is None else concurrency
        self._ends: dict[str, UnitEnd] = {}
        self._owners: dict[str, NodeRun] = {}
        self._steps: dict[str, _Step] = {
            step: _step(self, step, position) for position, step in enumerate(spec.step_order)
        }
        self._left = list(spec.step_order)

    def advance(self, ends: Mapping[str, UnitEnd] = {}) -> list[NextUnit]:
        """Take ends in, by the ids of units; returns the units to start now. Each is returned once."""
        self._ends.update(ends)
        units: list[NextUnit] = []
        while True:
            new = [] if self.stopped else self._start_steps()
            units += new
            taken = [unit for unit in self._ends if unit in self._owners]
            if not taken and not new:
                break
            for unit in taken:
                self._take(unit, self._ends.pop(unit))
        return [unit for unit in units if unit.id in self._owners]

    def _take(self, unit: str, end: UnitEnd) -> None:
        run = self._owners.pop(unit)
        run.take(unit, end)
        self.close(run)

    def close(self, run: NodeRun) -> None:
        """Add the writes of an execution that has ended, and apply its policy."""
        if run.status == "success":
            try:
                self.fold.add_all(run.writes(self.spec))
            except SetOnceConflict as conflict:
                run.fail(conflict.message)
        if run.status == "failed" and run.node.on_error.policy == "fail_run" and not self.stopped:
            self.stopped = f"{run.id} failed: {run.reason}"

    def hand_out(self, run: NodeRun) -> list[NextUnit]:
        """The units of an execution that start now."""
        units = run.next_units()
        self._owners.update((unit.id, run) for unit in units)
        return units

    def _start_steps(self) -> list[NextUnit]:
        units: list[NextUnit] = []
        for step_id in self._left:
            step = self._steps[step_id]
            if step.status == "pending" and self._all_over(step.after):
                reason = self._reason_to_skip(step)
                if reason is not None:
                    step.skip(*reason)
                elif self._has_place():
                    step.begin()
            if step.status in ("running", "waiting"):
                units += step.advance()
        self._left = [step for step in self._left if not self._steps[step].is_over]
        return units

    def _all_over(self, after: tuple[Dependency, ...]) -> bool:
        return all(self._steps[one.id].is_over for one in after)

    def _has_place(self) -> bool:
        running = sum(self._steps[step].status == "running" for step in self._left)
        return self._concurrency == AUTO or running < self._concurrency

    def _reason_to_skip(self, step: _Step) -> tuple[str, bool] | None:
        """The reason, and whether only conditions were false; None if the step starts."""
        outcomes = {one.id: self._steps[one.id] for one in step.after}
        return skip_reason(step.after, outcomes, self.fold.state(), step.when)

    # -- what is known of it ------------------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[str]:
        """The units of `human` nodes that wait for an approval."""
        return [unit for unit, run in self._owners.items() if run.status == "waiting"]

    @property
    def status(self) -> RunStatus:
        if self._owners and not all(run.status == "waiting" for run in self._owners.values()):
            return "running"
        if self.stopped:
            return "failed"
        if self._left:
            return "waiting"
        counted = [step for step in self._steps.values() if not step.by_condition]
        if counted and not any(step.status == "success" for step in counted):
            return "failed"
        reports = self.nodes().values()
        whole = all(step.status == "success" for step in counted) and not any(
            one.status == "failed" for one in reports
        )
        return "success" if whole else "partial"

    def state(self) -> dict[str, Any]:
        """The state as it is now."""
        return self.fold.state()

    def nodes(self) -> dict[str, NodeReport]:
        """Every node and its outcome, in the order of the file."""
        runs: dict[str, list[NodeRun]] = {node: [] for node in self.spec.nodes}
        for step in self._steps.values():
            for run in step.runs():
                runs[run.node.id].append(run)
        reports = {}
        for node, executions in runs.items():
            group = self.spec.nodes[node].group
            reports[node] = _report(executions, self._steps[group] if group else None)
        return reports


def skip_reason(
    after: tuple[Dependency, ...], outcomes: Mapping[str, Any], state: Mapping[str, Any], when: str
) -> tuple[str, bool] | None:
    """Why something is skipped whose predecessors have ended, and whether only conditions were false; None: it starts."""
    for one in after:
        before = outcomes[one.id]
        if before.status == "success":
            continue
        harmless = before.by_condition and not one.edge and all(name in state for name in one.fields)
        if not harmless:
            return f"{one.id} {'failed' if before.status == 'failed' else 'was skipped'}", before.by_condition
    for one in after:
        if one.when and not parse_expression(one.when).is_true(state):
            return f"the condition of the edge from {one.id} is false: {one.when}", True
    if when and not parse_expression(when).is_true(state):
        return f"its condition is false: {when}", True
    return None


def _step(run: FlowRun, step: str, position: int) -> _Step:
    if step in run.spec.pipelines:
        return _PipelineStep(run, run.spec.pipelines[step], position)
    if step in run.spec.loops:
        return _LoopStep(run, run.spec.loops[step], position)
    return _NodeStep(run, run.spec.nodes[step], position)


class _Step:
    """A step of the flow."""

    when = ""

    def __init__(self, run: FlowRun, after: tuple[Dependency, ...], position: int) -> None:
        self._run, self.after, self._position = run, after, position
        self.status: NodeStatus = "pending"
        self.reason = ""
        self.by_condition = False

    @property
    def is_over(self) -> bool:
        return self.status in ("success", "failed", "skipped")

    def skip(self, reason: str, by_condition: bool) -> None:
        self.status, self.reason, self.by_condition = "skipped", reason, by_condition

    def begin(self) -> None:
        """Start: its predecessors have ended, and there is a place for it."""
        raise NotImplementedError

    def advance(self) -> list[NextUnit]:
        """Units that start now; sets the status if the step has ended."""
        raise NotImplementedError

    def runs(self) -> Iterator[NodeRun]:
        """Its executions of nodes so far."""
        raise NotImplementedError


class _NodeStep(_Step):
    """A node by itself."""

    def __init__(self, run: FlowRun, node: NodeSpec, position: int) -> None:
        super().__init__(run, node.after, position)
        self.when = node.when
        self._node_run = NodeRun(node, (position, 0, 0))

    def skip(self, reason: str, by_condition: bool) -> None:
        super().skip(reason, by_condition)
        self._node_run.skip(reason, by_condition=by_condition)

    def begin(self) -> None:
        self._node_run.start(self._run.fold.state())
        if self._node_run.is_over:
            self._run.close(self._node_run)
        self._note()

    def advance(self) -> list[NextUnit]:
        self._note()
        return self._run.hand_out(self._node_run)

    def _note(self) -> None:
        self.status, self.reason = self._node_run.status, self._node_run.reason

    def runs(self) -> Iterator[NodeRun]:
        yield self._node_run


class _LoopTurn:
    """One item of a pipeline or one iteration of a loop: its nodes, in order."""

    def __init__(self, step: _GroupStep, number: int, item: Any) -> None:
        self.number, self._step = number, step
        spec = step.flow.spec
        self.runs = {
            node: NodeRun(spec.nodes[node], (step.position, number, place), f"#{number}", (number, item))
            for place, node in enumerate(step.members)
        }

    @property
    def is_over(self) -> bool:
        return all(run.is_over for run in self.runs.values())

    @property
    def failed(self) -> bool:
        return any(run.status == "failed" for run in self.runs.values())

    def advance(self) -> list[NextUnit]:
        units: list[NextUnit] = []
        flow = self._step.flow
        for run in self.runs.values():
            ready = all(self.runs[one.id].is_over for one in run.node.after)
            if (
                run.status == "pending"
                and ready
                and self._step.may_start(self, run.node)
                and not flow.stopped
            ):
                self._start(run)
            units += flow.hand_out(run)
        return units

    def _start(self, run: NodeRun) -> None:
        visible = self._step.visible(self, run.node)
        reason = skip_reason(run.node.after, self.runs, visible, run.node.when)
        if reason is not None:
            run.skip(reason[0], by_condition=reason[1])
            return
        run.start(visible)
        if run.is_over:
            self._step.flow.close(run)


class _GroupStep(_Step):
    """A pipeline or a loop."""

    def __init__(self, run: FlowRun, spec: PipelineSpec | LoopSpec, position: int) -> None:
        super().__init__(run, spec.after, position)
        self.id, self.flow, self.position = spec.id, run, position
        self.members = run.spec.members(spec.id)
        self.turns: list[_LoopTurn] = []

    def runs(self) -> Iterator[NodeRun]:
        for turn in self.turns:
            yield from turn.runs.values()

    def may_start(self, turn: _LoopTurn, node: NodeSpec) -> bool:
        """Whether a node may start as far as other items or iterations are concerned."""
        return True

    def visible(self, turn: _LoopTurn, node: NodeSpec) -> dict[str, Any]:
        """The state that a node sees."""
        return self.flow.fold.state()

    def _advance_turns(self) -> list[NextUnit]:
        return [unit for turn in self.turns if not turn.is_over for unit in turn.advance()]


class _PipelineStep(_GroupStep):
    """Items go through the stages side by side.

    A stage sees the state before the pipeline and what the earlier stages wrote for the same item. If it reads a field that
    itself or a later stage writes, it waits for those stages of the items before, and sees what they wrote, too. A stage
    that writes a `set_once` field waits for itself in the items before, so that the first item is the one that sets it.
    """

    def __init__(self, run: FlowRun, spec: PipelineSpec, position: int) -> None:
        super().__init__(run, spec, position)
        self._spec = spec
        self._items: list[Any] = []
        self._first_open = 0
        nodes = [run.spec.nodes[node] for node in self.members]
        #: For each stage: the fields that it reads from the items before, and the stages that write them.
        self._carried = {
            node.id: {
                name: [other.id for other in nodes[place:] if name in other.writes]
                for name in (*node.reads, *node.expression_reads)
                if any(name in other.writes for other in nodes[place:])
            }
            for place, node in enumerate(nodes)
        }

    def begin(self) -> None:
        self.status = "running"
        items = self._spec.items
        found = (
            list(items)
            if items is not None
            else parse_expression(self._spec.source).value(self.flow.fold.state())
        )
        if isinstance(found, list):
            self._items = found
        else:
            self.status, self.reason = "failed", f"items {self._spec.source} is missing or not a list"

    def advance(self) -> list[NextUnit]:
        units = self._advance_turns()
        size = self._spec.concurrency
        open_turns = sum(not turn.is_over for turn in self.turns)
        while (
            len(self.turns) < len(self._items)
            and (size == AUTO or open_turns < size)
            and not self.flow.stopped
        ):
            turn = _LoopTurn(self, len(self.turns), self._items[len(self.turns)])
            self.turns.append(turn)
            units += turn.advance()
            open_turns += not turn.is_over
        if len(self.turns) == len(self._items) and all(turn.is_over for turn in self.turns):
            failed = sum(turn.failed for turn in self.turns)
            self.status = "failed" if failed and failed == len(self._items) else "success"
            self.reason = f"{failed} of {len(self._items)} items failed" if failed else ""
        return units

    def may_start(self, turn: _LoopTurn, node: NodeSpec) -> bool:
        writers = {one for stages in self._carried[node.id].values() for one in stages}
        fields = self.flow.spec.fields
        if any(name in fields and fields[name].merge == "set_once" for name in node.writes):
            writers.add(node.id)
        return all(earlier.runs[one].is_over for one in writers for earlier in self.turns[: turn.number])

    def visible(self, turn: _LoopTurn, node: NodeSpec) -> dict[str, Any]:
        carried = self._carried[node.id]

        def sees(field: str, write: Write) -> bool:
            step, number, _ = write.place
            return (
                step != self.position or number == turn.number or (number < turn.number and field in carried)
            )

        return self.flow.fold.state(sees=sees)


class _LoopStep(_GroupStep):
    """Iterations one after the other, until the condition is true. A failed iteration ends the loop."""

    def __init__(self, run: FlowRun, spec: LoopSpec, position: int) -> None:
        super().__init__(run, spec, position)
        self._spec = spec

    def begin(self) -> None:
        self.status = "running"

    def advance(self) -> list[NextUnit]:
        units: list[NextUnit] = []
        while not units and self.status == "running":
            units = self._advance_turns()
            if self.turns and not self.turns[-1].is_over:
                break
            if not self._ends() and not self.flow.stopped:
                self.turns.append(_LoopTurn(self, len(self.turns), None))
            elif not self.is_over:
                break
        return units

    def _ends(self) -> bool:
        """Whether no further iteration starts; sets the status."""
        spent = sum(run.cost_usd for run in self.runs())
        if self.turns and self.turns[-1].failed:
            self.status, self.reason = "failed", f"iteration {len(self.turns)} failed"
        elif self._spec.until and parse_expression(self._spec.until).is_true(self.flow.fold.state()):
            self.status = "success"
        elif len(self.turns) >= self._spec.max_iters:
            self.status, self.reason = "success", f"stopped after {len(self.turns)} iterations (max_iters)"
        elif self._spec.budget_usd is not None and spent >= self._spec.budget_usd:
            self.status, self.reason = "success", f"stopped after ${spent:.4g} (budget)"
        return self.is_over


def _report(runs: list[NodeRun], group: _Step | None) -> NodeReport:
    """The report of a node over all its executions. `group` is the pipeline or loop that it is in."""
    reason = next((run.reason for run in runs if run.reason), "")
    return NodeReport(
        status=_joint_status(runs, group),
        reason=reason or ("" if group is None or runs else group.reason),
        units=sum(run.total for run in runs),
        succeeded=sum(run.succeeded for run in runs),
        failed=sum(run.failed for run in runs),
        skipped=sum(run.status == "skipped" for run in runs),
        cost_usd=sum(run.cost_usd for run in runs),
    )


def _joint_status(runs: list[NodeRun], group: _Step | None) -> NodeStatus:
    states = {run.status for run in runs}
    if not states:
        return (
            "pending"
            if group is None or group.status in ("pending", "running")
            else "skipped"
            if group.status != "success"
            else "success"
        )
    if group is not None and group.status == "running":
        return "running"
    for status in ("running", "waiting", "pending", "failed", "success"):
        if status in states:
            return status
    return "skipped"
