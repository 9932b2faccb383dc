"""A pool of worker processes that no worker can poison.

Each worker has one process, one pipe and one unit at a time. A death costs the unit that it ran and nothing else: the
unit's end says how, with the evidence; the worker is replaced when the next unit needs one. Processes are started
afresh ("spawn"), never forked: no lock, thread or socket of the owner's comes along.

Three things are counted. A worker that cannot even start is no unit's fault: it is tried three times. A pool that dies
as a whole three times over, for ten seconds and without one unit that ends in between, has something that no unit can
help: its lane stops with the evidence. And a unit that was given to a worker which died before it began it was not run: it goes to another.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from headway.core.model import Kind, Outcome
from headway.errors import UsageError
from headway.executors import worker_main
from headway.executors.guardian import Guardian
from headway.executors.limit_evidence import LimitDetector
from headway.executors.log_files import NO_MARKS, Marks
from headway.executors.process_tree import kill_tree, new_mark, resident_bytes
from headway.executors.work_result import Death, WorkResult, crashed, last_words, timed_out, with_evidence
from headway.executors.worker_process import STOPPED, WorkerProcess
from headway.executors.worker_protocol import (
    LARGEST,
    SETUP,
    ReplyNote,
    WorkerSetup,
    checked_usage,
    encode_setup,
)
from headway.providers.adapter import RateLimit

#: A worker that imports its program takes seconds at the worst; one that hangs in it is ended.
START_S: Final = 120.0
#: Starts in a row that may fail before nothing more is tried.
STARTS: Final = 3
#: Rounds in which a pool may die as a whole, and the fewest deaths that make one: two units that always kill are
#: quarantined after three deaths each, and are no such round. Kills from outside (an operator, an out-of-memory killer)
#: end within seconds.
ROUNDS: Final = 3
LEAST_ROUND: Final = 4
DOOMED_S: Final = 10.0
#: How long idle workers may take to end by themselves.
STOP_S: Final = 1.0
LATE: Final = "it took too long"
#: How often workers are looked at whose memory is limited: what grows by a gigabyte a second is caught within 0.1 GB.
LOOK_S: Final = 0.1


class EntryPoint(msgspec.Struct, frozen=True):
    """What workers do: `entry` ("package.module:name") is called with what is pickled in `given`, and returns what
    serves units. `main`: what is pickled may live in the script that runs."""

    entry: str
    given: bytes
    main: bool = False


def entry_name(function: Callable[..., Any]) -> str:
    """How `Work.entry` names a function that can be imported."""
    return f"{function.__module__}:{function.__qualname__}"


#: What a script lacks that starts workers wherever it is imported.
GUARD: Final = 'put what starts work below: if __name__ == "__main__"'


class Broken(Exception):
    """No worker can be started, or none survives."""


class _Job:
    """A unit in a worker."""

    __slots__ = ("began_at", "began_utc", "end", "last", "number", "timeout_s", "timer")

    def __init__(
        self, number: int, end: asyncio.Future[WorkResult | None], timeout_s: float, *, last: bool
    ) -> None:
        self.number, self.end, self.timeout_s, self.last = number, end, timeout_s, last
        self.began_at = time.monotonic()
        self.began_utc = time.time()
        self.timer: asyncio.TimerHandle | None = None


class _Wanted:
    """A caller that waits for a worker. `fresh`: one that has run no unit yet."""

    __slots__ = ("fresh", "given")

    def __init__(self, given: asyncio.Future[WorkerProcess], *, fresh: bool) -> None:
        self.given, self.fresh = given, fresh

    def takes(self, worker: WorkerProcess) -> bool:
        """Whether it still waits, and this worker will do."""
        return not self.given.done() and not (self.fresh and worker.units)


class ProcessPool:
    """At most `size` workers, started when they are needed.

    A worker is replaced after `recycle_after` units, or once it has had more than `memory_ceiling` bytes (0: never). One
    that has more than `memory_limit` bytes in the midst of a unit is killed (0: none is; only Linux tells). `env` names the
    variables that workers get; None: all. `max_value` is the most bytes that a unit may return. Use it on one event loop, and close it.
    """

    def __init__(
        self,
        work: EntryPoint,
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
                "memory_limit: this system does not tell what a process has", hint="leave it out"
            )
        self.size = max(1, size)
        self._recycle_after, self._memory_ceiling = recycle_after, memory_ceiling
        self._memory_limit = memory_limit
        self._looking: asyncio.TimerHandle | None = None
        self._start_s, self._doomed_s, self._detector = start_s, doomed_s, detector
        self._setup = encode_setup(
            WorkerSetup(
                work.entry, work.given, list(sys.path), list(sys.argv), main_script() if work.main else None
            )
        )
        self._env, self._max_value = env, max_value
        self._mark = new_mark()
        self._started_workers = 0
        self._sweeps: set[asyncio.Future[int]] = set()
        self._guardian = Guardian(self._mark)
        self._lifeline: tuple[int, int] | None = None
        self._workers: dict[int, WorkerProcess] = {}
        self._starting: dict[int, asyncio.TimerHandle] = {}
        #: Those that were killed because they were not ready in time.
        self._too_slow: set[int] = set()
        self._idle: list[WorkerProcess] = []
        self._busy: dict[int, _Job] = {}
        self._waiting: deque[_Wanted] = deque()
        self._number = 0
        self._failed_starts = 0
        #: Whether a worker has ever been ready: then what stops others is no fault of the program that they run.
        self.proven = False
        self._deaths = 0
        #: When the first of these deaths was.
        self._dying_since = 0.0
        self._broken = ""
        self._closing: asyncio.Future[None] | None = None

    @property
    def pids(self) -> list[int]:
        """The processes that there are."""
        return list(self._workers)

    @property
    def guardian(self) -> int | None:
        """The process that ends them if this one cannot."""
        return self._guardian.pid

    # -- units ------------------------------------------------------------------------------------------------------

    async def run(self, payload: bytes, timeout_s: float, *, fresh: bool = False) -> WorkResult:
        """Run one unit. Everything that can happen to it is a `WorkResult`; a cancellation kills its worker.

        `fresh`: in a process that has run no other unit.
        """
        if len(payload) > LARGEST:
            return WorkResult("error", outcome=Outcome(Kind.TOO_LARGE, message="larger than 4 GB"))
        result, tries, marks = None, 0, NO_MARKS
        while result is None:
            try:
                worker = self._idle.pop() if self._idle and not fresh else await self._free(fresh=fresh)
            except Broken as error:
                return WorkResult("error", outcome=Outcome(Kind.AUTH, message=str(error)))
            if self._detector is not None and self._detector.logs:
                marks = await self._begin(self._detector, worker)
            if not worker.gone:
                tries += 1
                result = await self._give(worker, payload, timeout_s, last=tries >= STARTS)
        if self._detector is not None and result.end != "value":
            crash = result.outcome.kind is Kind.CRASH
            result = await asyncio.to_thread(self._detector.read, result, marks)
            if crash and result.outcome.kind is not Kind.CRASH:
                self._deaths = 0  # It met a limit, which is no fault of the workers.
        return result

    async def _begin(self, detector: LimitDetector, worker: WorkerProcess) -> Marks:
        """What the detector notes before a unit. Another caller gets the worker if this one is cancelled."""
        try:
            return await detector.begin()
        except BaseException:
            if not worker.gone:
                self._offer(worker)
            raise

    async def warm(self) -> str:
        """Start a worker for whoever comes first; returns why none can be started, if so."""
        try:
            self._offer(await self._free())
        except Broken as error:
            return str(error)
        return ""

    async def _give(
        self, worker: WorkerProcess, payload: bytes, timeout_s: float, *, last: bool
    ) -> WorkResult | None:
        """The unit's end, or None where its worker died before it began it (and another may still be tried)."""
        loop = asyncio.get_running_loop()
        self._number += 1
        job = _Job(self._number, loop.create_future(), timeout_s, last=last)
        job.timer = loop.call_later(timeout_s, self._late, worker)
        self._busy[worker.pid] = job
        worker.ask(job.number, payload)
        if self._memory_limit and self._looking is None:
            self._looking = loop.call_later(LOOK_S, self._look)
        try:
            return await job.end
        except asyncio.CancelledError:
            worker.kill("it was called off")
            raise

    def _late(self, worker: WorkerProcess) -> None:
        worker.kill(LATE)

    def _look(self) -> None:
        """End every worker whose unit takes more memory than there is for it; look again while any is at work."""
        self._looking = None
        for pid in list(self._busy):
            memory = resident_bytes(pid)
            if memory > self._memory_limit:
                worker = self._workers[pid]
                worker.memory = max(worker.memory, memory)
                worker.kill(f"out of memory (memory_limit is {self._memory_limit / 1e6:.0f} MB)")
        if self._busy:
            self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def _replied(self, worker: WorkerProcess, number: int, value: bytes, note: ReplyNote | None) -> None:
        if number == SETUP:
            self._started(worker, note)
            return
        job = self._busy.pop(worker.pid)
        assert job.timer is not None
        job.timer.cancel()
        self._deaths = 0
        if not job.end.done():
            job.end.set_result(_unit_result(worker, job, value, note))
        else:  # Called off meanwhile.
            worker.stdout.take()
            worker.stderr.take()
        self._reuse(worker, note)

    def _reuse(self, worker: WorkerProcess, note: ReplyNote | None) -> None:
        """Idle again, or replaced."""
        if worker.gone:
            return
        worn = self._recycle_after and worker.units >= self._recycle_after
        fat = self._memory_ceiling and worker.memory > self._memory_ceiling
        worker.spoiled = note is not None and note.spoiled
        if worn or fat or worker.spoiled:
            self._retire(worker)
        else:
            self._offer(worker)

    def _offer(self, worker: WorkerProcess) -> None:
        """Hand a worker to the first caller that can use it, or keep it. A used one makes room for a fresh one."""
        waiting = self._waiting = deque(wanted for wanted in self._waiting if not wanted.given.done())
        for place, wanted in enumerate(waiting):
            if wanted.takes(worker):
                del waiting[place]
                wanted.given.set_result(worker)
                return
        if len(waiting) > len(self._starting):  # All of them want a fresh one.
            self._retire(worker)
        else:
            self._idle.append(worker)

    def _retire(self, worker: WorkerProcess) -> None:
        """Let an idle worker end; it gives its place up at once."""
        worker.stop()
        asyncio.get_running_loop().call_later(STOP_S, worker.kill, "it did not stop")
        self._start_if_wanted(leaving=worker)

    # -- workers ----------------------------------------------------------------------------------------------------

    async def _free(self, *, fresh: bool = False) -> WorkerProcess:
        """A worker that has nothing to do: one that is, one that is started, or the next that ends its unit."""
        if self._broken:
            raise Broken(self._broken)
        given: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Wanted(given, fresh=fresh))
        if fresh and self._idle:
            self._offer(self._idle.pop())
        self._start_if_wanted()
        try:
            return await given
        except asyncio.CancelledError:
            if given.done() and not given.cancelled() and given.exception() is None:
                worker = given.result()
                if not worker.gone:
                    self._offer(worker)
            raise

    def _start_if_wanted(self, leaving: WorkerProcess | None = None) -> None:
        """As many as wait, as long as there is room."""
        wanted = sum(not wanted.given.done() for wanted in self._waiting)
        living = len(self._workers) - (leaving is not None)
        while len(self._starting) < wanted and living < self.size and not self._broken:
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
        self._guardian.watch(self._workers)
        self._starting[worker.pid] = loop.call_later(self._start_s, self._give_up_start, worker)
        worker.ask(SETUP, self._setup)

    def _give_up_start(self, worker: WorkerProcess) -> None:
        """Its imports take too long."""
        if not worker.gone:
            self._too_slow.add(worker.pid)
            worker.kill(f"it was not ready within {self._start_s:g} s: what it imports takes too long")

    def _started(self, worker: WorkerProcess, note: ReplyNote | None) -> None:
        if note is not None:  # It says why it cannot: that would be the same again.
            self._break(f"the workers cannot start: {note.outcome.message}")
            return
        if worker.gone:  # It is being killed: its death says why.
            return
        timer = self._starting.pop(worker.pid)
        timer.cancel()
        self._failed_starts = 0
        self.proven = True
        worker.stdout.take()
        worker.stderr.take()
        self._offer(worker)

    def _died(self, worker: WorkerProcess, death: Death) -> None:
        del self._workers[worker.pid]
        self._guardian.watch(self._workers)
        if worker in self._idle:
            self._idle.remove(worker)
        timer = self._starting.pop(worker.pid, None)
        job = self._busy.pop(worker.pid, None)
        if timer is not None:
            timer.cancel()
            self._start_failed(worker, death)
        if job is not None:
            self._lost(worker, job, death)
        if worker.spoiled or death != Death(0, STOPPED):  # Others that were asked to stop have seen to that.
            self._sweep(worker.mark)
        if self._closing is not None:
            if not self._workers and not self._closing.done():
                self._closing.set_result(None)
            return
        self._start_if_wanted()

    def _sweep(self, mark: str) -> None:
        """End what a dead worker left behind; in a thread, since all processes of the machine are looked at."""
        sweep = asyncio.get_running_loop().run_in_executor(None, kill_tree, mark)
        self._sweeps.add(sweep)
        sweep.add_done_callback(self._sweeps.discard)

    def _lost(self, worker: WorkerProcess, job: _Job, death: Death) -> None:
        """A worker died with a unit: the unit's end, or nothing if it had not begun it."""
        assert job.timer is not None
        job.timer.cancel()
        if job.end.done():
            return
        late = death.why == LATE
        if not (worker.had_begun or late or job.last):
            job.end.set_result(None)
            return
        stdout, stderr = worker.stdout.take(), worker.stderr.take()
        took_s = time.monotonic() - job.began_at
        if late:
            outcome = timed_out(job.timeout_s, worker.memory, stderr, worker.used)
        else:
            outcome = crashed(death, took_s, worker.memory, stderr, worker.used)
            self._count_death(outcome.message)
        job.end.set_result(
            WorkResult(
                "timeout" if late else "crash",
                outcome=outcome,
                death=death,
                stdout=stdout,
                stderr=stderr,
                memory=worker.memory,
                began_utc=job.began_utc,
                took_s=took_s,
                pid=worker.pid,
            )
        )

    def _start_failed(self, worker: WorkerProcess, death: Death) -> None:
        if self._broken or self._closing is not None:
            return
        self._failed_starts += 1
        if worker.pid in self._too_slow:  # Another one would take as long.
            self._break(f"the workers cannot start: {death}")
        elif self._failed_starts >= STARTS:
            said = last_words(worker.stderr.take())
            text = f"the workers cannot start: {STARTS} in a row died at once, the last: {death}"
            self._break(f"{text}; {said}" if said else text)

    def _count_death(self, text: str) -> None:
        """Deaths in a row. What was killed was running; whatever ends well, or says why not, ends the row."""
        now = time.monotonic()
        if not self._deaths:
            self._dying_since = now
        self._deaths += 1
        many = self._deaths >= ROUNDS * max(self.size, LEAST_ROUND)
        if many and now - self._dying_since >= self._doomed_s:
            self._break(
                f"all workers died {ROUNDS} times over ({self._deaths} deaths in a row, no unit ended in between), "
                f"the last: {text}"
            )

    def _break(self, why: str) -> None:
        """Nothing more is started; everybody who waits hears why."""
        self._broken = self._broken or why
        while self._waiting:
            given = self._waiting.popleft().given
            if not given.done():
                given.set_exception(Broken(self._broken))

    # -- the end ----------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End every worker: idle ones by themselves, the rest by force. Nothing that they started stays."""
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
        if self._looking is not None:
            self._looking.cancel()
        if self._sweeps:
            await asyncio.wait(self._sweeps)
        self._guardian.close()
        if self._lifeline is not None:
            for descriptor in self._lifeline:
                with suppress(OSError):
                    os.close(descriptor)
            self._lifeline = None


