"""A loop: iterations of its body one after the other, until a condition is true. PURE.

The condition is evaluated before each iteration, the first one included; then the number of iterations and the budget are looked
at. A failed iteration ends the loop, and the loop has failed. A member sees what earlier iterations wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.flows.expressions import parse_expression
from headway.flows.running.outcomes import FAILED, GOOD
from headway.flows.running.state.state_fold import VisibleState
from headway.flows.running.steps.groups import GroupStep
from headway.flows.running.steps.node_run import UnitEnd
from headway.flows.running.steps.tally import RUNNING, WAITING
from headway.flows.running.steps.turns import Turn
from headway.flows.running.unit_ids import UnitId
from headway.flows.spec import LoopSpec

if TYPE_CHECKING:
    from headway.flows.running.steps.flow_plan import StepPlan
    from headway.flows.running.steps.flow_steps import FlowSteps


class LoopStep(GroupStep):
    """A loop that runs."""

    __slots__ = ("_early", "_failed", "_spec", "_spent")

    def __init__(self, flow: FlowSteps, plan: StepPlan) -> None:
        super().__init__(flow, plan)
        assert isinstance(plan.spec, LoopSpec)
        self._spec = plan.spec
        self._spent = 0.0
        self._failed = False
        #: Ends of later iterations.
        self._early: dict[int, list[tuple[UnitId, UnitEnd]]] = {}

    def go_on(self) -> None:
        """Begin the next iteration when there is none."""
        if not self.standing:
            return
        if self.turns:
            self.stand(RUNNING if self.places.running else WAITING)
            return
        end = self._end()
        if end is not None:
            self.over(*end)
            return
        turn = self._begin_turn()
        for unit, unit_end in self._early.pop(turn.number, ()):
            turn.take(unit, unit_end)

    def _end(self) -> tuple[int, str] | None:
        """The outcome and the reason, if no further iteration begins."""
        spec = self._spec
        if self._failed:
            return FAILED, f"iteration {self.begun} failed"
        if spec.until and parse_expression(spec.until).is_true(VisibleState(self.flow.fold)):
            return GOOD, ""
        if self.begun >= spec.max_iters:
            return GOOD, f"stopped after {self.begun} iterations (max_iters)"
        if spec.budget_usd is not None and self._spent >= spec.budget_usd:
            return GOOD, f"stopped after ${self._spent:.4g} (budget)"
        return None

    def take(self, unit: UnitId, end: UnitEnd) -> None:
        turn = self.turns.get(unit.turn)
        if turn is not None:
            turn.take(unit, end)
        elif unit.turn >= self.begun:
            self._early.setdefault(unit.turn, []).append((unit, end))

    def spend(self, cost_usd: float) -> None:
        self._spent += cost_usd
        super().spend(cost_usd)

    def turn_over(self, turn: Turn) -> None:
        self._failed |= turn.failed
        super().turn_over(turn)
