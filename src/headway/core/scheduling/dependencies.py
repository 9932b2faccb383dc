"""Units in memory that wait for other units to succeed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from headway.core.lanes.queueing.queue import Entry
from headway.core.unit_states import Status

#: How a unit ended, in a byte: a job that grows has to remember this of each of its units, and there may be millions.
_OPEN: Final = 0
_GOOD: Final = 1
_BAD: Final = 2


class Dependencies:
    """Which units wait for which, and how those that others wait for have ended."""

    __slots__ = ("_ended", "_waiting", "count", "per_lane")

    def __init__(self) -> None:
        self._ended = bytearray()
        self._waiting: dict[int, list[Entry]] = {}
        #: How many units wait, in all and by lane.
        self.count = 0
        self.per_lane: Counter[str] = Counter()

    def failed(self, entry: Entry) -> int | None:
        """The index of a unit that it depends on and that has ended without success."""
        return next((index for index in entry.unit.after if self._end_of(index) == _BAD), None)

    def forget(self, index: int) -> None:
        """A unit that has ended runs again: those that come after it wait for it."""
        if index < len(self._ended):
            self._ended[index] = _OPEN

    def block(self, entry: Entry) -> bool:
        """Make it wait for its dependencies that have not ended; returns whether there are any."""
        open_ones = [index for index in entry.unit.after if self._end_of(index) == _OPEN]
        for index in open_ones:
            self._waiting.setdefault(index, []).append(entry)
        entry.waits_for = len(open_ones)
        if open_ones:
            self._add(entry, 1)
        return bool(open_ones)

    def ended(self, index: int, *, good: bool) -> Iterator[Entry]:
        """A unit that others depend on has ended: yields those that can now start or must be skipped."""
        if index >= len(self._ended):
            # By an eighth more than is needed, so that it seldom moves.
            self._ended.extend(bytes(index + 1 - len(self._ended) + len(self._ended) // 8))
        self._ended[index] = _GOOD if good else _BAD
        for entry in self._waiting.pop(index, ()):
            if entry.status is not Status.PENDING or entry.waits_for == 0:
                continue
            entry.waits_for = entry.waits_for - 1 if good else 0
            if entry.waits_for == 0:
                self._add(entry, -1)
                yield entry

    def followers(self) -> Iterator[tuple[int, list[Entry]]]:
        """Each unit that others wait for, by index, with the entries that wait for it; some of these may have ended."""
        for index in sorted(self._waiting):
            yield index, self._waiting[index]

    def entries(self) -> Iterator[Entry]:
        """Each waiting unit, once."""
        seen: set[int] = set()
        for entries in self._waiting.values():
            for entry in entries:
                if entry.waits_for and entry.status is Status.PENDING and entry.unit.index not in seen:
                    seen.add(entry.unit.index)
                    yield entry

    def drop(self, entry: Entry) -> None:
        """It was cancelled and no longer waits."""
        if entry.waits_for:
            entry.waits_for = 0
            self._add(entry, -1)

    def _end_of(self, index: int) -> int:
        return self._ended[index] if index < len(self._ended) else _OPEN

    def _add(self, entry: Entry, change: int) -> None:
        self.count += change
        self.per_lane[entry.lane.key] += change
