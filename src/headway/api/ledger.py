"""The records of calls: what makes a `map` durable, and shows a worker pool's work in the store.

The order is the engine's. That a call is about to be made is durable before it is made; its end, its value and the
job's counters are one transaction, and only then is anybody told. Items themselves are not kept: whoever runs the same
work again brings them along, and knows them by their keys.

So that calls which take no time do not wait for a disk each, intents are recorded ahead: of every lane as many of the
next units as its pace starts within a quarter of a second. After a crash those count as perhaps called, too.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from headway.api.job_names import Identity
from headway.core.commands import Notice
from headway.core.lanes.lane import Lane
from headway.core.retry import THROTTLES
from headway.core.snapshot import Snapshot
from headway.core.unit_states import GOOD, Status
from headway.engine.calls import DONE, End, Ended, Flight
from headway.engine.recording import (
    LEARN_S,
    LINGER_S,
    Recalled,
    due_soon,
    keep_attempt,
    lane_row,
    outcome_of,
    refill,
    tokens_of,
)
from headway.executors.limit_evidence import rate_limit_of
from headway.reason_text import notice_text
from headway.safe_text import visible
from headway.stores import records
from headway.stores.batch import Batch
from headway.stores.records import Attempt, Job, NewJob, NewUnit, State, StoredRoute, UnitChange
from headway.stores.store import Store
from headway.stores.writer import Writer
from headway.wiring.store_access import job_lock_at, open_store_file

#: Intents are recorded ahead for at the most so many units of a lane: as many as `map` reads ahead.
MOST_AHEAD: Final = 1_000

_SUCCEEDED: Final = str(Status.SUCCEEDED)


class Kept(msgspec.Struct, frozen=True):
    """What is on record for a key: its unit's index and, where it has succeeded, its value as JSON."""

    index: int
    attempts: int = 0
    value: bytes | None = None
    #: Of the item that was answered, where that is known.
    digest: str | None = None


class _Desk:
    """What is kept for a lane: its number and its route's in the store, and the intents that are recorded ahead."""

    __slots__ = ("ahead", "expected", "intended", "lane", "number", "record", "route", "wanted")

    def __init__(self, known: records.StoredLane, route: int) -> None:
        self.number, self.route = known.id, route
        self.record = known.record
        #: The lane itself, once it is open.
        self.lane: Lane | None = None
        #: Units that will run here and have no intent yet, in order, and those whose intent is durable.
        self.expected: dict[int, None] = {}
        self.intended: set[int] = set()
        #: How many have an intent, durable or nearly, and have not begun; and how many should.
        self.ahead = 0
        self.wanted = 0


