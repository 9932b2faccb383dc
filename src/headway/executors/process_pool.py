"""A pool of worker processes. A worker that crashes costs the unit that it ran and nothing else.

Each worker has one process, one pipe and one unit at a time. When a worker dies, its unit's result says how, with the
evidence; a new worker is started when the next unit needs one. Processes are started afresh ("spawn"), never forked: they
inherit no lock, thread or socket of the owner.

A unit whose worker died before it began the unit was not run, and goes to another worker. `pool_health` decides when the pool
as a whole is broken.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from headway.core.model import Kind, Outcome
from headway.errors import UsageError
from headway.executors import worker_main
from headway.executors.entry_point import GUARD, EntryPoint
from headway.executors.evidence.log_files import NO_MARKS, Marks
from headway.executors.guardian import Guardian
from headway.executors.limit_evidence import LimitDetector
from headway.executors.pool_health import DOOMED_S, STARTS, PoolHealth
from headway.executors.process_tree import kill_tree, new_mark, resident_bytes
from headway.executors.work_result import (
    Death,
    WorkResult,
    crashed,
    timed_out,
    with_evidence,
    work_result_of,
)
from headway.executors.worker_process import STOPPED, WorkerProcess
from headway.executors.worker_protocol import LARGEST, SETUP, ReplyNote
from headway.providers.attempt_log import WorkerWatcher

#: A worker that imports its program takes seconds at worst; one that hangs in an import is killed.
START_S: Final = 120.0
#: How long idle workers may take to end by themselves.
STOP_S: Final = 1.0
LATE: Final = "it took too long"
#: How often the memory of busy workers is read where it is limited: a growth of 1 GB a second is caught within 0.1 GB.
MEMORY_CHECK_S: Final = 0.1


class Broken(Exception):
    """No worker can be started, or none survives."""


class _RunningUnit:
    """A unit in a worker. `result` is None where the worker died before it began the unit."""

    __slots__ = ("began_at", "began_utc", "last", "number", "result", "timeout_s", "timer")

    def __init__(
        self, number: int, result: asyncio.Future[WorkResult | None], timeout_s: float, *, last: bool
    ) -> None:
        self.number, self.result, self.timeout_s, self.last = number, result, timeout_s, last
        self.began_at = time.monotonic()
        self.began_utc = time.time()
        self.timer: asyncio.TimerHandle | None = None


class _Waiter:
    """A caller that waits for a worker. `fresh`: for one that has run no unit yet."""

    __slots__ = ("fresh", "worker")

    def __init__(self, worker: asyncio.Future[WorkerProcess], *, fresh: bool) -> None:
        self.worker, self.fresh = worker, fresh

    def takes(self, worker: WorkerProcess) -> bool:
        """Whether it still waits and can use this worker."""
        return not self.worker.done() and not (self.fresh and worker.units)


class ProcessPool:
    """At most `size` workers, started when they are needed.

    A worker is replaced after `recycle_after` units, or once it has used more than `memory_ceiling` bytes (0: never). A worker
    that uses more than `memory_limit` bytes during a unit is killed (0: no limit; Linux only). `env` names the variables
    that workers get; None: all. `max_value` is the most bytes that a unit may return. Use a pool on one event loop, and close it.
    """

    def __init__(
        self,
        entry: EntryPoint,
        size: int,
        *,
        recycle_after: int = 0,
        memory_ceiling: int = 0,
        memory_limit: int = 0,
        start_s: float = START_S,
        doomed_s: float = DOOMED_S,
        detector: LimitDetector | None = None,
        env: tuple[str, ...] | None = None,
        max_value: int = LARGEST,
    ) -> None:
        if worker_main.setting_up:
            raise UsageError(
                "a worker process was about to start workers while it imports the script",
                hint=GUARD,
            )
        if memory_limit and not resident_bytes(os.getpid()):
            raise UsageError(
                "memory_limit: this system does not report the memory of a process", hint="leave it out"
            )
        self.size = max(1, size)
        self._watcher: WorkerWatcher | None = None
        self._recycle_after, self._memory_ceiling = recycle_after, memory_ceiling
        self._memory_limit = memory_limit
        self._memory_timer: asyncio.TimerHandle | None = None
        self._start_s, self._detector = start_s, detector
        self._setup = entry.encoded_setup()
        self._env, self._max_value = env, max_value
        self._mark = new_mark()
        self._started_workers = 0
        self._sweeps: set[asyncio.Future[int]] = set()
        self._guardian = Guardian(self._mark)
        self._lifeline: tuple[int, int] | None = None
        self._workers: dict[int, WorkerProcess] = {}
        self._starting: dict[int, asyncio.TimerHandle] = {}
        #: Workers that were killed because they were not ready in time.
        self._too_slow: set[int] = set()
        self._idle: list[WorkerProcess] = []
        self._busy: dict[int, _RunningUnit] = {}
        self._waiting: deque[_Waiter] = deque()
        self._number = 0
        self._health = PoolHealth(self.size, doomed_s)
        self._closing: asyncio.Future[None] | None = None

    @property
    def proven(self) -> bool:
        """Whether a worker was ever ready."""
        return self._health.proven

    @property
    def pids(self) -> list[int]:
        """The processes of the workers."""
        return list(self._workers)

    @property
    def guardian(self) -> int | None:
        """The process that kills the workers if this process cannot."""
        return self._guardian.pid

    def watch(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every process and its end, also of those that run already."""
        self._watcher = watcher
        for pid in self._workers:
            watcher.started(pid, "python")

    # -- units ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        payload: bytes,
        timeout_s: float,
        *,
        fresh: bool = False,
        began: Callable[[int], None] | None = None,
    ) -> WorkResult:
        """Run one unit. Whatever happens to it is a `WorkResult`; a cancellation kills its worker.

        `fresh`: in a process that has run no other unit. `began` is called with the process that gets the unit.
        """
        if len(payload) > LARGEST:
            return WorkResult("error", outcome=Outcome(Kind.TOO_LARGE, message="larger than 4 GB"))
        result, tries, marks = None, 0, NO_MARKS
        while result is None:
            try:
                worker = self._idle.pop() if self._idle and not fresh else await self._free(fresh=fresh)
            except Broken as error:
                return WorkResult("error", outcome=Outcome(Kind.AUTH, message=str(error), not_started=True))
            if self._detector is not None and self._detector.logs:
                marks = await self._begin(self._detector, worker)
            if not worker.gone:
                tries += 1
                if began is not None:
                    began(worker.pid)
                result = await self._give(worker, payload, timeout_s, last=tries >= STARTS)
        if self._detector is not None and result.end != "value":
            crash = result.outcome.kind is Kind.CRASH
            result = await asyncio.to_thread(self._detector.read, result, marks)
            if crash and result.outcome.kind is not Kind.CRASH:
                self._health.unit_ended()  # It met a rate limit, which is not the workers' fault.
        return result

    async def _begin(self, detector: LimitDetector, worker: WorkerProcess) -> Marks:
        """The detector's marks before a unit. If this call is cancelled, another caller gets the worker."""
        try:
            return await detector.begin()
        except BaseException:
            if not worker.gone:
                self._offer(worker)
            raise

    async def warm(self) -> str:
        """Start a worker for the first unit. Returns why none can be started, or ""."""
        try:
            self._offer(await self._free())
        except Broken as error:
            return str(error)
        return ""

    async def _give(
        self, worker: WorkerProcess, payload: bytes, timeout_s: float, *, last: bool
    ) -> WorkResult | None:
        """The unit's result; None where its worker died before it began the unit, unless this is the `last` try."""
        loop = asyncio.get_running_loop()
        self._number += 1
        unit = _RunningUnit(self._number, loop.create_future(), timeout_s, last=last)
        unit.timer = loop.call_later(timeout_s, worker.kill, LATE)
        self._busy[worker.pid] = unit
        worker.send(unit.number, payload)
        if self._memory_limit and self._memory_timer is None:
            self._memory_timer = loop.call_later(MEMORY_CHECK_S, self._check_memory)
        try:
            return await unit.result
        except asyncio.CancelledError:
            worker.kill("its unit was cancelled")
            raise

    def _check_memory(self) -> None:
        """Kill every busy worker that uses more memory than the limit; check again while any is busy."""
        self._memory_timer = None
        for pid in list(self._busy):
            memory = resident_bytes(pid)
            if memory > self._memory_limit:
                worker = self._workers[pid]
                worker.memory = max(worker.memory, memory)
                worker.kill(f"out of memory (memory_limit is {self._memory_limit / 1e6:.0f} MB)")
        if self._busy:
            self._memory_timer = asyncio.get_running_loop().call_later(MEMORY_CHECK_S, self._check_memory)

    def _replied(self, worker: WorkerProcess, number: int, value: bytes, note: ReplyNote | None) -> None:
        if number == SETUP:
            self._started(worker, note)
            return
        unit = self._busy.pop(worker.pid)
        assert unit.timer is not None
        unit.timer.cancel()
        self._health.unit_ended()
        if not unit.result.done():
            unit.result.set_result(_unit_result(worker, unit, value, note))
        else:  # It was cancelled.
            worker.stdout.take()
            worker.stderr.take()
        self._reuse(worker, note)

    def _reuse(self, worker: WorkerProcess, note: ReplyNote | None) -> None:
        """Make a worker available again, or replace it."""
        if worker.gone:
            return
        used_up = self._recycle_after and worker.units >= self._recycle_after
        too_large = self._memory_ceiling and worker.memory > self._memory_ceiling
        worker.spoiled = note is not None and note.spoiled
        if used_up or too_large or worker.spoiled:
            self._retire(worker)
        else:
            self._offer(worker)

    def _offer(self, worker: WorkerProcess) -> None:
        """Hand a worker to the first caller that can use it, or keep it. A used one makes room for a fresh one."""
        waiting = self._waiting = deque(waiter for waiter in self._waiting if not waiter.worker.done())
        for place, waiter in enumerate(waiting):
            if waiter.takes(worker):
                del waiting[place]
                waiter.worker.set_result(worker)
                return
        if len(waiting) > len(self._starting):  # All of them want a fresh one.
            self._retire(worker)
        else:
            self._idle.append(worker)

    def _retire(self, worker: WorkerProcess) -> None:
        """Let an idle worker end. Another may be started in its place at once."""
        worker.stop()
        asyncio.get_running_loop().call_later(STOP_S, worker.kill, "it did not stop")
        self._start_if_wanted(leaving=worker)

    # -- workers ----------------------------------------------------------------------------------------------------

    async def _free(self, *, fresh: bool = False) -> WorkerProcess:
        """A free worker: an idle one, a new one, or the next one whose unit ends."""
        if self._health.broken:
            raise Broken(self._health.broken)
        free: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiter(free, fresh=fresh))
        if fresh and self._idle:
            self._offer(self._idle.pop())
        self._start_if_wanted()
        try:
            return await free
        except asyncio.CancelledError:
            if free.done() and not free.cancelled() and free.exception() is None:
                worker = free.result()
                if not worker.gone:
                    self._offer(worker)
            raise

    def _start_if_wanted(self, leaving: WorkerProcess | None = None) -> None:
        """Start a worker for each waiting caller, up to the pool's size."""
        wanted = sum(not waiter.worker.done() for waiter in self._waiting)
        living = len(self._workers) - (leaving is not None)
        while len(self._starting) < wanted and living < self.size and not self._health.broken:
            try:
                self._start()
            except OSError as error:
                self._break(f"no worker process can be started: {error}")
                return
            living += 1

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if self._lifeline is None:
            self._lifeline = os.pipe()
        self._started_workers += 1
        mark = f"{self._mark}-{self._started_workers}"
        worker = WorkerProcess(
            loop, self._lifeline[0], mark, self._replied, self._died, self._env, self._max_value
        )
        self._workers[worker.pid] = worker
        if self._watcher is not None:
            self._watcher.started(worker.pid, "python")
        self._guardian.watch(self._workers)
        self._starting[worker.pid] = loop.call_later(self._start_s, self._give_up_start, worker)
        worker.send(SETUP, self._setup)

    def _give_up_start(self, worker: WorkerProcess) -> None:
        """Kill a worker whose imports take too long."""
        if not worker.gone:
            self._too_slow.add(worker.pid)
            worker.kill(f"it was not ready within {self._start_s:g} s: its imports take too long")

    def _started(self, worker: WorkerProcess, note: ReplyNote | None) -> None:
        if note is not None:  # It says why it cannot start. Another worker could not either.
            self._break(f"the workers cannot start: {note.outcome.message}")
            return
        if worker.gone:  # It is being killed; `_died` follows.
            return
        timer = self._starting.pop(worker.pid)
        timer.cancel()
        self._health.worker_ready()
        worker.stdout.take()
        worker.stderr.take()
        self._offer(worker)

    def _died(self, worker: WorkerProcess, death: Death) -> None:
        del self._workers[worker.pid]
        if self._watcher is not None:
            self._watcher.ended(worker.pid, failed=death != Death(0, STOPPED))
        self._guardian.watch(self._workers)
        if worker in self._idle:
            self._idle.remove(worker)
        timer = self._starting.pop(worker.pid, None)
        unit = self._busy.pop(worker.pid, None)
        if timer is not None:
            timer.cancel()
            self._start_failed(worker, death)
        if unit is not None:
            self._lost(worker, unit, death)
        if worker.spoiled or death != Death(
            0, STOPPED
        ):  # A worker that stopped by itself has killed its children.
            self._sweep(worker.mark)
        if self._closing is not None:
            if not self._workers and not self._closing.done():
                self._closing.set_result(None)
            return
        self._start_if_wanted()

    def _sweep(self, mark: str) -> None:
        """Kill what a dead worker left behind; in a thread, because all processes of the machine are read."""
        sweep = asyncio.get_running_loop().run_in_executor(None, kill_tree, mark)
        self._sweeps.add(sweep)
        sweep.add_done_callback(self._sweeps.discard)

    def _start_failed(self, worker: WorkerProcess, death: Death) -> None:
        if self._health.broken or self._closing is not None:
            return
        too_slow = worker.pid in self._too_slow
        self._break(self._health.start_failed(death, worker.stderr.take(), too_slow=too_slow))

    def _lost(self, worker: WorkerProcess, unit: _RunningUnit, death: Death) -> None:
        """Give the result of a unit whose worker died, or None if the worker had not begun it."""
        assert unit.timer is not None
        unit.timer.cancel()
        if unit.result.done():
            return
        late = death.why == LATE
        if not (worker.had_begun or late or unit.last):
            unit.result.set_result(None)
            return
        stdout, stderr = worker.stdout.take(), worker.stderr.take()
        took_s = time.monotonic() - unit.began_at
        if late:
            outcome = timed_out(unit.timeout_s, worker.memory, stderr, worker.used)
        else:
            outcome = crashed(death, took_s, worker.memory, stderr, worker.used)
            self._break(self._health.worker_died(outcome.message))
        unit.result.set_result(
            WorkResult(
                "timeout" if late else "crash",
                outcome=outcome,
                death=death,
                stdout=stdout,
                stderr=stderr,
                memory=worker.memory,
                began_utc=unit.began_utc,
                took_s=took_s,
                pid=worker.pid,
            )
        )

    def _break(self, why: str) -> None:
        """Start nothing more, and raise `Broken` in every waiting caller; nothing if `why` is ""."""
        if not why:
            return
        self._health.broken = self._health.broken or why
        while self._waiting:
            free = self._waiting.popleft().worker
            if not free.done():
                free.set_exception(Broken(self._health.broken))

    # -- the end ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End every worker: idle ones stop by themselves, the others are killed, with everything that they started."""
        loop = asyncio.get_running_loop()
        self._break("the pool is closed")
        if self._closing is None:
            self._closing = loop.create_future()
        for worker in list(self._workers.values()):
            if worker in self._idle:
                worker.stop()
                loop.call_later(STOP_S, worker.kill, "it did not stop")
            else:
                worker.kill("the pool was closed")
        if self._workers:
            await self._closing
        if self._memory_timer is not None:
            self._memory_timer.cancel()
        if self._sweeps:
            await asyncio.wait(self._sweeps)
        self._guardian.close()
        if self._lifeline is not None:
            for descriptor in self._lifeline:
                with suppress(OSError):
                    os.close(descriptor)
            self._lifeline = None


def _unit_result(
    worker: WorkerProcess, unit: _RunningUnit, value: bytes, note: ReplyNote | None
) -> WorkResult:
    result, stderr = work_result_of(value, note), worker.stderr.take()
    outcome = result.outcome
    if note is not None and note.spoiled and outcome.kind is Kind.CRASH:  # The same evidence as for a death.
        text = with_evidence(outcome.message, None, worker.memory, stderr)
        outcome = msgspec.structs.replace(outcome, message=text)
    return msgspec.structs.replace(
        result,
        outcome=outcome,
        stdout=worker.stdout.take(),
        stderr=stderr,
        memory=worker.memory,
        began_utc=unit.began_utc,
        took_s=time.monotonic() - unit.began_at,
        pid=worker.pid,
    )
