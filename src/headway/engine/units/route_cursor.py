"""Reads the waiting units of one route and priority out of the store, in index order, a page at a time.

A cursor only moves forward. A unit that was taken out of turn (`taken`) is not read again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence, Set
from heapq import merge
from itertools import islice

from headway.engine.units.length_index import sizes_after
from headway.stores.answer_cache import AnswerCache
from headway.stores.records import PendingUnit, UnitSize
from headway.stores.store import Store


class RouteCursor:
    """Reads one route's units of one priority, in index order, a page at a time."""

    def __init__(self, job: int, route: int, priority: int, taken: Set[int] = frozenset()) -> None:
        self._job, self.route, self.priority, self._taken = job, route, priority, taken
        self._after = -1
        self._page: list[PendingUnit] = []
        self._dry = False
        #: Whether it is among the cursors that its lane reads.
        self.is_listed = True

    def peek(self, store: Store | AnswerCache, n: int) -> Sequence[PendingUnit]:
        """The next units, at least `n` of them if there are as many."""
        while len(self._page) < n and not self._dry:
            rows = self._read(store, n)
            self._dry = len(rows) < n
            if rows:
                self._after = rows[-1].index
                self._page += [row for row in rows if row.index not in self._taken] if self._taken else rows
        return self._page

    def _read(self, store: Store | AnswerCache, n: int) -> list[PendingUnit]:
        return store.next_of_route(self._job, self.route, self.priority, self._after, n)

    def sizes(self, store: Store | AnswerCache) -> Iterator[UnitSize]:
        """The sizes of all units that are left, taken."""
        for row in self._page:
            yield row.index, row.chars, row.max_tokens, row.family
        self._page.clear()
        if not self._dry:
            for size in sizes_after(store, self._job, self.route, self.priority, self._after):
                self._after = size[0]
                if size[0] not in self._taken:
                    yield size
        self._dry = True

    def withdraw(self, index: int) -> bool:
        """A unit of this cursor is taken out of turn; returns whether it was still to come."""
        before = len(self._page)
        self._page = [row for row in self._page if row.index != index]
        return len(self._page) < before or index > self._after

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left, unless units are added."""
        return self._dry and not self._page

    def go_on(self) -> None:
        """There are further units."""
        self._dry = False

    def drop(self, n: int) -> None:
        """The first `n` are taken."""
        del self._page[:n]

    def drop_to(self, index: int) -> None:
        """Those up to this index are taken."""
        self.drop(sum(row.index <= index for row in self._page))


class RestCursor(RouteCursor):
    """Reads the units of a lane that were to be taken longest first, in index order."""

    def __init__(self, job: int, indexes: array[int]) -> None:
        super().__init__(job, 0, 0)
        self._indexes = indexes

    def _read(self, store: Store | AnswerCache, n: int) -> list[PendingUnit]:
        rows: list[PendingUnit] = []
        while len(rows) < n and self._indexes:
            page = self._indexes[: n - len(rows)]
            del self._indexes[: len(page)]
            rows += store.waiting_units(self._job, page)
        return rows


def merged(store: Store | AnswerCache, cursors: list[RouteCursor], n: int) -> list[PendingUnit]:
    """The next `n` rows of several cursors, by index, taken."""
    if len(cursors) == 1:
        rows = list(cursors[0].peek(store, n)[:n])
        cursors[0].drop(len(rows))
        return rows
    rows = list(islice(merge(*(cursor.peek(store, n) for cursor in cursors), key=_index), n))
    for cursor in cursors if rows else []:
        cursor.drop_to(rows[-1].index)
    return rows


def _index(row: PendingUnit) -> int:
    return row.index
