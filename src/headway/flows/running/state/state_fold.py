"""The state of a run: a fold of what its steps wrote. PURE.

Nothing is overwritten. A step has a position in the flow, and what steps wrote is folded in the order of positions, within a
step in the order of items and iterations, and not in the order in which it happened. So the state depends only on the recorded
answers, and a run that was killed and resumed ends in the same state as one that was not.

Values are read when they are needed. What a node may look at does not change any more when it starts: it waits for every
writer of what it reads, and writers that edges put behind it start after its end.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from headway.errors import UsageError
from headway.flows.running.state.field_parts import Given, Part, joined
from headway.flows.spec import StateField

#: The position of what the user gave: before all steps.
INPUT: Final = -1
_MISSING: Final = object()


class SetOnceConflict(UsageError):
    """Two writers of a `set_once` field."""

    def __init__(self, field: str, first: str, second: str) -> None:
        super().__init__(f"'{field}' can be set once, but {first} and {second} both write it")


class FieldView:
    """A field and what was written into it. `own`: what is seen of the step at the position `at`, in place of all of it."""

    __slots__ = ("_at", "_field", "_own", "_parts")

    def __init__(
        self,
        field: StateField,
        parts: Sequence[tuple[int, Part]],
        at: int | None = None,
        own: Part | None = None,
    ) -> None:
        self._field, self._parts, self._at, self._own = field, parts, at, own

    @property
    def has_value(self) -> bool:
        if self._field.has_default:
            return True
        if self._field.merge == "array_append":
            return any(part.wrote for part in self._seen(self._parts))
        return any(part.has_value for part in self._seen(reversed(self._parts)))

    def value(self) -> Any:
        """Its value; the default without one."""
        if self._field.merge == "array_append":
            return joined(self._lists())
        for part in self._seen(reversed(self._parts)):
            if part.has_value:
                return part.value()
        return self._field.default

    def _seen(self, parts: Any) -> Iterator[Part]:
        for position, part in parts:
            if position != self._at:
                yield part
            elif self._own is not None:
                yield self._own

    def _lists(self) -> list[Sequence[Any]]:
        given = bool(self._parts) and self._parts[0][0] == INPUT
        default = self._field.default if self._field.has_default else None
        lists: list[Sequence[Any]] = [default] if isinstance(default, list) and not given else []
        lists += [part.elements() for part in self._seen(self._parts) if part.wrote]
        return lists or [[]]


class StateFold:
    """Everything that was written in a run, by field."""

    def __init__(self, fields: Mapping[str, StateField], inputs: Mapping[str, Any]) -> None:
        self._fields = fields
        self._parts: dict[str, list[tuple[int, Part]]] = {
            name: [(INPUT, Given(value))] for name, value in inputs.items()
        }
        #: The writer of each `set_once` field.
        self._setters = {name: "the input" for name in inputs if self._field(name).merge == "set_once"}

    def add(self, position: int, field: str, part: Part) -> None:
        """Add what the step at a position writes into a field."""
        parts = self._parts.setdefault(field, [])
        if parts and parts[-1][0] > position:
            insort(parts, (position, part), key=itemgetter(0))
        else:
            parts.append((position, part))

    def claim(self, fields: Sequence[str], writer: str) -> None:
        """Note the writer of those fields that can be set once. Raises SetOnceConflict if one of them has a writer."""
        once = [name for name in fields if self._field(name).merge == "set_once"]
        for name in once:
            if name in self._setters:
                raise SetOnceConflict(name, self._setters[name], writer)
        self._setters |= dict.fromkeys(once, writer)

    def view(self, name: str, at: int | None = None, own: Part | None = None) -> FieldView:
        """A field; `own` is seen of the step at the position `at`, in place of all that it wrote."""
        return FieldView(self._field(name), self._parts.get(name, ()), at, own)

    def is_set_once(self, name: str) -> bool:
        return self._field(name).merge == "set_once"

    def names(self) -> list[str]:
        """All fields, sorted."""
        return sorted({*self._fields, *self._parts})

    def _field(self, name: str) -> StateField:
        return self._fields.get(name) or StateField(name=name, declared=False)


class VisibleState(Mapping[str, Any]):
    """The state as a mapping. A member of a pipeline or loop sees only a part of what its step wrote: `own`, by field."""

    __slots__ = ("_at", "_fold", "_known", "_own")

    def __init__(
        self, fold: StateFold, at: int | None = None, own: Callable[[str], Part | None] | None = None
    ) -> None:
        self._fold, self._at, self._own = fold, at, own
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        value = self._known.get(name, _MISSING)
        if value is _MISSING:
            view = self._view(name)
            if not view.has_value:
                raise KeyError(name)
            value = self._known[name] = view.value()
        return value

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._known or self._view(name).has_value)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._fold.names() if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _view(self, name: str) -> FieldView:
        own = None if self._own is None else self._own(name)
        return self._fold.view(name, self._at, own)
