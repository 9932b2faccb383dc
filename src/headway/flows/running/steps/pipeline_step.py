"""A pipeline: items go through the stages side by side, and each goes on as soon as its own stage is over. PURE.

A stage sees the state before the pipeline and what the earlier stages wrote for the same item. If it reads a field that itself or
a later stage writes, it gets that field from the items before: it waits for those stages of all of them.

Nothing is kept of an item that is over but one byte for each stage. Items begin in order. So the end of a unit of an item
that has not begun means that the items before it had begun, and they begin at once.

A failed stage ends its item, and no other. The pipeline fails if all items failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from headway.flows.expressions import MISSING, parse_expression
from headway.flows.lazy_list import LazyList
from headway.flows.running.outcomes import FAILED, GOOD
from headway.flows.running.state.field_parts import Part
from headway.flows.running.state.state_fold import VisibleState
from headway.flows.running.steps.groups import GroupStep
from headway.flows.running.steps.node_run import AUTO_WINDOW, UnitEnd
from headway.flows.running.steps.tally import RUNNING, WAITING
from headway.flows.running.steps.turns import Turn
from headway.flows.running.unit_ids import UnitId
from headway.flows.spec import AUTO, PipelineSpec

if TYPE_CHECKING:
    from headway.flows.running.steps.flow_plan import MemberPlan, StepPlan
    from headway.flows.running.steps.flow_steps import FlowSteps


class PipelineStep(GroupStep):
    """A pipeline that runs."""

    __slots__ = ("_blocked", "_failed", "_items", "_over_up_to", "_problem")

    def __init__(self, flow: FlowSteps, plan: StepPlan) -> None:
        super().__init__(flow, plan)
        assert isinstance(plan.spec, PipelineSpec)
        self._failed = 0
        #: For each stage: the numbers of turns in which it waits for earlier items, as a heap.
        self._blocked: list[list[int]] = [[] for _ in self.members]
        #: For each stage: it is over in all items before this one.
        self._over_up_to = [0] * len(self.members)
        self._items, self._problem = self._find_items(plan.spec)

    @property
    def window(self) -> int:
        assert isinstance(self.plan.spec, PipelineSpec)
        size = self.plan.spec.concurrency
        return AUTO_WINDOW if size == AUTO else size

    def _find_items(self, spec: PipelineSpec) -> tuple[Sequence[Any], str]:
        if spec.items is not None:
            return spec.items, ""
        found = parse_expression(spec.source).value(VisibleState(self.flow.fold))
        if isinstance(found, list | LazyList):
            return found, ""
        return (), f"items {spec.source} {'is missing' if found is MISSING else 'is not a list'}"

    def go_on(self) -> None:
        """Let items begin while there is a place for them."""
        if not self.standing:
            return
        if self._problem:
            self.over(FAILED, self._problem)
            return
        total = len(self._items)
        while self.begun < total and self.places.is_free:
            self._begin_turn()
        if self.turns:
            self.stand(RUNNING if self.places.running else WAITING)
            return
        reason = f"{self._failed} of {total} items failed" if self._failed else ""
        if reason:
            self.flow.note_flaw(self.plan, reason)
        self.over(FAILED if self._failed and self._failed == total else GOOD, reason)

    def take(self, unit: UnitId, end: UnitEnd) -> None:
        while self.begun <= unit.turn < len(self._items):
            self._begin_turn()
        turn = self.turns.get(unit.turn)
        if turn is not None:
            turn.take(unit, end)

    def is_past(self, executions: int) -> bool:
        return executions >= len(self._items)

    def item_of(self, number: int) -> Any:
        return self._items[number]

    def turn_over(self, turn: Turn) -> None:
        self._failed += turn.failed
        super().turn_over(turn)

    # -- fields that are carried from item to item --------------------------------------------------------------------

    def may_start(self, turn: Turn, member: MemberPlan) -> bool:
        if all(self._over_before(place) >= turn.number for place in member.carriers):
            return True
        heappush(self._blocked[member.place], turn.number)
        turn.blocked += 1
        return False

    def _over_before(self, place: int) -> int:
        """The first item in which a stage is not over."""
        marks, first = self.writes[place].marks, self._over_up_to[place]
        found = marks.find(0, first)
        self._over_up_to[place] = len(marks) if found < 0 else found
        return self._over_up_to[place]

    def note_member(self, number: int, place: int, outcome: int, parts: dict[str, Part]) -> None:
        super().note_member(number, place, outcome, parts)
        for member in self.members:
            if place in member.carriers and self._blocked[member.place]:
                self._unblock(member)

    def _unblock(self, member: MemberPlan) -> None:
        blocked, limit = self._blocked[member.place], min(map(self._over_before, member.carriers))
        while blocked and blocked[0] <= limit:
            turn = self.turns[heappop(blocked)]
            turn.blocked -= 1
            turn.start(member.place)
