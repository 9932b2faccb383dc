"""The SQLite store: the standard library's module, WAL, `synchronous=FULL`, SQL in files.

Owns the connection and turns SQLite's errors into `StoreError`s that say what to do. One object a thread.
Statements are in files (`statements` reads them). The schema's steps are applied forward when a store is opened, each in a
transaction of its own together with the version it makes.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from headway.core.status import Status
from headway.errors import DuplicateId, NoRecords, StoreError
from headway.stores.batch import Batch
from headway.stores.records import (
    COUNTED,
    USED,
    Asked,
    Attempt,
    Event,
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
from headway.stores.statements import each
from headway.stores.statements import migrations as migrations
from headway.stores.statements import queries as queries
from headway.stores.statements import statements as statements

#: How long a writer waits for another process's transaction before it calls the database locked.
BUSY_S: Final = 10.0
#: How often it looks again where SQLite does not wait by itself.
WAL_STEP_S: Final = 0.005
CACHE_KB: Final = 4_000
#: Pages in the write-ahead log before it is folded back: 32 MB, so that a checkpoint is rare and a burst fits.
CHECKPOINT_PAGES: Final = 8_000
#: The version of the schema that has repairs.
REPAIRS_SINCE: Final = 2
#: And the one that has notes.
NOTES_SINCE: Final = 5
#: Attempts that one step back in time reads.
STARTS_STEP: Final = 2_000

_COUNTERS: Final = (*COUNTED, *USED)

#: What is removed with a job: of its units (what points to answers before the answers), and of itself.
_FORGET_UNITS: Final = (
    "forget_hits", "forget_keys", "forget_followers", "forget_answers", "forget_attempts", "forget_repairs", "forget_notes",
    "forget_requests", "forget_units",
)  # fmt: skip
_FORGET_JOB: Final = (
    "forget_keyed", "forget_uses", "forget_routes", "forget_events", "forget_workers", "forget_commands", "forget_job",
)  # fmt: skip


class SqliteStore:
    """Records in one file."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self._sql = queries()
        with _explained(path):
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            elif not path.exists():
                raise NoRecords(f"there is no database at {path}", hint="'headway run FILE' makes one")
            if path.is_dir():
                raise StoreError(f"{path} is a directory", hint="name a file with --db")
            self._db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self.cache = SqliteCache(self._sql, self._rows, self._transaction)
            try:
                self._prepare(read_only)
            except BaseException:
                self._db.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    # -- the file ------------------------------------------------------------------------------------------

    def probe(self) -> tuple[int, int]:
        """The schema's version and the newest that is known. Raises where the file may not be written; writes nothing."""
        reading = self._db.execute("PRAGMA query_only").fetchone()[0]
        self._db.execute("PRAGMA query_only = 0")
        try:
            with self._transaction():
                return self._check_version(), len(migrations())
        finally:
            self._db.execute(f"PRAGMA query_only = {reading}")

    @property
    def outdated(self) -> bool:
        """Whether it was written by an older Headway and only looked at since."""
        return 0 < self._check_version() < len(migrations())

    def _prepare(self, read_only: bool) -> None:
        db = self._db
        db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
        version = self._check_version()
        if read_only:
            if 0 < version < len(migrations()):
                self._migrate()  # An older Headway wrote it: whoever looks needs the present tables, too.
            db.execute("PRAGMA query_only = 1")
            return
        self._use_wal()
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        self._migrate()

    def _use_wal(self) -> None:
        """Two that open a new file at once both want to change its mode, and SQLite refuses one without a wait."""
        give_up_at = time.monotonic() + BUSY_S
        while self._db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() >= give_up_at:
                    raise
                time.sleep(WAL_STEP_S)

    def _check_version(self) -> int:
        """The schema's version. A file with tables but no version is somebody else's: it stays as it is."""
        version: int
        version, tables = self._db.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        newest = len(migrations())
        if version == 0 and tables:
            raise StoreError(
                f"{self.path} is not a Headway database",
                hint="name another one with --db, or move this file away",
            )
        if version > newest:
            raise StoreError(
                f"{self.path} was written by a newer Headway (schema {version}, this one knows {newest})",
                hint="upgrade headway",
            )
        return version

    def _migrate(self) -> None:
        """Apply what is missing. Two processes may open a new file at once: the second finds the work done."""
        known = migrations()
        while (version := self._check_version()) < len(known):
            with self._transaction():
                if self._check_version() == version:
                    for statement in statements(known[version]):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {version + 1}")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        db = self._db
        with _explained(self.path):
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def _rows(self, name: str, *values: Any) -> list[Any]:
        with _explained(self.path):
            return self._db.execute(self._sql[name], values).fetchall()

    def _row(self, name: str, *values: Any) -> Any:
        rows = self._rows(name, *values)
        return rows[0] if rows else None

    def salt(self) -> bytes:
        rows = self._rows("salt")
        if not rows:
            with self._transaction() as db:
                db.execute("INSERT OR IGNORE INTO meta VALUES ('salt', ?)", (secrets.token_bytes(32),))
            return self.salt()
        return bytes(rows[0][0])

    # -- taking in -------------------------------------------------------------------------------------------

    def add_job(self, job: NewJob) -> int:
        try:
            with self._transaction() as db:
                number = db.execute(
                    self._sql["add_job"], {**msgspec.structs.asdict(job), "form": _json(job.form)}
                ).lastrowid
        except sqlite3.IntegrityError:
            raise StoreError(f"there is a job '{job.name}' already") from None
        assert number is not None
        return number

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
            (base + n, unit.custom_id, unit.route, unit.priority, int(unit.serial), unit.chars, unit.max_tokens, lane)
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
        with _explained(self.path):
            cursor = self._db.execute(self._sql[query], values)
            names = [column[0] for column in cursor.description]
            return [_job(dict(zip(names, row, strict=True))) for row in cursor]

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
        if self._check_version() < REPAIRS_SINCE:
            return []  # Opened for reading by a newer Headway than the last one that wrote.
        return [Repair(*row) for row in self._rows("repairs_of", (job << SHIFT) + index)]

    def notes_of(self, job: int, index: int) -> dict[int, Any]:
        if self._check_version() < NOTES_SINCE:
            return {}
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

    def lessons(self, provider: str, model: str, most: int) -> list[Lesson]:
        found: list[Lesson] = []
        for (route,) in self._rows("routes_taken", provider, model):
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
            db.execute(
                self._sql["begin_run"], {"job": job, "utc": utc, "settings": _json(settings), "out": out}
            )
            db.execute(self._sql["drop_commands"], (utc, job))
            db.execute(self._sql["end_lost_workers"], (utc, job))
            worker = db.execute(self._sql["add_worker"], (job, node(), getpid(), "busy", utc)).lastrowid
        assert worker is not None
        return worker

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
            Pending(index, chars, max_tokens, priority, route, attempts)
            for index, chars, max_tokens, priority, attempts in rows
        ]

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        first, last = _span(job)
        return [Pending(*row) for row in self._rows("next_serial", first + after, last, every, limit)]

    def lane(self, key: str, name: str) -> Lane:
        with self._transaction() as db:
            db.execute(self._sql["add_lane"], (key, name))
            number, record, view, updated_utc = db.execute(self._sql["lane_named"], (key,)).fetchone()
        return Lane(number, key, name, _bytes(record), _bytes(view), updated_utc)

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
        base = batch.job << SHIFT
        sql = self._sql
        with self._transaction() as db:
            intents = batch.intents
            if batch.added:
                intents = self._commit_added(db, batch)
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
            db.execute(self._sql["put_back"], _span(job))
            end = {"job": job, "state": state, "finished_utc": utc, "unfinished": _json(unfinished)}
            db.execute(self._sql["end_run"], end)
            db.execute(self._sql["set_worker"], ("terminated", utc, worker))

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


