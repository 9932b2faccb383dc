"""The steps of one flow while it runs: which of them begins now, and what their ends mean for the others. PURE.

A step that waits for nothing more is decided: it is skipped, or it begins, or it waits for a place. Each step is looked at when its
last predecessor has ended and when a place becomes free, so the work is that of the edges of the graph.

The run of a flow inside another one is the same thing, with an `owner` and a part in the ids of its units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from headway.flows.running.flow_node import FlowNodeRun
from headway.flows.running.flow_plan import FlowPlan, StepPlan
from headway.flows.running.loop_step import LoopStep
from headway.flows.running.node_run import NodeRun, UnitEnd, UnitRun
from headway.flows.running.outcomes import BY_CONDITION, FAILED, GOOD, SKIPPED, skip_reason
from headway.flows.running.pipeline_step import PipelineStep
from headway.flows.running.run_scope import RunPart, RunScope
from headway.flows.running.state_fold import SetOnceConflict, StateFold, VisibleState
from headway.flows.running.steps import NodeStep, Step
from headway.flows.running.tally import RUNNING, WAITING
from headway.flows.running.turn_writes import MemberWrites
from headway.flows.running.unit_ids import UnitId, parse_unit
from headway.flows.spec import AUTO, LoopSpec, NodeSpec, PipelineSpec

#: They do nothing but end, or wait for the user.
_NEED_NO_PLACE: Final = ("dataset", "human")


class FlowSteps(RunPart):
    """The run of a flow. `prefix` is that of its units, `path` that of its nodes, `order` the iterations around it."""

    def __init__(
        self,
        plan: FlowPlan,
        inputs: Mapping[str, Any],
        scope: RunScope,
        owner: tuple[FlowNodeRun, int] | None = None,
    ) -> None:
        super().__init__()
        self.plan, self.scope = plan, scope
        self.prefix = self.path = ""
        self.order: tuple[int, ...] = ()
        self.owner = owner
        if owner is not None:
            run, n = owner
            self.prefix = f"{run.flow.prefix}{run.part_id(n)}/"
            self.path = f"{run.tally.path}/"
            self.order = (*run.order, n)
        self.fold = StateFold(plan.spec.fields, inputs)
        self.places = plan.spec.concurrency
        #: The reason of a `fail_run`; "" if nothing has stopped the run.
        self.stopped = ""
        self.is_over = False
        #: Units that were handed out and have not ended, also of flows inside.
        self.in_flight = 0
        #: The steps that run, by position.
        self.steps: dict[int, Step] = {}
        #: How each step ended, by position, and why groups did.
        self.outcomes = bytearray(len(plan.steps))
        self.group_reasons: dict[int, str] = {}
        self._standing = RUNNING
        self._running = self._waiting = 0
        self._left = len(plan.steps)
        self._waits = [step.waits for step in plan.steps]
        #: Steps to be decided.
        self._free = [step.position for step in plan.steps if not step.waits]
        #: Positions of steps that wait for a place: a heap, and the same as a set.
        self._queue: list[int] = []
        self._queued: set[int] = set()
        #: Ends of units of steps that have not begun.
        self._early: dict[int, list[tuple[UnitId, UnitEnd]]] = {}
        #: The `for_each` that the last end was of.
        self._recent_id = ""
        self._recent: UnitRun
        #: How the members of groups ended, by node.
        self.writes: dict[str, MemberWrites] = {}
        #: The executions of `flow` nodes that failed, by their id.
        self.failed_flows: dict[str, FlowNodeRun] = {}
        self._is_flawed = False
        #: The first problem, and the `fail_run` that counts, by their place in the flow.
        self._problem: tuple[tuple[int, ...], str] | None = None
        self._stopped_at: tuple[int, ...] = ()
        scope.later(self)

    # -- ends of units ---------------------------------------------------------------------------------------------

    def take(self, unit: str, end: UnitEnd) -> None:
        """Take the end of a unit. Ids that the flow does not have, and ends that are known, change nothing."""
        head, bracket, number = unit.rpartition("[")
        if bracket and head == self._recent_id and unit[-1] == "]":
            self._recent.take(int(number[:-1]), end)
            return
        parsed = parse_unit(unit)
        position = self.plan.step_of(parsed.node)
        if position is None or self.outcomes[position] or self.is_over:
            return
        step = self.steps.get(position)
        if step is not None:
            if (parsed.turn >= 0) == (step.plan.group is not None):
                step.take(parsed, end)
                self._remember(step, parsed)
            return
        self._early.setdefault(position, []).append((parsed, end))
        if position in self._queued:
            self._begin(position)

    def _remember(self, step: Step, unit: UnitId) -> None:
        """Ends of the same `for_each` often follow each other."""
        run = step.run_of(unit)
        if isinstance(step, NodeStep) and isinstance(run, UnitRun) and run.source is not None:
            self._recent_id, self._recent = run.id, run

    # -- steps --------------------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Decide what waits for nothing more, and begin what has a place."""
        while self._free:
            free, self._free = self._free, []
            for position in free:
                self._decide(self.plan.steps[position])
            self._begin_queued()
        self._begin_queued()
        if self._left == 0 and not self.is_over:
            self.finish()
        elif not self.is_over:
            self._stand(WAITING if self._waiting and not self._running else RUNNING)

    def _decide(self, step: StepPlan) -> None:
        if self._is_left_out(step):
            self.step_over(step, BY_CONDITION, "")
            return
        skip = self._skip_reason(step)
        if skip is not None:
            self._skip(step, *skip)
            return
        if isinstance(step.spec, NodeSpec):
            self.scope.event("node.ready", self.path + step.id, self.prefix + step.id)
            if step.spec.kind in _NEED_NO_PLACE:
                self._begin(step.position)
                return
        if step.position in self._early:
            self._begin(step.position)
        else:
            self._queued.add(step.position)
            self._touch(step)
            heappush(self._queue, step.position)

    def _skip_reason(self, step: StepPlan) -> tuple[int, str] | None:
        if not step.after and not step.when:
            return None
        return skip_reason(step.after, self._outcome_of, VisibleState(self.fold), step.when)

    def _is_left_out(self, step: StepPlan) -> bool:
        """Whether a step is not wanted in this run. It is as if a condition had skipped it, but it stays pending."""
        only = self.scope.only
        if only is None:
            return False
        paths = [self.path + one for one in self.plan.spec.members(step.id)]
        if any(path in only for path in paths):
            return False
        self.scope.left_out.update(dict.fromkeys(paths))
        return True

    def _outcome_of(self, step: str) -> int:
        return self.outcomes[self.plan.positions[step]]

    def _skip(self, step: StepPlan, outcome: int, reason: str) -> None:
        if isinstance(step.spec, NodeSpec):
            self.note_skip(step.spec, outcome, reason)
        self.step_over(step, outcome, reason)

    def _begin_queued(self) -> None:
        while self._queue and (self.places == AUTO or self._running < self.places):
            position = heappop(self._queue)
            if position in self._queued:
                self._begin(position)

    def _begin(self, position: int) -> None:
        self._queued.discard(position)
        self._running += 1
        step = self.steps[position] = self._made(self.plan.steps[position])
        step.begin()
        for unit, end in self._early.pop(position, ()):
            if self.steps.get(position) is step:
                step.take(unit, end)

    def _made(self, plan: StepPlan) -> Step:
        if isinstance(plan.spec, PipelineSpec):
            return PipelineStep(self, plan)
        if isinstance(plan.spec, LoopSpec):
            return LoopStep(self, plan)
        return NodeStep(self, plan)

    def is_queued(self, step: str) -> bool:
        """Whether a step waits for nothing but a place."""
        return self.plan.positions.get(step, -1) in self._queued

    def step_changed(self, before: int, after: int) -> None:
        """A step stands elsewhere."""
        self._running += (after == RUNNING) - (before == RUNNING)
        self._waiting += (after == WAITING) - (before == WAITING)
        self.scope.later(self)

    def step_over(self, step: StepPlan, outcome: int, reason: str) -> None:
        """A step has ended, or is skipped."""
        self.outcomes[step.position] = outcome
        self.steps.pop(step.position, None)
        if self._recent_id == step.id:
            self._recent_id = ""
        self._left -= 1
        if outcome == FAILED:
            self._note_problem((step.position,), f"{step.id} failed: {reason}")
        if step.group is not None:
            self._group_over(step, reason)
        for position in step.next:
            self._waits[position] -= 1
            if not self._waits[position]:
                self._free.append(position)
        self.scope.later(self)

    def _group_over(self, step: StepPlan, reason: str) -> None:
        self.group_reasons[step.position] = reason
        self._touch(step)

    def _touch(self, step: StepPlan) -> None:
        members = self.plan.spec.members(step.id)
        self.scope.touched.update(self.scope.tally(self.path + one) for one in members)

    # -- the run as a whole -----------------------------------------------------------------------------------------------

    def _stand(self, standing: int) -> None:
        before, self._standing = self._standing, standing
        if before != standing and self.owner is not None:
            self.owner[0].inner_changed(before, standing)

    def finish(self) -> None:
        """It is over: all steps have ended, or it was stopped and nothing is in flight."""
        self.is_over = True
        self._stand(0)
        if self.owner is not None:
            run, n = self.owner
            run.inner_ended(n, "" if self.outcome() == GOOD else self.problem())

    def outcome(self) -> int:
        """GOOD, SKIPPED for a partial success, or FAILED."""
        if self.stopped:
            return FAILED
        found = {one: self.outcomes.count(one) for one in (GOOD, FAILED, SKIPPED)}
        if any(found.values()) and not found[GOOD]:
            return FAILED
        return SKIPPED if found[FAILED] or found[SKIPPED] or self._is_flawed else GOOD

    def problem(self) -> str:
        """Why it is no success."""
        return self.stopped or ("" if self._problem is None else self._problem[1])

    def _note_problem(self, place: tuple[int, ...], problem: str) -> None:
        if self._problem is None or place < self._problem[0]:
            self._problem = place, problem

    @property
    def is_halted(self) -> bool:
        """Whether nothing more is handed out: a `fail_run` here, or in a flow around this one."""
        return bool(self.stopped) or (self.owner is not None and self.owner[0].flow.is_halted)

    def fly(self, units: int) -> None:
        """This many more units are in flight."""
        self.in_flight += units
        if self.owner is not None:
            self.owner[0].flow.fly(units)

    def spend(self, cost_usd: float) -> None:
        """A unit has cost this."""
        if self.owner is not None:
            self.owner[0].spend(cost_usd)

    def inner_run(self, run: FlowNodeRun, n: int, inputs: Mapping[str, Any]) -> FlowSteps:
        """The run of the flow of a node, for one iteration."""
        return FlowSteps(self.plan.inner[run.node.id], inputs, self.scope, (run, n))

    # -- what executions of nodes tell ----------------------------------------------------------------------------------

    def conflict_of(self, run: NodeRun) -> str:
        """Why an execution that has succeeded has failed after all: it writes a field that has been set. "": it has not."""
        once = [field for field in run.node.writes if field in self.plan.once]
        if not once:
            return ""
        writers = (
            [f"{run.id}[{n}]" for n, mark in enumerate(run.marks) if mark == GOOD]
            if run.source is not None
            else [run.id]
        )
        try:
            for writer in writers[:2]:
                self.fold.claim(once, writer)
        except SetOnceConflict as conflict:
            return conflict.message
        return ""

    def note_outcome(self, run: NodeRun) -> None:
        """An execution is over."""
        node = run.node
        run.tally.over(run.outcome, run.reason, run.order)
        event = self.scope.event
        if run.outcome == GOOD:
            event("node.finished", run.tally.path, run.full_id, units=run.total, failed=run.failed)
            for field in node.writes:
                event("state.write", run.tally.path, run.full_id, field=field)
            return
        event(
            "node.failed", run.tally.path, run.full_id, reason=run.reason, units=run.total, failed=run.failed
        )
        if isinstance(run, FlowNodeRun) and run.has_failed_flows:
            self.failed_flows[run.id] = run
        if node.on_error.policy == "fail_run":
            self._stop(run)

    def note_skip(self, node: NodeSpec, outcome: int, reason: str, turn: int | None = None) -> None:
        """An execution of a node is skipped."""
        tally = self.scope.tally(self.path + node.id)
        tally.over(outcome, reason, self.order if turn is None else (*self.order, turn))
        self.scope.touched.add(tally)
        unit = node.id if turn is None else f"{node.id}#{turn}"
        self.scope.event("node.skipped", tally.path, self.prefix + unit, reason=reason)

    def note_flaw(self, step: StepPlan, problem: str) -> None:
        """An item of a pipeline failed: the run is no success any more."""
        self._is_flawed = True
        self._note_problem((step.position,), f"{step.id}: {problem}")

    def _stop(self, run: NodeRun) -> None:
        position = self.plan.step_of(run.node.id)
        place = (-1 if position is None else position, *run.order)
        if not self.stopped or place < self._stopped_at:
            self.stopped, self._stopped_at = f"{run.id} failed: {run.reason}", place
            self.scope.stopping.append(self)

    def keep_writes(self, writes: Sequence[MemberWrites]) -> None:
        """Remember how the members of a group end."""
        self.writes.update((member.node.id, member) for member in writes)
