"""Records what attempts print and report while they run (`providers.attempt_log`), and tells observers how agents get on.

Lines gather in the present batch, and are committed together. Memory is bounded: while `MOST_UNWRITTEN` bytes are on their way to the
disk, the programs that print them are not read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from headway.engine.flights import RequestFlight
from headway.engine.observer import AgentActivity
from headway.engine.recorder import Recorder
from headway.engine.recording.worker_records import WorkerProcesses
from headway.providers.attempt_log import AgentProgress, EarlierSession
from headway.stores.records import TranscriptRow
from headway.stores.row_conversion import uid
from headway.stores.write_batch import WriteBatch

#: How long a line may wait for others to share its commit: short enough for people who watch.
LINGER_S: Final = 0.1
#: The most bytes of lines that wait for the disk; the longest line may come on top.
MOST_UNWRITTEN: Final = 16 * 1024 * 1024
#: How often observers are told about agents.
TELL_S: Final = 0.25

Tell = Callable[[AgentActivity], None]


class AttemptLogs:
    """The logs of all attempts of one run. `tell` gets the activity of agents."""

    def __init__(self, recorder: Recorder, tell: Tell) -> None:
        self._recorder, self._tell = recorder, tell
        self.workers = WorkerProcesses(recorder)
        self._loop = asyncio.get_running_loop()
        self._unwritten = 0
        #: The batch that the last line went into.
        self._batch: WriteBatch | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._linger: asyncio.TimerHandle | None = None
        self._telling: asyncio.TimerHandle | None = None
        self._news: dict[int, AgentActivity] = {}

    def open(self, flight: RequestFlight) -> FlightLog:
        """The log of an attempt."""
        return FlightLog(self, flight, self._recorder.lanes[flight.lane].name)

    @property
    def recorder(self) -> Recorder:
        """The records of the run."""
        return self._recorder

    def add(self, row: TranscriptRow) -> Awaitable[None] | None:
        """Record a line. Returns something to wait for if too much waits for the disk."""
        batch, size = self._recorder.batch, len(row.line) + len(row.messages)
        if batch is not self._batch:
            self._batch = batch
            batch.after_commit.append(lambda: self._written(batch))
        batch.transcripts.append(row)
        self._unwritten += size
        if self._linger is None:
            self._linger = self._loop.call_later(LINGER_S, self._commit)
        if self._unwritten <= MOST_UNWRITTEN:
            return None
        self._commit()
        room = self._loop.create_future()
        self._waiting.append(room)
        return room

    def _commit(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        self._recorder.commit_later()

    def _written(self, batch: WriteBatch) -> None:
        self._unwritten -= sum(len(row.line) + len(row.messages) for row in batch.transcripts)
        waiting, self._waiting = self._waiting, []
        for room in waiting:
            if not room.done():
                room.set_result(None)

    async def record(self, index: int, number: int, details: bytes) -> None:
        """Record details of an attempt, and wait until they are durable."""
        durable: asyncio.Future[None] = self._loop.create_future()
        self._recorder.batch.notes.append((index, number, details))
        self._recorder.after_commit(lambda: None if durable.done() else durable.set_result(None))
        self._recorder.hurry()
        self._recorder.commit()
        await durable

    def news(self, activity: AgentActivity) -> None:
        """Tell observers, a few times a second."""
        self._news[activity.uid] = activity
        if self._telling is None:
            self._telling = self._loop.call_later(TELL_S, self._tell_all)

    def over(self, activity: AgentActivity) -> None:
        """The attempt has ended: tell observers at once."""
        self._news.pop(activity.uid, None)
        self._tell(activity)

    def _tell_all(self) -> None:
        self._telling = None
        news, self._news = self._news, {}
        for activity in news.values():
            self._tell(activity)

    def close(self) -> None:
        """The run is over."""
        self.workers.close()
        for timer in (self._linger, self._telling):
            if timer is not None:
                timer.cancel()


class FlightLog:
    """The log of one attempt (`providers.attempt_log.AttemptLog`)."""

    __slots__ = (
        "_activity",
        "_asked",
        "_flight",
        "_lane",
        "_logs",
        "_seq",
        "_started_utc",
        "_unit",
    )

    def __init__(self, logs: AttemptLogs, flight: RequestFlight, lane: str) -> None:
        self._logs, self._flight, self._lane = logs, flight, lane
        self._seq = 0
        self._started_utc = time.time()
        #: The id of the unit; "" until it is read.
        self._unit = ""
        self._asked = False
        self._activity: AgentActivity | None = None

    def runs_in(self, pid: int) -> None:
        """This worker process runs the attempt."""
        self._flight.worker = self._logs.workers.busy(pid, self._flight.index)

    async def earlier_session(self) -> EarlierSession | None:
        """The session of the latest earlier attempt that had one."""
        recorder, index = self._logs.recorder, self._flight.index
        job = recorder.job
        stored = await recorder.fetch(lambda store: store.session_of(job, index))
        if stored is None:
            return None
        succeeded = stored.outcome == "succeeded"
        return EarlierSession(stored.session_id, stored.directory, succeeded, stored.spoke)

    def line(self, line: bytes, messages: bytes) -> Awaitable[None] | None:
        """Record a line of output."""
        flight = self._flight
        row = TranscriptRow(flight.index, flight.attempts, self._seq, time.time(), line, messages)
        self._seq += 1
        return self._logs.add(row)

    async def record(self, details: bytes) -> None:
        """Record details of the attempt; they are durable when this returns."""
        await self._logs.record(self._flight.index, self._flight.attempts, details)

    def progress(self, progress: AgentProgress) -> None:
        """Tell observers how far the agent is."""
        recorder, index = self._logs.recorder, self._flight.index
        self._activity = AgentActivity(
            uid(recorder.job, index), self._unit, self._lane, progress.turn, progress.tool, progress.tokens,
            progress.cost_usd, self._started_utc,
        )  # fmt: skip
        if self._unit:
            self._logs.news(self._activity)
        elif not self._asked:
            self._asked = True
            job = recorder.job
            recorder.read(lambda store: store.custom_id(job, index), self._named)

    def _named(self, unit: str) -> None:
        self._unit = unit
        if self._activity is not None:
            self._activity = msgspec.structs.replace(self._activity, unit=unit)
            self._logs.news(self._activity)

    def close(self) -> None:
        """The attempt has ended."""
        if self._flight.worker is not None:
            self._logs.workers.idle(self._flight.worker)
        if self._activity is not None and self._unit:
            self._logs.over(msgspec.structs.replace(self._activity, is_over=True))
        self._activity = None
