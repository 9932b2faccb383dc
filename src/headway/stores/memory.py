"""A store that forgets: the same contract in plain dictionaries, for tests and for runs that need no record."""

from __future__ import annotations

import os
import platform
import secrets
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self

import msgspec

from headway.core.status import Status
from headway.errors import DuplicateId, StoreError
from headway.stores.base import free_name
from headway.stores.batch import Batch, taken_over, uncountable
from headway.stores.memory_cache import MemoryCache
from headway.stores.records import (
    COUNTED,
    USED,
    Asked,
    Attempt,
    Change,
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

_OPEN = ("pending", "assigned", "running")
#: The ends that a unit may leave again.
_REOPENED = ("failed", "timed_out", "skipped", "cancelled")


class _Unit:
    """One unit and everything of it."""

    __slots__ = (
        "answer",
        "attempts",
        "cost_usd",
        "lane",
        "new",
        "notes",
        "now",
        "repair",
        "repairs",
        "started_utc",
        "status",
        "tries",
    )

    def __init__(self, new: NewUnit) -> None:
        self.new = new
        self.status: str = Status.PENDING
        self.tries = 0
        self.lane: int | None = None
        self.started_utc: float | None = None
        self.cost_usd: float | None = None
        self.now = Change(Status.PENDING)
        self.attempts: list[tuple[Attempt, int | None]] = []
        self.answer: tuple[int | None, str | None, bytes] | None = None
        self.repairs: list[Repair] = []
        self.repair: Repair | None = None
        self.notes: dict[int, bytes] = {}

    @property
    def sent_utc(self) -> float | None:
        """When the present attempt was sent, if it is known to have been."""
        return self.started_utc if self.status == "running" else None

    def run_again(self, request: bytes | None) -> None:
        if self.status in _REOPENED:
            self.reopen()
        if request is not None:
            self.new = msgspec.structs.replace(self.new, body=request)

    def reopen(self) -> None:
        self.status = Status.PENDING
        self.now = msgspec.structs.replace(
            self.now, code=None, message=None, not_before_utc=None, finished_utc=None
        )


class MemoryStore:
    """Records for as long as the process lives. Several threads may share one: a batch is applied in one go."""

    def __init__(self) -> None:
        self._salt = secrets.token_bytes(32)
        self._jobs: dict[int, Job] = {}
        # A job that is not there has none of these.
        self._units: defaultdict[int, list[_Unit]] = defaultdict(list)
        self._routes: defaultdict[int, list[Route]] = defaultdict(list)
        self._families: defaultdict[int, list[Family]] = defaultdict(list)
        self._uses: dict[int, Use] = {}
        self._events: defaultdict[int, list[Event]] = defaultdict(list)
        self._lanes: dict[str, Lane] = {}
        self._workers: list[dict[str, Any]] = []
        #: job → the worker whose run it is.
        self._owners: dict[int, int] = {}
        self._commands: list[tuple[int, Asked]] = []
        self._claims: dict[tuple[int, int], tuple[bytes, float]] = {}
        self._next = 0
        #: Held while a job is looked for and added.
        self._adding = threading.RLock()
        self.cache = MemoryCache(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""

    def salt(self) -> bytes:
        return self._salt

    def _number(self) -> int:
        self._next += 1
        return self._next

    # -- taking in -----------------------------------------------------------------------------------------

    def add_job(self, job: NewJob) -> int:
        with self._adding:
            if self.job(job.name) is not None:
                raise StoreError(f"there is a job '{job.name}' already")
            return self._add_job(job)

    def find_or_add(self, job: NewJob, is_same: Callable[[Job], bool]) -> tuple[Job, bool]:
        with self._adding:
            known = self.jobs()
            found = next(filter(is_same, known), None)
            if found is not None:
                return found, False
            name = free_name(job.name, {one.name for one in known})
            return self._jobs[self._add_job(msgspec.structs.replace(job, name=name))], True

    def _add_job(self, job: NewJob) -> int:
        number = self._number()
        self._jobs[number] = Job(
            id=number, name=job.name, kind=job.kind, state="ingesting", input=job.input, digest=job.digest, models={},
            settings={}, unfinished={}, out=job.out, total=0, serial=0, counts={str(status): 0 for status in COUNTED}, attempts=0, refused=0,
            input_tokens=0, output_tokens=0, cost_usd=0.0, created_utc=job.created_utc, form=_json(job.form),
        )  # fmt: skip
        return number

    def _edit(self, job: int, **changes: Any) -> None:
        self._jobs[job] = msgspec.structs.replace(self._jobs[job], **changes)

    def add_route(self, job: int, route: Route) -> int:
        for known in self._routes[job]:
            if (known.provider, known.model) == (route.provider, route.model):
                return known.id
        number = self._number()
        self._routes[job].append(msgspec.structs.replace(route, id=number))
        return number

    def add_units(self, job: int, first: int, units: Sequence[NewUnit]) -> None:
        known = {unit.new.custom_id for unit in self._units[job]}
        for unit in units:
            if unit.custom_id in known:
                raise DuplicateId(unit.custom_id)
            known.add(unit.custom_id)
        assert first == len(self._units[job])
        self._units[job].extend(_Unit(unit) for unit in units)

    def add_families(self, job: int, families: Sequence[Family]) -> None:
        self._families[job] = list(families)

    def seal(self, job: int, total: int, models: dict[str, tuple[str, str, str]], digest: str) -> None:
        units = self._units[job]
        for place, route in enumerate(self._routes[job]):
            found = {unit.new.priority for unit in units if unit.new.route == route.id}
            priorities = tuple(sorted(found, reverse=True)) or (0,)
            self._routes[job][place] = msgspec.structs.replace(route, priorities=priorities)
        serial = sum(unit.new.serial for unit in units)
        self._edit(job, state="ready", total=total, serial=serial, models=models, digest=digest)

    def forget(self, job: int) -> None:
        for records in (self._jobs, self._units, self._routes, self._families, self._events):
            records.pop(job, None)
        self._workers = [row for row in self._workers if row["job"] != job]
        self._owners.pop(job, None)
        self._commands = [row for row in self._commands if row[0] != job]
        self._forget_claims(job)
        self.cache.forget(job)

    # -- looking --------------------------------------------------------------------------------------------

    def jobs(self) -> list[Job]:
        return sorted(self._jobs.values(), key=lambda job: -job.id)

    def job(self, name: str) -> Job | None:
        return next((job for job in self._jobs.values() if job.name == name), None)

    def routes(self, job: int) -> list[Route]:
        return list(self._routes[job])

    def index_of(self, job: int, custom_id: str) -> int | None:
        found = (n for n, unit in enumerate(self._units[job]) if unit.new.custom_id == custom_id)
        return next(found, None)

    def found(self, job: int, custom_ids: list[str]) -> list[Result]:
        wanted = set(custom_ids)
        units = enumerate(self._units[job])
        return [self._result(job, n, unit) for n, unit in units if unit.new.custom_id in wanted]

    def results(self, job: int, after: int, limit: int) -> list[Result]:
        units = self._units[job]
        return [self._result(job, n, units[n]) for n in range(after + 1, min(len(units), after + 1 + limit))]

    def _result(self, job: int, index: int, unit: _Unit) -> Result:
        now, new = unit.now, unit.new
        route = next(route for route in self._routes[job] if route.id == new.route)
        status_code, request_id, body = unit.answer or (None, None, None)
        return Result(
            index, new.custom_id, unit.status, self._lane_name(unit.lane), unit.tries, now.input_tokens, now.output_tokens,
            now.cached_tokens, unit.cost_usd, unit.started_utc, now.finished_utc, now.code, now.message, new.metadata,
            status_code, request_id, body, route.provider, route.model,
        )  # fmt: skip

    def _lane_name(self, number: int | None) -> str | None:
        return next((lane.name for lane in self._lanes.values() if lane.id == number), None)

    def first_unended(self, job: int) -> int | None:
        return next((n for n, unit in enumerate(self._units[job]) if unit.status in _OPEN), None)

    def attempts(self, job: int, index: int) -> list[Told]:
        return [
            Told(
                each.number, worker, self._lane_name(each.lane), each.outcome, each.kind, each.message, each.status_code,
                each.request_id, each.started_utc, each.finished_utc, each.input_tokens, each.output_tokens,
                each.cached_tokens, each.cost_usd, None if each.rate_limit is None else msgspec.json.decode(each.rate_limit),
            )
            for each, worker in self._units[job][index].attempts
        ]  # fmt: skip

    def request(self, job: int, index: int) -> tuple[str, bytes]:
        new = self._units[job][index].new
        return new.path, new.body

    def requests(self, job: int, indexes: list[int]) -> list[tuple[int, str, bytes]]:
        return [(index, *self.request(job, index)) for index in indexes]

    def repairs_of(self, job: int, index: int) -> list[Repair]:
        return list(self._units[job][index].repairs)

    def notes_of(self, job: int, index: int) -> dict[int, Any]:
        found = self._units[job][index].notes
        return {number: msgspec.json.decode(found[number]) for number in sorted(found)}

    def failures(self, job: int) -> list[tuple[str, int, int, str]]:
        found: dict[str, list[tuple[int, str]]] = {}
        for n, unit in enumerate(self._units[job]):
            if unit.status in ("failed", "timed_out", "skipped", "cancelled"):
                found.setdefault(unit.now.code or "", []).append((n, unit.now.message or ""))
        rows = [(code, len(units), *units[0]) for code, units in found.items()]
        return sorted(rows, key=lambda row: -row[1])

    def per_lane(self, job: int) -> dict[str, dict[str, int]]:
        names = {route.id: route.name for route in self._routes[job]}
        found: dict[str, dict[str, int]] = {}
        for unit in self._units[job]:
            counts = found.setdefault(names[unit.new.route], {})
            counts[unit.status] = counts.get(unit.status, 0) + 1
        return found

    def events(self, job: int, after: int = 0) -> list[Event]:
        return [event for event in self._events[job] if event.id > after]

    def lanes(self) -> list[Lane]:
        return sorted(self._lanes.values(), key=lambda lane: (lane.name, lane.key))

    def _to(self, job: int, provider: str, model: str) -> set[int]:
        """The routes of a job that lead there."""
        return {one.id for one in self._routes[job] if (one.provider, one.model) == (provider, model)}

    def families(self, provider: str, model: str) -> list[tuple[int, Family]]:
        return [
            (job.id, family)
            for job in self.jobs()
            if job.state != "ingesting"
            for family in self._families[job.id]
            if family.route in self._to(job.id, provider, model)
        ]

    def lessons(
        self, provider: str, model: str, most: int, routes: Collection[int] | None = None
    ) -> list[Lesson]:
        found: list[Lesson] = []
        for job in self.jobs():
            wanted = {
                route for route in self._to(job.id, provider, model) if routes is None or route in routes
            }
            units = (unit for unit in self._units[job.id] if unit.new.route in wanted)
            found += (_lesson(unit) for unit in islice(units, most - len(found)) if _teaches(unit))
        return found

    def workers(self, job: int) -> list[dict[str, Any]]:
        return [{key: row[key] for key in row if key != "job"} for row in self._workers if row["job"] == job]

    # -- running ----------------------------------------------------------------------------------------------

    def unknown(self, job: int) -> list[Unknown]:
        return [
            Unknown(n, unit.new.custom_id, unit.status == "running", unit.lane, unit.sent_utc, unit.new.chars, unit.new.max_tokens,
                unit.new.route, unit.new.family)
            for n, unit in enumerate(self._units[job])
            if unit.status in ("assigned", "running")
        ]  # fmt: skip

    def begin(
        self, job: int, settings: dict[str, Any], out: str, utc: float, *, only_failed: bool = False
    ) -> int:
        lost = "the process ended before its outcome was recorded"
        for unit in self._units[job]:
            if unit.status in ("assigned", "running"):
                attempt = Attempt(
                    0,
                    unit.tries + 1,
                    unit.lane or 0,
                    "lost",
                    "crash",
                    lost,
                    started_utc=unit.sent_utc,
                    cost_usd=None,
                )
                unit.attempts.append((attempt, None))
                unit.tries += 1
                unit.reopen()
            elif unit.status in ("failed", "timed_out") or (
                not only_failed and unit.status in ("skipped", "cancelled")
            ):
                unit.reopen()
        counts = {str(status): sum(unit.status == status for unit in self._units[job]) for status in COUNTED}
        first = self._jobs[job].started_utc
        started = utc if first is None else first
        self._edit(
            job,
            counts=counts,
            state="running",
            settings=_json(settings),
            out=out,
            started_utc=started,
            finished_utc=None,
        )
        self._commands = [row for row in self._commands if row[0] != job]
        for row in self._workers:
            if row["job"] == job and row["ended_utc"] is None:
                row.update(status="failed", ended_utc=utc)
        self._owners[job] = self._new_worker(job, platform.node(), "busy", utc)
        return self._owners[job]

    def _must_be_ours(self, job: int, worker: int) -> None:
        owner = self._owners.get(job)
        if job not in self._jobs:
            raise taken_over("", None, None)
        if owner != worker:
            row: dict[str, Any] = next((row for row in self._workers if row["id"] == owner), {})
            raise taken_over(self._jobs[job].name, row.get("name"), row.get("pid"))

    def add_worker(self, job: int, name: str, utc: float) -> int:
        return self._new_worker(job, name, "idle", utc)

    def _new_worker(self, job: int, name: str, status: str, utc: float) -> int:
        number = self._number()
        self._workers.append(
            {"job": job, "id": number, "name": name, "pid": os.getpid(), "status": status, "started_utc": utc, "ended_utc": None}
        )  # fmt: skip
        return number

    def open_repairs(self, job: int) -> list[Repair]:
        return [
            unit.repair
            for unit in self._units[job]
            if unit.repair is not None and unit.status not in ("succeeded", "cached")
        ]

    def pending(self, job: int) -> dict[int, int]:
        found: dict[int, int] = {}
        for unit in self._units[job]:
            if unit.status == "pending":
                found[unit.new.route] = found.get(unit.new.route, 0) + 1
        return found

    def next_of_route(self, job: int, route: int, priority: int, after: int, limit: int) -> list[Pending]:
        found: list[Pending] = []
        for n in range(after + 1, len(self._units[job])):
            unit = self._units[job][n]
            new = unit.new
            if (
                new.route == route
                and new.priority == priority
                and not new.serial
                and unit.status == "pending"
            ):
                found.append(
                    Pending(n, new.chars, new.max_tokens, new.priority, route, unit.tries, new.family)
                )
                if len(found) == limit:
                    break
        return found

    def next_serial(self, job: int, after: int, limit: int, *, every: bool) -> list[Pending]:
        waiting = (
            (n, unit.new, unit.tries) for n, unit in enumerate(self._units[job]) if unit.status == "pending"
        )
        found = [
            Pending(n, new.chars, new.max_tokens, new.priority, new.route, tries, new.family)
            for n, new, tries in waiting
            if n > after and (every or new.serial)
        ]
        return found[:limit]

    def lane(self, key: str, name: str) -> Lane:
        known = self._lanes.get(key)
        lane = Lane(self._number(), key, name, None, None, None) if known is None else known
        self._lanes[key] = msgspec.structs.replace(lane, name=name)
        return self._lanes[key]

    def keep_lane(self, lane: int, record: bytes, view: bytes, utc: float) -> None:
        for key, known in self._lanes.items():
            if known.id == lane:
                self._lanes[key] = msgspec.structs.replace(known, record=record, view=view, updated_utc=utc)

    def starts_since(self, utc: float) -> list[Start]:
        found = [
            Start(each.lane, each.started_utc, each.charged)
            for units in self._units.values()
            for unit in units
            for each, _ in unit.attempts
            if each.started_utc is not None and each.started_utc >= utc
        ]
        return sorted(found, key=lambda start: start.at_utc)

    def commit(self, batch: Batch) -> None:
        if batch.worker is not None:
            self._must_be_ours(batch.job, batch.worker)
        units = self._units[batch.job]
        for index in batch.reopened:
            if (status := units[index].status) in _REOPENED:
                batch.count(status, -1)
        self._must_fit(batch)
        for index, request in batch.reopened.items():
            units[index].run_again(request)
        if batch.added:
            self.add_units(batch.job, batch.added[0][0], [unit for _, unit in batch.added])
            self._edit(batch.job, total=len(units))
        for attempt in batch.attempts:
            units[attempt.index].attempts.append((attempt, attempt.worker or batch.worker))
        for index in batch.released:
            if units[index].status == "assigned":
                units[index].status = Status.PENDING
        for index, change in batch.units:
            self._apply(units[index], change)
        for index, status_code, request_id, body in batch.answers:
            units[index].answer = (status_code, request_id, body)
        for index, lane in batch.intents.items():
            units[index].status, units[index].lane = Status.ASSIGNED, lane
        for index, utc in batch.running.items():
            units[index].status, units[index].started_utc = Status.RUNNING, utc
        if batch.caching:
            self.cache.keep(batch)
        self._commit_rest(batch)

    def _must_fit(self, batch: Batch) -> None:
        """Before anything is changed: a batch is whole or not at all."""
        job = self._jobs[batch.job]
        ends = [n + batch.counts.get(name, 0) for name, n in job.counts.items()]
        total = sum(ends) if job.state == "ingesting" else job.total + len(batch.added)
        if min(ends) < 0 or sum(ends) > total:
            raise uncountable(batch.job)

    def _apply(self, unit: _Unit, change: Change) -> None:
        unit.status = change.status
        unit.tries += change.tries
        unit.lane = change.lane if change.lane is not None else unit.lane
        unit.started_utc = change.started_utc if change.started_utc is not None else unit.started_utc
        if change.cost_usd is not None:
            unit.cost_usd = (unit.cost_usd or 0.0) + change.cost_usd
        unit.now = change

    def _commit_rest(self, batch: Batch) -> None:
        for repair in batch.repairs:
            unit = self._units[batch.job][repair.index]
            unit.repair = None if repair.request is None else repair
            if repair.answer is not None:
                unit.repairs.append(repair)
        for index, number, note in batch.notes:
            self._units[batch.job][index].notes[number] = note
        for event in batch.events:
            self._events[batch.job].append(msgspec.structs.replace(event, id=self._number()))
        for key, lane in self._lanes.items():
            if lane.id in batch.lanes:
                record, view, utc = batch.lanes[lane.id]
                self._lanes[key] = msgspec.structs.replace(lane, record=record, view=view, updated_utc=utc)
        for row in self._workers:
            if row["id"] in batch.workers:
                row["status"], row["ended_utc"] = batch.workers[row["id"]]
        self._claims |= {(lane, batch.job): claim for lane, claim in batch.claims.items()}
        done = {number for number, _ in batch.done_commands}
        self._commands = [row for row in self._commands if row[1].id not in done]
        self._count(batch)
        if batch.state is not None:
            self._edit(batch.job, state=batch.state[0], finished_utc=batch.state[1])

    def _count(self, batch: Batch) -> None:
        job, totals = self._jobs[batch.job], batch.totals()
        counts = {name: n + int(totals.get(name, 0)) for name, n in job.counts.items()}
        self._edit(
            batch.job, counts=counts, **{name: getattr(job, name) + totals.get(name, 0) for name in USED}
        )
        for route, use in batch.uses.items():
            self._uses.setdefault(route, Use()).add(use)

    def use_by_route(self, job: int) -> dict[int, Use]:
        mine = (route.id for route in self._routes[job] if route.id in self._uses)
        return {route: msgspec.structs.replace(self._uses[route]) for route in mine}

    def use_by_lane(self) -> dict[int, Use]:
        found: dict[int, Use] = {}
        for routes in self._routes.values():
            for use in (self._uses.get(route.id, Use()) for route in routes):
                if use.lane is not None:
                    found.setdefault(use.lane, Use()).add(use)
        return found

    def failed(self, job: int) -> list[int]:
        return [n for n, unit in enumerate(self._units[job]) if unit.status in ("failed", "timed_out")]

    def end_run(
        self, job: int, worker: int, state: State, utc: float, unfinished: dict[str, tuple[str, str]]
    ) -> None:
        self._must_be_ours(job, worker)
        for unit in self._units[job]:
            if unit.status in ("assigned", "running"):
                unit.status = Status.PENDING
        self._edit(job, state=state, finished_utc=utc, unfinished=unfinished)
        for row in self._workers:
            if row["id"] == worker:
                row.update(status="terminated", ended_utc=utc)
        self._forget_claims(job)

    def claims(self, job: int, since_utc: float, until_utc: float) -> list[Claimed]:
        return [
            Claimed(lane, self._jobs[other].name, claim)
            for (lane, other), (claim, utc) in sorted(self._claims.items(), key=lambda item: item[0][1])
            if other != job and since_utc <= utc <= until_utc
        ]

    def _forget_claims(self, job: int) -> None:
        self._claims = {key: claim for key, claim in self._claims.items() if key[1] != job}

    # -- commands -----------------------------------------------------------------------------------------------

    def ask(self, job: int, what: str, args: dict[str, Any], utc: float) -> int:
        number = self._number()
        self._commands.append((job, Asked(number, what, _json(args))))
        return number

    def asked(self, job: int) -> list[Asked]:
        return [asked for number, asked in self._commands if number == job]


def _teaches(unit: _Unit) -> bool:
    known = unit.now.input_tokens is not None and unit.started_utc is not None
    return (
        unit.status == Status.SUCCEEDED
        and known
        and (unit.now.finished_utc or 0.0) >= (unit.started_utc or 0.0)
    )


def _lesson(unit: _Unit) -> Lesson:
    now, took_s = unit.now, (unit.now.finished_utc or 0.0) - (unit.started_utc or 0.0)
    return Lesson(
        unit.new.chars,
        unit.new.max_tokens,
        now.input_tokens or 0,
        now.output_tokens or 0,
        now.cached_tokens or 0,
        took_s,
        unit.new.route,
        unit.new.family,
    )


def _json(value: dict[str, Any]) -> dict[str, Any]:
    """What comes back of a value that is written down."""
    again: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return again
