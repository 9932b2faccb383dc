"""Units by status, lane, code and words, page by page, also of a job of a million units.

Words are found through an index (`stores.sqlite.search_file`), which whoever shows pages builds beside the store, in slices
(`unit_pages.unit_index`); the engine never does. While it is not complete, pages show what it has; ids are always found through the store.
A filter is applied by reading units until a page is full or its time is up: a page may have fewer units than wanted, or none, and
`next` says where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import msgspec

from headway.errors import UsageError
from headway.reports.unit_pages.listed import UnitRow, rows_of
from headway.safe_text import escape_lone_surrogates
from headway.stores.records import Job
from headway.stores.sqlite.search_file import INDEX, SearchFile
from headway.stores.store import Store
from headway.stores.unit_lists import UnitFilter

#: Units in a page.
LIMIT: Final = 100
MOST_LIMIT: Final = 1_000
#: How long a page may search before it returns what it has.
PAGE_S: Final = 0.1
#: Units that a filter reads at once: a few milliseconds.
SCANNED: Final = 20_000
#: Documents that are looked up at once.
FOUND: Final = 400
#: Of the number in a cursor: SQLite has numbers of 64 bits.
MOST_DIGITS: Final = 18
#: Beyond so many, matches are not counted.
MOST_COUNTED: Final = 5_000


class Indexing(msgspec.Struct, frozen=True):
    """How many units the index has looked at, and how many there are."""

    done: int
    total: int


class UnitList(msgspec.Struct, frozen=True):
    """A page. `next` leads to the next one, None: this is the last. `matches`: how many units match in all, if that is known."""

    units: list[UnitRow]
    next: str | None
    matches: int | None
    indexing: Indexing | None


class UnitQuery(msgspec.Struct, frozen=True):
    """What a page is to have: units that the filter accepts, whose id begins with `words`, or that have all of the words (their
    beginnings) in id, error, prompt and answer. `after` is the `next` of the page before.
    """

    words: str = ""
    wanted: UnitFilter = UnitFilter()
    after: str = ""
    limit: int = LIMIT


def search_units(store: Store, job: Job, query: UnitQuery, index: SearchFile | None = None) -> UnitList:
    """A page of units. Without an index, words are only compared with ids."""
    search = _Search(store, job, query, index)
    words = escape_lone_surrogates(query.words.strip())
    found, following = search.by_words(words) if words else search.by_place()
    indexing = None
    if index is not None:
        done = index.progress().upto + 1
        indexing = Indexing(min(done, job.total), job.total) if done < job.total else None
    matches = (
        search.count(words, complete=indexing is None and index is not None) if not query.after else None
    )
    if following is None and not query.after:
        matches = len(found)
    return UnitList(rows_of(store, job, found), following, matches, indexing)


class _Search:
    """One page."""

    def __init__(self, store: Store, job: Job, query: UnitQuery, index: SearchFile | None) -> None:
        self._store, self._job, self._query, self._index = store, job, query, index
        self._limit = max(1, min(MOST_LIMIT, query.limit))
        self._until = time.monotonic() + PAGE_S

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._until

    def by_place(self) -> tuple[list[int], str | None]:
        """Units in the order of the input."""
        after, last = self._number("u", -1), self._job.total - 1
        found: list[int] = []
        while after < last and len(found) < self._limit and not (self._is_late and self._query.wanted):
            step = SCANNED if self._query.wanted else last - after
            upto, left = min(last, after + step), self._limit - len(found)
            more = self._store.lists.next(self._job.id, after, upto, left, self._query.wanted)
            found += more
            after = more[-1] if len(more) == left else upto
        return found, f"u{after}" if after < last and not self._has_all(found) else None

    def _has_all(self, found: Sequence[int]) -> bool:
        """Whether the first page has every unit with the wanted statuses, by the counters of the job."""
        wanted, counts = self._query.wanted, self._job.counts
        if self._query.after or wanted.codes or wanted.lane or not wanted.statuses:
            return False
        return all(one in counts for one in wanted.statuses) and len(found) >= sum(
            counts[one] for one in wanted.statuses
        )

    def by_words(self, words: str) -> tuple[list[int], str | None]:
        """First units whose id begins with the words (or whose index they are), then those that have the words."""
        after = self._query.after
        found: list[int] = []
        if not after.startswith("w"):
            if not after and words.isdecimal() and int(words) < self._job.total:
                found = self._store.lists.accepted(self._job.id, [int(words)], self._query.wanted)
            following = self._by_id(words, after[1:] if after.startswith("i") else "", found)
            if following is not None or self._index is None:
                return found, following
        return found, self._by_index(words, self._number("w", -1), found)

    def _by_id(self, words: str, after: str, found: list[int]) -> str | None:
        while len(found) < self._limit:
            if self._is_late:
                return f"i{after}"
            left = FOUND if self._query.wanted else self._limit - len(found)
            page = self._store.lists.by_id(self._job.id, words, after, left)
            names = dict(page)
            accepted = self._store.lists.accepted(self._job.id, list(names), self._query.wanted)
            for place in accepted:
                if place not in found:
                    found.append(place)
                if len(found) >= self._limit:
                    return f"i{names[place]}"
            if len(page) < left:
                return None
            after = page[-1][1]
        return f"i{after}"

    def _by_index(self, words: str, after: int, found: list[int]) -> str | None:
        assert self._index is not None
        while len(found) < self._limit:
            if self._is_late:
                return f"w{after}"
            wanted = min(FOUND, 2 * (self._limit - len(found)) + 8)
            documents = self._index.find(words, after, wanted)
            for document in self._accepted(documents, words):
                found.append(document & INDEX)
                if len(found) >= self._limit:
                    return f"w{document}"
            if len(documents) < wanted:
                return None
            after = documents[-1]
        return f"w{after}"

    def _accepted(self, documents: Sequence[int], words: str) -> list[int]:
        """Those that are up to date, that the filter accepts, and that were not found by their id."""
        assert self._index is not None
        present = {number & INDEX: number for number in self._index.present(documents)}
        accepted = self._store.lists.accepted(self._job.id, list(present), self._query.wanted)
        ids = self._store.lists.ids(self._job.id, accepted)
        is_index = int(words) if words.isdecimal() else -1
        return [
            present[place]
            for place in accepted
            if place != is_index and not ids.get(place, "").startswith(words)
        ]

    def count(self, words: str, *, complete: bool) -> int | None:
        """How many units match, where that is quickly known."""
        wanted, counts = self._query.wanted, self._job.counts
        if not words and not wanted:
            return self._job.total
        if (
            not words
            and not wanted.codes
            and not wanted.lane
            and all(one in counts for one in wanted.statuses)
        ):
            return sum(counts[one] for one in wanted.statuses)
        if not words or wanted or not complete or self._index is None or self._is_late:
            return None
        documents = self._index.find(words, -1, MOST_COUNTED + 1)
        return None if len(documents) > MOST_COUNTED else len(self._index.present(documents))

    def _number(self, mark: str, first: int) -> int:
        """The number in the cursor."""
        after = self._query.after
        if not after or (mark == "w" and after.startswith("i")):
            return first
        digits = after[1:].removeprefix("-")
        if not after.startswith(mark) or not digits.isdecimal() or len(digits) > MOST_DIGITS:
            raise UsageError(
                f"'{after}' is not the 'next' of a page of this list", hint="begin with the first page"
            )
        return int(after[1:])
