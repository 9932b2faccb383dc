"""The records of calls: what makes a `map` durable, and shows a worker pool's work in the store.

The order is the engine's. That a call is about to be made is durable before it is made; its end, its value and the
job's counters are one transaction, and only then is anybody told. Items themselves are not kept: whoever runs the same
work again brings them along, and knows them by their keys.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from headway.core.commands import Notice
from headway.core.lane import Lane
from headway.core.memory import LaneRecord, export_lane, import_lane, rebuild_levels
from headway.core.model import DAY_S, MINUTE_S, Kind
from headway.core.retry import THROTTLES
from headway.core.snapshot import Snapshot
from headway.core.status import GOOD, Status
from headway.engine.calls import DONE, End, Flight
from headway.errors import UsageError
from headway.stores import base as records
from headway.stores.base import Attempt, Batch, Change, Job, NewJob, NewUnit, Route, State, Store
from headway.stores.lock import JobLock
from headway.stores.writer import Writer
from headway.wiring.places import store_at

#: How long what nobody waits for may wait for others to share its fsync, and how often lanes are written down.
LINGER_S: Final = 0.02
LEARN_S: Final = 5.0

_OUTCOMES: Final = {Kind.TIMEOUT: "timed_out", **dict.fromkeys(THROTTLES, "throttled")}


class Kept(msgspec.Struct, frozen=True):
    """What is on record for a key: its unit's index and, where it has succeeded, its value as JSON."""

    index: int
    attempts: int = 0
    value: bytes | None = None


