"""The store: all rules about the records, over any database that implements `database.Database`.

Everything here is synchronous. A store belongs to one thread; several stores may be open on the same records. The engine reads through
one and writes through another that a `Writer` owns, a `WriteBatch` at a time: a batch is one transaction. The
statements are in `queries.sql`, recording a batch is in `commit`, answers by request in `cache`, rows and records in `rows`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from headway.core.reasons import EndReason
from headway.core.unit_states import GOOD, Status
from headway.errors import DuplicateId, StoreAway, StoreError
from headway.stores.answer_cache import AnswerCache, answer_added
from headway.stores.attempt_figures import AttemptFigures
from headway.stores.claims import Claims
from headway.stores.commit import add_units, check_owner, record, run_again
from headway.stores.database import CheckFailed, Database, DuplicateKey, Values
from headway.stores.lane_tally import LaneTally
from headway.stores.records import (
    COUNTED,
    AttemptView,
    ControlRequest,
    EndedUnit,
    Family,
    Job,
    JobEvent,
    LabelledUnit,
    LatencyFigures,
    NewAttachment,
    NewJob,
    NewUnit,
    NodeEvent,
    NodeExecutions,
    PastAttempt,
    PendingUnit,
    ProgramRun,
    RecordedStart,
    Repair,
    RouteTimes,
    RouteUnits,
    RunningAttempt,
    State,
    StoredAttachment,
    StoredEdge,
    StoredLane,
    StoredRoute,
    StoredSession,
    TranscriptLine,
    TurnTotals,
    UnitEndRow,
    UnitResult,
    UnitSize,
    UnknownOutcome,
    UsageSample,
    UsageTotals,
)
from headway.stores.row_conversion import (
    attempt_of,
    family_of,
    family_row,
    job_of,
    json_of,
    lane_of,
    pending_units,
    span,
    uid,
)
from headway.stores.samples import FORGET_SAMPLES, Samples
from headway.stores.unchanged_rows import UnchangedRows
from headway.stores.unit_lists import UnitLists
from headway.stores.write_batch import Grow, GrownUnits, WriteBatch, counters_contradicted

#: Attempts that are read at once when going back in time.
STARTS_STEP: Final = 2_000

#: The most bytes of requests that are added in one transaction: they are in memory until then.
CHUNK_BYTES: Final = 16_000_000

#: Ended units that may add units to their job in one transaction, and units that are added until another transaction follows.
GROWTH_PAGE: Final = 1_000

#: The events of a run's beginning and end, and of a process that died. Displays show these in their own way.
BEGAN: Final = "began"
ENDED: Final = "ended"
LOST: Final = "lost"

#: The statements that remove a job: of its units (pointers to answers before the answers), and of the job itself.
_FORGET_UNITS: Final = (
    "forget_hits", "forget_keys", "forget_followers", "forget_answers", "forget_attempts", "forget_repairs", "forget_notes",
    "forget_transcripts", "forget_rendered", "forget_edges", "forget_requests", "forget_units",
)  # fmt: skip
_FORGET_JOB: Final = (
    "forget_keyed", "forget_uses", "forget_families", "forget_routes", "forget_events", "forget_workers", "forget_commands", "forget_claims", "forget_claimants",
    "forget_attachments", "forget_attachment_uses", "forget_values", "forget_node_events", *FORGET_SAMPLES, "forget_job",
)  # fmt: skip


class Store:
    """The records, as one thread sees them."""

    def __init__(self, db: Database) -> None:
        self._db = db
        #: Routes and priorities of units that were added while their job ran.
        self._priorities: set[tuple[int, int]] = set()
        #: Answers by request.
        self.cache = AnswerCache(db)
        #: Answers of an earlier version of an input.
        self.unchanged = UnchangedRows(db)
        #: Attempts as figures, for reports.
        self.attempt_figures = AttemptFigures(db)
        #: What jobs and clients want of lanes.
        self.claims = Claims(db)
        #: How jobs went over time.
        self.samples = Samples(db)
        self.tally = LaneTally(db)
        #: Units in lists.
        self.lists = UnitLists(db)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def clock_ahead_s(self) -> float:
        """How far the clock of the store is ahead of this machine's. A file has no clock of its own."""
        asked_utc = time.time()
        [(utc,)] = self._db.execute("clock_utc")
        return 0.0 if utc is None else float(utc) - (asked_utc + time.time()) / 2.0

    def description(self) -> str:
        """The database, its version and its schema, for people."""
        return self._db.description()

    def salt(self) -> bytes:
        """The secret of this store. Hashes of accounts made with it can only be compared within this store."""
        rows = self._db.execute("salt")
        if not rows and self._db.read_only:
            return secrets.token_bytes(32)  # No account was ever hashed here.
        if not rows:
            with self._db.transaction():
                self._db.execute("add_salt", (secrets.token_bytes(32),))
            return self.salt()
        return bytes(rows[0][0])

    def one_commit(self) -> AbstractContextManager[None]:
        """Everything that is written in the block is one transaction, and one write to the disk. An exception undoes all of it."""
        return self._db.transaction()

    # -- ingest ---------------------------------------------------------------------------------------------

    def add_job(self, job: NewJob) -> int:
        """Add a job in the state `ingesting`; returns its number. StoreError if the name is taken."""
        try:
            with self._db.transaction():
                return self._add_job(job)
        except DuplicateKey:
            raise StoreError(f"a job '{job.name}' already exists") from None

    def _add_job(self, job: NewJob) -> int:
        return self._number("add_job", {**msgspec.structs.asdict(job), "form": json_of(job.form)})

    def _number(self, name: str, values: Values) -> int:
        """Run a statement that returns one number, such as the id of a new row."""
        number: int = self._db.execute(name, values)[0][0]
        return number

    def find_or_add(self, job: NewJob, is_same: Callable[[Job], bool]) -> tuple[Job, bool]:
        """The newest job that `is_same` accepts, or else `job` as a new job; and whether it is new.

        One transaction: if several processes call this at once, one adds the job and the others find it. `is_same` is called
        for every job, including those that are `ingesting`. A new job gets `job.name`, or the first free name of NAME-2,
        NAME-3 …
        """
        with self._db.transaction():
            jobs = self.jobs()
            existing = next(filter(is_same, jobs), None)
            if existing is not None:
                return existing, False
            name = free_name(job.name, {one.name for one in jobs})
            self._add_job(msgspec.structs.replace(job, name=name))
            added = self.job(name)
        assert added is not None
        return added, True

    def add_route(self, job: int, route: StoredRoute) -> int:
        """Add a provider and model that units are sent to, under a label; returns its number. Adding it again returns the same
        number.
        """
        with self._db.transaction():
            self._db.execute("add_route", (job, route.provider, route.kind, route.model, route.label))
            return self._number("route_to", (job, route.provider, route.model, route.label))

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        """Add units, the first of them with index `first`, in one transaction. DuplicateId names a repeated id."""
        if any(unit.source is not None for unit in units):
            raise StoreError("a unit with the answer of another one can only be added while its job runs")
        try:
            with self._db.transaction():
                add_units(self._db, job, first, units)
        except DuplicateKey:
            raise DuplicateId(self._first_duplicate(job, units)) from None

    def _first_duplicate(self, job: int, units: Sequence[NewUnit]) -> str:
        seen: set[str] = set()
        for unit in units:
            if unit.custom_id in seen or self.index_of(job, unit.custom_id) is not None:
                return unit.custom_id
            seen.add(unit.custom_id)
        raise AssertionError("no id occurs twice")

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        """Add the families of the job's units."""
        with self._db.transaction():
            self._db.executemany("add_family", [family_row(family) for family in families])

    def add_attachments(self, job: int, files: Sequence[NewAttachment]) -> None:
        """Add files that the requests of a job refer to by their digests, in one transaction. A file that is here already is not
        read, and only noted as used by this job.
        """
        with self._db.transaction():
            for file, content in files:
                digest = bytes.fromhex(file.digest)
                if not self._number("has_attachment", (digest,)):
                    row = (digest, file.type, file.width, file.height, file.pages, file.size, content())
                    self._db.execute("add_attachment", row)
                self._db.execute("use_attachment", (job, digest))

    def add_values(self, job: int, name: str, first: int, values: Sequence[bytes]) -> None:
        """Add values to a list that the job's kind keeps, from the place `first` on, in one transaction. They replace those that are
        there.
        """
        with self._db.transaction():
            rows = [(job, name, place, value) for place, value in enumerate(values, first)]
            self._db.executemany("set_value", rows)

    def set_value(self, job: int, name: str, n: int, value: bytes) -> None:
        """Set one value of a list."""
        self.add_values(job, name, n, (value,))

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        """Mark the input as complete: the job may run."""
        with self._db.transaction():
            serial = self._number("count_serial", span(job))
            priorities: dict[int, list[int]] = {}
            for route, priority in self._db.execute("priorities_by_route", span(job)):
                priorities.setdefault(route, []).append(priority)
            for route, its_priorities in priorities.items():
                self._db.execute("set_priorities", (json_of(its_priorities), route))
            self._db.execute("seal_job", (total, serial, json_of(models), digest, job))

    def forget(self, job: int) -> None:
        """Remove a job and its records. Answers that the cache or other jobs point to stay."""
        with self._db.transaction():
            for name in _FORGET_UNITS:
                self._db.execute(name, span(job))
            for name in _FORGET_JOB:
                self._db.execute(name, (job,))

    # -- reading ---------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        """All jobs, the newest first."""
        return [job_of(row) for row in self._db.execute("jobs")]

    def jobs_in(self, states: Iterable[str]) -> list[Job]:
        """The jobs in these states, the newest first."""
        return [job_of(row) for row in self._db.execute("jobs_in", (json_of(sorted(states)),))]

    def job_by_id(self, number: int) -> Job | None:
        """A job by its number."""
        rows = self._db.execute("job_numbered", (number,))
        return job_of(rows[0]) if rows else None

    def job(self, name: str) -> Job | None:
        """A job by its name."""
        rows = self._db.execute("job_named", (name,))
        return job_of(rows[0]) if rows else None

    def run_starts(self) -> dict[int, float]:
        """When the latest run of each job began, by the job's number. A job that was never run has the time of its creation."""
        return dict(self._db.execute("run_starts"))

    def run_starts_among(self, jobs: Iterable[int]) -> dict[int, float]:
        """The same for these jobs."""
        return dict(self._db.execute("run_starts_among", (json_of(list(jobs)),)))

    def routes(self, job: int) -> list[StoredRoute]:
        """The routes of the job's units."""
        return [
            StoredRoute(provider, kind, model, number, tuple(msgspec.json.decode(priorities)), label)
            for number, provider, kind, model, priorities, label in self._db.execute("routes", (job,))
        ]

    def index_of(self, job: int, custom_id: str) -> int | None:
        """The index of the unit with this id."""
        rows = self._db.execute("index_of", (job, custom_id))
        return rows[0][0] if rows else None

    def results_by_id(self, job: int, custom_ids: list[str]) -> list[UnitResult]:
        """The units with these ids, in no order. Unknown ids are left out."""
        return [UnitResult(*row) for row in self._db.execute("results_by_id", (job, json_of(custom_ids)))]

    def results(self, job: int, after: int, limit: int) -> list[UnitResult]:
        """Units with an index above `after` (-1: from the first), by index."""
        first, last = span(job)
        return [UnitResult(*row) for row in self._db.execute("results", (first + after, last, limit))]

    def unit_ends(self, job: int, after: int, limit: int) -> list[UnitEndRow]:
        """Units that have ended, with an index above `after` (-1: from the first), by index."""
        first, last = span(job)
        return [UnitEndRow(*row) for row in self._db.execute("unit_ends", (first + after, last, limit))]

    def unit_ends_among(self, job: int, indexes: Iterable[int]) -> list[UnitEndRow]:
        """Those of these units that have ended, in no order."""
        uids = json_of([uid(job, index) for index in indexes])
        return [UnitEndRow(*row) for row in self._db.execute("unit_ends_among", (uids,))]

    def first_unended(self, job: int, first: int = 0) -> int | None:
        """The first unit that has not ended, from the index `first` on; None: all have ended."""
        index: int | None = self._db.execute("first_unended", (uid(job, first), span(job)[1]))[0][0]
        return index

    def attempts(self, job: int, index: int) -> list[AttemptView]:
        """Every attempt at a unit."""
        return [attempt_of(row) for row in self._db.execute("attempts_of", (uid(job, index),))]

    def has_edges(self, job: int) -> bool:
        """Whether any unit of the job waits for another one."""
        return bool(self._number("has_edges", span(job)))

    def edges(self, job: int, indexes: list[int]) -> list[StoredEdge]:
        """The edges of these units, by unit."""
        rows = self._db.execute("edges_of", (json_of([uid(job, index) for index in indexes]),))
        return [StoredEdge(*row) for row in rows]

    def upstream_of(self, job: int, index: int) -> list[tuple[str, str, float | None]]:
        """(id, status, when it ended) of the units that a unit waits for."""
        return self._db.execute("upstream_units", (uid(job, index),))

    def created_utc(self, job: int, index: int) -> float | None:
        """When a unit was added to its job, if that ran already; None: together with the job."""
        utc: float | None = self._db.execute("unit_created", (uid(job, index),))[0][0]
        return utc

    def depended_on(self, job: int, indexes: list[int]) -> set[int]:
        """The units of `indexes` for which other units wait."""
        rows = self._db.execute("depended_on", (json_of([uid(job, index) for index in indexes]),))
        return {index for (index,) in rows}

    def answer(self, job: int, index: int) -> bytes | None:
        """The body of a unit's answer, also if it is the answer of another unit."""
        rows = self._db.execute("answer", (uid(job, index),))
        return rows[0][0] if rows else None

    def answers(self, job: int, indexes: Iterable[int]) -> dict[int, bytes]:
        """The answers of several units, by index. Units without an answer are left out."""
        uids = json_of([uid(job, index) for index in indexes])
        return dict(self._db.execute("answers_among", (uids,)))

    def answers_by_id(self, job: int, custom_ids: Sequence[str]) -> dict[str, bytes]:
        """The answers of the units with these ids. Units without an answer are left out."""
        return dict(self._db.execute("answers_by_id", (json_of(list(custom_ids)), job)))

    def request(self, job: int, index: int) -> tuple[str, bytes]:
        """The path and body of a unit's request: as it was sent, or as its row has it if it was not sent yet."""
        request: tuple[str, bytes] = self._db.execute("request", (uid(job, index),))[0]
        return request

    def requests(self, job: int, indexes: list[int]) -> list[tuple[int, str, bytes]]:
        """(index, path, body) of several units, as their rows have them, in no order."""
        base = uid(job, 0)
        return self._db.execute("requests", (json_of([base + index for index in indexes]),))

    def has_attachments(self, job: int) -> bool:
        """Whether any request of the job refers to a file."""
        return bool(self._number("has_attachments", (job,)))

    def attachment(self, job: int, digest: str) -> bytes | None:
        """The content of a file that the job uses."""
        rows = self._db.execute("attachment_data", (job, bytes.fromhex(digest)))
        return rows[0][0] if rows else None

    def attachments(self, job: int, digests: Iterable[str]) -> list[StoredAttachment]:
        """The files with these digests that the job uses, without their content."""
        found = (
            (digest, self._db.execute("attachment_facts", (job, bytes.fromhex(digest)))) for digest in digests
        )
        return [StoredAttachment(digest, *rows[0]) for digest, rows in found if rows]

    def values(self, job: int, name: str, first: int, limit: int) -> list[bytes]:
        """The values of a list of the job, from the place `first` on, by place. Places without a value are left out."""
        return [value for (value,) in self._db.execute("values", (job, name, first, limit))]

    def count_values(self, job: int, name: str) -> int:
        """How many values a list of the job has."""
        return self._number("count_values", (job, name))

    def repairs_of(self, job: int, index: int) -> list[Repair]:
        """A unit's answers that did not fit, oldest first."""
        return [Repair(*row) for row in self._db.execute("repairs_of", (uid(job, index),))]

    def first_answers(self, job: int, indexes: Iterable[int]) -> dict[int, bytes]:
        """The first answers of those units whose answer was corrected, by index."""
        uids = json_of([uid(job, index) for index in indexes])
        return dict(self._db.execute("first_answers", (uids,)))

    def notes_of(self, job: int, index: int) -> dict[int, Any]:
        """The notes of a unit's attempts, by attempt number."""
        rows = self._db.execute("notes_of", (uid(job, index),))
        return {number: msgspec.json.decode(note) for number, note in rows}

    def transcript(self, uid: int, after: int = 0, limit: int = -1) -> list[TranscriptLine]:
        """The lines that the attempts at a unit printed, with ids above `after`, oldest first. `uid` is the key of the unit."""
        return [_transcript_line(row) for row in self._db.execute("transcript", (uid, after, limit))]

    def last_transcript(self, uid: int, limit: int) -> list[TranscriptLine]:
        """The last of these lines, oldest first."""
        return [_transcript_line(row) for row in reversed(self._db.execute("last_transcript", (uid, limit)))]

    def session_of(self, job: int, index: int) -> StoredSession | None:
        """The session of the latest attempt at a unit that had one."""
        rows = self._db.execute("session_of", (uid(job, index),))
        if not rows:
            return None
        attempt, session_id, directory, outcome, spoke = rows[0]
        return StoredSession(attempt, session_id, directory, outcome, bool(spoke))

    def custom_id(self, job: int, index: int) -> str:
        """The id of a unit in its input."""
        custom_id: str = self._db.execute("custom_id_of", (uid(job, index),))[0][0]
        return custom_id

    def failures(self, job: int) -> list[tuple[str, int, int, str]]:
        """(code, how many, the first index, its message) of the units that did not succeed, the most frequent first."""
        return self._db.execute("failures", span(job))

    def to_retry(self, job: int) -> list[tuple[str, int, int, str]]:
        """The same of units whose last attempt failed and that wait for another."""
        return self._db.execute("to_retry", span(job))

    def per_lane(self, job: int) -> dict[str, dict[str, int]]:
        """Counts by status, for each provider/model."""
        names = {route.id: route.name for route in self.routes(job)}
        counts: dict[str, dict[str, int]] = {}
        for route, of_route in self.per_route(job).items():
            same_name = counts.setdefault(names[route], {})
            for status, n in of_route.items():
                same_name[status] = same_name.get(status, 0) + n
        return counts

    def per_route(self, job: int) -> dict[int, dict[str, int]]:
        """Counts by status, for each route by its number."""
        counts: dict[int, dict[str, int]] = {}
        for route, status, count in self._db.execute("per_route", span(job)):
            counts.setdefault(route, {})[status] = count
        return counts

    def latencies(self, job: int, routes: Iterable[int]) -> LatencyFigures | None:
        """How long the units of these routes took that succeeded; None if there are none."""
        [(count, mean, median, p95)] = self._db.execute("latencies", (*span(job), json_of(list(routes))))
        return LatencyFigures(count, mean, median, p95) if count else None

    def use_by_route(self, job: int) -> dict[int, UsageTotals]:
        """The totals of the job's attempts, by the route's number."""
        return {number: UsageTotals(*sums) for number, *sums in self._db.execute("use_by_route", (job,))}

    def use_by_lane(self) -> dict[int, UsageTotals]:
        """The totals of the attempts of all jobs, by the number of the lane that their route used last."""
        return {number: UsageTotals(*sums) for number, *sums in self._db.execute("use_by_lane")}

    def failed(self, job: int) -> list[int]:
        """The indices of the units that failed or timed out, and of those that were skipped because of that."""
        if not self.has_edges(job):
            return [index for (index,) in self._db.execute("failed", span(job))]
        blocked: dict[int, bool] = {}
        for index, before, status in self._db.execute("edges_to_retry", span(job)):
            satisfied = before is None or status in GOOD or not blocked.get(before, True)
            blocked[index] = blocked.get(index, False) or not satisfied
        return [index for index, is_blocked in blocked.items() if not is_blocked]

    def events(self, job: int, after: int = 0) -> list[JobEvent]:
        """The events of a job with an id above `after`, oldest first."""
        return [
            JobEvent(at_utc, lane, what, text, until_utc, number)
            for number, at_utc, lane, what, text, until_utc in self._db.execute("events", (job, after))
        ]

    def add_node_events(self, job: int, events: Sequence[NodeEvent]) -> None:
        """Add events of nodes, in order. Inside a transaction they are a part of it."""
        rows = [(job, one.at_utc, one.type, one.node, one.unit, one.data.decode()) for one in events]
        if rows:
            self._db.executemany("add_node_event", rows)

    def node_events(self, job: int, after: int = 0, limit: int = -1) -> list[NodeEvent]:
        """The events of a job's nodes with an id above `after`, oldest first."""
        return [
            NodeEvent(at_utc, kind, node, unit, data.encode(), number)
            for number, at_utc, kind, node, unit, data in self._db.execute("node_events", (job, after, limit))
        ]

    def last_attempt(self) -> int:
        """The number of the latest recorded attempt of any job; 0: none."""
        return self._number("last_attempt", ())

    def last_node_event(self) -> int:
        """The number of the latest event of a node of any flow; 0: none."""
        return self._number("last_node_event", ())

    def node_executions(self, job: int, types: Collection[str]) -> list[NodeExecutions]:
        """How many executions of each node have one of these types as their last event."""
        rows = self._db.execute("node_executions", (job, json_of(list(types))))
        return [NodeExecutions(*row[:-1]) for row in rows]

    def node_spans(self, job: int) -> dict[str, tuple[float, float]]:
        """The first start and the last start or end of each node, by its events."""
        return {node: (first, last) for node, first, last in self._db.execute("node_spans", (job,))}

    def route_units(self, job: int) -> list[RouteUnits]:
        """The units of each route by their status, with the times of their last attempts."""
        return [RouteUnits(*row) for row in self._db.execute("route_units", span(job))]

    def units_of_label(self, job: int, label: str, limit: int) -> list[LabelledUnit]:
        """Units of the routes with this label, those that failed first."""
        return [LabelledUnit(*row) for row in self._db.execute("units_of_label", (job, label, limit))]

    def route_times(self, job: int) -> list[RouteTimes]:
        """The times and the cost of all attempts by the route of their units."""
        return [RouteTimes(*row) for row in self._db.execute("route_times", span(job))]

    def history(self, job: int, after: int, limit: int, index: int | None = None) -> list[PastAttempt]:
        """The attempts of a job, or of one unit, that were recorded after the attempt with the number `after`, oldest first."""
        first, last = span(job) if index is None else (uid(job, index), uid(job, index))
        return [PastAttempt(*row) for row in self._db.execute("history", (first, last, after, limit))]

    def ends_without_attempt(self, job: int, index: int | None = None) -> list[EndedUnit]:
        """Units that ended without success, and not by the end of an attempt."""
        first, last = span(job) if index is None else (uid(job, index), uid(job, index))
        return [EndedUnit(*row) for row in self._db.execute("ends_without_attempt", (first, last))]

    def running(self, job: int, index: int | None = None) -> list[RunningAttempt]:
        """The attempts that are in flight."""
        first, last = span(job) if index is None else (uid(job, index), uid(job, index))
        return [RunningAttempt(*row) for row in self._db.execute("running", (first, last))]

    def running_among(self, job: int, indexes: Iterable[int]) -> list[RunningAttempt]:
        """The attempts at units of `indexes` that are in flight."""
        uids = json_of([uid(job, index) for index in indexes])
        return [RunningAttempt(*row) for row in self._db.execute("running_among", (uids,))]

    def other_ends_among(self, job: int, indexes: Iterable[int]) -> list[EndedUnit]:
        """The units of `indexes` that ended, and not by the end of an attempt."""
        uids = json_of([uid(job, index) for index in indexes])
        return [EndedUnit(*row) for row in self._db.execute("other_ends_among", (uids,))]

    def other_ends_since(self, job: int, utc: float) -> list[EndedUnit]:
        """The units that ended at `utc` or later, and not by the end of an attempt."""
        return [EndedUnit(*row) for row in self._db.execute("other_ends_since", (*span(job), utc))]

    def lanes(self) -> list[StoredLane]:
        """Every lane that any job ever used."""
        return [lane_of(row) for row in self._db.execute("lanes")]

    def families(self, provider: str, model: str) -> list[tuple[int, Family]]:
        """The families of units that were sent to this model, each with the number of its job, the newest job first."""
        rows = self._db.execute("families", (provider, model))
        return [(job, family_of(tuple(row))) for job, *row in rows]

    def usage_samples(
        self, provider: str, model: str, most: int, routes: Collection[int] | None = None
    ) -> list[UsageSample]:
        """The usage of units of all jobs that were sent to this model, the newest job first, up to `most` samples. `routes`: only
        units of these routes.
        """
        samples: list[UsageSample] = []
        for (route,) in self._db.execute("routes_taken", (provider, model)):
            if routes is None or route in routes:
                samples += (
                    UsageSample(*row)
                    for row in self._db.execute("usage_samples", (route, most - len(samples)))
                )
        return samples

    def turn_totals(self, route: int) -> tuple[TurnTotals, TurnTotals]:
        """What the last attempts of the units of a route took together, and what the answers took that were corrected."""
        units, corrected = (TurnTotals(*row) for row in self._db.execute("turn_totals", (route,)))
        # A unit has the cost of all its attempts, but the tokens and the time of the last one.
        return msgspec.structs.replace(units, cost_usd=units.cost_usd - corrected.cost_usd), corrected

    def program_runs(
        self, provider: str, model: str, most: int, routes: Collection[int] | None = None
    ) -> list[ProgramRun]:
        """What units of all jobs took that this program has done, the newest job first. `routes`: only units of these routes."""
        runs: list[ProgramRun] = []
        for (route,) in self._db.execute("routes_taken", (provider, model)):
            if routes is not None and route not in routes:
                continue
            runs += (
                ProgramRun(*row)
                for row in self._db.execute("program_runs", (route, most - len(runs)))
                if row[0]
            )
        return runs

    def workers(self, job: int) -> list[dict[str, Any]]:
        """All workers of the job, past and present. `run` is the worker whose run started the process; None for a run itself.
        `unit` is the index of the unit that the process runs, or ran when it ended.
        """
        names = ("id", "name", "pid", "status", "started_utc", "ended_utc", "run", "unit")
        return [dict(zip(names, row, strict=True)) for row in self._db.execute("workers", (job,))]

    # -- running -----------------------------------------------------------------------------------------------

    def unknown_outcomes(self, job: int) -> list[UnknownOutcome]:
        """Units that a process may have sent before it died."""
        return [
            UnknownOutcome(index, custom_id, status == Status.RUNNING, *rest)
            for index, custom_id, status, *rest in self._db.execute("unknown_outcomes", span(job))
        ]

    def begin(
        self,
        job: int,
        settings: dict[str, Any],
        out: str,
        utc: float,
        *,
        only_failed: bool = False,
        only: Collection[int] = (),
        stay: Collection[int] = (),
        taken_utc: float = 0.0,
    ) -> int:
        """Begin a run: make every unit pending that has not succeeded (or only failed units, or only the units `only`, however they
        ended); returns the number of the new worker. The units `stay` have ended without success and stay so, unless `only` has them.

        From now on the job belongs to this worker. An earlier run that still works can record nothing more. Commands older
        than `taken_utc`, the time when this process took the job (0: now), were for an earlier run and are dropped.
        """
        from os import getpid
        from platform import node

        units = span(job)
        with self._db.transaction():
            self._db.execute("add_lost_attempts", units)
            self._db.execute("count_lost", units)
            self._reopen(job, only_failed=only_failed, only=only, stay=stay)
            counts: dict[str, int] = dict(self._db.execute("count_statuses", units))
            ends = {str(status): counts.get(status, 0) for status in COUNTED}
            self._db.execute("set_counts", {"job": job, **ends})
            self._db.execute("drop_commands", (utc, job, taken_utc or utc))
            self._db.execute("end_lost_workers", (*units, job))
            self.claims.forget(job, utc)
            worker = self._number("add_worker", (job, node(), getpid(), "busy", utc))
            run = {"job": job, "utc": utc, "settings": json_of(settings), "out": out, "worker": worker}
            self._db.execute("begin_run", run)
        return worker

    def _reopen(self, job: int, *, only_failed: bool, only: Collection[int], stay: Collection[int]) -> None:
        if only:
            self._db.execute("put_back", span(job))
            run_again(self._db, [uid(job, index) for index in only])
            return
        if only_failed and self.has_edges(job):
            again = [index for index in self.failed(job) if index not in stay]
            self._db.executemany("reopen_unit", [(uid(job, index),) for index in again])
        if stay:
            uids = json_of([uid(job, index) for index in stay])
            self._db.execute("reopen_except", (*span(job), only_failed, uids))
        else:
            self._db.execute("reopen_failed" if only_failed else "reopen", span(job))

    def add_worker(self, job: int, name: str, utc: float) -> int:
        """Add an idle worker to the job; returns its number."""
        from os import getpid

        with self._db.transaction():
            return self._number("add_worker", (job, name, getpid(), "idle", utc))

    def serial_units(self, job: int, indexes: Iterable[int]) -> set[int]:
        """The units of `indexes` that run one by one before all others."""
        uids = json_of([uid(job, index) for index in indexes])
        return {index for (index,) in self._db.execute("serial_among", (uids,))}

    def states(self, job: int, indexes: Iterable[int]) -> dict[int, str]:
        """The states of these units."""
        uids = json_of([uid(job, index) for index in indexes])
        return dict(self._db.execute("states_among", (uids,)))

    def with_skipped(self, job: int, indexes: Iterable[int]) -> list[int]:
        """These units, and those that were skipped because one of these did not succeed."""
        chosen = set(indexes)
        edges: list[tuple[int, int]] = (
            self._db.execute("skipped_after", span(job)) if self.has_edges(job) else []
        )
        while more := {index for index, before in edges if before in chosen} - chosen:
            chosen |= more
        return sorted(chosen)

    def open_repairs(self, job: int) -> list[Repair]:
        """The next requests of units that have not succeeded and do not start with their own request."""
        return [Repair(*row) for row in self._db.execute("open_repairs", span(job))]

    def pending(self, job: int) -> dict[int, int]:
        """How many units wait, by route."""
        return dict(self._db.execute("open_per_route", span(job)))

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[PendingUnit]:
        """Waiting units of a route and priority with an index above `after`."""
        wanted = (route, priority, uid(job, after), limit)
        return pending_units(self._db.execute("next_of_route", wanted)[0][0])

    def sizes_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[UnitSize]:
        """The sizes of the same units."""
        return self._db.execute("sizes_of_route", (route, priority, uid(job, after), limit))

    def waiting_units(self, job: int, indexes: Iterable[int]) -> list[PendingUnit]:
        """The units of `indexes` that wait, by index."""
        uids = json_of([uid(job, index) for index in indexes])
        return [PendingUnit(*row) for row in self._db.execute("waiting_units", (uids,))]

    def last_index(self, job: int) -> int:
        """The highest index of the job's units; -1 without units."""
        return self._number("last_of_job", span(job))

    def largest_sizes(self, job: int, after: int, upto: int) -> list[tuple[int, int, int, int, bool]]:
        """For each family of the waiting units with indexes from `after` to `upto`: (route, number, most characters, largest
        `max_tokens`, whether any unit has no limit)."""
        return self._db.execute("largest_sizes", (uid(job, after), uid(job, upto)))

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[PendingUnit]:
        """Waiting units of any route by index: the serial ones, or all."""
        first, last = span(job)
        return [
            PendingUnit(*row) for row in self._db.execute("next_serial", (first + after, last, every, limit))
        ]

    def lane(self, key: str, name: str) -> StoredLane:
        """The lane with this key; a new one is added."""
        with self._db.transaction():
            return lane_of(self._db.execute("add_lane", (key, name))[0])

    def keep_lane(self, lane: int, record: bytes, view: bytes, utc: float) -> None:
        """Replace the record of a lane that no run uses."""
        with self._db.transaction():
            self._db.execute("set_lane", (record.decode(), view.decode(), utc, lane))

    def starts_since(self, utc: float) -> list[RecordedStart]:
        """The recorded starts since `utc`, oldest first.

        Reads backwards from the latest attempt: an attempt that ended before `utc` also began before it.
        """
        starts: list[RecordedStart] = []
        last = self._number("last_attempt", ())
        while last > 0:
            rows = self._db.execute("latest_starts", (last, STARTS_STEP))
            for lane, started_utc, tokens, tokens_in, tokens_out, *_ in rows:
                if started_utc is not None and started_utc >= utc and lane is not None:
                    costs = (1.0, tokens or 0.0, tokens_in or 0.0, tokens_out or 0.0)
                    starts.append(RecordedStart(lane, started_utc, costs))
            if not rows or all((row[5] or row[1] or utc) < utc for row in rows):
                break
            last = rows[-1][6] - 1
        return sorted(starts, key=lambda start: start.at_utc)

    def commit(self, batch: WriteBatch) -> None:
        """Record a batch in one transaction. JobTaken: another run of the job has begun since `batch.worker` began."""
        self._commit(batch, lambda transaction: None)

    def commit_again(self, batch: WriteBatch, tried: Callable[[int], None]) -> None:
        """Record a batch that is in a journal. `tried` is called with the number of the transaction before its commit."""
        self._commit(batch, tried)

    def _commit(self, batch: WriteBatch, tried: Callable[[int], None]) -> None:
        try:
            with self._db.transaction():
                tried(self._db.transaction_number())
                record(self._db, batch)
                if batch.grow is not None:
                    ended = [index for index, change in batch.units if change.finished_utc is not None]
                    ended += batch.followed + batch.ended_before
                    if ended or batch.look:
                        self._grow_in(batch, batch.grow, ended)
        except CheckFailed as error:
            raise counters_contradicted(batch.job) from error
        except StoreAway:
            self._priorities.clear()  # Some may be undone.
            raise

    def was_committed(self, transaction: int) -> bool:
        """Whether a transaction was committed whose connection was lost (`CommitUnknown`)."""
        return self._db.was_committed(transaction)

    def set_patience(self, seconds: float | None) -> None:
        """How long a query or the beginning of a transaction waits for a server that is away. None: as long as usual."""
        self._db.set_patience(seconds)

    def abandon(self) -> None:
        """Wait no longer for a server that is away. May be called by any thread."""
        self._db.abandon()

    def _grow_in(self, batch: WriteBatch, grow: Grow, ended: Sequence[int]) -> None:
        """Inside the transaction of a batch. A unit that is added with its answer has ended, and may add others: up to a page of
        units is added in one transaction.
        """
        while True:
            grown, known = self._grow(batch.job, grow, ended)
            batch.grown += grown
            batch.known += known
            ended = [index for index, unit in grown if unit.source is not None]
            batch.followed += ended
            batch.count(Status.CACHED, len(ended))
            if not ended or len(batch.grown) >= GROWTH_PAGE:
                batch.ungrown = ended
                return

    def grow(self, job: int, grow: Grow) -> GrownUnits:
        """Add the units that `grow` returns for ended units and that the job does not have yet.
        Needed for units that ended without a batch: with an answer from the cache or from another job. `grow` is called at least
        once, but not for units that are added here.
        """
        first, last = span(job)[0], uid(job, self.last_index(job))
        added: list[tuple[int, NewUnit]] = []
        known: list[int] = []
        after, is_first = -1, True
        while True:
            rows = self._db.execute("ended_units", (first + after, last, GROWTH_PAGE))
            if not rows and not is_first:
                return GrownUnits(added, known)
            with self._db.transaction():
                more, existing = self._grow(job, grow, [index for (index,) in rows])
            added += more
            known += existing
            after, is_first = rows[-1][0] if rows else after, False

    def _grow(self, job: int, grow: Grow, ended: Sequence[int]) -> GrownUnits:
        """Called inside a transaction."""
        wanted = {unit.custom_id: unit for unit in grow(self, ended)}
        new: list[NewUnit] = []
        known: list[int] = []
        for unit in wanted.values():
            index = self.index_of(job, unit.custom_id)
            if index is None:
                new.append(unit)
            else:
                known.append(index)
        if not new:
            return GrownUnits([], known)
        if any(unit.serial for unit in new):
            raise StoreError("a unit that is added while its job runs cannot be serial")
        total = self._number("total_of", (job,))
        add_units(self._db, job, total, new, created_utc=time.time())
        self._db.execute("set_total", (total + len(new), job))
        answer_added(self._db, job, total, new)
        self._add_priorities(new)
        return GrownUnits(list(enumerate(new, total)), known)

    def _add_priorities(self, units: Sequence[NewUnit]) -> None:
        new = {(unit.route, unit.priority) for unit in units} - self._priorities
        if not new:
            return
        added: dict[int, set[int]] = {}
        for route, priority in new:
            added.setdefault(route, set()).add(priority)
        for route, text in self._db.execute("priorities_of", (json_of(list(added)),)):
            known = msgspec.json.decode(text, type=set[int])
            if not added[route] <= known:
                priorities = sorted(added[route] | known, reverse=True)
                self._db.execute("set_priorities", (json_of(priorities), route))
        self._priorities |= new

    def end_run(
        self,
        job: int,
        worker: int,
        state: State,
        utc: float,
        unfinished: Mapping[str, EndReason],
        text: str = "",
    ) -> None:
        """End a run. Units that were assigned or running are pending again. `text` is for the event of the end; "": there is none.

        `unfinished` says for each route (by its number) why its remaining units could not finish. Raises JobTaken as `commit`.
        """
        with self._db.transaction():
            check_owner(self._db, job, worker)
            self._db.execute("put_back", span(job))
            end = {"job": job, "state": state, "finished_utc": utc, "unfinished": json_of(unfinished)}
            self._db.execute("end_run", end)
            self._db.execute("end_workers", (utc, job))
            if text:
                self._db.execute("add_event", (job, utc, None, ENDED, text, None))
            self.claims.forget(job, utc)

    def set_settings(self, job: int, settings: dict[str, Any]) -> None:
        """Replace what a job keeps of its latest run."""
        with self._db.transaction():
            self._db.execute("set_settings", (json_of(settings), job))

    # -- commands ------------------------------------------------------------------------------------------------

    def add_command(self, job: int, what: str, args: dict[str, Any], utc: float) -> int:
        """Add a command for the process that runs the job; returns its number."""
        with self._db.transaction():
            return self._number("add_command", (job, utc, what, json_of(args)))

    def is_done(self, command: int) -> bool:
        """Whether a command was carried out, or dropped by a later run."""
        rows = self._db.execute("command_done", (command,))
        return bool(rows) and rows[0][0] is not None

    def new_commands(self, job: int) -> list[ControlRequest]:
        """The same for a run that looks again and again: it asks the database only if there may be one."""
        return self.open_commands(job) if self._db.heard("commands", job) else []

    def wait_for_change(self, job: int, seconds: float) -> None:
        """Wait until the job's counters or state may have changed, or for this long."""
        self._db.wait_for_change(job, seconds)

    def open_commands(self, job: int) -> list[ControlRequest]:
        """The commands that were not carried out yet."""
        rows = self._db.execute("open_commands", (job,))
        return [ControlRequest(number, what, msgspec.json.decode(args)) for number, what, args in rows]


def _transcript_line(row: Sequence[Any]) -> TranscriptLine:
    number, attempt, at_utc, line, messages = row
    return TranscriptLine(number, attempt, at_utc, line, msgspec.json.decode(messages))


def free_name(wanted: str, taken: Collection[str]) -> str:
    """The wanted name, or the first of NAME-2, NAME-3 … that is not taken."""
    names = (wanted if n == 1 else f"{wanted}-{n}" for n in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def chunks(rows: Iterable[NewUnit], size: int) -> Iterator[list[NewUnit]]:
    """Rows in lists of this size, one for each transaction; fewer if their requests are long."""
    chunk: list[NewUnit] = []
    length = 0
    for row in rows:
        chunk.append(row)
        length += len(row.body)
        if len(chunk) == size or length >= CHUNK_BYTES:
            yield chunk
            chunk, length = [], 0
    if chunk:
        yield chunk
