"""One execution of a node: how many iterations it has, how they ended, and what it writes. PURE.

A node runs once as a step, once for each item of its pipeline, and once for each iteration of its loop (`parent` is the step or the
turn). Without `for_each` it has one iteration.

An iteration is one byte (`marks`), whether it has ended and how. Ends come in any order, also before the iteration was handed out:
a run that is resumed takes all recorded ends first. All iterations run, also after more failures than are tolerated, because a
resume then needs only those that failed. No answer is read, except for the shape of a single answer with several fields.

`UnitRun` has a unit for each iteration. `flow_node` has a flow for each, `data_set` has none.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headway.flows.expressions import MISSING, parse_expression
from headway.flows.lazy_list import LazyList
from headway.flows.running.outcomes import FAILED, GOOD
from headway.flows.running.state.field_parts import AnswerList, Listed, OneAnswer, Part, shape_problem
from headway.flows.running.steps.run_scope import RunPart
from headway.flows.running.steps.tally import RUNNING, WAITING
from headway.flows.spec import AUTO, NodeSpec

if TYPE_CHECKING:
    from headway.flows.running.state.state_fold import VisibleState
    from headway.flows.running.steps.flow_steps import FlowSteps

#: Iterations of a node, and items of a pipeline, that run at a time if the lanes decide how many do.
AUTO_WINDOW: Final = 1_000


class NextUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit to start now, with everything that it sees. `node` is the path of its node (`sub/fetch`); `index` counts items or
    iterations; None without them.
    """

    id: str
    node: str
    #: Its reads. A value may be a `LazyList`; so may be the item.
    state: Mapping[str, Any]
    args: dict[str, Any]
    item: Any = None
    index: int | None = None


class UnitEnd(msgspec.Struct, frozen=True, gc=False):
    """How a unit ended, without its answer."""

    #: "": it succeeded.
    error: str = ""
    cost_usd: float = 0.0


class Parent(RunPart):
    """What a node is executed for: a step, or a turn of a pipeline or loop."""

    __slots__ = ()
    #: The number of a turn.
    index: int | None

    @property
    def item(self) -> Any:
        """The item of a turn."""
        return None

    def changed(self, before: int, after: int) -> None:
        """An execution stands elsewhere: RUNNING, WAITING, or 0 once it is over."""
        raise NotImplementedError

    def ended(self, run: NodeRun) -> None:
        """An execution is over."""
        raise NotImplementedError

    def spend(self, cost_usd: float) -> None:
        """A unit has cost this."""

    def queue_without_place(self) -> list[UnitRun] | None:
        """Where its executions wait if it has no place, or a part around it has none; None: they may hand out units."""
        raise NotImplementedError


class NodeRun(RunPart):
    """The common part of all kinds. `id` is unique in its flow: `review`, `stage#7`."""

    __slots__ = (
        "_first_failed", "error", "failed", "flow", "id", "marks", "next", "node", "order", "outcome", "parent", "reason", "source",
        "standing", "succeeded", "tally", "total", "view",
    )  # fmt: skip

    def __init__(self, flow: FlowSteps, node: NodeSpec, parent: Parent, turn: int | None = None) -> None:
        super().__init__()
        self.flow, self.node, self.parent = flow, node, parent
        self.id = node.id if turn is None else f"{node.id}#{turn}"
        self.order = flow.order if turn is None else (*flow.order, turn)
        self.tally = flow.scope.tally(flow.path + node.id)
        self.outcome = 0
        #: RUNNING or WAITING while it runs.
        self.standing = 0
        self.reason = ""
        self.total = self.next = 0
        self.marks = bytearray()
        self.succeeded = self.failed = 0
        self.error = ""
        self._first_failed = -1
        self.source: Sequence[Any] | None = None
        self.view: VisibleState | None = None

    @property
    def full_id(self) -> str:
        return self.flow.prefix + self.id

    # -- the start --------------------------------------------------------------------------------------------------

    def start(self, view: VisibleState) -> None:
        """Begin, with the state that it may see."""
        self.view = view
        self._stand(self._first_standing())
        problem = self._find_items(view)
        self.flow.scope.event("node.started", self.tally.path, self.full_id, **self._size())
        if problem:
            self._end(FAILED, problem)
            return
        self.tally.units += self.total
        self.marks = bytearray(self.total)
        if self.total == 0:
            self._settle()
        else:
            self._begin()

    def _first_standing(self) -> int:
        return RUNNING

    def _size(self) -> dict[str, Any]:
        return {} if self.node.for_each is None else {"units": self.total}

    def _find_items(self, view: VisibleState) -> str:
        """Find the items of `for_each`; returns a problem, or ""."""
        each = self.node.for_each
        if each is None:
            self.total = 1
            return ""
        found: Any = list(each.items) if each.items is not None else parse_expression(each.source).value(view)
        if not isinstance(found, list | LazyList):
            return f"for_each.source {each.source} {'is missing' if found is MISSING else 'is not a list'}"
        self.source, self.total = found, len(found)
        return ""

    def _begin(self) -> None:
        """Start the first iterations."""
        raise NotImplementedError

    @property
    def window(self) -> int:
        """How many iterations run at a time."""
        size = 1 if self.node.for_each is None else self.node.for_each.concurrency
        return AUTO_WINDOW if size == AUTO else size

    def queue_without_place(self) -> list[UnitRun] | None:
        """Where it waits if a part around it has no place; None: units may be handed out."""
        return self.parent.queue_without_place()

    def item(self, n: int) -> Any:
        """The item of an iteration, or that of its turn."""
        return self.parent.item if self.source is None else self.source[n]

    def index(self, n: int) -> int | None:
        return self.parent.index if self.source is None else n

    def part_id(self, n: int) -> str:
        """The id of an iteration in its flow."""
        return self.id if self.source is None else f"{self.id}[{n}]"

    # -- ends -----------------------------------------------------------------------------------------------------------

    def note_end(self, n: int, error: str) -> None:
        """An iteration has ended. One that failed may end again with success, as long as the node is not over."""
        if self.marks[n] == FAILED:
            self.failed -= 1
            self.tally.failed -= 1
        self.marks[n] = FAILED if error else GOOD
        self.flow.scope.touched.add(self.tally)
        if error:
            self.failed += 1
            self.tally.failed += 1
            if not 0 <= self._first_failed < n:
                self._first_failed, self.error = n, error
        else:
            self.succeeded += 1
            self.tally.succeeded += 1
        if self.succeeded + self.failed == self.total:
            self._settle()

    def is_news(self, n: int, error: str) -> bool:
        """Whether an end of this iteration can be taken."""
        return (
            not self.outcome
            and n < self.total
            and (not self.marks[n] or (self.marks[n] == FAILED and not error))
        )

    def spend(self, cost_usd: float) -> None:
        """A unit has cost this."""
        self.tally.cost_usd += cost_usd
        self.parent.spend(cost_usd)

    def _settle(self) -> None:
        each = self.node.for_each
        if each is None:
            self._end(FAILED if self.failed else GOOD, self.error)
            return
        how_many = f"{self.failed} of {self.total} iterations failed"
        if self.failed > each.max_failures.allowed(self.total):
            self._end(FAILED, f"{how_many}: {self.error}")
        else:
            self._end(GOOD, f"{how_many}, which is tolerated" if self.failed else "")

    def _end(self, outcome: int, reason: str) -> None:
        if outcome == GOOD:
            conflict = self.flow.conflict_of(self)
            if conflict:
                outcome, reason = FAILED, conflict
        self.outcome, self.reason = outcome, reason
        self._stand(0)
        self.flow.note_outcome(self)
        self.parent.ended(self)

    def _stand(self, standing: int) -> None:
        before, self.standing = self.standing, standing
        if before == standing:
            return
        counts = self.tally.standing
        if before:
            counts[before] -= 1
        if standing:
            counts[standing] += 1
        self.flow.scope.touched.add(self.tally)
        self.parent.changed(before, standing)

    # -- what it wrote ---------------------------------------------------------------------------------------------------

    def parts(self) -> dict[str, Part]:
        """What it wrote, by field, once it has succeeded."""
        return {name: self._part(name) for name in self.node.writes}

    def _part(self, field: str) -> Part:
        raise NotImplementedError

    def failed_iterations(self) -> Sequence[int]:
        return array("q", (n for n, mark in enumerate(self.marks) if mark == FAILED) if self.failed else ())


