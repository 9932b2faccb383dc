"""A step of a flow: a node by itself, a pipeline or a loop. PURE.

A step has begun when it is made, and its predecessors have ended before that. It tells its flow where it stands: RUNNING, WAITING
(only for approvals: it holds no place), or that it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.flows.running.data_set import DataSetRun
from headway.flows.running.flow_node import FlowNodeRun
from headway.flows.running.node_run import NodeRun, Parent, UnitEnd, UnitRun
from headway.flows.running.outcomes import GOOD
from headway.flows.running.state_fold import VisibleState
from headway.flows.running.tally import RUNNING
from headway.flows.running.unit_ids import UnitId
from headway.flows.spec import NodeSpec

if TYPE_CHECKING:
    from headway.flows.running.flow_plan import StepPlan
    from headway.flows.running.flow_steps import FlowSteps


class Step(Parent):
    """A step that runs."""

    __slots__ = ("flow", "plan", "standing")

    def __init__(self, flow: FlowSteps, plan: StepPlan) -> None:
        super().__init__()
        self.flow, self.plan = flow, plan
        self.standing = RUNNING

    def begin(self) -> None:
        """Start what can be started."""
        raise NotImplementedError

    def take(self, unit: UnitId, end: UnitEnd) -> None:
        """Take the end of one of its units."""
        raise NotImplementedError

    def is_past(self, executions: int) -> bool:
        """Whether a node with so many executions that are over has none left, as far as is known."""
        return False

    def run_of(self, unit: UnitId) -> NodeRun | None:
        """The execution of a unit; None if it is over or has not started."""
        raise NotImplementedError

    def has_begun_after(self, member: str, turn: int) -> bool:
        """Whether a member runs in a later turn."""
        return False

    def spend(self, cost_usd: float) -> None:
        self.flow.spend(cost_usd)

    def stand(self, standing: int) -> None:
        """Tell the flow where it stands."""
        before, self.standing = self.standing, standing
        if before != standing:
            self.flow.step_changed(before, standing)

    def over(self, outcome: int, reason: str = "") -> None:
        """It has ended."""
        self.stand(0)
        self.flow.step_over(self.plan, outcome, reason)


class NodeStep(Step):
    """A node by itself."""

    __slots__ = ("_run", "index")

    def __init__(self, flow: FlowSteps, plan: StepPlan) -> None:
        super().__init__(flow, plan)
        self.index = None
        assert isinstance(plan.spec, NodeSpec)
        self._run = make_run(flow, plan.spec, self)

    def begin(self) -> None:
        self._run.start(VisibleState(self.flow.fold))

    def take(self, unit: UnitId, end: UnitEnd) -> None:
        take_end(self._run, unit, end)

    def run_of(self, unit: UnitId) -> NodeRun | None:
        return self._run

    def changed(self, before: int, after: int) -> None:
        if after:
            self.stand(after)

    def ended(self, run: NodeRun) -> None:
        if run.outcome == GOOD:
            for field, part in run.parts().items():
                self.flow.fold.add(self.plan.position, field, part)
        self.over(run.outcome, run.reason)


def make_run(flow: FlowSteps, node: NodeSpec, parent: Parent, turn: int | None = None) -> NodeRun:
    """An execution of a node, by its kind."""
    kind = {"flow": FlowNodeRun, "dataset": DataSetRun}.get(node.kind, UnitRun)
    return kind(flow, node, parent, turn)


def take_end(run: NodeRun, unit: UnitId, end: UnitEnd) -> None:
    """Give the end of a unit to its execution. An id that does not fit is of another version of the flow, and changes nothing."""
    n = max(unit.iteration, 0)
    if isinstance(run, FlowNodeRun):
        run.take(n, unit.rest, end)
    elif isinstance(run, UnitRun) and not unit.rest and (unit.iteration >= 0) == (run.source is not None):
        run.take(n, end)
