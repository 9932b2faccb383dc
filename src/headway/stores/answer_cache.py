"""The cache of a store: answers by request, across jobs.

Units with the same key have the same request; the caller computes keys. Bodies are not copied: an entry points to the answer of
the unit that was sent first, and so does every unit that was answered from it. These pointers stay valid when the entry or
that unit's job is removed.

Within a job, the first of several units with the same key is the leader and the others are its followers. Cursors leave
followers out, and followers end in the same transaction as their leader.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headway.core.unit_states import Status
from headway.errors import StoreError
from headway.stores.database import Database
from headway.stores.records import USED, Attempt, NewUnit, PendingUnit, UnitChange, UnitSize
from headway.stores.row_conversion import LOWER, SHIFT, json_of, span, uid
from headway.stores.write_batch import WriteBatch

#: Later than any recorded time.
_LATEST_UTC: Final = 1e18


class KeyProgress(msgspec.Struct, frozen=True):
    """How far the keys of a job are computed, from which basis, and how many units have a key (`able`)."""

    basis: str = ""
    upto: int = -1
    able: int = 0


class UnkeyedUnit(msgspec.Struct, frozen=True, gc=False):
    """A unit's request, from which its key is computed."""

    index: int
    route: int
    path: str
    body: bytes


class CallsSaved(msgspec.Struct, frozen=True):
    """Units that were answered without a call, and what the calls would have cost."""

    units: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    #: Calls without a known price count as 0.
    cost_usd: float = 0.0


class AnswerSource(msgspec.Struct, frozen=True):
    """The unit from which another unit has its answer. `job` and `custom_id` are None after that job was removed."""

    job: str | None
    index: int
    custom_id: str | None


class CachedModel(msgspec.Struct, frozen=True):
    """The entries of one model."""

    provider: str
    model: str
    entries: int
    bytes: int
    oldest_utc: float
    newest_utc: float