class UnitRun(NodeRun):
    """An execution whose iterations are units: of an agent, of a tool, and what a `human` is asked.

    Nothing of a `human` is handed out: it waits, and holds no place.
    """

    __slots__ = ("_is_human", "_open", "_state")

    def __init__(self, flow: FlowSteps, node: NodeSpec, parent: Parent, turn: int | None = None) -> None:
        super().__init__(flow, node, parent, turn)
        self._is_human = node.kind == "human"
        self._open = 0
        self._state: dict[str, Any] | None = None

    def _first_standing(self) -> int:
        return WAITING if self._is_human else RUNNING

    def _begin(self) -> None:
        if self._is_human:
            self.flow.scope.asked[self.full_id] = self
        else:
            self.flow.scope.wanting[self] = None

    def hand_out(self) -> list[NextUnit]:
        """The units that start now. Each is handed out once, and not at all if its end is known."""
        units: list[NextUnit] = []
        while self._open < self.window and (n := self.marks.find(0, self.next)) >= 0:
            self.next = n + 1
            self._open += 1
            units.append(self.unit(n))
        if units:
            self.tally.in_flight += len(units)
            self.flow.fly(len(units))
        if self.next == self.total:
            self._state = self.view = None
        return units

    def unit(self, n: int) -> NextUnit:
        """An iteration with everything that it sees."""
        if self._state is None:
            assert self.view is not None
            view = self.view
            self._state = {name: view[name] for name in self.node.reads if name in view}
        return NextUnit(
            id=self.flow.prefix + self.part_id(n),
            node=self.tally.path,
            state=self._state,
            args=self.node.args,
            item=self.item(n),
            index=self.index(n),
        )

    def take(self, n: int, end: UnitEnd) -> None:
        """Take the end of a unit. An end that is known already changes nothing."""
        error = end.error
        if not self.is_news(n, error):
            return
        if n < self.next and not self.marks[n]:
            self._open -= 1
            self.tally.in_flight -= 1
            self.flow.fly(-1)
        if end.cost_usd:
            self.spend(end.cost_usd)
        if not error and self.source is None and len(self.node.writes) > 1:
            error = shape_problem(self.node, self.flow.scope.values.answer(self.full_id))
        if self._is_human:
            self.flow.scope.asked.pop(self.full_id, None)
        elif self.next < self.total:
            self.flow.scope.wanting[self] = None
        self.note_end(n, error)

    def _end(self, outcome: int, reason: str) -> None:
        self.flow.scope.wanting.pop(self, None)
        self.view = self._state = None
        super()._end(outcome, reason)

    def _part(self, field: str) -> Part:
        values = self.flow.scope.values
        if self.source is None:
            return OneAnswer(values, self.full_id, self.node, field)
        failed = self.failed_iterations()
        return Listed(AnswerList(values, self.full_id, self.total, failed, self.node, field))
