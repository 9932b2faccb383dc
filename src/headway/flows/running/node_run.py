"""One execution of a node: which of its iterations start now, how they ended, and what the node writes. PURE.

A node runs once as a step, once for each item of its pipeline, and once for each iteration of its loop. Without
`for_each` it has one unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from headway.errors import UsageError
from headway.flows.expressions import parse_expression
from headway.flows.running.state_fold import Place, Write, values_written
from headway.flows.spec import AUTO, FlowSpec, NodeSpec

#: Iterations of a node that are handed out at a time if the lanes decide how many run.
AUTO_WINDOW: Final = 1_000

NodeStatus = Literal["pending", "running", "waiting", "success", "failed", "skipped"]


class NextUnit(msgspec.Struct, frozen=True, kw_only=True):
    """A unit to start now, with everything that it sees. `index` counts items or iterations; None without them."""

    id: str
    node: str
    state: dict[str, Any]
    args: dict[str, Any]
    item: Any = None
    index: int | None = None


class UnitEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded end of a unit: its answer, or its error."""

    answer: Any = None
    #: "": it succeeded.
    error: str = ""
    cost_usd: float = 0.0


class NodeRun:
    """One execution of a node. `suffix` tells its executions apart; `turn` has the item or iteration around it."""

    def __init__(
        self, node: NodeSpec, place: Place, suffix: str = "", turn: tuple[int, Any] | None = None
    ) -> None:
        self.node, self.place = node, place
        self.id = node.id + suffix
        self.status: NodeStatus = "pending"
        self.reason = ""
        #: Whether it was skipped because a condition was false, and nothing failed.
        self.by_condition = False
        self.succeeded = self.failed = 0
        self.cost_usd = 0.0
        self._turn = turn
        self._state: dict[str, Any] = {}
        self._items: list[Any] | None = None
        self._next = 0
        self._open: set[str] = set()
        self._written: dict[int, dict[str, Any]] = {}
        self._first_error = ""

    @property
    def is_over(self) -> bool:
        return self.status in ("success", "failed", "skipped")

    @property
    def total(self) -> int:
        """The number of its units, once it has started."""
        if self.status in ("pending", "skipped"):
            return 0
        return 1 if self._items is None else len(self._items)

    def skip(self, reason: str, *, by_condition: bool = False) -> None:
        self.status, self.reason, self.by_condition = "skipped", reason, by_condition

    def fail(self, reason: str) -> None:
        self.status, self.reason = "failed", reason

    def start(self, visible: Mapping[str, Any]) -> None:
        """Begin, with the fields that its reads and its expressions may see."""
        self._state = {name: visible[name] for name in self.node.reads if name in visible}
        self.status = "waiting" if self.node.kind == "human" else "running"
        each = self.node.for_each
        if each is None:
            return
        items = list(each.items) if each.items is not None else parse_expression(each.source).value(visible)
        if not isinstance(items, list):
            what = (
                "is missing"
                if not isinstance(items, str | int | float | dict | bool | None)
                else "is not a list"
            )
            self.fail(f"for_each.source {each.source} {what}")
            return
        self._items = items
        self._settle()

    def next_units(self) -> list[NextUnit]:
        """Units that start now. Each is returned once."""
        if self.status not in ("running", "waiting"):
            return []
        last = self.total
        if self.node.for_each is not None:
            size = self.node.for_each.concurrency
            last = min(last, self._next + (AUTO_WINDOW if size == AUTO else size) - len(self._open))
        units = [self._unit(n) for n in range(self._next, last)]
        self._next = max(self._next, last)
        self._open.update(unit.id for unit in units)
        return units

    def _unit(self, n: int) -> NextUnit:
        index, item = (None, None) if self._turn is None else self._turn
        unit = self.id
        if self._items is not None:
            unit, index, item = f"{self.id}[{n}]", n, self._items[n]
        return NextUnit(
            id=unit, node=self.node.id, state=self._state, args=self.node.args, item=item, index=index
        )

    def take(self, unit: str, end: UnitEnd) -> None:
        """Record the end of one of its units."""
        self._open.discard(unit)
        self.cost_usd += end.cost_usd
        n = 0 if self._items is None else int(unit[len(self.id) + 1 : -1])
        error = end.error
        if not error:
            try:
                self._written[n] = values_written(self.node, end.answer)
            except UsageError as problem:
                error = problem.message
        if error:
            self.failed += 1
            self._first_error = self._first_error or error
        else:
            self.succeeded += 1
        self._settle()

    def _settle(self) -> None:
        if self.succeeded + self.failed < self.total:
            return
        each = self.node.for_each
        if self.failed > (0 if each is None else each.max_failures.allowed(self.total)):
            many = each is not None
            self.fail(
                f"{self.failed} of {self.total} iterations failed: {self._first_error}"
                if many
                else self._first_error
            )
        else:
            self.status = "success"
            self.reason = (
                f"{self.failed} of {self.total} iterations failed, which is tolerated" if self.failed else ""
            )

    def writes(self, spec: FlowSpec) -> list[tuple[str, Write]]:
        """What it writes when it has succeeded, in the order of its iterations."""
        result = []
        for name in self.node.writes:
            field = spec.fields.get(name)
            values = [self._written[n][name] for n in sorted(self._written)]
            if field is not None and field.merge == "array_append":
                flat = values if self._items is not None else _elements(values[0])
                result.append((name, Write(self.place, self.id, flat, elements=True)))
            else:
                writers = [
                    f"{self.id}[{n}]" if self._items is not None else self.id for n in sorted(self._written)
                ]
                result += [
                    (name, Write(self.place, one, value)) for one, value in zip(writers, values, strict=True)
                ]
        return result


def _elements(value: Any) -> list[Any]:
    """What a node without `for_each` appends: the elements of a list, or one value."""
    return list(value) if isinstance(value, list) else [value]
