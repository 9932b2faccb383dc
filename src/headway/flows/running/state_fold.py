"""The state of a run: a fold of everything that nodes wrote. PURE.

Nothing is overwritten. A write has a place in the flow (its step, the item or iteration, the node, the element), and
writes are folded in the order of places, not in the order in which they happened. So the state depends only on the
recorded answers, and a run that was killed and resumed ends in the same state as one that was not.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from headway.errors import UsageError
from headway.flows.spec import FlowSpec, NodeSpec, StateField

#: A place in the flow: step, item or iteration of a pipeline or loop, node within it.
Place = tuple[int, int, int]
#: The place of what the user gave: before all steps.
INPUT: Place = (-1, -1, -1)


class Write(msgspec.Struct, frozen=True, order=True):
    """One write of a field. `elements`: the value is a list of elements to append."""

    place: Place
    writer: str
    value: Any = None
    elements: bool = False


class SetOnceConflict(UsageError):
    """Two writers of a `set_once` field."""

    def __init__(self, field: str, first: str, second: str) -> None:
        super().__init__(f"'{field}' can be set once, but {first} and {second} both write it")


class StateFold:
    """All writes of a run, by field."""

    def __init__(self, spec: FlowSpec, inputs: Mapping[str, Any]) -> None:
        self._fields = dict(spec.fields)
        self._writes: dict[str, list[Write]] = {}
        given = [
            (name, Write(INPUT, "the input", inputs[name], isinstance(inputs[name], list))) for name in inputs
        ]
        self.add_all(given)

    def add_all(self, writes: Sequence[tuple[str, Write]]) -> None:
        """Add the writes of one node, all or none. Raises SetOnceConflict if a `set_once` field would have two."""
        first = {name: known[0].writer for name, known in self._writes.items()}
        for name, write in writes:
            if self._field(name).merge == "set_once" and first.setdefault(name, write.writer) != write.writer:
                raise SetOnceConflict(name, first[name], write.writer)
        for name, write in writes:
            insort(self._writes.setdefault(name, []), write, key=lambda one: one.place)

    def state(
        self, names: Iterable[str] | None = None, sees: Callable[[str, Write], bool] | None = None
    ) -> dict[str, Any]:
        """The value of each field that has one. `sees` says which writes of a field count; None: all."""
        wanted = {*self._fields, *self._writes} if names is None else set(names)
        values: dict[str, Any] = {}
        for name in sorted(wanted):
            seen = [write for write in self._writes.get(name, ()) if sees is None or sees(name, write)]
            field = self._field(name)
            if seen or field.has_default:
                values[name] = _folded(field, seen)
        return values

    def _field(self, name: str) -> StateField:
        return self._fields.get(name) or StateField(name=name, declared=False)


def _folded(field: StateField, writes: list[Write]) -> Any:
    if field.merge != "array_append":
        return writes[-1].value if writes else field.default
    given = bool(writes) and writes[0].place == INPUT
    result = (
        list(field.default) if field.has_default and not given and isinstance(field.default, list) else []
    )
    for write in writes:
        if write.elements:
            result += write.value
        else:
            result.append(write.value)
    return result


def values_written(node: NodeSpec, answer: Any) -> dict[str, Any]:
    """The value of each field that an answer writes. Raises UsageError if the answer has another shape.

    With one field the answer is its value, unless it is an object with exactly that key. With several it is an object of
    exactly those keys.
    """
    if not node.writes:
        return {}
    keys = set(answer) if isinstance(answer, dict) else None
    if keys == set(node.writes):
        return dict(answer)
    if len(node.writes) == 1:
        return {node.writes[0]: answer}
    wanted = ", ".join(node.writes)
    if keys is None:
        raise UsageError(f"{node.id}: the answer must be an object with the keys {wanted}")
    missing, unknown = sorted(set(node.writes) - keys), sorted(map(str, keys - set(node.writes)))
    problems = [
        f"{word} {', '.join(names)}" for word, names in (("without", missing), ("with", unknown)) if names
    ]
    raise UsageError(
        f"{node.id}: the answer must have exactly the keys {wanted}; it is {' and '.join(problems)}"
    )
