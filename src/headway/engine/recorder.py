"""The records of one run: intents, attempts, answers, what lanes learn. Jobs and Python calls both use it.

The order makes a run safe to kill:

1. The intent to send is durable before the unit is sent. `intents` records it ahead, so that a start rarely waits.
2. An attempt, its answer, the new state of its unit and the job's counters are one transaction.
3. A unit counts as finished once that transaction is committed. Only then are observers and callers told.

The loop never waits for the disk: changes gather in a `WriteBatch`, and the writer's thread commits it. Queries during a run go
through the reader's thread.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from headway.core.commands import Notice
from headway.core.lanes.lane import LaneState
from headway.core.reasons import EndReason
from headway.core.snapshot import Snapshot
from headway.engine.flights import LaneHandle
from headway.engine.intents import MOST_AHEAD, Intents
from headway.engine.recording.attempt_records import add_attempt
from headway.engine.recording.lane_records import RestoredLane, lane_row
from headway.engine.recording.lane_sampler import LaneSampler
from headway.engine.recording.store_clock import StoreClock
from headway.engine.store_reader import StoreReader
from headway.errors import JobTaken
from headway.reason_text import notice_text
from headway.stores.journal import replay
from headway.stores.records import Attempt, JobEvent, State, StoredLane, UnitChange, UnknownOutcome
from headway.stores.store import Store
from headway.stores.write_batch import Grow, WriteBatch, with_losses
from headway.stores.writer import Outage, Writer

#: How long a change that nothing waits for may wait for others to share its fsync.
LINGER_S: Final = 0.02
#: How often what lanes have learned is recorded.
LEARN_S: Final = 5.0

Value = TypeVar("Value")


class Recorder:
    """Records one run of one job, on the running event loop.

    `committed` is called after each commit, `failed` once if the records cannot be written or read any more; `snapshot`
    returns the present state of the lanes. `store` is open for the time before the run works and after it.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        *,
        failed: Callable[[Exception], None],
        snapshot: Callable[[], Snapshot],
        committed: Callable[[WriteBatch], None] | None = None,
    ) -> None:
        #: What to do while the database is away, where it may be; and what was recorded of an earlier run. Set before `begin`.
        self.outage: Outage | None = None
        self.replayed = ""
        self._loop = asyncio.get_running_loop()
        self._open_store = open_store
        self._on_committed, self._on_failed, self._snapshot = committed, failed, snapshot
        self.store = open_store()
        #: The time that records have.
        self.clock = StoreClock()
        self.clock.correct(self.store.clock_ahead_s())
        self.lanes: dict[str, LaneHandle] = {}
        self.failure: Exception | None = None
        #: Results that are not on record, after `close`.
        self._unrecorded = 0
        self._caching = False
        self._grow: Grow | None = None
        self._closing = False
        #: Whether the next `commit` commits the present batch at once.
        self._urgent = False
        self._fetches: set[asyncio.Future[Any]] = set()
        self._linger: asyncio.TimerHandle | None = None
        self._next_learning: asyncio.TimerHandle | None = None
        #: A loop with virtual time must not skip time while a thread works: one future for each commit or read.
        self._hold_for: Callable[[asyncio.Future[None]], None] | None = getattr(self._loop, "hold_for", None)
        self._holds: deque[asyncio.Future[None]] = deque()

    # -- the run ----------------------------------------------------------------------------------------------

    def begin(
        self,
        job: int,
        settings: dict[str, Any],
        out: str = "",
        *,
        only_failed: bool = False,
        only: Collection[int] = (),
        stay: Collection[int] = (),
        taken_utc: float = 0.0,
        caching: bool = False,
        grow: Grow | None = None,
        ahead: tuple[int, int] = (1, MOST_AHEAD),
    ) -> list[UnknownOutcome]:
        """Take the job over; returns the units whose outcome an earlier run left unknown.

        `grow` adds units to the job when units end. `ahead`: for each lane at least so many intents are recorded ahead, or none, and at most so many.
        """
        if self.outage is not None:
            self.replayed = replay(self.store, self.outage.journal)
        unknown = self.store.unknown_outcomes(job)
        self.job, self._caching, self._grow = job, caching, grow
        self._worker = self.store.begin(
            job,
            settings,
            out,
            self.clock.utc(),
            only_failed=only_failed,
            only=only,
            stay=stay,
            taken_utc=taken_utc,
        )
        self._writer = Writer(
            self._open_store, self._next_batch, self._from_thread, self._committed, self._broke, self.outage
        )
        self._release_hold()  # Nothing commits the first batch yet.
        self._reader = StoreReader(self._open_store, self._from_thread, self._broke)
        self.intents = Intents(self._writer, *ahead)
        self._sampler = LaneSampler(self.lanes, self.store.samples.state(job), self._loop.time())
        return unknown

    def start(self) -> None:
        """Start the threads that write and read."""
        self._writer.start()
        self._reader.start()
        self._next_learning = self._loop.call_later(LEARN_S, self._learn_periodically)

    async def close(self) -> None:
        """Commit what is left, and end the threads."""
        self._closing = True
        for timer in (self._linger, self._next_learning):
            if timer is not None:
                timer.cancel()
        await asyncio.to_thread(self._reader.close)
        await asyncio.to_thread(self._writer.close)
        self._unrecorded = self._writer.unrecorded()
        await asyncio.sleep(0)  # For the callbacks of the last commits.
        self._release_holds()

    def end_run(self, state: State, unfinished: Mapping[str, EndReason], text: str = "") -> None:
        """Record how the run ended. `unfinished` says for each route why its units that are left could not finish; `text` is for the
        event of the end."""
        self.store.end_run(self.job, self._worker, state, self.clock.utc(), unfinished, text)

    async def in_thread(self, act: Callable[[Store], Value]) -> Value:
        """Use `store` in a thread, which waits without limit for a server that is away, until `store.abandon`."""
        self.store.set_patience(math.inf)
        self._hold()
        work = asyncio.ensure_future(asyncio.to_thread(act, self.store))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self.store.abandon()
            await asyncio.wait([work])
            raise
        finally:
            self._release_hold()
            self.store.set_patience(None)

    # -- commits ----------------------------------------------------------------------------------------------

    @property
    def is_away(self) -> bool:
        """Whether the database server is away."""
        return self._writer.is_away

    @property
    def batch(self) -> WriteBatch:
        """The changes that are committed next."""
        return self._writer.batch

    def new_batch(self) -> WriteBatch:
        """An empty batch of this run, for the caller to commit."""
        return WriteBatch(self.job, self._worker, caching=self._caching, grow=self._grow)

    def commit(self) -> None:
        """Commit at once if something waits for it, otherwise together with what comes within `LINGER_S`."""
        if self.intents.waiting or self._urgent:
            self._writer.kick(urgent=True)
        elif self._linger is None and self._writer.batch:
            self.commit_later()

    def commit_later(self) -> None:
        """Commit together with what comes within `LINGER_S`."""
        if self._linger is None and not self._closing:
            self._linger = self._loop.call_later(LINGER_S, self._end_linger)

    def hurry(self) -> None:
        """The next `commit` commits the present batch at once."""
        self._urgent = True

    def after_commit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function once the present batch is committed."""
        self._writer.batch.after_commit.append(partial(function, *arguments))

    def _end_linger(self) -> None:
        self._linger = None
        self._writer.kick()

    def _next_batch(self) -> WriteBatch:
        """Called by the writer whenever it takes the present batch."""
        self._hold()
        self._urgent = False
        return self.new_batch()

    def _committed(self, batch: WriteBatch) -> None:
        """A batch is durable: call what waits for it, and go on with the next batch."""
        self._release_hold()
        if self._on_committed is not None:
            self._on_committed(batch)
        _call_all(batch)
        self.intents.durable(batch.intents)
        if not self._closing:
            self.commit()

    def _broke(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._release_holds()
        for fetch in self._fetches:
            if not fetch.done():
                fetch.set_exception(error)
        self._on_failed(error)

    def with_losses(self, error: JobTaken, cancelled: int) -> JobTaken:
        """The error of a run that has lost its job, with what that costs. `cancelled`: how many requests were in flight."""
        return with_losses(error, self._unrecorded, cancelled)

    def _from_thread(self, act: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(act)

    def _hold(self) -> None:
        if self._hold_for is not None:
            self._holds.append(self._loop.create_future())
            self._hold_for(self._holds[-1])

    def _release_hold(self) -> None:
        if self._holds:
            self._holds.popleft().set_result(None)

    def _release_holds(self) -> None:
        while self._holds:
            self._release_hold()

    # -- claims -----------------------------------------------------------------------------------------------

    def commit_first(self, first: WriteBatch, announce: Callable[[WriteBatch], None]) -> None:
        """Commit the first changes of the run, and its claims, before anything starts."""
        if not self.store.claims.are_apart:
            announce(first)
            self.store.commit(first)
            _call_all(first)
            return
        self.store.commit(first)
        claims = self.new_batch()
        announce(claims)
        write_claims(claims, self.store)
        _call_all(claims)

    def share(self, look: Callable[[WriteBatch], Value]) -> Value:
        """Look at the claims of others. Our own go into a batch, and are written with the next commit; or apart from commits, in the thread that
        reads, so that they are in time even if commits wait for those of other engines.
        """
        if not self.store.claims.are_apart:
            return look(self._writer.batch)
        batch = self.new_batch()
        result = look(batch)
        if batch.claims or batch.seen_utc is not None:
            self.read(partial(write_claims, batch), lambda _: _call_all(batch))
        return result

    # -- reads ------------------------------------------------------------------------------------------------

    def read(self, query: Callable[[Store], Value], then: Callable[[Value], None]) -> None:
        """Run a query in the reader's thread, and `then` with its result on the loop."""
        self._hold()

        def deliver(value: Value) -> None:
            self._release_hold()
            then(value)

        self._reader.read(query, deliver)

    async def fetch(self, query: Callable[[Store], Value]) -> Value:
        """The result of a query that the reader's thread runs. Raises what made the records fail."""
        result: asyncio.Future[Value] = self._loop.create_future()
        self._fetches.add(result)
        self.read(query, lambda value: None if result.done() else result.set_result(value))
        try:
            return await result
        finally:
            self._fetches.discard(result)

    # -- attempts ---------------------------------------------------------------------------------------------

    def add_attempt(self, attempt: Attempt, route: int, change: UnitChange, details: bytes = b"") -> None:
        """Record an attempt that has ended, and the new state of its unit."""
        batch = self._writer.batch
        if self.clock.ahead_s:
            attempt = _later(attempt, self.clock.ahead_s)
        add_attempt(batch, route, attempt, change)
        if details:
            batch.notes.append((attempt.index, attempt.number, details))

    # -- lanes ------------------------------------------------------------------------------------------------

    def add_lane(self, key: str, name: str, stored: StoredLane) -> LaneHandle:
        """A lane of this run."""
        handle = self.lanes[key] = LaneHandle(key, name, stored)
        return handle

    def restore(self, handle: LaneHandle, lane: LaneState) -> RestoredLane:
        """The scheduler has opened the lane: it knows again what it learned in earlier runs."""
        handle.lane = lane
        restored = RestoredLane(lane, handle.record, self._loop.time(), self.clock.utc())
        if lane.account.name:
            restored.join_account(other.record for other in self.store.lanes() if other.id != handle.id)
        return restored

    def note(self, notice: Notice) -> tuple[JobEvent, list[int]]:
        """Record a notice about a lane. If the lane starts nothing now, its intents ahead are released: returns these units."""
        handle = self.lanes[notice.lane]
        utc = self.clock.utc()
        until_utc = None if notice.until is None else utc + notice.until - self._loop.time()
        event = JobEvent(utc, handle.name, notice.what, notice_text(notice.reason), until_utc)
        self._writer.batch.events.append(event)
        released: list[int] = []
        if notice.what in ("held", "stopped", "breaker_opened"):
            released = self.intents.release_ahead(handle)
            self.learn()  # A hold must survive a crash of the process, and `headway lanes` shows it at once.
        self.commit_later()
        return event, released

    def sample(self, snapshot: Snapshot) -> None:
        """Record how the lanes are, at most once a second; with the next commit."""
        self._sampler.look(snapshot, self.clock.utc(), self._writer.batch)

    def finish_samples(self) -> None:
        """Record how the lanes are at the end of the run."""
        self._sampler.finish(self._snapshot(), self.clock.utc(), self._writer.batch)

    def learn(self) -> None:
        """Record what lanes have learned, and their views."""
        now, utc, state = self._loop.time(), self.clock.utc(), self._snapshot()
        self.sample(state)
        for view in state.lanes:
            handle = self.lanes.get(view.key)
            if handle is not None and handle.lane is not None:
                row = lane_row(handle.lane, handle.record, view, now, utc)
                self._writer.batch.lanes[handle.id] = row

    def _learn_periodically(self) -> None:
        """Every `LEARN_S`. By a timer, because the exception of a cancelled task would keep its callers' frames alive, and
        with them the results.
        """
        self._next_learning = self._loop.call_later(LEARN_S, self._learn_periodically)
        try:
            self.learn()
            self.commit_later()
        except Exception as error:
            self._broke(error)


def write_claims(batch: WriteBatch, store: Store) -> None:
    """Write the claims of a batch, and nothing else of it."""
    store.claims.write(batch.worker or batch.job, batch.job, batch.claims.items(), batch.seen_utc)


def _call_all(batch: WriteBatch) -> None:
    for act in batch.after_commit:
        act()


def _later(attempt: Attempt, ahead_s: float) -> Attempt:
    """The same attempt, by a clock that is ahead of this machine's."""
    utcs = {name: getattr(attempt, name) for name in ("started_utc", "finished_utc")}
    return msgspec.structs.replace(attempt, **{name: utc and utc + ahead_s for name, utc in utcs.items()})
