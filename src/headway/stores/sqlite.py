"""The SQLite store: what is asked of a store, as statements, and what they find, as records.

`sqlite_file` has the connection and everything about the file, `statements` the SQL; answers by what was asked are in
`sqlite_cache`. One object a thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from headway.core.status import Status
from headway.errors import DuplicateId, StoreError
from headway.stores.base import free_name
from headway.stores.batch import Batch, taken_over, uncountable
from headway.stores.database import CheckFailed, DuplicateKey, Values
from headway.stores.records import (
    COUNTED,
    USED,
    Asked,
    Attempt,
    Claimed,
    Event,
    Family,
    Job,
    Lane,
    Lesson,
    NewJob,
    NewUnit,
    Pending,
    Repair,
    Result,
    Route,
    Start,
    State,
    Told,
    Unknown,
    Use,
)
from headway.stores.sqlite_cache import LOWER, SHIFT, SqliteCache, keep
from headway.stores.sqlite_cache import span as _span
from headway.stores.sqlite_file import SqliteFile

#: Attempts that one step back in time reads.
STARTS_STEP: Final = 2_000

_COUNTERS: Final = (*COUNTED, *USED)

#: What is removed with a job: of its units (what points to answers before the answers), and of itself.
_FORGET_UNITS: Final = (
    "forget_hits", "forget_keys", "forget_followers", "forget_answers", "forget_attempts", "forget_repairs", "forget_notes",
    "forget_requests", "forget_units",
)  # fmt: skip
_FORGET_JOB: Final = (
    "forget_keyed", "forget_uses", "forget_families", "forget_routes", "forget_events", "forget_workers", "forget_commands", "forget_claims", "forget_job",
)  # fmt: skip


class SqliteStore:
    """Records in one file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._db = SqliteFile(path, read_only=read_only)
        self.cache = SqliteCache(self._db)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def probe(self) -> tuple[int, int]:
        """The schema's version and the newest that is known. Raises where the file may not be written; writes nothing."""
        return self._db.probe()

    def salt(self) -> bytes:
        rows = self._db.execute("salt")
        if not rows and self._db.read_only:
            return secrets.token_bytes(32)  # No account was ever hashed here.
        if not rows:
            with self._db.transaction():
                self._db.execute("add_salt", (secrets.token_bytes(32),))
            return self.salt()
        return bytes(rows[0][0])

    # -- taking in -------------------------------------------------------------------------------------------

    def add_job(self, job: NewJob) -> int:
        try:
            with self._db.transaction():
                return self._add_job(job)
        except DuplicateKey:
            raise StoreError(f"there is a job '{job.name}' already") from None

    def _add_job(self, job: NewJob) -> int:
        return self._number("add_job", {**msgspec.structs.asdict(job), "form": _json(job.form)})

    def _number(self, name: str, values: Values) -> int:
        """Run a statement that returns one number, as that of a new row."""
        number: int = self._db.execute(name, values)[0][0]
        return number

    def find_or_add(self, job: NewJob, is_same: Callable[[Job], bool]) -> tuple[Job, bool]:
        with self._db.transaction():
            known = self.jobs()
            found = next(filter(is_same, known), None)
            if found is not None:
                return found, False
            name = free_name(job.name, {one.name for one in known})
            self._add_job(msgspec.structs.replace(job, name=name))
            added = self.job(name)
        assert added is not None
        return added, True

    def add_route(self, job: int, route: Route) -> int:
        with self._db.transaction():
            self._db.execute("add_route", (job, route.provider, route.kind, route.model))
            return self._number("route_to", (job, route.provider, route.model))

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        try:
            with self._db.transaction():
                self._add_units((job << SHIFT) + first, units)
        except DuplicateKey:
            raise DuplicateId(self._first_duplicate(job, units)) from None

    def _add_units(self, base: int, units: Sequence[NewUnit], lanes: Sequence[int | None] = ()) -> None:
        """Where there are `lanes`, one for each unit: one that has a lane already is about to be sent there."""
        if not units:
            return
        placed = zip(units, lanes or [None] * len(units), strict=True)
        rows = [
            (base + n, unit.custom_id, unit.route, unit.priority, int(unit.serial), unit.chars, unit.max_tokens, lane, unit.family)
            for n, (unit, lane) in enumerate(placed)
        ]  # fmt: skip
        self._db.executemany("add_unit", rows)
        path, body = units[0].path, units[0].body
        if all(unit.body is body and unit.path == path and unit.metadata is None for unit in units):
            # Calls: what they are made with is not kept, and a word stands for it.
            self._db.execute("add_same_request", (path, body, base, base + len(units) - 1))
            return
        requests = [(base + n, unit.path, unit.body, unit.metadata) for n, unit in enumerate(units)]
        self._db.executemany("add_request", requests)

    def _first_duplicate(self, job: int, units: Sequence[NewUnit]) -> str:
        seen: set[str] = set()
        for unit in units:
            if unit.custom_id in seen or self.index_of(job, unit.custom_id) is not None:
                return unit.custom_id
            seen.add(unit.custom_id)
        raise AssertionError("no id occurs twice")

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        rows = [
            (one.route, one.number, one.shape, int(one.firm), one.rows, _json(one.words)) for one in families
        ]
        with self._db.transaction():
            self._db.executemany("add_family", rows)

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        with self._db.transaction():
            serial = self._number("count_serial", _span(job))
            priorities: dict[int, list[int]] = {}
            for route, priority in self._db.execute("priorities_by_route", _span(job)):
                priorities.setdefault(route, []).append(priority)
            for route, its_priorities in priorities.items():
                self._db.execute("set_priorities", (_json(its_priorities), route))
            self._db.execute("seal_job", (total, serial, _json(models), digest, job))

    def forget(self, job: int) -> None:
        span = _span(job)
        with self._db.transaction():
            for name in _FORGET_UNITS:
                self._db.execute(name, span)
            for name in _FORGET_JOB:
                self._db.execute(name, (job,))

    # -- looking ---------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        return [_job(row) for row in self._db.execute("jobs")]

    def job(self, name: str) -> Job | None:
        rows = self._db.execute("job_named", (name,))
        return _job(rows[0]) if rows else None

    def routes(self, job: int) -> list[Route]:
        return [
            Route(provider, kind, model, number, tuple(msgspec.json.decode(priorities)))
            for number, provider, kind, model, priorities in self._db.execute("routes", (job,))
        ]

    def index_of(self, job: int, custom_id: str) -> int | None:
        rows = self._db.execute("index_of", (job, custom_id))
        return rows[0][0] if rows else None

    def found(self, job: int, custom_ids: list[str]) -> list[Result]:
        return [Result(*row) for row in self._db.execute("found", (job, _json(custom_ids)))]

    def results(self, job: int, after: int, limit: int) -> list[Result]:
        base = job << SHIFT
        return [Result(*row) for row in self._db.execute("results", (base + after, base + LOWER, limit))]

    def first_unended(self, job: int) -> int | None:
        index: int | None = self._db.execute("first_unended", _span(job))[0][0]
        return index

    def attempts(self, job: int, index: int) -> list[Told]:
        return [_told(row) for row in self._db.execute("attempts_of", ((job << SHIFT) + index,))]

    def request(self, job: int, index: int) -> tuple[str, bytes]:
        request: tuple[str, bytes] = self._db.execute("request", ((job << SHIFT) + index,))[0]
        return request

    def requests(self, job: int, indexes: list[int]) -> list[tuple[int, str, bytes]]:
        base = job << SHIFT
        return self._db.execute("requests", (_json([base + index for index in indexes]),))

    def repairs_of(self, job: int, index: int) -> list[Repair]:
        return [Repair(*row) for row in self._db.execute("repairs_of", ((job << SHIFT) + index,))]

    def notes_of(self, job: int, index: int) -> dict[int, Any]:
        rows = self._db.execute("notes_of", ((job << SHIFT) + index,))
        return {number: msgspec.json.decode(note) for number, note in rows}

    def failures(self, job: int) -> list[tuple[str, int, int, str]]:
        return self._db.execute("failures", _span(job))

    def per_lane(self, job: int) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        names = {route.id: route.name for route in self.routes(job)}
        for route, status, count in self._db.execute("per_route", _span(job)):
            found.setdefault(names[route], {})[status] = count
        return found

    def use_by_route(self, job: int) -> dict[int, Use]:
        return {number: Use(*sums) for number, *sums in self._db.execute("use_by_route", (job,))}

    def use_by_lane(self) -> dict[int, Use]:
        return {number: Use(*sums) for number, *sums in self._db.execute("use_by_lane")}

    def failed(self, job: int) -> list[int]:
        return [index for (index,) in self._db.execute("failed", _span(job))]

    def events(self, job: int, after: int = 0) -> list[Event]:
        return [
            Event(at_utc, lane, what, text, until_utc, number)
            for number, at_utc, lane, what, text, until_utc in self._db.execute("events", (job, after))
        ]

    def lanes(self) -> list[Lane]:
        return [_lane(row) for row in self._db.execute("lanes")]

    def families(self, provider: str, model: str) -> list[tuple[int, Family]]:
        return [
            (job, Family(route, number, shape, bool(firm), rows, tuple(msgspec.json.decode(words))))
            for job, route, number, shape, firm, rows, words in self._db.execute(
                "families", (provider, model)
            )
        ]

    def lessons(
        self, provider: str, model: str, most: int, routes: Collection[int] | None = None
    ) -> list[Lesson]:
        found: list[Lesson] = []
        for (route,) in self._db.execute("routes_taken", (provider, model)):
            if routes is None or route in routes:
                found += (Lesson(*row) for row in self._db.execute("lessons", (route, most - len(found))))
        return found

    def workers(self, job: int) -> list[dict[str, Any]]:
        names = ("id", "name", "pid", "status", "started_utc", "ended_utc")
        return [dict(zip(names, row, strict=True)) for row in self._db.execute("workers", (job,))]

    # -- running -----------------------------------------------------------------------------------------------

    def unknown(self, job: int) -> list[Unknown]:
        return [
            Unknown(index, custom_id, status == Status.RUNNING, *rest)
            for index, custom_id, status, *rest in self._db.execute("unknown_outcomes", _span(job))
        ]

    def begin(
        self, job: int, settings: dict[str, Any], out: str, utc: float, *, only_failed: bool = False
    ) -> int:
        from os import getpid
        from platform import node

        span = _span(job)
        with self._db.transaction():
            self._db.execute("add_lost_attempts", span)
            self._db.execute("count_lost", span)
            self._db.execute("reopen_failed" if only_failed else "reopen", span)
            counts: dict[str, int] = dict(self._db.execute("count_statuses", span))
            ends = {str(status): counts.get(status, 0) for status in COUNTED}
            self._db.execute("set_counts", {"job": job, **ends})
            self._db.execute("drop_commands", (utc, job))
            self._db.execute("end_lost_workers", (utc, job))
            worker = self._number("add_worker", (job, node(), getpid(), "busy", utc))
            run = {"job": job, "utc": utc, "settings": _json(settings), "out": out, "worker": worker}
            self._db.execute("begin_run", run)
        return worker

    def _must_be_ours(self, job: int, worker: int) -> None:
        """Within a transaction: the run of `worker` is still the job's."""
        if self._db.execute("worker_of", (job,)) != [(worker,)]:
            owner = self._db.execute("owner_of", (job,))
            raise taken_over(*owner[0]) if owner else taken_over("", None, None)

    def add_worker(self, job: int, name: str, utc: float) -> int:
        from os import getpid

        with self._db.transaction():
            return self._number("add_worker", (job, name, getpid(), "idle", utc))

    def open_repairs(self, job: int) -> list[Repair]:
        return [Repair(*row) for row in self._db.execute("open_repairs", _span(job))]

    def pending(self, job: int) -> dict[int, int]:
        return dict(self._db.execute("open_per_route", _span(job)))

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]:
        rows = self._db.execute("next_of_route", (route, priority, (job << SHIFT) + after, limit))
        return [
            Pending(index, chars, max_tokens, priority, route, attempts, family)
            for index, chars, max_tokens, priority, attempts, family in rows
        ]

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        first, last = _span(job)
        return [Pending(*row) for row in self._db.execute("next_serial", (first + after, last, every, limit))]

    def lane(self, key: str, name: str) -> Lane:
        with self._db.transaction():
            return _lane(self._db.execute("add_lane", (key, name))[0])

    def keep_lane(self, lane: int, record: bytes, view: bytes, utc: float) -> None:
        with self._db.transaction():
            self._db.execute("set_lane", (record.decode(), view.decode(), utc, lane))

    def starts_since(self, utc: float) -> list[Start]:
        """Backwards from the latest attempt: whatever ended before `utc` began before it as well."""
        found: list[Start] = []
        last = self._number("last_attempt", ())
        while last > 0:
            rows = self._db.execute("latest_starts", (last, STARTS_STEP))
            for lane, started_utc, tokens, tokens_in, tokens_out, *_ in rows:
                if started_utc is not None and started_utc >= utc and lane is not None:
                    costs = (1.0, tokens or 0.0, tokens_in or 0.0, tokens_out or 0.0)
                    found.append(Start(lane, started_utc, costs))
            if not rows or all((row[5] or row[1] or utc) < utc for row in rows):
                break
            last = rows[-1][6] - 1
        return sorted(found, key=lambda start: start.at_utc)

    def commit(self, batch: Batch) -> None:
        try:
            with self._db.transaction():
                self._commit(batch)
        except CheckFailed as error:
            raise uncountable(batch.job) from error

    def _commit(self, batch: Batch) -> None:
        base, many = batch.job << SHIFT, self._db.executemany
        if batch.worker is not None:
            self._must_be_ours(batch.job, batch.worker)
        intents = batch.intents
        if batch.added:
            intents = self._commit_added(batch)
        if batch.reopened:
            self._commit_reopened(batch)
        if batch.attempts:
            many("add_attempt", [_attempt_row(base, batch.worker, attempt) for attempt in batch.attempts])
        if batch.released:
            many("release", [(base + index,) for index in batch.released])
        if batch.units:
            many("change_unit", [(*_values(change), base + index) for index, change in batch.units])
        if batch.answers:
            many("add_answer", [(base + index, *rest) for index, *rest in batch.answers])
        if intents:
            many("intend", [(lane, base + index) for index, lane in intents.items()])
        if batch.running:
            many("note_running", [(utc, base + index) for index, utc in batch.running.items()])
        if batch.caching:
            keep(self._db, batch)
        self._commit_rest(batch)

    def _commit_added(self, batch: Batch) -> dict[int, int]:
        """Units that are new, with the intents that there are for them already; the intents that are left."""
        first, last = batch.added[0][0], batch.added[-1][0]
        units, intents = [unit for _, unit in batch.added], batch.intents
        lanes = [intents.get(index) for index in range(first, last + 1)] if intents else ()
        self._add_units((batch.job << SHIFT) + first, units, lanes)
        self._db.execute("set_total", (last + 1, batch.job))
        return {index: lane for index, lane in intents.items() if index < first}

    def _commit_reopened(self, batch: Batch) -> None:
        base = batch.job << SHIFT
        uids = [base + index for index in batch.reopened]
        for status, n in self._db.execute("count_reopened", (_json(uids),)):
            batch.count(status, -n)
        self._db.executemany("reopen_unit", [(uid,) for uid in uids])
        requests = [(body, base + index) for index, body in batch.reopened.items() if body is not None]
        self._db.executemany("set_request", requests)

    def _commit_rest(self, batch: Batch) -> None:
        """What comes once in a while, and the counters."""
        for repair in batch.repairs:
            self._commit_repair((batch.job << SHIFT) + repair.index, repair)
        for index, number, note in batch.notes:
            self._db.execute("add_note", ((batch.job << SHIFT) + index, number, note.decode()))
        for event in batch.events:
            row = (batch.job, event.at_utc, event.lane, event.what, event.text, event.until_utc)
            self._db.execute("add_event", row)
        for lane, (record, view, utc) in batch.lanes.items():
            self._db.execute("set_lane", (record.decode(), view.decode(), utc, lane))
        for lane, (claim, utc) in batch.claims.items():
            self._db.execute("claim", (lane, batch.job, claim.decode(), utc))
        for worker, (status, utc_ended) in batch.workers.items():
            self._db.execute("set_worker", (status, utc_ended, worker))
        for command, utc in batch.done_commands:
            self._db.execute("end_command", (utc, command))
        if batch.uses:
            uses = [(route, batch.job, *_values(use)) for route, use in batch.uses.items()]
            self._db.executemany("add_use", uses)
        if batch.counts or batch.uses:
            totals = batch.totals()
            counts = {name: totals.get(name, 0) for name in _COUNTERS}
            self._db.execute("count_up", {"job": batch.job, **counts})
        if batch.state is not None:
            state, finished_utc = batch.state
            self._db.execute("set_state", {"job": batch.job, "state": state, "finished_utc": finished_utc})

    def _commit_repair(self, uid: int, repair: Repair) -> None:
        self._db.execute("close_repairs", (uid,))
        if repair.answer is not None:
            is_open = repair.request is not None
            row = (uid, repair.number, repair.answer, repair.request, repair.more_chars, int(is_open))
            self._db.execute("add_repair", row)

    def end_run(
        self, job: int, worker: int, state: State, utc: float, unfinished: dict[str, tuple[str, str]]
    ) -> None:
        with self._db.transaction():
            self._must_be_ours(job, worker)
            self._db.execute("put_back", _span(job))
            end = {"job": job, "state": state, "finished_utc": utc, "unfinished": _json(unfinished)}
            self._db.execute("end_run", end)
            self._db.execute("set_worker", ("terminated", utc, worker))
            self._db.execute("forget_claims", (job,))

    def claims(self, job: int, since_utc: float, until_utc: float) -> list[Claimed]:
        rows = self._db.execute("claims", (job, since_utc, until_utc))
        return [Claimed(lane, name, claim.encode()) for lane, name, claim in rows]

    # -- commands ------------------------------------------------------------------------------------------------

    def ask(self, job: int, what: str, args: dict[str, Any], utc: float) -> int:
        with self._db.transaction():
            return self._number("add_command", (job, utc, what, _json(args)))

    def asked(self, job: int) -> list[Asked]:
        rows = self._db.execute("open_commands", (job,))
        return [Asked(number, what, msgspec.json.decode(args)) for number, what, args in rows]


