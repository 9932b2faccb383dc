"""The records of Python calls: what makes `map` durable, and shows a worker pool's work in the store.

`engine.recorder` records intents, attempts and lanes, as for every job. What is here is about Python calls: a job is found
by its name or made, units are found by their keys, and results are values. Items are not stored: the program that runs the
same work again has them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from headway.api.job_names import JobIdentity
from headway.core.commands import Notice
from headway.core.retry import THROTTLES
from headway.core.unit_states import GOOD, Status
from headway.engine.calls import DONE, CallEnd, Calls, Ended, SubmittedCall
from headway.engine.flights import LaneHandle
from headway.engine.recorder import Recorder
from headway.engine.recording.attempt_records import attempt_record
from headway.engine.recording.lane_records import oldest_start_utc, restore_levels
from headway.engine.recording.worker_records import WorkerProcesses
from headway.engine.sharing.lane_sharing import LISTEN_S, LaneSharing
from headway.executors.limit_evidence import rate_limit_of
from headway.safe_text import visible
from headway.stores.claims import ClaimNews
from headway.stores.job_lock import JobLease
from headway.stores.records import (
    Job,
    NewJob,
    NewUnit,
    State,
    StoredLane,
    StoredRoute,
    UnitChange,
    UnknownOutcome,
)
from headway.stores.store import Store
from headway.wiring.store_access import job_lock_at, open_store_file, outage_at

#: Intents recorded ahead for each lane: at most as many as `map` reads ahead. A lane that starts only one unit within the
#: time has none ahead, so that a crash names no call that is far from its start.
AHEAD: Final = (2, 1_000)

#: The weight of a program's calls beside other jobs: that of a job without a weight of its own.
WEIGHT: Final = 1.0

_SUCCEEDED: Final = str(Status.SUCCEEDED)


class RecordedUnit(msgspec.Struct, frozen=True):
    """What the store has for a key: the unit's index, its attempts in earlier runs and, if it succeeded, its value as JSON."""

    index: int
    attempts: int = 0
    value: bytes | None = None
    #: The digest of the item that was answered, if there is one.
    digest: str | None = None


