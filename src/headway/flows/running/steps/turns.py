"""One turn of a pipeline or loop: an item that goes through the stages, or an iteration of the body. PURE.

A member starts when the members that it waits for are over in this turn and, if it gets a field from earlier items, when
those that write it are over in all of them. Ends of members that have not started yet wait here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headway.flows.running.outcomes import FAILED, GOOD, skip_reason
from headway.flows.running.state.field_parts import Part
from headway.flows.running.steps.node_run import NodeRun, Parent, UnitEnd, UnitRun
from headway.flows.running.steps.step import make_run, take_end
from headway.flows.running.steps.tally import RUNNING, WAITING
from headway.flows.running.unit_ids import UnitId

if TYPE_CHECKING:
    from headway.flows.running.steps.flow_plan import MemberPlan
    from headway.flows.running.steps.groups import GroupStep


class Turn(Parent):
    """A turn that is not over. `blocked` counts members that wait for earlier items."""

    __slots__ = (
        "_early", "_item", "_left", "_ready", "_running", "_waiting", "_waits", "blocked", "failed", "group", "index", "number", "runs", "standing",
    )  # fmt: skip

    def __init__(self, group: GroupStep, number: int) -> None:
        super().__init__()
        self.group, self.number, self.index = group, number, number
        members = group.members
        self.runs: dict[int, NodeRun] = {}
        self.failed = False
        self.standing = RUNNING
        self.blocked = 0
        self._running = self._waiting = 0
        self._left = len(members)
        self._waits = [member.waits for member in members]
        self._ready = [member.place for member in reversed(members) if not member.waits]
        self._early: dict[int, list[tuple[UnitId, UnitEnd]]] = {}
        self._item: Any = group
        group.flow.scope.later(self)

    @property
    def item(self) -> Any:
        if self._item is self.group:
            self._item = self.group.item_of(self.number)
        return self._item

    def go_on(self) -> None:
        """Start the members that wait for nothing more."""
        if not self.standing:
            return
        while self._ready:
            member = self.group.members[self._ready.pop()]
            if self.group.may_start(self, member):
                self._start(member)
        if self._left:
            waits_only = self._waiting and not self._running and not self.blocked
            self._stand(WAITING if waits_only else RUNNING)
        else:
            self._stand(0)
            self.group.turn_over(self)

    def start(self, place: int) -> None:
        """Start a member that waited for earlier items."""
        self._ready.append(place)
        self.group.flow.scope.later(self)

    def _start(self, member: MemberPlan) -> None:
        group = self.group
        view = group.visible(self.number, member)
        skip = skip_reason(member.after, self._outcome_of, view, member.node.when)
        if skip is None:
            run = self.runs[member.place] = make_run(group.flow, member.node, self, self.number)
            run.start(view)
            for unit, end in self._early.pop(member.place, ()):
                take_end(run, unit, end)
            return
        outcome, reason = skip
        group.flow.note_skip(member.node, outcome, reason, self.number)
        self._member_over(member.place, outcome, {})

    def _outcome_of(self, node: str) -> int:
        return self.group.outcome_of(node, self.number)

    def take(self, unit: UnitId, end: UnitEnd) -> None:
        """Take the end of one of its units."""
        place = self.group.plan_of_group.places[unit.node]
        run = self.runs.get(place)
        if run is not None:
            take_end(run, unit, end)
        elif not self.group.outcome_of(unit.node, self.number):
            self._early.setdefault(place, []).append((unit, end))

    def changed(self, before: int, after: int) -> None:
        self._running += (after == RUNNING) - (before == RUNNING)
        self._waiting += (after == WAITING) - (before == WAITING)
        self.group.flow.scope.later(self)

    def ended(self, run: NodeRun) -> None:
        place = self.group.plan_of_group.places[run.node.id]
        self.runs.pop(place, None)
        self._member_over(place, run.outcome, run.parts() if run.outcome == GOOD else {})

    def _member_over(self, place: int, outcome: int, parts: dict[str, Part]) -> None:
        self.failed |= outcome == FAILED
        self._left -= 1
        self.group.note_member(self.number, place, outcome, parts)
        for behind in self.group.members[place].next:
            self._waits[behind] -= 1
            if not self._waits[behind]:
                self._ready.append(behind)
        self.group.flow.scope.later(self)

    def spend(self, cost_usd: float) -> None:
        self.group.spend(cost_usd)

    def queue_without_place(self) -> list[UnitRun] | None:
        group = self.group
        queue = group.places.queue_without(self.number)
        return group.flow.queue_without_place(group.plan.position) if queue is None else queue

    def _stand(self, standing: int) -> None:
        before, self.standing = self.standing, standing
        if before != standing:
            self.group.turn_changed(self.number, before, standing)