# -- rows --------------------------------------------------------------------------------------------------------


#: The columns of `jobs` in the order of the statements; the counters of ended units follow.
_JOB: Final = tuple(name for name in Job.__struct_fields__ if name != "counts")
_decode_pairs: Final = msgspec.json.Decoder(dict[str, tuple[str, str]]).decode
_decode_models: Final = msgspec.json.Decoder(dict[str, tuple[str, str, str]]).decode


def _job(row: tuple[Any, ...]) -> Job:
    values = dict(zip(_JOB, row, strict=False))
    values["counts"] = dict(zip(map(str, COUNTED), row[len(_JOB) :], strict=True))
    values["models"] = _decode_models(values["models"])
    values["unfinished"] = _decode_pairs(values["unfinished"])
    values["settings"] = msgspec.json.decode(values["settings"])
    values["form"] = msgspec.json.decode(values["form"])
    return Job(**values)


def _lane(row: tuple[Any, ...]) -> Lane:
    number, key, name, record, view, updated_utc = row
    return Lane(number, key, name, _bytes(record), _bytes(view), updated_utc)


def _told(row: tuple[Any, ...]) -> Told:
    rate_limit = None if row[-1] is None else msgspec.json.decode(row[-1])
    return Told(*(*row[:-1], rate_limit))


def _attempt_row(base: int, worker: int | None, attempt: Attempt) -> tuple[Any, ...]:
    _, tokens, tokens_in, tokens_out = attempt.charged
    rate_limit = None if attempt.rate_limit is None else attempt.rate_limit.decode()
    return (
        base + attempt.index, attempt.number, attempt.worker or worker, attempt.lane, attempt.outcome, attempt.kind, attempt.message,
        attempt.status_code, attempt.request_id, attempt.started_utc, attempt.finished_utc, attempt.input_tokens,
        attempt.output_tokens, attempt.cached_tokens, attempt.cost_usd, tokens, tokens_in, tokens_out, rate_limit,
    )  # fmt: skip


_values = msgspec.structs.astuple


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
