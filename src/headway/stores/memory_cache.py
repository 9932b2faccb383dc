"""The cache of the store that forgets: the same contract in plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from headway.core.status import Status
from headway.stores.batch import Batch
from headway.stores.cache import Keyed, Saved, Shelf, Source, Unkeyed, fate
from headway.stores.records import Attempt, Change, NewUnit, Pending

if TYPE_CHECKING:
    from headway.stores.memory import MemoryStore

Uid = tuple[int, int]


class _Entry(msgspec.Struct, frozen=True):
    """One answer, whose it is, and what its call took."""

    uid: Uid
    provider: str
    model: str
    call: Attempt
    answer: Any

    @property
    def at_utc(self) -> float:
        return self.call.finished_utc or 0.0

    def fits(self, before_utc: float | None, model: str | None) -> bool:
        return (before_utc is None or self.at_utc < before_utc) and (
            model is None or model in (self.model, f"{self.provider}/{self.model}")
        )


def _same(one: NewUnit, other: NewUnit) -> bool:
    return (one.custom_id, one.path, one.body) == (other.custom_id, other.path, other.body)


class MemoryCache:
    """Looks into the records of its store, and moves units there."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._keyed: dict[int, Keyed] = {}
        self._keys: dict[Uid, bytes] = {}
        self._leaders: dict[Uid, Uid] = {}
        self._entries: dict[bytes, _Entry] = {}
        self._hits: dict[Uid, tuple[Uid, float]] = {}

    def forget(self, job: int) -> None:
        """Everything of a job but its answers that are kept."""
        self._keyed.pop(job, None)
        for records in (self._keys, self._leaders, self._hits):
            for uid in [uid for uid in records if uid[0] == job]:
                records.pop(uid)

    # -- before a run ------------------------------------------------------------------------------------------

    def keyed(self, job: int) -> Keyed:
        return self._keyed.get(job, Keyed())

    def rekey(self, job: int, basis: str) -> None:
        self._keys = {uid: key for uid, key in self._keys.items() if uid[0] != job}
        self._keyed[job] = Keyed(basis)

    def unkeyed(self, job: int, after: int, limit: int) -> list[Unkeyed]:
        units = enumerate(self._store._units[job])
        found = [
            Unkeyed(n, unit.new.route, unit.new.path, unit.new.body)
            for n, unit in units
            if n > after and unit.status not in ("succeeded", "cached")
        ]
        return found[:limit]

    def add_keys(self, job: int, keys: list[tuple[int, bytes]], upto: int) -> None:
        self._keys.update({(job, index): key for index, key in keys})
        known = self._keyed[job]
        self._keyed[job] = Keyed(known.basis, upto, known.able + len(keys))

    def _waiting(self, job: int, only: frozenset[int] | None) -> Iterator[tuple[int, Any, bytes]]:
        """Pending units that have a key."""
        for n, unit in enumerate(self._store._units[job]):
            if unit.status == "pending" and (only is None or n in only) and (job, n) in self._keys:
                yield n, unit, self._keys[job, n]

    def serve(
        self, job: int, after: int, limit: int, utc: float, only: frozenset[int] | None = None
    ) -> list[int]:
        served: list[int] = []
        for n, unit, key in self._waiting(job, only):
            entry = self._entries.get(key)
            if n > after and entry is not None and len(served) < limit:
                self._hit((job, n), unit, entry, utc)
                served.append(n)
        batch = Batch(job)
        batch.count("cached", len(served))
        self._store._count(batch)
        return served

    def adopt(self, job: int, elder: int, after: int, limit: int, utc: float) -> list[int]:
        pairs = zip(self._store._units[job], self._store._units[elder], strict=False)
        found = [
            (n, unit, old)
            for n, (unit, old) in enumerate(pairs)
            if n > after and unit.status == "pending" and old.status in ("succeeded", "cached") and _same(unit.new, old.new)
        ][:limit]  # fmt: skip
        for n, unit, old in found:
            source, saved_usd = self._hits.get((elder, n), ((elder, n), old.cost_usd or 0.0))
            tokens = (old.now.input_tokens, old.now.output_tokens, old.now.cached_tokens)
            unit.status, unit.answer = Status.CACHED, old.answer
            unit.now = Change(Status.CACHED, 0, None, None, None, None, None, utc, *tokens)
            self._hits[job, n] = (source, saved_usd)
        batch = Batch(job)
        batch.count("cached", len(found))
        self._store._count(batch)
        return [n for n, _, _ in found]

    def _hit(self, uid: Uid, unit: Any, entry: _Entry, utc: float) -> None:
        call = entry.call
        tokens = (call.input_tokens, call.output_tokens, call.cached_tokens)
        unit.status, unit.answer = Status.CACHED, entry.answer
        unit.now = Change(Status.CACHED, 0, None, None, None, None, None, utc, *tokens)
        self._hits[uid] = (entry.uid, call.cost_usd or 0.0)

    def group(self, job: int, only: frozenset[int] | None = None) -> int:
        self._leaders = {uid: leader for uid, leader in self._leaders.items() if uid[0] != job}
        groups: dict[tuple[int, bytes], list[tuple[bool, int, int]]] = {}
        for n, unit, key in self._waiting(job, only):
            place = (not unit.new.serial, -unit.new.priority, n)
            groups.setdefault((unit.new.route, key), []).append(place)
        for members in groups.values():
            (_, _, leader), *followers = sorted(members)
            self._leaders.update({(job, n): (job, leader) for _, _, n in followers})
        return sum(uid[0] == job for uid in self._leaders)

    # -- cursors that leave followers out ------------------------------------------------------------------------

    def pending(self, job: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for each in self.next_serial(job, -1, len(self._store._units[job]), every=True):
            found[each.route] = found.get(each.route, 0) + 1
        return found

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]:
        every = self._store.next_of_route(job, route, priority, after, len(self._store._units[job]) + 1)
        return [each for each in every if (job, each.index) not in self._leaders][:limit]

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        found = self._store.next_serial(job, after, len(self._store._units[job]), every=every)
        return [each for each in found if (job, each.index) not in self._leaders][:limit]

    # -- committing ----------------------------------------------------------------------------------------------

    def keep(self, batch: Batch) -> None:
        """A batch's answers are in the cache, and who follows a unit that has ended ends too."""
        job, units = batch.job, self._store._units[batch.job]
        made: dict[int, _Entry] = {}
        calls = {attempt.index: attempt for attempt in batch.attempts if attempt.outcome == "succeeded"}
        for index, *_ in batch.answers:
            route = next(each for each in self._store._routes[job] if each.id == units[index].new.route)
            made[index] = _Entry((job, index), route.provider, route.model, calls[index], units[index].answer)
            if (job, index) in self._keys:
                self._entries.setdefault(self._keys[job, index], made[index])
        ends = {(job, index): change for index, change in batch.units if change.finished_utc is not None}
        for uid, leader in sorted(self._leaders.items()):
            change = fate(leader[1], ends[leader]) if leader in ends else None
            if change is None:
                continue
            unit = units[uid[1]]
            if change.status == Status.CACHED:
                self._hit(uid, unit, made[leader[1]], change.finished_utc or 0.0)
            else:
                unit.status, unit.now = change.status, change
            batch.follow(uid[1], change)

    # -- looking -------------------------------------------------------------------------------------------------

    def saved(self, job: int | None = None) -> Saved:
        hits = {uid: usd for uid, (_, usd) in self._hits.items() if job is None or uid[0] == job}
        now = [self._store._units[number][index].now for number, index in hits]
        return Saved(
            len(hits),
            sum(each.input_tokens or 0 for each in now),
            sum(each.output_tokens or 0 for each in now),
            sum(hits.values()),
        )

    def source(self, job: int, index: int) -> Source | None:
        if (job, index) not in self._hits:
            return None
        (number, place), _ = self._hits[job, index]
        known = self._store._jobs.get(number)
        if known is None:
            return Source(None, place, None)
        return Source(known.name, place, self._store._units[number][place].new.custom_id)

    def shelves(self, before_utc: float | None = None, model: str | None = None) -> list[Shelf]:
        found: dict[tuple[str, str], list[_Entry]] = {}
        for entry in self._entries.values():
            if entry.fits(before_utc, model):
                found.setdefault((entry.provider, entry.model), []).append(entry)
        return [
            Shelf(*name, len(each), sum(len(one.answer[2]) for one in each), min(one.at_utc for one in each), max(one.at_utc for one in each))
            for name, each in sorted(found.items())
        ]  # fmt: skip

    def clear(self, before_utc: float | None = None, model: str | None = None) -> int:
        gone = [key for key, entry in self._entries.items() if entry.fits(before_utc, model)]
        for key in gone:
            del self._entries[key]
        return len(gone)
