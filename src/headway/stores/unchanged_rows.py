"""Answers of an earlier job for the rows of a changed input.

A unit takes the answer of a unit of the earlier job that has the same id and exactly the same request: provider, model, path and body.
(A body names its attached files by their digests.) The number of a row is no id: it changes when a row is inserted above. Units
whose ids are numbers of rows take the answer of any such unit with the same request, and no answer is taken twice.

Units that wait for others take no answers here, because their requests are made from the answers of those. A kind of job that makes such
requests before its job runs can compare them with those that were sent (`sent_requests`, `waiting_late`, `take`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, Final

from headway.stores.answer_cache import answered
from headway.stores.database import Database
from headway.stores.records import NewUnit, StoredRoute
from headway.stores.row_conversion import json_of, span, uid

#: Units whose ids are looked up in one transaction: about 0.1 s, so that the commits of other jobs do not wait.
PAGE: Final = 10_000
#: Requests in memory at once.
_REQUESTS: Final = 500
#: 128 bits: among a billion requests, two share a key with a probability of 10^-20.
_KEY_BYTES: Final = 16


def request_key(provider: str, model: str, path: str, body: bytes) -> bytes:
    """A digest of a request and of where it goes."""
    digest = blake2b(f"{provider}\0{model}\0{path}\0".encode(), digest_size=_KEY_BYTES)
    digest.update(body)
    return digest.digest()


class UnchangedRows:
    """Takes over answers. It uses the store's connection."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def adopt(self, job: int, earlier: int, numbered: str, utc: float) -> None:
        """Copy the answers of the job `earlier` to waiting units of the job. `numbered` is a LIKE pattern of ids that are numbers of
        rows.
        """
        after, last = span(job)[0] - 1, span(job)[1]
        while (page := self._db.execute("waiting_upto", (after, last, PAGE))[0][0]) is not None:
            with self._db.transaction():
                same = self._db.execute("find_same_id", {"after": after, "last": page, "earlier": earlier})
                answered(self._db, job, [(*hit, utc) for hit in same])
            after = page
        if next(self._waiting(job, numbered), None) is not None:
            self._adopt_moved(job, earlier, numbered, utc)

    def _adopt_moved(self, job: int, earlier: int, numbered: str, utc: float) -> None:
        """Copy answers to units whose rows have another number now."""
        self._db.execute("make_reusable")
        try:
            for requests in _answered_requests(self._db, earlier, numbered, span(job)):
                keys = [(request_key(*request), unit) for unit, *request in requests]
                with self._db.transaction():
                    self._db.executemany("add_reusable", keys)
            for requests in self._waiting(job, numbered):
                with self._db.transaction():
                    self._take(job, requests, utc)
        finally:
            self._db.execute("drop_reusable")

    def _take(self, job: int, requests: list[Any], utc: float) -> None:
        """Copy answers to these units, each from the first unit with the same request that is left."""
        units: dict[int, int] = {}
        for unit, *request in requests:
            for (before,) in self._db.execute("take_reusable", (request_key(*request),)):
                units[before] = unit
        rows = self._db.execute("answers_to_copy", (json_of(list(units)),))
        answered(self._db, job, [(units[before], *hit, utc) for before, *hit in rows])

    def _waiting(self, job: int, numbered: str) -> Iterator[list[Any]]:
        """The requests of waiting units whose ids are numbers of rows, a page at a time."""
        after, last = span(job)[0] - 1, span(job)[1]
        while page := self._db.execute("waiting_requests", (after, last, numbered, _REQUESTS)):
            yield page
            after = page[-1][0]

    def sent_requests(self, job: int) -> Iterator[tuple[int, str, str, str, bytes]]:
        """The requests of the job's answered units that waited for others: the key in the store of the unit that has the answer, the
        provider, the model, the path and the body as it was sent.
        """
        after, last = span(job)
        after -= 1
        while page := self._db.execute("sent_requests", (after, last, _REQUESTS)):
            for source, _, provider, model, path, body in page:
                yield source, provider, model, path, body
            after = page[-1][1]

    def waiting_late(self, job: int, after: int, limit: int) -> list[tuple[int, str, str]]:
        """The units above the index `after` that wait and have edges, with their providers and models."""
        first, last = span(job)
        return self._db.execute("waiting_late", (first + after, last, limit))

    def may_start(self, job: int, index: int) -> bool:
        """Whether everything that a unit waits for has an answer."""
        waits: int = self._db.execute("count_open_edges", (uid(job, index),))[0][0]
        return not waits

    def take(self, job: int, index: int, source: int, utc: float) -> None:
        """Give a waiting unit the answer of another one, by its key in the store."""
        with self._db.transaction():
            rows = self._db.execute("answers_to_copy", (json_of([source]),))
            answered(self._db, job, [(uid(job, index), *hit, utc) for _, *hit in rows])

    def same_request(self, job: int, custom_id: str, request: tuple[str, str, str, bytes]) -> int | None:
        """The unit of a job (its key in the store) that has the answer to this request: provider, model, path and body. None: no unit with
        this id has it.
        """
        rows = self._db.execute("answered_source", (job, custom_id))
        return next((source for source, *asked in rows if tuple(asked) == request), None)

    def counter(self, earlier: Iterable[int], numbered: str) -> ReuseCounter:
        """Counts what `adopt` would take from these jobs, for a plan. It writes nothing."""
        return ReuseCounter(self._db, list(earlier), numbered)


def _answered_requests(db: Database, job: int, numbered: str, takers: tuple[int, int]) -> Iterator[list[Any]]:
    """The requests of the job's answered units whose ids are numbers of rows, and whose answers no unit in the range `takers` has. A
    page at a time.
    """
    after, last = span(job)
    after -= 1
    while page := db.execute("untaken_requests", (after, last, numbered, *takers, _REQUESTS)):
        yield page
        after = page[-1][0]


class ReuseCounter:
    """Says for each unit of an input whether it would take an answer. It keeps nine bytes for each numbered row of the jobs."""

    def __init__(self, db: Database, earlier: list[int], numbered: str) -> None:
        self._db, self._earlier = db, earlier
        self._number_prefix = numbered.removesuffix("%")
        self._keys = array("q", sorted(self._numbered_keys(numbered)))
        self._taken = bytearray(len(self._keys))

    def _numbered_keys(self, numbered: str) -> Iterator[int]:
        """The keys of the answers. One that a newer job has taken over is counted there."""
        newest = span(max(self._earlier))[1]
        for job in self._earlier:
            for requests in _answered_requests(self._db, job, numbered, (span(job + 1)[0], newest)):
                yield from (_short(request_key(*request)) for _, *request in requests)

    def takes(self, route: StoredRoute, unit: NewUnit) -> bool:
        """Whether a unit takes an answer. Called once for each unit."""
        if unit.after:
            return False
        request = (route.provider, route.model, unit.path, bytes(unit.body))
        if not self._number_prefix or not unit.custom_id.startswith(self._number_prefix):
            return any(
                tuple(row) == request
                for job in self._earlier
                for row in self._db.execute("answered_request", (job, unit.custom_id))
            )
        key = _short(request_key(*request))
        place = bisect_left(self._keys, key)
        while place < len(self._keys) and self._keys[place] == key:
            if not self._taken[place]:
                self._taken[place] = 1
                return True
            place += 1
        return False


def _short(key: bytes) -> int:
    """A key as a number of 64 bits."""
    return int.from_bytes(key[:8], signed=True)