class Ledger:
    """One job of one process, on one event loop."""

    def __init__(self, db: str, identity: Identity) -> None:
        self._db, self._identity = db, identity
        #: Absolute: the program may change its working directory meanwhile.
        self._place = db if "://" in db else os.path.abspath(db)
        self._desks: dict[str, _Desk] = {}
        self._by_number: dict[int, _Desk] = {}
        #: Units whose intent is on its way to the disk, with what wakes who waits for that; and how many wait.
        self._intending: dict[int, asyncio.Future[None] | None] = {}
        self._waiting = 0
        self._kick_due = False
        #: Who is to be told what, for each batch that is not committed yet.
        self._told: deque[list[tuple[Ended, Flight, End]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._held: deque[asyncio.Future[None]] = deque()

    # -- the job ----------------------------------------------------------------------------------------------

    def begin(self, look: Callable[[], Snapshot], failed: Callable[[Exception], None]) -> None:
        """Take the job over, or make it. `look` shows the lanes; `failed` hears of a store that can no longer be written."""
        self._loop = asyncio.get_running_loop()
        self._look, self._failed = look, failed
        self._store: Store = open_store_file(self._place)
        try:
            self.name = self._identity.name_in(self._store)
            self._lock = job_lock_at(self._place, self.name)
            self._lock.__enter__()
        except BaseException:
            self._store.close()
            raise
        try:
            self._job = self._found_or_new()
            self._identity.check(self._job, self._place)
            self._total = self._before = self._job.total
            self.done_before = self._job.good
            self._tell_of_unknown()
            self._worker = self._store.begin(
                self._job.id, self._identity.settings(self._job, self._place), "", time.time()
            )
        except BaseException:
            self._store.close()
            self._lock.__exit__(None, None, None)
            raise
        self._writer = Writer(
            lambda: open_store_file(self._place),
            self._new_batch,
            self._from_thread,
            self._committed,
            self._broke,
        )
        self._release()  # The first batch is nobody's commit.
        self._writer.start()
        self._next_learning = self._loop.call_later(LEARN_S, self._learn_and_go_on)

    def _tell_of_unknown(self) -> None:
        """Name the units that may have been called when the last process died: they may be paid for twice."""
        unknown = self._store.unknown(self._job.id)
        if not unknown:
            return
        names = ", ".join(visible(one.custom_id) for one in unknown[:5]) + (", …" if len(unknown) > 5 else "")
        count = "1 unit" if len(unknown) == 1 else f"{len(unknown):,} units"
        text = f"{count} may have been called when the last process ended, and may be paid for twice: {names}"
        with suppress(OSError, ValueError, AttributeError):  # Standard error may be closed.
            sys.stderr.write(f"headway: {text}\n")
            sys.stderr.flush()

    def _found_or_new(self) -> Job:
        """The job with this name. The lock of the name is held."""
        who = self._identity
        wanted = NewJob(self.name, who.kind, who.function, who.function, "", time.time(), who.form())
        job, is_new = self._store.find_or_add(wanted, lambda job: job.name == self.name)
        if is_new:
            self._store.seal(job.id, 0, {}, who.function)
        return job

    async def close(self, state: State | None = None) -> None:
        """Commit what is left and end the run. Without a state, the units' own states say it."""
        self._next_learning.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._learn()
        await asyncio.to_thread(self._writer.close)
        await asyncio.sleep(0)  # The last commits' callbacks.
        try:
            if self._failure is None:
                end = state or self._state_of_units()
                self._store.end_run(self._job.id, self._worker, end, time.time(), {})
        finally:
            self._store.close()
            self._lock.__exit__(None, None, None)

    def _state_of_units(self) -> State:
        """`failed` if a unit is, `stopped` if one still waits: its lane stopped, or it was not submitted again."""
        job = self._store.job(self.name)
        assert job is not None
        if job.ended > job.good:
            return "failed"
        return "complete" if job.good == job.total else "stopped"

    # -- units ------------------------------------------------------------------------------------------------

    def known(self, keys: list[str], *, ours: bool = False) -> dict[str, Kept]:
        """What is on record for these keys; of this run's own units only where that is asked."""
        if not (self._before or ours):
            return {}
        return {
            row.custom_id: Kept(
                row.index, row.attempts, row.body if row.status in GOOD else None, row.request_id
            )
            for row in self._store.found(self._job.id, keys)
        }

    def add(self, key: str, lane: str, payload: bytes = b"null") -> Kept:
        """A unit that is new."""
        index = self._total
        self._total += 1
        route = self._desk(lane).route
        self._writer.batch.added.append((index, NewUnit(key, route, "", payload, len(payload))))
        return Kept(index)

    def run_again(self, index: int, payload: bytes) -> None:
        """A unit on record that did not succeed runs once more, with this."""
        self._writer.batch.reopen(index, payload)
        self._linger()

    def expect(self, index: int, lane: str) -> None:
        """The unit will run as soon as its lane lets it: its intent may be recorded ahead."""
        desk = self._desk(lane)
        if desk.ahead < desk.wanted and not desk.expected:
            self._intend_ahead(index, desk)
        else:
            desk.expected[index] = None

    def add_worker(self, name: str) -> int:
        """One more that works on the job; its number."""
        return self._store.add_worker(self._job.id, name, time.time())

    def set_worker(self, number: int, status: str) -> None:
        """What one of them does now."""
        ended_utc = None if status in ("idle", "busy") else time.time()
        self._writer.batch.workers[number] = (status, ended_utc)
        self._linger()

    def intend(self, index: int, lane: str) -> asyncio.Future[None] | None:
        """The unit is about to run: what to wait for until that is durable, None where it is already."""
        desk = self._desk(lane)
        if index in desk.intended:
            desk.intended.remove(index)
            desk.ahead -= 1
            future = None
        else:
            future = self._intend_now(index, desk)
        if future is not None or 2 * desk.ahead <= desk.wanted:
            self._look_ahead(desk)
        return future

    def _intend_now(self, index: int, desk: _Desk) -> asyncio.Future[None]:
        """Somebody waits for it. All that begin in one round of the loop share a commit."""
        if index in self._intending:
            desk.ahead -= 1
        else:
            desk.expected.pop(index, None)
            self._writer.batch.intend(index, desk.number)
        future = self._intending[index] = self._loop.create_future()
        self._waiting += 1
        if not self._kick_due:
            self._kick_due = True
            self._loop.call_soon(self._kick)
        return future

    def _look_ahead(self, desk: _Desk) -> None:
        """Record the intents of what the lane will start soon. One that starts few has none ahead."""
        if desk.lane is None:
            return
        wanted = min(MOST_AHEAD, due_soon(desk.lane, self._loop.time()))
        desk.wanted = wanted if wanted > 1 else 0
        for index in list(islice(desk.expected, max(0, desk.wanted - desk.ahead))):
            del desk.expected[index]
            self._intend_ahead(index, desk)

    def _intend_ahead(self, index: int, desk: _Desk) -> None:
        self._intending[index] = None
        desk.ahead += 1
        self._writer.batch.intend(index, desk.number)

    def running(self, index: int) -> None:
        """The unit runs now."""
        self._writer.batch.running[index] = time.time()
        self._linger()

    def _call_off(self, index: int, desk: _Desk) -> None:
        """It never ran: it is as pending as before."""
        if index in desk.expected:
            del desk.expected[index]
            return
        if index in desk.intended:
            desk.intended.remove(index)
            desk.ahead -= 1
        elif index in self._intending:
            if self._intending.pop(index) is None:
                desk.ahead -= 1
            else:
                self._waiting -= 1
        self._writer.batch.release(index)

    def _call_off_ahead(self, desk: _Desk) -> None:
        """Nothing will start for a while: what was recorded ahead is pending again, and a crash would not name it."""
        desk.wanted = 0
        desk.ahead -= len(desk.intended)
        for index in desk.intended:
            self._writer.batch.release(index)
        desk.expected = {**dict.fromkeys(sorted(desk.intended)), **desk.expected}
        desk.intended.clear()

    def tried(
        self,
        index: int,
        number: int,
        flight: Flight,
        not_before_s: float,
        reason: str,
        worker: int | None = None,
    ) -> None:
        """An attempt did not do it, and the unit waits."""
        outcome = flight.outcome
        kind = None if outcome is None or outcome.kind is None else str(outcome.kind)
        change = UnitChange(
            Status.PENDING, code=kind, message=reason, not_before_utc=time.time() + max(0.0, not_before_s)
        )
        self._record(index, number, flight, change, worker)
        self._linger()

    def ended(
        self,
        index: int,
        number: int,
        flight: Flight,
        end: End,
        value: bytes | None,
        then: Ended,
        worker: int | None = None,
        digest: str | None = None,
    ) -> None:
        """A unit has come to its end; `then` is called once that is durable.

        One that waited for another try, and whose lane or run stopped, stays pending: its last attempt is on record.
        """
        batch = self._writer.batch
        if end is DONE or (flight.recorded != flight.attempts and self._has_run(index, flight, end)):
            if end is DONE:
                change = UnitChange(_SUCCEEDED, finished_utc=time.time())
            else:
                change = UnitChange(
                    str(end.status),
                    code=end.code or None,
                    message=end.message or None,
                    finished_utc=time.time(),
                )
            self._record(index, number, flight, change, worker)
            if value is not None:
                batch.answers.append((index, None, digest, value))
        else:
            self._call_off(index, self._desk(flight.lane))
        self._told[-1].append((then, flight, end))
        self._linger()

    def _has_run(self, index: int, flight: Flight, end: End) -> bool:
        """Whether the attempt was really made: it has an outcome, or the run's deadline cut it short."""
        desk = self._desk(flight.lane)
        waited = index in desk.expected or index in desk.intended or index in self._intending
        return flight.outcome is not None or (end.code == "deadline" and not waited)

    def _record(
        self, index: int, number: int, flight: Flight, change: UnitChange, worker: int | None = None
    ) -> None:
        desk, outcome, used = self._desk(flight.lane), flight.outcome, flight.usage
        kind = message = None
        if outcome is None:
            how = "cancelled"
        else:
            how = outcome_of(outcome.kind)
            if outcome.kind is not None:
                kind, message = str(outcome.kind), outcome.message
        utc = time.time()
        started_utc = utc - (time.monotonic() - flight.started_at)
        attempt = Attempt(
            index, number, desk.number, how, kind, message, None, None, started_utc, utc, *tokens_of(used),
            None if used is None else used.cost_usd, flight.charged, _limit_met(flight), worker,
        )  # fmt: skip
        keep_attempt(self._writer.batch, desk.route, attempt, change)
        flight.recorded = flight.attempts
        if flight.details:
            self._writer.batch.notes.append((index, number, flight.details))

    # -- commits ----------------------------------------------------------------------------------------------

    def _new_batch(self) -> Batch:
        """Whenever one is handed over. A loop in virtual time waits for the commit in real time."""
        hold_for = getattr(self._loop, "hold_for", None)
        if hold_for is not None:
            self._held.append(self._loop.create_future())
            hold_for(self._held[-1])
        self._told.append([])
        return Batch(self._job.id, self._worker)

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _linger(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._timer = None
        self._writer.kick()

    def _kick(self) -> None:
        self._kick_due = False
        self._writer.kick(urgent=True)

    def _release(self) -> None:
        if self._held:
            self._held.popleft().set_result(None)

    def _committed(self, batch: Batch) -> None:
        self._release()
        for index, number in batch.intents.items():
            if index in self._intending:
                future = self._intending.pop(index)
                if future is None:
                    self._by_number[number].intended.add(index)
                else:
                    self._wake(future)
        for number in set(batch.intents.values()):
            if not self._by_number[number].wanted:
                self._call_off_ahead(self._by_number[number])
        for then, flight, end in self._told.popleft():
            then(flight, end)
        if self._waiting:
            self._writer.kick(urgent=True)
        elif self._writer.batch:
            self._linger()

    def _wake(self, future: asyncio.Future[None], error: Exception | None = None) -> None:
        self._waiting -= 1
        if future.done():  # Called off meanwhile.
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def _broke(self, error: Exception) -> None:
        self._failure = error
        while self._held:
            self._release()
        for future in self._intending.values():
            if future is not None:
                self._wake(future, error)
        self._intending.clear()
        self._failed(error)

    # -- lanes ------------------------------------------------------------------------------------------------

    def _desk(self, name: str) -> _Desk:
        """What is kept for a lane."""
        found = self._desks.get(name)
        if found is None:
            known = self._store.lane(f"{self._identity.kind}:{self.name}:{name}", name)
            route = self._store.add_route(self._job.id, StoredRoute(name, "python", ""))
            found = self._desks[name] = self._by_number[known.id] = _Desk(known, route)
        return found

    def recall(self, lane: Lane) -> None:
        """A lane is used for the first time in this run: what earlier ones taught it, and what is left in its buckets."""
        desk = self._desk(lane.key)
        desk.lane = lane
        now, utc = self._loop.time(), time.time()
        refill(self._store, {desk.number: Recalled(lane, desk.record, now, utc)}, utc)

    def note(self, notice: Notice) -> None:
        """Something about a lane that a person wants to know."""
        until_utc = None if notice.until is None else time.time() + notice.until - self._loop.time()
        event = records.JobEvent(time.time(), notice.lane, notice.what, notice_text(notice.reason), until_utc)
        self._writer.batch.events.append(event)
        if notice.what in ("held", "stopped"):
            self._call_off_ahead(self._desk(notice.lane))
        if notice.what == "held":
            self._learn()  # A hold must outlive the process, however soon that ends.
        self._linger()

    def _learn_and_go_on(self) -> None:
        """Learn every `LEARN_S`. A timer: the exception of a cancelled task would keep its callers' frames, and with them
        the results.
        """
        self._next_learning = self._loop.call_later(LEARN_S, self._learn_and_go_on)
        self._learn()
        self._linger()

    def _learn(self) -> None:
        """Write down what lanes know and how they look."""
        now, utc = self._loop.time(), time.time()
        for view in self._look().lanes:
            desk = self._desk(view.key)
            if desk.lane is not None:
                row = lane_row(desk.lane, desk.record, view, now, utc)
                self._writer.batch.lanes[desk.number] = row


def _limit_met(flight: Flight) -> bytes | None:
    """The rate limit that an attempt met, as it is kept; None where it met none."""
    outcome, limit = flight.outcome, flight.rate_limit
    if limit is None:
        if outcome is None or outcome.kind not in THROTTLES:
            return None
        limit = rate_limit_of("result" if flight.error is None else type(flight.error).__name__, outcome)
    return msgspec.json.encode(limit)