class CallRecords:
    """One job of one process, on one event loop."""

    def __init__(self, db: str, identity: JobIdentity) -> None:
        self._identity = identity
        #: Absolute, because the program may change its working directory.
        self._db = db if "://" in db else os.path.abspath(db)
        #: By lane: its route, and the units that will start there and have no intent yet, in order.
        self._routes: dict[str, int] = {}
        self._expected: dict[str, dict[int, None]] = {}
        #: Units that wait for their intent to become durable.
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._commit_due = False
        #: The lanes that the program has named, which it shares with other jobs of the file; and the next look at their claims.
        self._named: dict[str, LaneHandle] = {}
        self._sharing: LaneSharing | None = None
        self._next_look: asyncio.TimerHandle | None = None
        #: Without it no unit starts (a database server gives it); its next look, and units that wait for it.
        self._lease: JobLease | None = None
        self._next_lease_look: asyncio.TimerHandle | None = None
        self._held: list[asyncio.Future[None]] = []
        self._looking = False

    # -- the job ----------------------------------------------------------------------------------------------

    def begin(self, calls: Calls, failed: Callable[[Exception], None]) -> None:
        """Take the job over, or make it. `failed` is called if the store can no longer be written."""
        self._loop = asyncio.get_running_loop()
        self._calls, self._on_failed = calls, failed
        self._recorder = recorder = Recorder(
            self._open_store,
            failed=self._failed,
            snapshot=lambda: calls.lanes,
        )
        try:
            self.name = self._identity.name_in(recorder.store)
            self._lock = job_lock_at(self._db, self.name, recorder.store)
            recorder.outage = outage_at(self._db, self.name, _warn)
            self._lock.__enter__()
            self._lease = recorder.store.lease
        except BaseException:
            recorder.store.close()
            raise
        try:
            job = self._found_or_new(recorder.store)
            self._identity.check(job, self._db)
            self._total = self._total_before = job.total
            self.done_before = job.good
            unknown = recorder.begin(job.id, self._identity.settings(job, self._db), ahead=AHEAD)
        except BaseException:
            self._close_store()
            raise
        #: The worker processes of the run.
        self.processes = WorkerProcesses(recorder)
        _warn_of_unknown(unknown)
        recorder.start()
        calls.noted = self._note
        if self._lease is not None:
            self._next_lease_look = self._loop.call_later(LISTEN_S, self._look_at_lease)

    def _open_store(self) -> Store:
        """A connection, with the lease of the job once that is held."""
        store = open_store_file(self._db)
        store.hold(self._lease)
        return store

    def _found_or_new(self, store: Store) -> Job:
        """The job with this name. The lock of the name is held."""
        who = self._identity
        wanted = NewJob(self.name, who.kind, who.function, who.function, "", time.time(), who.form())
        job, is_new = store.find_or_add(wanted, lambda job: job.name == self.name)
        if is_new:
            store.seal(job.id, 0, {}, who.function)
        return job

    async def close(self, state: State | None = None) -> None:
        """Commit what is left and end the run. Without a state, the states of the units decide."""
        for timer in (self._next_look, self._next_lease_look):
            if timer is not None:
                timer.cancel()
        self._named.clear()
        self._recorder.learn()
        self._recorder.finish_samples()
        self.processes.close()
        await self._recorder.close()
        try:
            if self._recorder.failure is None:
                self._recorder.end_run(state or self._state_of_units(), {})
        finally:
            self._close_store()

    def _close_store(self) -> None:
        self._recorder.store.close()
        self._lock.__exit__(None, None, None)

    def _state_of_units(self) -> State:
        """`failed` if a unit is, `stopped` if one still waits: its lane stopped, or it was not submitted again."""
        job = self._recorder.store.job(self.name)
        assert job is not None
        if job.ended > job.good:
            return "failed"
        return "complete" if job.good == job.total else "stopped"

    # -- units ------------------------------------------------------------------------------------------------

    async def find(self, keys: list[str], *, this_run: bool = False) -> dict[str, RecordedUnit]:
        """What earlier runs recorded for these keys; `this_run`: this one may have recorded some, too."""
        if not (self._total_before or this_run):
            return {}
        job = self._recorder.job
        rows = await self._recorder.fetch(lambda store: store.results_by_id(job, keys))
        return {
            row.custom_id: RecordedUnit(
                row.index, row.attempts, row.body if row.status in GOOD else None, row.request_id
            )
            for row in rows
        }

    def add(self, key: str, lane: str, payload: bytes = b"null") -> RecordedUnit:
        """Add a new unit."""
        index = self._total
        self._total += 1
        unit = NewUnit(key, self._routes[lane], "", payload, len(payload))
        self._recorder.batch.added.append((index, unit))
        return RecordedUnit(index)

    def run_again(self, index: int, payload: bytes) -> None:
        """A recorded unit that did not succeed runs again, with this payload."""
        self._recorder.batch.reopen(index, payload)
        self._recorder.commit_later()

    def expect(self, index: int, lane: str) -> None:
        """The unit will run as soon as its lane lets it: its intent may be recorded ahead."""
        handle, expected = self._recorder.lanes[lane], self._expected[lane]
        if len(handle.ahead) < handle.wanted_ahead and not expected:
            self._recorder.intents.add_ahead(index, handle)
        else:
            expected[index] = None

    def intend(self, index: int, lane: str) -> asyncio.Future[None] | None:
        """The unit is about to run: a future to wait for until that is durable, None if it is already."""
        handle, expected = self._recorder.lanes[lane], self._expected[lane]
        expected.pop(index, None)
        if self._recorder.intents.start(index, handle):
            if 2 * len(handle.ahead) < handle.wanted_ahead:
                self._look_ahead(handle, expected)
            return self._until_held()
        self._look_ahead(handle, expected)
        future = self._waiting[index] = self._loop.create_future()
        self._recorder.intents.waiting[index] = lambda: self._wake(index)
        if not self._commit_due:  # All that start in one round of the loop share a commit.
            self._commit_due = True
            self._loop.call_soon(self._commit)
        return future

    def _look_ahead(self, handle: LaneHandle, expected: dict[int, None]) -> None:
        intents, now = self._recorder.intents, self._loop.time()
        available = len(handle.ahead) + len(expected)
        for index in intents.look_ahead(handle, lambda n: islice(expected, n), available, now):
            del expected[index]

    def _until_held(self) -> asyncio.Future[None] | None:
        """A future until the lease of the job is held again; None: it is held."""
        if self._lease is None or self._lease.holds():
            return None
        future: asyncio.Future[None] = self._loop.create_future()
        self._held.append(future)
        return future

    def _look_at_lease(self) -> None:
        """Units that wait for the lease go on, or the run ends: another process has the job."""
        assert self._lease is not None
        if self._lease.lost is not None:
            self._failed(self._lease.lost)
            return
        if self._held and self._lease.holds():
            held, self._held = self._held, []
            for future in held:
                if not future.done():
                    future.set_result(None)
        self._next_lease_look = self._loop.call_later(LISTEN_S, self._look_at_lease)

    def _commit(self) -> None:
        self._commit_due = False
        self._recorder.commit()

    def _wake(self, index: int) -> None:
        future = self._waiting.pop(index)
        if not future.done():  # Otherwise its attempt was cancelled.
            future.set_result(None)

    def running(self, index: int) -> None:
        """The unit runs now."""
        self._recorder.batch.running[index] = self._recorder.clock.utc()
        self._recorder.commit_later()

    def requeued(
        self, unit: RecordedUnit, flight: SubmittedCall, wait_s: float, reason: str, worker: int | None = None
    ) -> None:
        """An attempt failed, and the unit waits for another."""
        outcome = flight.outcome
        kind = None if outcome is None or outcome.kind is None else str(outcome.kind)
        not_before_utc = self._recorder.clock.utc() + max(0.0, wait_s)
        change = UnitChange(Status.PENDING, code=kind, message=reason, not_before_utc=not_before_utc)
        self._add_attempt(unit, flight, change, worker)
        self._recorder.commit_later()

    def ended(
        self,
        unit: RecordedUnit,
        flight: SubmittedCall,
        end: CallEnd,
        value: bytes | None,
        then: Ended,
        worker: int | None = None,
        digest: str | None = None,
    ) -> None:
        """A unit has ended; `then` is called once that is durable.

        A unit that waited for another attempt when its lane or the run stopped stays pending: its last attempt is on record.
        """
        recorder, index = self._recorder, unit.index
        if end is DONE or (flight.recorded != flight.attempts and self._has_run(index, flight, end)):
            if end is DONE:
                change = UnitChange(_SUCCEEDED, finished_utc=recorder.clock.utc())
            else:
                change = UnitChange(
                    str(end.status),
                    code=end.code or None,
                    message=end.message or None,
                    finished_utc=recorder.clock.utc(),
                )
            self._add_attempt(unit, flight, change, worker)
            if value is not None:
                recorder.batch.answers.append((index, None, digest, value))
        elif index in self._expected[flight.lane]:
            del self._expected[flight.lane][index]
        else:
            self._waiting.pop(index, None)
            recorder.intents.release(index, recorder.lanes[flight.lane])
        recorder.after_commit(then, flight, end)
        recorder.commit_later()

    def _has_run(self, index: int, flight: SubmittedCall, end: CallEnd) -> bool:
        """Whether the attempt was really made: it has an outcome, or the run's deadline cut it short."""
        if flight.outcome is not None:
            return True
        handle = self._recorder.lanes[flight.lane]
        waits = index in self._expected[flight.lane] or self._recorder.intents.is_pending(index, handle)
        return end.code == "deadline" and not waits

    def _add_attempt(
        self, unit: RecordedUnit, flight: SubmittedCall, change: UnitChange, worker: int | None
    ) -> None:
        if flight.rate_limit is None and flight.outcome is not None and flight.outcome.kind in THROTTLES:
            source = "result" if flight.error is None else type(flight.error).__name__
            flight.rate_limit = rate_limit_of(source, flight.outcome)
        lane, usage, number = flight.lane, flight.usage, unit.attempts + flight.attempts
        handle, cost_usd = self._recorder.lanes[lane], None if usage is None else usage.cost_usd
        attempt = attempt_record(flight, unit.index, number, handle, cost_usd, worker)
        self._recorder.add_attempt(attempt, self._routes[lane], change, flight.details)
        flight.recorded = flight.attempts

    # -- workers ----------------------------------------------------------------------------------------------

    def add_worker(self, name: str) -> int:
        """One more worker of the job, before it works; its number."""
        return self._recorder.store.add_worker(self._recorder.job, name, time.time())

    def add_worker_later(self, name: str) -> asyncio.Future[int]:
        """One more worker of the job, while it works; its number."""
        job = self._recorder.job
        return asyncio.ensure_future(
            self._recorder.fetch(lambda store: store.add_worker(job, name, time.time()))
        )

    def set_worker(self, number: int, status: str) -> None:
        """The new status of a worker."""
        ended_utc = None if status in ("idle", "busy") else time.time()
        self._recorder.batch.workers[number] = (status, ended_utc)
        self._recorder.commit_later()

    # -- lanes ------------------------------------------------------------------------------------------------

    def has_lane(self, name: str) -> bool:
        """Whether a lane is open."""
        return name in self._routes

    async def open_lane(self, name: str, *, shared: bool = False) -> None:
        """Open a lane before its first unit: with what earlier runs taught it, and with what is left in its buckets.

        `shared`: with other jobs of the file that use a lane of this name.
        """
        recorder, key = self._recorder, f"{self._identity.kind}:{self.name}:{name}"

        def add(store: Store) -> tuple[StoredLane, int]:
            route = store.add_route(recorder.job, StoredRoute(name, "python", ""))
            return store.lane(key, name), route

        stored, self._routes[name] = await recorder.fetch(add)
        handle = recorder.add_lane(name, name, stored)
        self._expected[name] = {}
        lane = self._calls.open(name)
        if lane is not None:
            restored = recorder.restore(handle, lane)
            since_utc = oldest_start_utc([lane], recorder.clock.utc())
            starts = await recorder.fetch(lambda store: store.starts_since(since_utc))
            restore_levels({handle.id: restored}, starts)
        if lane is not None and shared:
            self._named[name] = handle
            await self._join_others()

    async def _join_others(self) -> None:
        """Share the lanes of this run from now on."""
        recorder = self._recorder
        if self._sharing is None:
            self._sharing = LaneSharing(recorder.job, WEIGHT, self._named, recorder.clock, of_program=True)
            self._next_look = self._loop.call_later(LISTEN_S, self._look_at_others)
        self._share(await recorder.fetch(self._claims))

    def _claims(self, store: Store) -> ClaimNews:
        assert self._sharing is not None
        return self._sharing.read(store)

    def _look_at_others(self) -> None:
        self._next_look = self._loop.call_later(LISTEN_S, self._look_at_others)
        if self._sharing is not None and not self._looking and self._sharing.is_due(self._loop.time()):
            self._looking = True
            self._recorder.read(self._claims, self._share)

    def _share(self, news: ClaimNews) -> None:
        """Renew our claims, and keep to what other jobs leave of the lanes."""
        self._looking = False
        if self._sharing is not None and self._named:
            look = self._recorder.share(partial(self._calls.share, self._sharing, news))
            self._recorder.batch.events += look.notes
            self._calls.tell(*look.events)
            self._recorder.commit()

    def _note(self, notice: Notice) -> None:
        _, released = self._recorder.note(notice)
        if released:
            self._expected[notice.lane] = {**dict.fromkeys(released), **self._expected[notice.lane]}

    def _failed(self, error: Exception) -> None:
        """The store can no longer be written: no unit that waits for its intent may run."""
        waiting, self._waiting = self._waiting, {}
        held, self._held = self._held, []
        for future in (*waiting.values(), *held):
            if not future.done():
                future.set_exception(error)
        self._on_failed(error)


def _warn_of_unknown(unknown: list[UnknownOutcome]) -> None:
    """Name the units that may have been called when the last process died: they may be paid for twice."""
    if not unknown:
        return
    names = ", ".join(visible(unit.custom_id) for unit in unknown[:5]) + (", …" if len(unknown) > 5 else "")
    count = "1 unit" if len(unknown) == 1 else f"{len(unknown):,} units"
    _warn(f"{count} may have been called when the last process ended, and may be paid for twice: {names}")


def _warn(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):  # Standard error may be closed.
        sys.stderr.write(f"headway: {text}\n")
        sys.stderr.flush()
