"""What one step wrote into one field of the state. PURE.

A part knows where values are recorded and reads them when they are needed. It holds no answers, so the results of a million
iterations are as small as those of one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from headway.errors import UsageError
from headway.flows.lazy_list import LazyList
from headway.flows.running.state.run_values import RunValues
from headway.flows.spec import NodeSpec


class Part:
    """The writes of a step into a field."""

    __slots__ = ()

    @property
    def wrote(self) -> bool:
        """Whether it wrote anything, be it an empty list."""
        return True

    @property
    def has_value(self) -> bool:
        """Whether there is a last value."""
        return True

    def value(self) -> Any:
        """The last value that was written."""
        raise NotImplementedError

    def elements(self) -> Sequence[Any]:
        """What is appended to a field with `array_append`: the elements of a list, or one value."""
        value = self.value()
        return value if isinstance(value, list | LazyList) else [value]


class Given(Part):
    """A value that the run was given."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def value(self) -> Any:
        return self._value


class OneAnswer(Part):
    """The answer of one unit."""

    __slots__ = ("_field", "_node", "_unit", "_values")

    def __init__(self, values: RunValues, unit: str, node: NodeSpec, field: str) -> None:
        self._values, self._unit, self._node, self._field = values, unit, node, field

    def value(self) -> Any:
        return value_written(self._node, self._field, self._values.answer(self._unit))


class Listed(Part):
    """A list of values, one for each iteration; each of them is one element."""

    __slots__ = ("_list",)

    def __init__(self, values: Sequence[Any]) -> None:
        self._list = values

    @property
    def has_value(self) -> bool:
        return len(self._list) > 0

    def value(self) -> Any:
        return self._list[len(self._list) - 1]

    def elements(self) -> Sequence[Any]:
        return self._list


class AnswerList(LazyList):
    """The values that the iterations of a node wrote into a field, without those that failed. `failed` is sorted."""

    def __init__(
        self, values: RunValues, run: str, total: int, failed: Sequence[int], node: NodeSpec, field: str
    ) -> None:
        self._values, self._run, self._total, self._failed = values, run, total, failed
        self._node, self._field = node, field

    def __len__(self) -> int:
        return self._total - len(self._failed)

    def read(self, first: int, limit: int) -> list[Any]:
        units = [f"{self._run}[{self._iteration(n)}]" for n in range(first, min(first + limit, len(self)))]
        answers = self._values.answers(units) if units else []
        return [value_written(self._node, self._field, answer) for answer in answers]

    def _iteration(self, place: int) -> int:
        """The iteration that has this place among those that succeeded."""
        if not self._failed:
            return place
        return place + bisect_right(range(len(self._failed)), place, key=lambda k: self._failed[k] - k)


class JoinedList(LazyList):
    """Several lists, one after the other."""

    def __init__(self, lists: Sequence[Sequence[Any]]) -> None:
        self._lists = lists
        self._ends: list[int] = []

    def __len__(self) -> int:
        if not self._ends:
            self._ends = list(accumulate(map(len, self._lists)))
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Any]:
        for one in self._lists:
            yield from one

    def read(self, first: int, limit: int) -> list[Any]:
        last = min(first + limit, len(self))
        found: list[Any] = []
        at = bisect_right(self._ends, first)
        while first < last:
            one = self._lists[at]
            begin = first - (self._ends[at - 1] if at else 0)
            page = (
                one.read(begin, last - first)
                if isinstance(one, LazyList)
                else one[begin : begin + last - first]
            )
            found += page
            first += len(page)
            at = bisect_right(self._ends, first)
        return found


def joined(lists: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Lists one after the other: a plain list if all of them are."""
    lists = [one for one in lists if isinstance(one, LazyList) or one]
    if len(lists) == 1:
        return lists[0]
    if any(isinstance(one, LazyList) for one in lists):
        return JoinedList(lists)
    return [element for one in lists for element in one]


def value_written(node: NodeSpec, field: str, answer: Any) -> Any:
    """The value of one field. Raises UsageError if the answer has another shape.

    With one field the answer is its value, unless it is an object with exactly that key. With several it is an object of
    exactly those keys.
    """
    if (
        isinstance(answer, Mapping)
        and len(answer) == len(node.writes)
        and all(key in answer for key in node.writes)
    ):
        return answer[field]
    if len(node.writes) == 1:
        return answer
    raise UsageError(shape_problem(node, answer))


def shape_problem(node: NodeSpec, answer: Any) -> str:
    """Why an answer is not one for the fields that a node writes; "" if it is."""
    if len(node.writes) < 2:
        return ""
    wanted = ", ".join(node.writes)
    if not isinstance(answer, Mapping):
        return f"{node.id}: the answer must be an object with the keys {wanted}"
    missing = sorted(set(node.writes) - set(answer))
    unknown = sorted(map(str, set(answer) - set(node.writes)))
    problems = [
        f"{word} {', '.join(names)}" for word, names in (("without", missing), ("with", unknown)) if names
    ]
    if not problems:
        return ""
    return f"{node.id}: the answer must have exactly the keys {wanted}; it is {' and '.join(problems)}"
