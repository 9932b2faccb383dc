"""The units of a lane that are left, by family and size, so that the longest can be taken first.

Reading the longest unit of a job from the store takes an index that every unit would pay for. But units are ordered only near
the end of a run, or where `--order longest` asks for it. So what is left is read through once, and four bytes are kept of each
unit: its index, in the list of its family and size. A fetch takes the next indexes and reads those rows by their keys.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from typing import Final

import msgspec

from headway.core.lanes.queueing.unit_lengths import LengthTable, Size, size_of
from headway.core.model import Estimate, Unit
from headway.stores.answer_cache import AnswerCache
from headway.stores.records import UnitSize
from headway.stores.store import Store

#: Rows that are looked through for the largest sizes with one fetch: some 50 ms.
SURVEYED: Final = 50_000
#: Rows that are in memory at once while all that are left are read.
PAGE: Final = 10_000


class _Group(msgspec.Struct):
    """The units of one priority, family and size, by index. Those before `start` are taken."""

    priority: int
    family: str
    size: Size
    indexes: array[int]
    start: int = 0

    def rest(self) -> Iterator[int]:
        return islice(self.indexes, self.start, None)

    def drop_to(self, index: int) -> None:
        self.start = bisect_right(self.indexes, index, lo=self.start)

    def rank(self, lengths: LengthTable) -> tuple[int, float]:
        return -self.priority, -lengths.expected_s(self.family, self.size)


class LengthIndex:
    """The units of one lane that have not been fetched."""

    def __init__(self) -> None:
        self._groups: dict[tuple[int, str, Size], _Group] = {}

    def add(self, priority: int, name_of: Callable[[int], str], units: Iterable[UnitSize]) -> None:
        """Add units of one priority, by index, after those that are here. `name_of` gives the name of the family with a number."""
        lists: dict[tuple[int, Size], array[int]] = {}
        for index, chars, max_tokens, family in units:  # A million times: 1.5 µs each.
            family_and_size = (family, size_of(chars, max_tokens))
            indexes = lists.get(family_and_size)
            if indexes is None:
                indexes = lists[family_and_size] = array("I")
            indexes.append(index)
        for (number, size), indexes in lists.items():
            key = (priority, name_of(number), size)
            if key in self._groups:
                self._groups[key].indexes.extend(indexes)
            else:
                self._groups[key] = _Group(*key, indexes)

    def take(self, n: int, lengths: LengthTable) -> list[int]:
        """The next `n` units, taken: by priority, then the longest first, then by index."""
        taken: list[int] = []
        ranked = sorted((group.rank(lengths), key) for key, group in self._groups.items())
        for _, alike in groupby(ranked, key=lambda item: item[0]):
            groups = [self._groups[key] for _, key in alike]
            indexes = list(islice(merge(*(group.rest() for group in groups)), n - len(taken)))
            for group in groups:
                group.drop_to(indexes[-1])
                if group.start == len(group.indexes):
                    del self._groups[group.priority, group.family, group.size]
            taken += indexes
            if len(taken) == n:
                break
        return taken

    def withdraw(self, index: int) -> bool:
        """Take one unit out of turn; returns whether it was here."""
        for group in self._groups.values():
            place = bisect_left(group.indexes, index, lo=group.start)
            if place < len(group.indexes) and group.indexes[place] == index:
                group.indexes.pop(place)
                if group.start == len(group.indexes):
                    del self._groups[group.priority, group.family, group.size]
                return True
        return False

    def next(self, lane: str, lengths: LengthTable) -> tuple[Unit, ...]:
        """A unit like the next one to be taken, if there is any."""
        if not self._groups:
            return ()
        group = min(self._groups.values(), key=lambda group: group.rank(lengths))
        return (unit_of_size(lane, group.family, group.size),)

    def all(self) -> array[int]:
        """The units that are left, by index."""
        return array("I", merge(*(group.rest() for group in self._groups.values())))


class LargestSizes:
    """The largest sizes of each family of a job's waiting units, looked through a part at a time."""

    def __init__(self, job: int) -> None:
        self._job = job
        self._upto = -1
        self._sizes: dict[tuple[int, int], set[Size]] = {}

    def look_on(self, store: Store) -> bool:
        """Look through the next units, if there are any; returns whether there were."""
        last = store.last_index(self._job)
        if self._upto >= last:
            return False
        upto = min(last, self._upto + SURVEYED)
        for route, family, chars, max_tokens, is_open in store.largest_sizes(self._job, self._upto, upto):
            sizes = self._sizes.setdefault((route, family), set())
            sizes.add(size_of(chars, max_tokens))
            if is_open:
                sizes.add(size_of(chars, 0))
        self._upto = upto
        return True

    def items(self) -> Iterator[tuple[int, int, Size]]:
        """The route, the family's number and the largest size of each."""
        for (route, family), sizes in self._sizes.items():
            for size in sizes:
                yield route, family, size


def unit_of_size(lane: str, family: str, size: Size) -> Unit:
    """A unit that stands for those of a family and size."""
    chars, max_tokens = size
    estimate = Estimate(max_output_tokens=float((1 << max_tokens) >> 1))
    return Unit(-1, lane, estimate, chars=(1 << chars) >> 1, family=family)


def sizes_after(
    store: Store | AnswerCache, job: int, route: int, priority: int, after: int
) -> Iterator[UnitSize]:
    """The waiting units of a route and priority with an index above `after`, read in pages."""
    while page := store.sizes_of_route(job, route, priority, after, PAGE):
        yield from page
        after = page[-1][0]
