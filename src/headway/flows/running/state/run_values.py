"""What a run of a flow reads of the records: answers, and the rows of data sets. It never writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from headway.flows.lazy_list import LazyList


class RunValues(Protocol):
    """Reads recorded values. `stored_values` does it over a store; `HeldValues` has them in memory."""

    def answer(self, unit: str) -> Any:
        """The value of a unit that has succeeded, and of a `human` unit that was approved."""

    def answers(self, units: Sequence[str]) -> list[Any]:
        """The same of several units, in their order."""

    def rows(self, node: str, first: int, limit: int) -> list[Any]:
        """Rows of a `dataset` node (by its path), from the place `first` on."""

    def count_rows(self, node: str) -> int:
        """How many rows it has."""


class HeldValues:
    """Values in memory, for tests: `answers` by unit, `rows` by node."""

    def __init__(
        self, answers: Mapping[str, Any] | None = None, rows: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        self.known = dict(answers or {})
        self.of_nodes = dict(rows or {})

    def answer(self, unit: str) -> Any:
        return self.known[unit]

    def answers(self, units: Sequence[str]) -> list[Any]:
        return [self.known[unit] for unit in units]

    def rows(self, node: str, first: int, limit: int) -> list[Any]:
        return list(self.of_nodes[node][first : first + limit])

    def count_rows(self, node: str) -> int:
        return len(self.of_nodes[node])


class RowList(LazyList):
    """The rows of a data set."""

    def __init__(self, values: RunValues, node: str) -> None:
        self._values, self._node = values, node
        self._size = values.count_rows(node)

    def __len__(self) -> int:
        return self._size

    def read(self, first: int, limit: int) -> list[Any]:
        return self._values.rows(self._node, first, limit)
