"""The cache of the SQLite store. Statements are in `sql/queries.sql`, tables in `sql/migrations/0003_cache.sql`."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.core.status import Status
from headway.stores.batch import Batch
from headway.stores.cache import Keyed, Saved, Shelf, Source, Unkeyed, fate
from headway.stores.database import Database
from headway.stores.records import USED, Attempt, Pending

#: The shift of a job's number in a unit's key.
SHIFT: Final = 32
LOWER: Final = (1 << SHIFT) - 1
#: Later than anything that is recorded.
_EVER: Final = 1e18


class SqliteCache:
    """Uses the connection of the store that it belongs to."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # -- before a run ------------------------------------------------------------------------------------------

    def keyed(self, job: int) -> Keyed:
        rows = self._db.execute("keyed", (job,))
        return Keyed(*rows[0]) if rows else Keyed()

    def rekey(self, job: int, basis: str) -> None:
        with self._db.transaction():
            self._db.execute("forget_keys", span(job))
            self._db.execute("set_keyed", (job, basis))

    def unkeyed(self, job: int, after: int, limit: int) -> list[Unkeyed]:
        first, last = span(job)
        return [Unkeyed(*row) for row in self._db.execute("unkeyed", (first + after, last, limit))]

    def add_keys(self, job: int, keys: list[tuple[int, bytes]], upto: int) -> None:
        base = job << SHIFT
        with self._db.transaction():
            self._db.executemany("add_key", [(base + index, key) for index, key in keys])
            self._db.execute("count_keyed", (upto, len(keys), job))

    def serve(
        self, job: int, after: int, limit: int, utc: float, only: frozenset[int] | None = None
    ) -> list[int]:
        first, last = span(job)
        wanted = {"after": first + after, "last": last, "limit": limit, "only": _uids(first, only)}
        with self._db.transaction():
            hits = [(*hit, utc) for hit in self._db.execute("find_hits", wanted)]
            return self._answered(job, hits)

    def adopt(self, job: int, elder: int, after: int, limit: int, utc: float) -> list[int]:
        first, last = span(job)
        apart = (elder - job) << SHIFT
        wanted = {"after": first + after, "last": last, "limit": limit, "apart": apart}
        with self._db.transaction():
            hits = [(*hit, utc) for hit in self._db.execute("find_same", wanted)]
            return self._answered(job, hits)

    def _answered(self, job: int, hits: list[tuple[Any, ...]]) -> list[int]:
        """Units of a job have their answer from others (`_hit` has what it takes); their indices."""
        if hits:
            _hit(self._db, hits)
            self._db.execute("count_up", {**_NOTHING, "job": job, "cached": len(hits)})
        return [hit[0] & LOWER for hit in hits]

    def group(self, job: int, only: frozenset[int] | None = None) -> int:
        first, last = span(job)
        with self._db.transaction():
            self._db.execute("forget_followers", (first, last))
            found = {"first": first, "last": last, "only": _uids(first, only)}
            self._db.execute("group_followers", found)
            count: int = self._db.execute("count_followers", (first, last))[0][0]
        return count

    # -- cursors that leave followers out ------------------------------------------------------------------------

    def pending(self, job: int) -> dict[int, int]:
        return dict(self._db.execute("leading_per_route", span(job)))

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]:
        rows = self._db.execute("leading_of_route", (route, priority, (job << SHIFT) + after, limit))
        return [
            Pending(index, chars, max_tokens, priority, route, attempts, family)
            for index, chars, max_tokens, priority, attempts, family in rows
        ]

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        first, last = span(job)
        return [
            Pending(*row) for row in self._db.execute("leading_serial", (first + after, last, every, limit))
        ]

    # -- looking -------------------------------------------------------------------------------------------------

    def saved(self, job: int | None = None) -> Saved:
        first, last = (0, (1 << 63) - 1) if job is None else span(job)
        return Saved(*self._db.execute("saved", (first, last))[0])

    def source(self, job: int, index: int) -> Source | None:
        rows = self._db.execute("source_of", ((job << SHIFT) + index,))
        return Source(*rows[0]) if rows else None

    def shelves(self, before_utc: float | None = None, model: str | None = None) -> list[Shelf]:
        return [Shelf(*row) for row in self._db.execute("shelves", _which(before_utc, model))]

    def clear(self, before_utc: float | None = None, model: str | None = None) -> int:
        with self._db.transaction():
            gone = self._db.execute("clear_cache", _which(before_utc, model))
            self._db.executemany("drop_answer", gone)
        return len(gone)


_NOTHING: Final = dict.fromkeys((*(str(status) for status in Status), *USED), 0)


def keep(db: Database, batch: Batch) -> None:
    """Within a batch's transaction: its answers are in the cache, and who follows a unit that has ended ends too."""
    base = batch.job << SHIFT
    calls = {attempt.index: attempt for attempt in batch.attempts if attempt.outcome == "succeeded"}
    if batch.answers:
        entries = [_entry(base, calls[index], body) for index, _, _, body in batch.answers]
        db.executemany("add_cached", entries)
    ends = {base + index: change for index, change in batch.units if change.finished_utc is not None}
    hits, failures = [], []
    for uid, leader in db.execute("followers_of", (_json(list(ends)),)) if ends else ():
        change = fate(leader - base, ends[leader])
        if change is None:
            continue
        if change.status == Status.CACHED:
            tokens = (change.input_tokens, change.output_tokens, change.cached_tokens)
            hits.append((uid, leader, *tokens, calls[leader - base].cost_usd or 0.0, change.finished_utc))
        else:
            failures.append((change.status, change.code, change.message, change.finished_utc, uid))
        batch.follow(uid - base, change)
    if hits:
        _hit(db, hits)
    if failures:
        db.executemany("end_follower", failures)


def _entry(base: int, call: Attempt, body: bytes) -> tuple[Any, ...]:
    tokens = (call.input_tokens, call.output_tokens, call.cached_tokens)
    return (len(body), *tokens, call.cost_usd or 0.0, call.finished_utc, base + call.index)


def _hit(db: Database, hits: list[tuple[Any, ...]]) -> None:
    """Units that have their answer from another: (unit, whose, three counts of tokens, what that cost, when)."""
    db.executemany("hit_unit", [(utc, *tokens, uid) for uid, _, *tokens, _, utc in hits])
    db.executemany("add_hit", [(uid, source, usd) for uid, source, _, _, _, usd, _ in hits])


def span(job: int) -> tuple[int, int]:
    """The keys of a job's units."""
    return job << SHIFT, (job << SHIFT) + LOWER


def _uids(first: int, only: frozenset[int] | None) -> str | None:
    return None if only is None else _json([first + index for index in only])


def _which(before_utc: float | None, model: str | None) -> tuple[float, str | None]:
    return _EVER if before_utc is None else before_utc, model


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