def _unit_result(worker: WorkerProcess, job: _Job, value: bytes, note: ReplyNote | None) -> WorkResult:
    result, stderr = work_result_of(value, note), worker.stderr.take()
    outcome = result.outcome
    if (
        note is not None and note.spoiled and outcome.kind is Kind.CRASH
    ):  # As good as dead: the same evidence.
        text = with_evidence(outcome.message, None, worker.memory, stderr)
        outcome = msgspec.structs.replace(outcome, message=text)
    return msgspec.structs.replace(
        result,
        outcome=outcome,
        stdout=worker.stdout.take(),
        stderr=stderr,
        memory=worker.memory,
        began_utc=job.began_utc,
        took_s=time.monotonic() - job.began_at,
        pid=worker.pid,
    )


def work_result_of(value: bytes, note: ReplyNote | None) -> WorkResult:
    """What a unit's value and note say of its end."""
    if note is None:
        return WorkResult("value", value)
    outcome = note.outcome
    if outcome.usage is not checked_usage(outcome.usage):
        outcome = msgspec.structs.replace(outcome, usage=None)
    death = None if note.code is None else Death(note.code)
    limit = None
    if note.source:
        wait_s = None if outcome.hint is None else outcome.hint.retry_after_s
        limit = RateLimit(note.source, wait_s, outcome.message, time.time())
    return WorkResult(
        "value" if outcome.kind is None else "error" if death is None else "crash",
        value,
        outcome,
        note.error,
        note.trace,
        death,
        tuple(note.exit_codes),
        rate_limit=limit,
        messages=note.messages,
        files=note.files,
    )


def main_script() -> tuple[str, str] | None:
    """How another process can import the script that runs: by its module's name, or by its path; None: it cannot."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        # multiprocessing leaves the `__main__` of a package alone: nothing keeps it from running as a program there.
        return None if spec.name.rpartition(".")[2] == "__main__" else ("name", spec.name)
    path = getattr(main, "__file__", None)
    if path is None or not os.path.isfile(path):  # "<stdin>"
        return None
    return "path", os.path.abspath(path)
