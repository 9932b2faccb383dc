"""Merges OpenAI's deltas into the object of the unstreamed call, in linear time. Knows no events."""

from __future__ import annotations

from typing import Any, Final

from headway.providers.dialects.lenient_json import index_of, objects
from headway.providers.dialects.part_counter import PartCounter

#: Fields that are sent once or repeated, but never in pieces.
_NAMES: Final = frozenset({"role", "id", "type", "name", "format"})


class MergedObject:
    """An object from its deltas: texts are joined, lists appended, objects merged; of other values the last one counts."""

    def __init__(self, counter: PartCounter) -> None:
        self._counter = counter
        self._fields: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._name_chars = 0

    def add(self, delta: dict[str, Any]) -> None:
        """Add a delta. Raises `AnswerTooComplex`."""
        self._counter.check_room(len(delta))
        before = len(self._fields)
        for name, value in delta.items():
            if value is None:
                self._fields.setdefault(name, None)
            elif isinstance(value, str):
                self._add_text(name, value)
            elif isinstance(value, dict):
                self._merged(name, MergedObject).add(value)
            elif isinstance(value, list):
                self._merged(name, _MergedToolCalls if name == "tool_calls" else _MergedList).add(value)
            else:
                self._texts.pop(name, None)
                self._fields[name] = value
        if len(self._fields) > before:
            self._counter.add_fields(len(self._fields) - before)

    def _add_text(self, name: str, value: str) -> None:
        pieces = self._texts.get(name)
        if pieces is None:
            self._fields[name] = self._texts[name] = [value]
            self._name_chars = len(value) if name == "name" else self._name_chars
        elif name not in _NAMES:
            pieces.append(value)
        elif name == "name" and value:
            self._add_to_name(pieces, value)
        elif not pieces[0]:  # An id, a role or a type is sent once.
            pieces[0] = value

    def _add_to_name(self, pieces: list[str], value: str) -> None:
        """A repeated name is the same name; a tool's name that differs is its next piece."""
        if len(value) != self._name_chars or "".join(pieces) != value:
            pieces.append(value)
            self._name_chars += len(value)

    def _merged(self, name: str, kind: Any) -> Any:
        merged = self._fields.get(name)
        if not isinstance(merged, kind):
            self._texts.pop(name, None)
            merged = self._fields[name] = kind(self._counter)
        return merged

    def get(self, name: str) -> Any:
        """The present value of a field."""
        return _built(self._fields.get(name))

    def built(self) -> dict[str, Any]:
        """The object."""
        return {name: _built(value) for name, value in self._fields.items()}


class _MergedList:
    def __init__(self, _counter: PartCounter) -> None:
        self._items: list[Any] = []

    def add(self, items: list[Any]) -> None:
        self._items += items

    def built(self) -> list[Any]:
        return self._items


class _MergedToolCalls:
    """Tool calls by index. Some servers give all calls the same index, or none: a new id is a new call."""

    def __init__(self, counter: PartCounter) -> None:
        self._counter = counter
        self._calls: list[tuple[int, MergedObject]] = []
        #: The last call of each index, and whether it has an id already.
        self._last: dict[int, tuple[MergedObject, bool]] = {}
        self._by_id: dict[tuple[int, str], MergedObject] = {}

    def add(self, items: list[Any]) -> None:
        for item in objects(items):
            self._call(item).add({name: value for name, value in item.items() if name != "index"})

    def _call(self, item: dict[str, Any]) -> MergedObject:
        if type(item.get("index")) is int:
            number = index_of(item)
        else:
            number = self._calls[-1][0] if self._calls else 0
        call_id = item.get("id")
        last, named = self._last.get(number, (None, True))
        if not call_id and last is not None:
            return last
        key = (number, call_id if isinstance(call_id, str) else repr(call_id))
        call = self._by_id.get(key) if call_id else None
        if call is not None:
            return call
        if last is None or named:
            self._counter.add_part("tool calls")
            last = MergedObject(self._counter)
            self._calls.append((number, last))
        self._last[number] = last, bool(call_id)
        if call_id:
            self._by_id[key] = last
        return last

    def built(self) -> list[Any]:
        return [call.built() for _, call in sorted(self._calls, key=lambda numbered: numbered[0])]


def _built(value: Any) -> Any:
    if isinstance(value, MergedObject | _MergedList | _MergedToolCalls):
        return value.built()
    return "".join(value) if isinstance(value, list) else value