class AnswerCache:
    """The cache of a store. It uses the store's connection."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # -- before a run ------------------------------------------------------------------------------------------

    def keyed(self, job: int) -> KeyProgress:
        """How far the keys of the job are computed."""
        rows = self._db.execute("keyed", (job,))
        return KeyProgress(*rows[0]) if rows else KeyProgress()

    def rekey(self, job: int, basis: str) -> None:
        """Remove the keys of the job, so that they are computed again from this basis."""
        with self._db.transaction():
            self._db.execute("forget_keys", span(job))
            self._db.execute("set_keyed", (job, basis))

    def unkeyed(self, job: int, after: int, limit: int) -> list[UnkeyedUnit]:
        """Units without an answer, with an index above `after`, by index."""
        first, last = span(job)
        return [UnkeyedUnit(*row) for row in self._db.execute("unkeyed", (first + after, last, limit))]

    def add_keys(self, job: int, keys: list[tuple[int, bytes]], upto: int) -> None:
        """Add keys of units. All units up to the index `upto` are done."""
        with self._db.transaction():
            self._db.executemany("add_key", [(uid(job, index), key) for index, key in keys])
            self._db.execute("count_keyed", (upto, len(keys), job))

    def serve(
        self, job: int, after: int, limit: int, utc: float, only: frozenset[int] | None = None
    ) -> list[int]:
        """Answer up to `limit` waiting units above `after` (only those in `only`) from the cache; returns their indices."""
        first, last = span(job)
        wanted = {"after": first + after, "last": last, "limit": limit, "only": _uids(first, only)}
        with self._db.transaction():
            hits = [(*hit, utc) for hit in self._db.execute("find_hits", wanted)]
            return answered(self._db, job, hits)

    def adopt(self, job: int, earlier: int, after: int, limit: int, utc: float) -> list[int]:
        """Copy answers of the job `earlier` to up to `limit` waiting units above `after` that have the same index, request and id
        there. Returns the indices that were examined. No key is needed, and no cache entry is added.

        A unit that waits for others gets its answer only together with theirs: its request was made from those answers.
        """
        first, last = span(job)
        apart = (earlier - job) << SHIFT
        wanted = {"after": first + after, "last": last, "limit": limit, "apart": apart}
        with self._db.transaction():
            same = self._db.execute("find_same", wanted)
            hits = [(*hit, utc) for hit in self._with_same_upstream(same, apart)]
            answered(self._db, job, hits)
        return [hit[0] & LOWER for hit in same]

    def _with_same_upstream(self, hits: list[tuple[Any, ...]], apart: int) -> list[tuple[Any, ...]]:
        """The hits whose request was made from the same answers as in the earlier job: units without edges, and units that wait
        only for units with the earlier job's answers.
        """
        upstream: dict[int, list[tuple[int, int | None, int]]] = {}
        uids = json_of([hit[0] for hit in hits])
        for unit, *edge in self._db.execute("sources_upstream", {"uids": uids, "apart": apart}):
            upstream.setdefault(unit, []).append((edge[0], edge[1], edge[2]))
        taken: dict[int, int] = {}
        for unit, source, *_ in hits:
            edges = upstream.get(unit, ())
            if all(taken.get(before, own) == theirs for before, own, theirs in edges):
                taken[unit] = source
        return [hit for hit in hits if hit[0] in taken]

    def group(self, job: int, only: frozenset[int] | None = None) -> int:
        """Make waiting units with equal keys leaders and followers, and drop earlier groups; returns the number of followers."""
        first, last = span(job)
        with self._db.transaction():
            self._db.execute("forget_followers", (first, last))
            found = {"first": first, "last": last, "only": _uids(first, only)}
            self._db.execute("group_followers", found)
            count: int = self._db.execute("count_followers", (first, last))[0][0]
        return count

    def followers(self, job: int, indexes: Iterable[int]) -> set[int]:
        """The units of `indexes` that follow another one."""
        uids = json_of([uid(job, index) for index in indexes])
        return {number & LOWER for (number,) in self._db.execute("followers_among", (uids,))}

    # -- cursors that leave followers out ------------------------------------------------------------------------

    def pending(self, job: int) -> dict[int, int]:
        """Like `Store.pending`, without followers. The next four methods are like the store's, too."""
        return dict(self._db.execute("leading_per_route", span(job)))

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[PendingUnit]:
        """Waiting units of a route and priority with an index above `after`."""
        wanted = (route, priority, uid(job, after), limit)
        return [PendingUnit(*row) for row in self._db.execute("leading_of_route", wanted)]

    def sizes_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[UnitSize]:
        """The sizes of the same units."""
        return self._db.execute("leading_sizes_of_route", (route, priority, uid(job, after), limit))

    def waiting_units(self, job: int, indexes: Iterable[int]) -> list[PendingUnit]:
        """The units of `indexes` that wait, by index."""
        uids = json_of([uid(job, index) for index in indexes])
        return [PendingUnit(*row) for row in self._db.execute("waiting_units", (uids,))]

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[PendingUnit]:
        """Waiting units of any route by index: the serial ones, or all."""
        first, last = span(job)
        return [
            PendingUnit(*row)
            for row in self._db.execute("leading_serial", (first + after, last, every, limit))
        ]

    # -- reading -------------------------------------------------------------------------------------------------

    def saved(self, job: int | None = None) -> CallsSaved:
        """What the cache saved for a job, or for all jobs."""
        first, last = (0, (1 << 63) - 1) if job is None else span(job)
        return CallsSaved(*self._db.execute("saved", (first, last))[0])

    def find(self, key: bytes) -> tuple[int, bytes] | None:
        """The answer with this key: the unit that has it (its key in the store), and the body."""
        rows = self._db.execute("found_by_key", (key,))
        return rows[0] if rows else None

    def find_unit(self, key: bytes, other_than: int) -> int | None:
        """The unit (its key in the store) that has the answer with this key, unless it is one of the job `other_than`."""
        rows = self._db.execute("other_unit_by_key", (key, other_than))
        return rows[0][0] if rows else None

    def answered_unit(self, job: int, custom_id: str) -> tuple[int, bytes] | None:
        """The unit of a job with this id, and its key, if it has an answer and a key."""
        rows = self._db.execute("answered_unit", (job, custom_id))
        return rows[0] if rows else None

    def key_of(self, job: int, index: int) -> bytes | None:
        """The recorded key of a unit."""
        rows = self._db.execute("key_of", (uid(job, index),))
        return rows[0][0] if rows else None

    def forget_key(self, key: bytes) -> None:
        """Remove the entry with this key. Units keep their answers."""
        with self._db.transaction():
            self._db.executemany("drop_answer", self._db.execute("forget_key", (key,)))

    def answer_at(self, uid: int) -> bytes | None:
        """The body of the answer of a unit of any job, by its key in the store."""
        rows = self._db.execute("answer", (uid,))
        return rows[0][0] if rows else None

    def source(self, job: int, index: int) -> AnswerSource | None:
        """The unit from which this unit has its answer; None if the answer is its own."""
        rows = self._db.execute("source_of", (uid(job, index),))
        return AnswerSource(*rows[0]) if rows else None

    def original_figures(self, job: int, index: int) -> tuple[float | None, float | None, float | None]:
        """Of a unit with another unit's answer: when that was asked, when it came, and what it cost."""
        rows = self._db.execute("original_figures", (uid(job, index),))
        return rows[0] if rows else (None, None, None)

    def entries_by_model(
        self, before_utc: float | None = None, model: str | None = None
    ) -> list[CachedModel]:
        """The entries by model. `before_utc`: only older ones. `model`: only of this model or PROVIDER/MODEL."""
        return [CachedModel(*row) for row in self._db.execute("entries_by_model", _which(before_utc, model))]

    def clear(self, before_utc: float | None = None, model: str | None = None) -> int:
        """Remove these entries; returns how many. Units keep their answers."""
        with self._db.transaction():
            removed = self._db.execute("clear_cache", _which(before_utc, model))
            self._db.executemany("drop_answer", removed)
        return len(removed)


