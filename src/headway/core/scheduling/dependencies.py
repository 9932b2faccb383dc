"""Units in memory that wait for other units to succeed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headway.core.lanes.queueing.queue import Entry
from headway.core.unit_states import Status


class Dependencies:
    """Which units wait for which, and how those that others wait for have ended."""

    __slots__ = ("_ended", "_waiting", "count", "per_lane")

    def __init__(self) -> None:
        self._ended: dict[int, bool] = {}
        self._waiting: dict[int, list[Entry]] = {}
        #: How many units wait, in all and by lane.
        self.count = 0
        self.per_lane: Counter[str] = Counter()

    def failed(self, entry: Entry) -> int | None:
        """The index of a unit that it depends on and that has ended without success."""
        return next((index for index in entry.unit.after if self._ended.get(index) is False), None)

    def forget(self, index: int) -> None:
        """A unit that has ended runs again: those that come after it wait for it."""
        self._ended.pop(index, None)

    def block(self, entry: Entry) -> bool:
        """Make it wait for its dependencies that have not ended; returns whether there are any."""
        open_ones = [index for index in entry.unit.after if index not in self._ended]
        for index in open_ones:
            self._waiting.setdefault(index, []).append(entry)
        entry.waits_for = len(open_ones)
        if open_ones:
            self._add(entry, 1)
        return bool(open_ones)

    def ended(self, index: int, *, good: bool) -> Iterator[Entry]:
        """A unit that others depend on has ended: yields those that can now start or must be skipped."""
        self._ended[index] = good
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

    def _add(self, entry: Entry, change: int) -> None:
        self.count += change
        self.per_lane[entry.lane.key] += change