# -- errors ------------------------------------------------------------------------------------------------------


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors as sentences for people."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.Error as error:
        raise _explanation(path, error) from error
    except OSError as error:
        raise StoreError(
            f"{path} cannot be made: {(error.strerror or str(error)).lower()}",
            hint="name another place with --db",
        ) from error


def _explanation(path: Path, error: sqlite3.Error) -> StoreError:
    text = str(error)
    for part, message, hint in _EXPLANATIONS:
        if part in text:
            return StoreError(message.format(path=path), hint=hint)
    return StoreError(f"{path}: {text}")


_EXPLANATIONS: Final = (
    (
        "disk is full",
        "no space is left for {path}",
        "free some, then go on with 'headway resume'; what was committed is safe",
    ),
    (
        "disk I/O error",
        "{path} cannot be read or written: disk I/O error",
        "check the disk; what was committed is safe",
    ),
    (
        "database is locked",
        "{path} is locked by another program",
        "close whatever has it open, then try again",
    ),
    ("malformed", "{path} is damaged", "restore a copy, or move it away to start over"),
    ("decode to UTF-8", "{path} is damaged", "restore a copy, or move it away to start over"),
    (
        "not a database",
        "{path} is not a Headway database",
        "name another one with --db, or move this file away",
    ),
    (
        "readonly database",
        "{path} may not be written",
        "check its permissions, or name another place with --db",
    ),
    (
        "unable to open",
        "{path} cannot be opened",
        "check that its directory exists and may be written, or use --db",
    ),
    ("no such table", "{path} is not a Headway database", "name another one with --db"),
)