_NOTHING: Final = dict.fromkeys((*(str(status) for status in Status), *USED), 0)


def answered(db: Database, job: int, hits: list[tuple[Any, ...]]) -> list[int]:
    """Inside a transaction: record hits (see `_add_hits`) of the job; returns the indices of their units."""
    if hits:
        _add_hits(db, hits)
        db.execute("count_up", {**_NOTHING, "job": job, "cached": len(hits)})
    return [hit[0] & LOWER for hit in hits]


def answer_added(db: Database, job: int, first: int, units: Sequence[NewUnit]) -> None:
    """Inside a transaction: end those of the units, which were just added from index `first` on, that have the answers of others."""
    sources = {
        uid(job, index): unit.source for index, unit in enumerate(units, first) if unit.source is not None
    }
    if not sources:
        return
    rows = db.execute("answers_of_sources", (json_of(sorted(set(sources.values()))),))
    known = {asked: answer for asked, *answer in rows}
    missing = [source for source in sources.values() if source not in known]
    if missing:
        raise StoreError(f"a unit was added with the answer of unit {missing[0]}, which has none")
    utc = time.time()
    answered(db, job, [(unit, *known[source], utc) for unit, source in sources.items()])


def keep_answers(db: Database, batch: WriteBatch) -> None:
    """Inside the transaction of a batch: add its answers to the cache, and end the followers of its ended units."""
    base = batch.job << SHIFT
    calls = {attempt.index: attempt for attempt in batch.attempts if attempt.outcome == "succeeded"}
    if batch.answers:
        entries = [_entry(base, calls[index], body) for index, _, _, body in batch.answers]
        db.executemany("add_cached", entries)
    ends = {base + index: change for index, change in batch.units if change.finished_utc is not None}
    hits, failures = [], []
    for unit, leader in db.execute("followers_of", (json_of(list(ends)),)) if ends else ():
        change = follower_end(leader - base, ends[leader])
        if change is None:
            continue
        if change.status == Status.CACHED:
            tokens = (change.input_tokens, change.output_tokens, change.cached_tokens)
            hits.append((unit, leader, *tokens, calls[leader - base].cost_usd or 0.0, change.finished_utc))
        else:
            failures.append((change.status, change.code, change.message, change.finished_utc, unit))
        batch.follow(unit - base, change)
    if hits:
        _add_hits(db, hits)
    if failures:
        db.executemany("end_follower", failures)


def _entry(base: int, call: Attempt, body: bytes) -> tuple[Any, ...]:
    tokens = (call.input_tokens, call.output_tokens, call.cached_tokens)
    return (len(body), *tokens, call.cost_usd or 0.0, call.finished_utc, base + call.index)


def _add_hits(db: Database, hits: list[tuple[Any, ...]]) -> None:
    """A hit is (the unit, the unit whose answer it has, three counts of tokens, the cost of that answer, when)."""
    db.executemany("hit_unit", [(utc, *tokens, unit) for unit, _, *tokens, _, utc in hits])
    db.executemany("add_hit", [(unit, source, usd) for unit, source, _, _, _, usd, _ in hits])


def _uids(first: int, only: frozenset[int] | None) -> str | None:
    return None if only is None else json_of([first + index for index in only])


def _which(before_utc: float | None, model: str | None) -> tuple[float, str | None]:
    return _LATEST_UTC if before_utc is None else before_utc, model


def follower_end(leader: int, change: UnitChange) -> UnitChange | None:
    """How a follower ends when its leader ends: with the same answer or the same failure.

    None if the leader was skipped or cancelled: its followers stay pending for the next run.
    """
    if change.status == Status.SUCCEEDED:
        return msgspec.structs.replace(
            change, status=Status.CACHED, tries=0, lane=None, started_utc=None, cost_usd=0.0
        )
    if change.status not in (Status.FAILED, Status.TIMED_OUT):
        return None
    message = f"unit {leader} asked the same: {change.message or change.code}"
    return UnitChange(change.status, code=change.code, message=message, finished_utc=change.finished_utc)