class Ledger:
    """One job of one process, on one event loop."""

    def __init__(self, db: str, name: str, kind: str, source: str) -> None:
        self._db, self._kind, self._source = db, kind, source
        self.name = re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-")[:60] or kind
        self._lock = JobLock(Path(db).parent / "jobs" / self.name / "lock", self.name)
        self._lanes: dict[str, tuple[int, int]] = {}
        self._open: dict[str, Lane] = {}
        self._intended: dict[int, asyncio.Future[None]] = {}
        self._told: list[tuple[Batch, Callable[[], None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._held: deque[asyncio.Future[None]] = deque()
        #: How the lanes look, for who looks at the records.
        self.look: Callable[[], Snapshot] | None = None

    # -- the job ----------------------------------------------------------------------------------------------

    def begin(self, failed: Callable[[Exception], None]) -> None:
        """Take the job over, or make it. `failed` hears of a store that can no longer be written."""
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._store: Store = store_at(self._db)
        try:
            self._lock.__enter__()
        except BaseException:
            self._store.close()
            raise
        try:
            self._job = self._store.job(self.name) or self._new_job()
            if self._job.kind != self._kind:
                raise UsageError(
                    f"the job '{self.name}' in {self._db} is a {self._job.kind}, not a {self._kind}",
                    hint="give this one another name",
                )
            self._total = self._before = self._job.total
            self.done_before = self._job.good
            self._worker = self._store.begin(self._job.id, {}, "", time.time())
        except BaseException:
            self._store.close()
            self._lock.__exit__(None, None, None)
            raise
        self._writer = Writer(
            lambda: store_at(self._db), self._new_batch, self._from_thread, self._committed, self._broke
        )
        self._release()  # The first batch is nobody's commit.
        self._writer.start()
        self._ticker = self._loop.create_task(self._learn_now_and_then())

    def _new_job(self) -> Job:
        new = NewJob(self.name, self._kind, self._source, self._source, "", time.time())
        self._store.seal(self._store.add_job(new), 0, {}, self._source)
        job = self._store.job(self.name)
        assert job is not None
        return job

    async def close(self, state: State) -> None:
        """Commit what is left and end the run."""
        self._ticker.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._learn()
        await asyncio.to_thread(self._writer.close)
        await asyncio.sleep(0)  # The last commits' callbacks.
        try:
            if self._failure is None:
                self._store.end_run(self._job.id, self._worker, state, time.time(), {})
        finally:
            self._store.close()
            self._lock.__exit__(None, None, None)

    # -- units ------------------------------------------------------------------------------------------------

    def known(self, keys: list[str], *, ours: bool = False) -> dict[str, Kept]:
        """What is on record for these keys; of this run's own units only where that is asked."""
        if not (self._before or ours):
            return {}
        return {
            row.custom_id: Kept(row.index, row.attempts, row.body if row.status in GOOD else None)
            for row in self._store.found(self._job.id, keys)
        }

    def add(self, key: str, lane: str, payload: bytes = b"null") -> Kept:
        """A unit that is new."""
        index = self._total
        self._total += 1
        route = self._lane(lane)[1]
        self._writer.batch.added.append((index, NewUnit(key, route, "", payload, len(payload))))
        return Kept(index)

    def add_worker(self, name: str) -> int:
        """One more that works on the job; its number."""
        return self._store.add_worker(self._job.id, name, time.time())

    def set_worker(self, number: int, status: str) -> None:
        """What one of them does now."""
        ended_utc = None if status in ("idle", "busy") else time.time()
        self._writer.batch.workers[number] = (status, ended_utc)
        self._linger()

    async def intend(self, index: int, lane: str) -> None:
        """Returns once it is durable that the unit is about to run."""
        future = self._intended[index] = self._loop.create_future()
        self._writer.batch.intend(index, self._lane(lane)[0])
        self._writer.kick(urgent=True)
        await future
        self._writer.batch.running[index] = time.time()
        self._linger()

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
        change = Change(
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
        then: Callable[[], None],
        worker: int | None = None,
    ) -> None:
        """A unit has come to its end; `then` is called once that is durable."""
        if end is DONE or flight.outcome is not None:
            change = Change(
                str(end.status), code=end.code or None, message=end.message or None, finished_utc=time.time()
            )
            self._record(index, number, flight, change, worker)
            if value is not None:
                self._writer.batch.answers.append((index, None, None, value))
        else:  # It never ran: it is as pending as before.
            self._writer.batch.release(index)
        self._told.append((self._writer.batch, then))
        self._linger()

    def _record(
        self, index: int, number: int, flight: Flight, change: Change, worker: int | None = None
    ) -> None:
        batch, outcome = self._writer.batch, flight.outcome
        lane, route = self._lane(flight.lane)
        started_utc = time.time() - (time.monotonic() - flight.started_at)
        used = flight.usage
        tokens: tuple[int | None, int | None, int | None] = (None, None, None)
        cost_usd: float | None = None
        kind = None if outcome is None else outcome.kind
        use = batch.use(route)
        use.attempts += 1
        use.lane = lane
        use.refused += kind in THROTTLES
        if used is not None:
            tokens = (int(used.input_tokens), int(used.output_tokens), int(used.cached_input_tokens))
            cost_usd = used.cost_usd
            use.told(tokens[0] or 0, tokens[1] or 0, cost_usd, used=change.status == Status.SUCCEEDED)
        batch.change(
            index,
            msgspec.structs.replace(
                change, tries=1, lane=lane, started_utc=started_utc, input_tokens=tokens[0],
                output_tokens=tokens[1], cached_tokens=tokens[2], cost_usd=cost_usd,
            ),
        )  # fmt: skip
        how = (
            "cancelled" if outcome is None else "succeeded" if kind is None else _OUTCOMES.get(kind, "failed")
        )
        batch.attempts.append(
            Attempt(
                index, number, lane, how, None if kind is None else str(kind), outcome.message if outcome and kind else None,
                None, None, started_utc, time.time(), *tokens, cost_usd, flight.charged, None, worker,
            )
        )  # fmt: skip

    # -- commits ----------------------------------------------------------------------------------------------

    def _new_batch(self) -> Batch:
        """Whenever one is handed over. A loop in virtual time waits for the commit in real time."""
        hold_for = getattr(self._loop, "hold_for", None)
        if hold_for is not None:
            self._held.append(self._loop.create_future())
            hold_for(self._held[-1])
        return Batch(self._job.id, self._worker)

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _linger(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(LINGER_S, self._lingered)

    def _lingered(self) -> None:
        self._timer = None
        self._writer.kick()

    def _release(self) -> None:
        if self._held:
            self._held.popleft().set_result(None)

    def _committed(self, batch: Batch) -> None:
        self._release()
        for index in batch.intents:
            future = self._intended.pop(index, None)
            if future is not None and not future.done():
                future.set_result(None)
        told, self._told = self._told, []
        for waited_for, then in told:
            if waited_for is batch:
                then()
            else:
                self._told.append((waited_for, then))
        self._writer.kick(urgent=bool(self._intended))

    def _broke(self, error: Exception) -> None:
        self._failure = error
        while self._held:
            self._release()
        for future in self._intended.values():
            if not future.done():
                future.set_exception(error)
        self._intended.clear()
        self._failed(error)

    # -- lanes ------------------------------------------------------------------------------------------------

    def _lane(self, name: str) -> tuple[int, int]:
        """A lane's number, and that of the route that its units go by."""
        found = self._lanes.get(name)
        if found is None:
            lane = self._store.lane(f"{self._kind}:{self.name}:{name}", name)
            route = self._store.add_route(self._job.id, Route(name, "python", ""))
            found = self._lanes[name] = (lane.id, route)
        return found

    def recall(self, lane: Lane) -> None:
        """A lane is used for the first time in this run: what earlier ones taught it, and what is left in its buckets."""
        self._open[lane.key] = lane
        number = self._lane(lane.key)[0]
        now, utc = self._loop.time(), time.time()
        known = self._store.lane(f"{self._kind}:{self.name}:{lane.key}", lane.key)
        recorded_at = float("inf")
        if known.record is not None:
            record = msgspec.json.decode(known.record, type=LaneRecord)
            utc = max(utc, record.recorded_utc)
            import_lane(lane, record, now, utc)
            recorded_at = now - (utc - record.recorded_utc)
        longest_s = min(DAY_S, max((meter.period_s for meter in lane.meters), default=MINUTE_S))
        starts = [start for start in self._store.starts_since(utc - longest_s) if start.lane == number]
        rebuild_levels(lane, [(min(now, now - (utc - s.at_utc)), s.costs) for s in starts], recorded_at)

    def note(self, notice: Notice) -> None:
        """Something about a lane that a person wants to know."""
        until_utc = None if notice.until is None else time.time() + notice.until - self._loop.time()
        event = records.Event(time.time(), notice.lane, notice.what, notice.text, until_utc)
        self._writer.batch.events.append(event)
        if notice.what == "held":
            self._learn()  # A hold must outlive the process, however soon that ends.
        self._linger()

    async def _learn_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(LEARN_S)
            self._learn()
            self._linger()

    def _learn(self) -> None:
        now, utc = self._loop.time(), time.time()
        views = {} if self.look is None else {view.key: view for view in self.look().lanes}
        for name, lane in self._open.items():
            record = msgspec.json.encode(export_lane(lane, now, utc))
            view = views.get(name)
            if view is not None and view.wait is not None and view.wait.until is not None:
                wait = msgspec.structs.replace(view.wait, until=view.wait.until + utc - now)
                view = msgspec.structs.replace(view, wait=wait)
            self._writer.batch.lanes[self._lane(name)[0]] = (record, msgspec.json.encode(view), utc)
