"""The SQLite store: what is asked of a store, as statements, and what they find, as records.

`sqlite_file` has the connection and everything about the file, `statements` the SQL; answers by what was asked are in
`sqlite_cache`. One object a thread.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from headway.core.status import Status
from headway.errors import DuplicateId, StoreError
from headway.stores.base import free_name
from headway.stores.batch import Batch, taken_over, uncountable
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
from headway.stores.statements import each

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
        self._file = file = SqliteFile(path, read_only=read_only)
        self._sql, self._rows, self._row, self._transaction = file.sql, file.rows, file.row, file.transaction
        self.cache = SqliteCache(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def probe(self) -> tuple[int, int]:
        """The schema's version and the newest that is known. Raises where the file may not be written; writes nothing."""
        return self._file.probe()

    def salt(self) -> bytes:
        rows = self._rows("salt")
        if not rows and self._file.read_only:
            return secrets.token_bytes(32)  # No account was ever hashed here.
        if not rows:
            with self._transaction() as db:
                db.execute("INSERT OR IGNORE INTO meta VALUES ('salt', ?)", (secrets.token_bytes(32),))
            return self.salt()
        return bytes(rows[0][0])

    # -- taking in -------------------------------------------------------------------------------------------

    def add_job(self, job: NewJob) -> int:
        try:
            with self._transaction() as db:
                return self._add_job(db, job)
        except sqlite3.IntegrityError:
            raise StoreError(f"there is a job '{job.name}' already") from None

    def _add_job(self, db: sqlite3.Connection, job: NewJob) -> int:
        values = {**msgspec.structs.asdict(job), "form": _json(job.form)}
        number = db.execute(self._sql["add_job"], values).lastrowid
        assert number is not None
        return number

    def find_or_add(self, job: NewJob, is_same: Callable[[Job], bool]) -> tuple[Job, bool]:
        with self._transaction() as db:
            known = self.jobs()
            found = next(filter(is_same, known), None)
            if found is not None:
                return found, False
            name = free_name(job.name, {one.name for one in known})
            self._add_job(db, msgspec.structs.replace(job, name=name))
            added = self.job(name)
        assert added is not None
        return added, True

    def add_route(self, job: int, route: Route) -> int:
        with self._transaction() as db:
            db.execute(self._sql["add_route"], (job, route.provider, route.kind, route.model))
            number: int = db.execute(self._sql["route_to"], (job, route.provider, route.model)).fetchone()[0]
        return number

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        try:
            with self._transaction() as db:
                self._add_units(db, (job << SHIFT) + first, units)
        except sqlite3.IntegrityError:
            raise DuplicateId(self._first_duplicate(job, units)) from None

    def _add_units(
        self, db: sqlite3.Connection, base: int, units: Sequence[NewUnit], lanes: Sequence[int | None] = ()
    ) -> None:
        """Where there are `lanes`, one for each unit: one that has a lane already is about to be sent there."""
        if not units:
            return
        placed = zip(units, lanes or [None] * len(units), strict=True)
        rows = [
            (base + n, unit.custom_id, unit.route, unit.priority, int(unit.serial), unit.chars, unit.max_tokens, lane, unit.family)
            for n, (unit, lane) in enumerate(placed)
        ]  # fmt: skip
        each(db, self._sql["add_unit"], rows)
        path, body = units[0].path, units[0].body
        if all(unit.body is body and unit.path == path and unit.metadata is None for unit in units):
            # Calls: what they are made with is not kept, and a word stands for it.
            db.execute(self._sql["add_same_request"], (path, body, base, base + len(units) - 1))
            return
        requests = [(base + n, unit.path, unit.body, unit.metadata) for n, unit in enumerate(units)]
        each(db, self._sql["add_request"], requests)

    def _first_duplicate(self, job: int, units: Sequence[NewUnit]) -> str:
        seen: set[str] = set()
        for unit in units:
            if unit.custom_id in seen or self.index_of(job, unit.custom_id) is not None:
                return unit.custom_id
            seen.add(unit.custom_id)
        raise AssertionError("no id occurs twice")

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        with self._transaction() as db:
            db.executemany(
                self._sql["add_family"],
                [
                    (one.route, one.number, one.shape, int(one.firm), one.rows, _json(one.words))
                    for one in families
                ],
            )

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        with self._transaction() as db:
            span = _span(job)
            serial = db.execute(
                "SELECT count(*) FROM units WHERE uid BETWEEN ? AND ? AND serial = 1", span
            ).fetchone()[0]
            found: dict[int, list[int]] = {}
            for route, priority in db.execute(
                "SELECT DISTINCT route, priority FROM units WHERE uid BETWEEN ? AND ? ORDER BY 1, 2 DESC",
                span,
            ):
                found.setdefault(route, []).append(priority)
            for route, priorities in found.items():
                db.execute(self._sql["set_priorities"], (_json(priorities), route))
            db.execute(self._sql["seal_job"], (total, serial, _json(models), digest, job))

    def forget(self, job: int) -> None:
        span = _span(job)
        with self._transaction() as db:
            for name in _FORGET_UNITS:
                db.execute(self._sql[name], span)
            for name in _FORGET_JOB:
                db.execute(self._sql[name], (job,))

    # -- looking ---------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        return self._jobs("jobs")

    def job(self, name: str) -> Job | None:
        found = self._jobs("job_named", name)
        return found[0] if found else None

    def _jobs(self, query: str, *values: Any) -> list[Job]:
        return [_job(row) for row in self._file.mappings(query, *values)]

    def routes(self, job: int) -> list[Route]:
        return [
            Route(provider, kind, model, number, tuple(msgspec.json.decode(priorities)))
            for number, provider, kind, model, priorities in self._rows("routes", job)
        ]

    def index_of(self, job: int, custom_id: str) -> int | None:
        row = self._row("index_of", job, custom_id)
        return None if row is None else int(row[0])

    def found(self, job: int, custom_ids: list[str]) -> list[Result]:
        return [Result(*row) for row in self._rows("found", job, _json(custom_ids))]

    def results(self, job: int, after: int, limit: int) -> list[Result]:
        base = job << SHIFT
        return [Result(*row) for row in self._rows("results", base + after, base + LOWER, limit)]

    def first_unended(self, job: int) -> int | None:
        found: int | None = self._row("first_unended", *_span(job))[0]
        return found

    def attempts(self, job: int, index: int) -> list[Told]:
        return [_told(row) for row in self._rows("attempts_of", (job << SHIFT) + index)]

    def request(self, job: int, index: int) -> tuple[str, bytes]:
        path, body = self._row("request", (job << SHIFT) + index)
        return path, body

    def requests(self, job: int, indexes: list[int]) -> list[tuple[int, str, bytes]]:
        base = job << SHIFT
        return self._rows("requests", _json([base + index for index in indexes]))

    def repairs_of(self, job: int, index: int) -> list[Repair]:
        return [Repair(*row) for row in self._rows("repairs_of", (job << SHIFT) + index)]

    def notes_of(self, job: int, index: int) -> dict[int, Any]:
        rows = self._rows("notes_of", (job << SHIFT) + index)
        return {number: msgspec.json.decode(note) for number, note in rows}

    def failures(self, job: int) -> list[tuple[str, int, int, str]]:
        return [
            (code or "", n, first, message or "")
            for code, n, first, message in self._rows("failures", *_span(job))
        ]

    def per_lane(self, job: int) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        names = {route.id: route.name for route in self.routes(job)}
        for route, status, count in self._rows("per_route", *_span(job)):
            found.setdefault(names[route], {})[status] = count
        return found

    def use_by_route(self, job: int) -> dict[int, Use]:
        return {number: Use(*sums) for number, *sums in self._rows("use_by_route", job)}

    def use_by_lane(self) -> dict[int, Use]:
        return {number: Use(*sums) for number, *sums in self._rows("use_by_lane")}

    def failed(self, job: int) -> list[int]:
        return [index for (index,) in self._rows("failed", *_span(job))]

    def events(self, job: int, after: int = 0) -> list[Event]:
        return [
            Event(at_utc, lane, what, text, until_utc, number)
            for number, at_utc, lane, what, text, until_utc in self._rows("events", job, after)
        ]

    def lanes(self) -> list[Lane]:
        return [
            Lane(number, key, name, _bytes(record), _bytes(view), updated_utc)
            for number, key, name, record, view, updated_utc in self._rows("lanes")
        ]

    def families(self, provider: str, model: str) -> list[tuple[int, Family]]:
        return [
            (job, Family(route, number, shape, bool(firm), rows, tuple(msgspec.json.decode(words))))
            for job, route, number, shape, firm, rows, words in self._rows("families", provider, model)
        ]

    def lessons(
        self, provider: str, model: str, most: int, routes: Collection[int] | None = None
    ) -> list[Lesson]:
        found: list[Lesson] = []
        for (route,) in self._rows("routes_taken", provider, model):
            if routes is None or route in routes:
                found += (Lesson(*row) for row in self._rows("lessons", route, most - len(found)))
        return found

    def workers(self, job: int) -> list[dict[str, Any]]:
        names = ("id", "name", "pid", "status", "started_utc", "ended_utc")
        return [dict(zip(names, row, strict=True)) for row in self._rows("workers", job)]

    # -- running -----------------------------------------------------------------------------------------------

    def unknown(self, job: int) -> list[Unknown]:
        return [
            Unknown(index, custom_id, status == Status.RUNNING, *rest)
            for index, custom_id, status, *rest in self._rows("unknown_outcomes", *_span(job))
        ]

    def begin(
        self, job: int, settings: dict[str, Any], out: str, utc: float, *, only_failed: bool = False
    ) -> int:
        from os import getpid
        from platform import node

        span = _span(job)
        with self._transaction() as db:
            db.execute(self._sql["add_lost_attempts"], span)
            db.execute(self._sql["count_lost"], span)
            db.execute(self._sql["reopen_failed" if only_failed else "reopen"], span)
            counts: dict[str, int] = dict(db.execute(self._sql["count_statuses"], span))
            ends = {str(status): counts.get(status, 0) for status in COUNTED}
            db.execute(self._sql["set_counts"], {"job": job, **ends})
            db.execute(self._sql["drop_commands"], (utc, job))
            db.execute(self._sql["end_lost_workers"], (utc, job))
            worker = db.execute(self._sql["add_worker"], (job, node(), getpid(), "busy", utc)).lastrowid
            run = {"job": job, "utc": utc, "settings": _json(settings), "out": out, "worker": worker}
            db.execute(self._sql["begin_run"], run)
        assert worker is not None
        return worker

    def _must_be_ours(self, db: sqlite3.Connection, job: int, worker: int) -> None:
        """Within a transaction: the run of `worker` is still the job's."""
        if db.execute(self._sql["worker_of"], (job,)).fetchone() != (worker,):
            raise taken_over(*(db.execute(self._sql["owner_of"], (job,)).fetchone() or ("", None, None)))

    def add_worker(self, job: int, name: str, utc: float) -> int:
        from os import getpid

        with self._transaction() as db:
            worker = db.execute(self._sql["add_worker"], (job, name, getpid(), "idle", utc)).lastrowid
        assert worker is not None
        return worker

    def open_repairs(self, job: int) -> list[Repair]:
        return [Repair(*row) for row in self._rows("open_repairs", *_span(job))]

    def pending(self, job: int) -> dict[int, int]:
        return dict(self._rows("open_per_route", *_span(job)))

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]:
        rows = self._rows("next_of_route", route, priority, (job << SHIFT) + after, limit)
        return [
            Pending(index, chars, max_tokens, priority, route, attempts, family)
            for index, chars, max_tokens, priority, attempts, family in rows
        ]

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        first, last = _span(job)
        return [Pending(*row) for row in self._rows("next_serial", first + after, last, every, limit)]

    def lane(self, key: str, name: str) -> Lane:
        with self._transaction() as db:
            db.execute(self._sql["add_lane"], (key, name))
            number, record, view, updated_utc = db.execute(self._sql["lane_named"], (key,)).fetchone()
        return Lane(number, key, name, _bytes(record), _bytes(view), updated_utc)

    def keep_lane(self, lane: int, record: bytes, view: bytes, utc: float) -> None:
        with self._transaction() as db:
            db.execute(self._sql["set_lane"], (record.decode(), view.decode(), utc, lane))

    def starts_since(self, utc: float) -> list[Start]:
        """Backwards from the latest attempt: whatever ended before `utc` began before it as well."""
        found: list[Start] = []
        last: int = self._row("last_attempt")[0]
        while last > 0:
            rows = self._rows("latest_starts", last, STARTS_STEP)
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
            self._commit(batch)
        except sqlite3.IntegrityError as error:
            if "CHECK" in str(error):
                raise uncountable(batch.job) from error
            raise

    def _commit(self, batch: Batch) -> None:
        base = batch.job << SHIFT
        sql = self._sql
        with self._transaction() as db:
            if batch.worker is not None:
                self._must_be_ours(db, batch.job, batch.worker)
            intents = batch.intents
            if batch.added:
                intents = self._commit_added(db, batch)
            if batch.reopened:
                self._commit_reopened(db, batch)
            if batch.attempts:
                attempts = [_attempt_row(base, batch.worker, attempt) for attempt in batch.attempts]
                each(db, sql["add_attempt"], attempts)
            if batch.released:
                db.executemany(sql["release"], [(base + index,) for index in batch.released])
            if batch.units:
                changes = [(*_values(change), base + index) for index, change in batch.units]
                each(db, sql["change_unit"], changes)
            if batch.answers:
                each(db, sql["add_answer"], [(base + index, *rest) for index, *rest in batch.answers])
            if intents:
                db.executemany(sql["intend"], [(lane, base + index) for index, lane in intents.items()])
            if batch.running:
                db.executemany(
                    sql["note_running"], [(utc, base + index) for index, utc in batch.running.items()]
                )
            if batch.caching:
                keep(db, sql, batch)
            self._commit_rest(db, batch)

    def _commit_added(self, db: sqlite3.Connection, batch: Batch) -> dict[int, int]:
        """Units that are new, with the intents that there are for them already; the intents that are left."""
        first, last = batch.added[0][0], batch.added[-1][0]
        units, intents = [unit for _, unit in batch.added], batch.intents
        lanes = [intents.get(index) for index in range(first, last + 1)] if intents else ()
        self._add_units(db, (batch.job << SHIFT) + first, units, lanes)
        db.execute(self._sql["set_total"], (last + 1, batch.job))
        return {index: lane for index, lane in intents.items() if index < first}

    def _commit_reopened(self, db: sqlite3.Connection, batch: Batch) -> None:
        base, sql = batch.job << SHIFT, self._sql
        uids = [base + index for index in batch.reopened]
        for status, n in db.execute(sql["count_reopened"], (_json(uids),)).fetchall():
            batch.count(status, -n)
        db.executemany(sql["reopen_unit"], [(uid,) for uid in uids])
        requests = [(body, base + index) for index, body in batch.reopened.items() if body is not None]
        db.executemany(sql["set_request"], requests)

    def _commit_rest(self, db: sqlite3.Connection, batch: Batch) -> None:
        """What comes once in a while, and the counters."""
        sql = self._sql
        for repair in batch.repairs:
            self._commit_repair(db, (batch.job << SHIFT) + repair.index, repair)
        for index, number, note in batch.notes:
            db.execute(sql["add_note"], ((batch.job << SHIFT) + index, number, note.decode()))
        for event in batch.events:
            row = (batch.job, event.at_utc, event.lane, event.what, event.text, event.until_utc)
            db.execute(sql["add_event"], row)
        for lane, (record, view, utc) in batch.lanes.items():
            db.execute(sql["set_lane"], (record.decode(), view.decode(), utc, lane))
        for lane, (claim, utc) in batch.claims.items():
            db.execute(sql["claim"], (lane, batch.job, claim.decode(), utc))
        for worker, (status, utc_ended) in batch.workers.items():
            db.execute(sql["set_worker"], (status, utc_ended, worker))
        for command, utc in batch.done_commands:
            db.execute(sql["end_command"], (utc, command))
        if batch.uses:
            db.executemany(
                sql["add_use"], [(route, batch.job, *_values(use)) for route, use in batch.uses.items()]
            )
        if batch.counts or batch.uses:
            totals = batch.totals()
            counts = {name: totals.get(name, 0) for name in _COUNTERS}
            db.execute(sql["count_up"], {"job": batch.job, **counts})
        if batch.state is not None:
            state, finished_utc = batch.state
            db.execute(sql["set_state"], {"job": batch.job, "state": state, "finished_utc": finished_utc})

    def _commit_repair(self, db: sqlite3.Connection, uid: int, repair: Repair) -> None:
        db.execute(self._sql["close_repairs"], (uid,))
        if repair.answer is not None:
            is_open = repair.request is not None
            row = (uid, repair.number, repair.answer, repair.request, repair.more_chars, is_open)
            db.execute(self._sql["add_repair"], row)

    def end_run(
        self, job: int, worker: int, state: State, utc: float, unfinished: dict[str, tuple[str, str]]
    ) -> None:
        with self._transaction() as db:
            self._must_be_ours(db, job, worker)
            db.execute(self._sql["put_back"], _span(job))
            end = {"job": job, "state": state, "finished_utc": utc, "unfinished": _json(unfinished)}
            db.execute(self._sql["end_run"], end)
            db.execute(self._sql["set_worker"], ("terminated", utc, worker))
            db.execute(self._sql["forget_claims"], (job,))

    def claims(self, job: int, since_utc: float, until_utc: float) -> list[Claimed]:
        rows = self._rows("claims", job, since_utc, until_utc)
        return [Claimed(lane, name, claim.encode()) for lane, name, claim in rows]

    # -- commands ------------------------------------------------------------------------------------------------

    def ask(self, job: int, what: str, args: dict[str, Any], utc: float) -> int:
        with self._transaction() as db:
            number = db.execute(self._sql["add_command"], (job, utc, what, _json(args))).lastrowid
        assert number is not None
        return number

    def asked(self, job: int) -> list[Asked]:
        rows = self._rows("open_commands", job)
        return [Asked(number, what, msgspec.json.decode(args)) for number, what, args in rows]


# -- rows --------------------------------------------------------------------------------------------------------


def _job(row: dict[str, Any]) -> Job:
    counts = {str(status): row.pop(status) for status in COUNTED}
    models = msgspec.json.decode(row.pop("models"), type=dict[str, tuple[str, str, str]])
    settings = msgspec.json.decode(row.pop("settings"))
    unfinished = msgspec.json.decode(row.pop("unfinished"), type=dict[str, tuple[str, str]])
    form = msgspec.json.decode(row.pop("form", "{}"))
    del row["worker"]
    return Job(**row, counts=counts, models=models, settings=settings, unfinished=unfinished, form=form)


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
