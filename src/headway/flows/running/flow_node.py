"""A `flow` node runs another flow as an ordinary part of the job: a run inside the run, one for each iteration. PURE.

The inner flow is given the node's reads and args by name, and `item` and `index` if it has such fields. The node writes fields of
the inner state. If the inner run is a success, so is the iteration; otherwise it failed, with the reason.

Inner runs that have ended with success leave the values of those fields, and those that failed also what they know of their
units (`stays_ended`). An inner run that only waits for approvals holds no place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headway.flows.lazy_list import LazyList
from headway.flows.running.field_parts import Listed, Part
from headway.flows.running.node_run import NodeRun, Parent, UnitEnd
from headway.flows.running.outcomes import GOOD
from headway.flows.running.state_fold import FieldView
from headway.flows.running.tally import RUNNING, WAITING
from headway.flows.spec import NodeSpec

if TYPE_CHECKING:
    from headway.flows.running.flow_steps import FlowSteps


class InnerValue(Part):
    """A field of an inner state."""

    __slots__ = ("_view",)

    def __init__(self, view: FieldView) -> None:
        self._view = view

    def value(self) -> Any:
        return self._view.value()


class InnerValues(LazyList):
    """A field of the inner states of iterations."""

    def __init__(self, views: Sequence[FieldView]) -> None:
        self._views = views

    def __len__(self) -> int:
        return len(self._views)

    def read(self, first: int, limit: int) -> list[Any]:
        return [view.value() for view in self._views[first : first + limit]]


class FlowNodeRun(NodeRun):
    """An execution of a `flow` node."""

    __slots__ = ("_inner", "_running", "_views")

    def __init__(self, flow: FlowSteps, node: NodeSpec, parent: Parent, turn: int | None = None) -> None:
        super().__init__(flow, node, parent, turn)
        #: Inner runs by iteration: those that are not over, and those that failed.
        self._inner: dict[int, FlowSteps] = {}
        self._running = 0
        self._views: dict[int, dict[str, FieldView]] = {}

    def _begin(self) -> None:
        self.flow.scope.later(self)

    def go_on(self) -> None:
        """Start as many iterations as may run."""
        while not self.outcome and self.next < self.total and self._running < self.window:
            self._start(self.next)
        self._stand_as_inner()

    def _start(self, n: int) -> None:
        self.next = n + 1
        inputs = self._inputs(n)
        assert self.node.inner is not None
        missing = [name for name in self.node.inner.inputs if name not in inputs]
        if missing:
            self.note_end(n, f"its flow needs a value of {', '.join(missing)}: add it to reads or args")
            return
        self._running += 1
        self._inner[n] = self.flow.inner_run(self, n, inputs)

    def _inputs(self, n: int) -> dict[str, Any]:
        assert self.view is not None
        assert self.node.inner is not None
        view, known = self.view, self.node.inner.fields
        of_turn = {"item": self.item(n), "index": self.index(n)} if self.index(n) is not None else {}
        inputs = {name: value for name, value in of_turn.items() if name in known}
        inputs |= {name: view[name] for name in self.node.reads if name in view}
        return inputs | self.node.args

    def take(self, n: int, unit: str, end: UnitEnd) -> None:
        """Take the end of a unit of the flow of an iteration. That iteration was started, so those before it were, too."""
        while self.next <= n < self.total and not self.outcome:
            self._start(self.next)
        inner = self._inner.get(n)
        if inner is not None and not inner.is_over:
            inner.take(unit, end)

    # -- what inner runs tell ---------------------------------------------------------------------------------------

    def inner_changed(self, before: int, after: int) -> None:
        """An inner run stands elsewhere."""
        self._running += (after == RUNNING) - (before == RUNNING)
        self.flow.scope.later(self)

    def inner_ended(self, n: int, error: str) -> None:
        """An inner run is over."""
        inner = self._inner[n]
        if not error:
            views = {name: inner.fold.view(name) for name in self.node.writes}
            missing = [name for name, view in views.items() if not view.has_value]
            error = f"its flow has no value of {', '.join(missing)}" if missing else ""
            self._views[n] = views
        if not error:
            del self._inner[n]
        self.note_end(n, error)

    def _stand_as_inner(self) -> None:
        if not self.outcome:
            self._stand(RUNNING if self._running or self.next < self.total else WAITING)

    @property
    def has_failed_flows(self) -> bool:
        return bool(self._inner)

    def inner(self, n: int) -> FlowSteps | None:
        """The inner run of an iteration that is not over or failed."""
        return self._inner.get(n)

    def _end(self, outcome: int, reason: str) -> None:
        self.view = None
        super()._end(outcome, reason)

    def _part(self, field: str) -> Part:
        if self.source is None:
            return InnerValue(self._views[0][field])
        good = [n for n, mark in enumerate(self.marks) if mark == GOOD]
        return Listed(InnerValues([self._views[n][field] for n in good]))
