"""What pipelines and loops have in common: turns, and what their members wrote. PURE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headway.flows.running.field_parts import Part
from headway.flows.running.node_run import NodeRun, UnitEnd
from headway.flows.running.state_fold import VisibleState
from headway.flows.running.steps import Step
from headway.flows.running.tally import RUNNING, WAITING
from headway.flows.running.turn_writes import MemberWrites, TurnsPart
from headway.flows.running.turns import Turn
from headway.flows.running.unit_ids import UnitId

if TYPE_CHECKING:
    from headway.flows.running.flow_plan import GroupPlan, MemberPlan, StepPlan
    from headway.flows.running.flow_steps import FlowSteps

#: All turns.
_ALL = 1 << 60


class GroupStep(Step):
    """A pipeline or a loop. `turns` has those that are not over; `begun` counts those that have begun."""

    __slots__ = (
        "_writers",
        "begun",
        "index",
        "members",
        "plan_of_group",
        "running",
        "turns",
        "waiting",
        "writes",
    )

    def __init__(self, flow: FlowSteps, plan: StepPlan) -> None:
        super().__init__(flow, plan)
        assert plan.group is not None
        self.index = None
        self.plan_of_group: GroupPlan = plan.group
        self.members: list[MemberPlan] = plan.group.members
        self.turns: dict[int, Turn] = {}
        self.begun = self.running = self.waiting = 0
        self.writes = [MemberWrites(flow.scope.values, flow.prefix, member.node) for member in self.members]
        self._writers = {
            field: [(place, self.writes[place]) for place in places]
            for field, places in plan.group.writers.items()
        }
        flow.keep_writes(self.writes)
        for field, writers in self._writers.items():
            flow.fold.add(plan.position, field, TurnsPart(writers, field, _ALL))

    # -- what turns need ---------------------------------------------------------------------------------------------

    def item_of(self, number: int) -> Any:
        """The item of a turn."""
        return None

    def may_start(self, turn: Turn, member: MemberPlan) -> bool:
        """Whether a member may start as far as other turns are concerned. If not, it is started later."""
        return True

    def outcome_of(self, node: str, number: int) -> int:
        """How a member ended in a turn; 0: it is not over."""
        return self.writes[self.plan_of_group.places[node]].outcome(number)

    def visible(self, number: int, member: MemberPlan) -> VisibleState:
        """The state that a member sees in a turn."""
        return VisibleState(self.flow.fold, self.plan.position, self._own(number, member))

    def _own(self, number: int, member: MemberPlan) -> Callable[[str], Part | None]:
        everything, carried, place = self.plan_of_group.is_loop, member.carried, member.place

        def own(field: str) -> Part | None:
            writers = self._writers.get(field)
            if writers is None:
                return None
            since = 0 if everything or field in carried else number
            return TurnsPart(writers, field, number, place, since)

        return own

    # -- what turns tell ----------------------------------------------------------------------------------------------

    def note_member(self, number: int, place: int, outcome: int, parts: dict[str, Part]) -> None:
        """A member is over in a turn."""
        self.writes[place].note(number, outcome, parts)

    def turn_changed(self, before: int, after: int) -> None:
        """A turn stands elsewhere."""
        self.running += (after == RUNNING) - (before == RUNNING)
        self.waiting += (after == WAITING) - (before == WAITING)
        self.flow.scope.later(self)

    def turn_over(self, turn: Turn) -> None:
        """A turn is over."""
        del self.turns[turn.number]
        self.flow.scope.later(self)

    def _begin_turn(self) -> Turn:
        turn = self.turns[self.begun] = Turn(self, self.begun)
        self.begun += 1
        self.running += 1
        return turn

    def run_of(self, unit: UnitId) -> NodeRun | None:
        turn = self.turns.get(unit.turn)
        return None if turn is None else turn.runs.get(self.plan_of_group.places[unit.node])

    def has_begun_after(self, member: str, turn: int) -> bool:
        place = self.plan_of_group.places[member]
        return any(number > turn and place in one.runs for number, one in self.turns.items())

    def begin(self) -> None:
        self.flow.scope.later(self)

    def take(self, unit: UnitId, end: UnitEnd) -> None:
        raise NotImplementedError
