"""The values of a flow's run, read from the store: answers of units, approvals, rows of data sets.

Rows are the list `rows:NODE_PATH` of the job's values. Approvals are the list `approvals`: `{"unit", "approved", "answer", "utc"}`, in the
order in which they were given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headway.errors import StoreError
from headway.flows.running.flow_form import nodes_of
from headway.flows.running.unit_ids import node_path
from headway.flows.spec import FlowSpec, NodeSpec
from headway.flows.value_of_answer import answer_value
from headway.stores.store import Store

APPROVALS: Final = "approvals"
ROWS: Final = "rows:"

_decode: Final = msgspec.json.Decoder().decode


class Approval(msgspec.Struct, frozen=True):
    """What the user said about one `human` unit. The first approval of a unit counts; without one, its first rejection."""

    unit: str
    approved: bool
    answer: Any = True
    utc: float = 0.0
    note: str = ""


class UnreadableValue(StoreError):
    """A recorded answer has no value: it was recorded before answers like it were failed attempts."""

    def __init__(self, unit: str, why: str) -> None:
        super().__init__(
            f"the recorded answer of '{unit}' cannot be used: {why}",
            hint=f"run the flow again with --from {node_path(unit)}",
        )
        self.unit, self.why = unit, why


class StoredValues:
    """Reads the values of one job. `store` may be replaced: a run is built by one store and goes on with another."""

    def __init__(self, store: Store, job: int, spec: FlowSpec) -> None:
        self.store = store
        self._job = job
        self._nodes: Mapping[str, NodeSpec] = {one.path: one.node for one in nodes_of(spec)}
        #: The answers of `human` units.
        self._said: dict[str, Any] = {}

    def approvals(self, first: int, limit: int = -1) -> list[Approval]:
        """Approvals from the place `first` on. From now on their answers are known."""
        values = self.store.values(self._job, APPROVALS, first, limit)
        found = [msgspec.json.decode(value, type=Approval) for value in values]
        for one in found:
            if one.approved:
                self._said.setdefault(one.unit, one.answer)
        return found

    def answer(self, unit: str) -> Any:
        return self.answers([unit])[0]

    def answers(self, units: Sequence[str]) -> list[Any]:
        bodies = self.store.answers_by_id(self._job, units)
        return [
            self._said[unit] if unit in self._said else self._value(unit, bodies.get(unit)) for unit in units
        ]

    def _value(self, unit: str, body: bytes | None) -> Any:
        if body is None:
            raise StoreError(f"the answer of '{unit}' is not recorded")
        try:
            return answer_value(self._nodes[node_path(unit)], body)
        except ValueError as error:
            raise UnreadableValue(unit, str(error)) from None

    def rows(self, node: str, first: int, limit: int) -> list[Any]:
        return [_decode(value) for value in self.store.values(self._job, ROWS + node, first, limit)]

    def count_rows(self, node: str) -> int:
        return self.store.count_values(self._job, ROWS + node)
