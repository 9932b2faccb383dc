"""`kind = "python"`: a user's function as a provider. Its units run in worker processes, in threads, or inline."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

from headway.config import WorkersConfig
from headway.core.model import SUCCESS, Kind, Outcome
from headway.errors import ConfigError
from headway.executors import worker_entry
from headway.executors.attempt_details import details_of, encode_details
from headway.executors.entry_point import EntryPoint, entry_name
from headway.executors.limit_evidence import LimitDetector
from headway.executors.preflight import PreflightRunner, preflight_command
from headway.executors.process_pool import ProcessPool
from headway.executors.unit_trace import with_trace
from headway.executors.work_result import WorkResult, work_result_of
from headway.executors.worker_protocol import ReplyNote
from headway.providers.adapter import Admitted, Answer, Request
from headway.providers.attempt_log import WorkerWatcher
from headway.providers.error_messages import describe_exception, short_message
from headway.providers.scrubber import NO_SECRETS, Scrubber

#: The largest answer in bytes that the database takes: SQLite stores no value of more than 10⁹ bytes.
MOST_STORED: Final = 900_000_000
#: The status of an answer, as of a server.
OK: Final = 200

Run = Callable[[Request, float], Awaitable[WorkResult]]


class UnitPool(Protocol):
    """A pool of worker processes, on this machine or elsewhere."""

    async def run(
        self,
        payload: bytes,
        timeout_s: float,
        *,
        fresh: bool = False,
        began: Callable[[int], None] | None = None,
    ) -> WorkResult:
        """Run one unit."""

    @property
    def proven(self) -> bool:
        """Whether a worker was ever ready."""

    async def warm(self) -> str:
        """Start a worker for the first unit. Returns why none can be started, or ""."""

    def watch(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every process."""

    async def close(self) -> None:
        """End every worker."""


#: Makes a pool of an entry point and the settings of a `ProcessPool`.
MakePool = Callable[..., UnitPool]


class PythonAdapter:
    """Calls a function for every unit. `check` starts a worker; otherwise nothing is started before the first unit.

    `place` is where it is configured, for errors. `scrub` removes secrets from everything that comes back.
    """

    def __init__(
        self,
        settings: WorkersConfig,
        model: str,
        size: int,
        root: str,
        place: str,
        scrub: Scrubber = NO_SECRETS,
        max_answer_bytes: int = 0,
    ) -> None:
        self._scrub = scrub
        self._max_value = min(max_answer_bytes or MOST_STORED, MOST_STORED)
        self._settings, self._size, self._root, self._place = settings, size, root, place
        self._arguments = (settings.target, model, root, self._max_value)
        self._detector = LimitDetector(settings.limit_exit_codes, settings.failure_logs, root)
        check = None
        if settings.preflight == "command":
            check = preflight_command(settings.preflight_command, settings.preflight_timeout_s, settings.env)
        self._preflight = PreflightRunner(check, canary=settings.preflight == "canary")
        self._watcher: WorkerWatcher | None = None
        self._pool: UnitPool | None = None
        self._make_pool: MakePool = self._process_pool
        self._local: _InProcess | None = None
        self._run: Run | None = None

    @property
    def takes_log(self) -> bool:
        """Whether attempts name the process that runs them."""
        return self._settings.isolation == "process"

    async def open(self) -> None:
        """Does nothing: a held lane starts no worker."""

    async def check(self) -> None:
        """Start one worker, which the first unit gets: a function that cannot be imported is an error before the run."""
        self._run = self._run or self._runner()
        try:
            why = await (self._local.load() if self._local is not None else self._pool_of().warm())
        except BaseException:  # Cancelled: Ctrl-C during the import.
            await self.close()
            raise
        if why:
            await self.close()
            raise ConfigError(
                f"{self._place}.target: '{self._settings.target}' cannot be used: {self._scrub.message(why)}",
                hint="fix its module, or install what it imports",
            )

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Run one unit once."""
        result = await self._preflight.run(
            lambda: self._one(request, timeout_s), lambda: admitted(None, None)
        )
        if result.end == "value":
            return Answer(
                result.outcome, OK, body=self._scrub.body(result.value), note=await self._note(result)
            )
        outcome = self._scrub.outcome(result.outcome)
        outcome = msgspec.structs.replace(outcome, message=short_message(outcome.message))
        limit = self._scrub.rate_limit(result.rate_limit)
        return Answer(outcome, rate_limit=limit, note=await self._note(result))

    async def _note(self, result: WorkResult) -> bytes:
        return await encode_details(details_of(result, self._scrub), self._scrub)

    async def _one(self, request: Request, timeout_s: float) -> WorkResult:
        if self._run is None:
            self._run = self._runner()
        return await self._run(request, timeout_s)

    async def _in_pool(self, request: Request, timeout_s: float) -> WorkResult:
        began = None if request.log is None else request.log.runs_in
        payload = with_trace(self._payload(request), request.traceparent)
        return await self._pool_of().run(payload, timeout_s, fresh=request.alone, began=began)

    def _payload(self, request: Request) -> bytes:
        """What a worker gets for a unit."""
        return request.body

    def _entry(self) -> EntryPoint:
        """What the workers run."""
        with_root(self._root)
        return EntryPoint(entry_name(worker_entry.serve_rows), pickle.dumps(self._arguments))

    def _runner(self) -> Run:
        if self._settings.isolation != "process":
            with_root(self._root)
            threads = self._settings.isolation == "thread"
            self._local = _InProcess(self._arguments, self._detector, threads=threads)
            return self._local.run
        self._pool = self._make_pool(
            self._entry(),
            recycle_after=self._settings.recycle_after,
            memory_ceiling=self._settings.memory_ceiling,
            memory_limit=self._settings.memory_limit,
            detector=self._detector,
            env=self._settings.env,
            max_value=self._max_value,
        )
        if self._watcher is not None:
            self._pool.watch(self._watcher)
        return self._in_pool

    def _process_pool(self, entry: EntryPoint, **settings: Any) -> UnitPool:
        return ProcessPool(entry, self._size, **settings)

    def use_pool(self, make_pool: MakePool) -> UnitPool:
        """Run units in this pool. Called before anything else."""
        with_root(self._root)
        self._make_pool = make_pool
        self._run = self._runner()
        return self._pool_of()

    @property
    def hosts(self) -> Any:
        """What says how many units can run elsewhere (`engine.sharing.cluster_places`); None: they run on this machine."""
        return getattr(self._pool, "hosts", None)

    def watch_workers(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every process that is started from now on."""
        self._watcher = watcher
        if self._pool is not None:
            self._pool.watch(watcher)

    def _pool_of(self) -> UnitPool:
        assert self._pool is not None
        return self._pool

    async def close(self) -> None:
        """End every worker."""
        if self._pool is not None:
            await self._pool.close()


def with_root(root: str) -> None:
    """Put the folder of headway.toml on the path, so that the target can import modules there; workers get this path.

    It comes last: a file there does not shadow an installed module of the same name.
    """
    if root not in sys.path:
        sys.path.append(root)


class _InProcess:
    """Runs units in this process: a crash ends the run, and a thread that exceeds its timeout is left running.

    Inline, an asynchronous function runs on the engine's loop and is cancelled at its timeout; any other blocks the loop.
    """

    def __init__(self, arguments: tuple[Any, ...], detector: LimitDetector, *, threads: bool) -> None:
        self._arguments, self._detector, self._threads = arguments, detector, threads
        self._serve: Callable[[bytes], Any] | None = None
        self._lock = threading.Lock()

    async def run(self, request: Request, timeout_s: float) -> WorkResult:
        """Run one unit."""
        payload = request.body
        marks = await self._detector.begin()
        began_utc, began_at = time.time(), time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                value, note = await self._call(payload)
        except TimeoutError:
            then = "its thread was left running" if self._threads else "it was cancelled"
            text = f"no result within {timeout_s:g} s; {then}"
            late = WorkResult("timeout", outcome=Outcome(Kind.TIMEOUT, message=text), began_utc=began_utc)
            return self._detector.read(late, marks)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # The imported module may exit or panic.
            text = f"the function cannot be imported: {describe_exception(error)}"
            unusable = Outcome(Kind.AUTH, message=text, not_started=True)
            return WorkResult("error", outcome=unusable, began_utc=began_utc)
        result = work_result_of(value, note)
        result = msgspec.structs.replace(result, began_utc=began_utc, took_s=time.monotonic() - began_at)
        return result if result.outcome is SUCCESS else self._detector.read(result, marks)

    async def load(self) -> str:
        """Import the function. Returns why that fails, or ""."""
        try:
            if self._threads:
                await _in_thread(self._loaded)
            else:
                self._loaded()
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:
            return describe_exception(error)
        return ""

    def _loaded(self) -> Callable[[bytes], Any]:
        with self._lock:
            if self._serve is None:
                make = worker_entry.serve_rows_in_threads if self._threads else worker_entry.serve_rows_inline
                self._serve = make(*self._arguments)
            return self._serve

    async def _call(self, payload: bytes) -> tuple[bytes, ReplyNote | None]:
        reply: tuple[bytes, ReplyNote | None]
        if self._threads:
            reply = await _in_thread(lambda: self._loaded()(payload))
        else:
            reply = await self._loaded()(payload)
        return reply


async def _in_thread(call: Callable[[], Any]) -> Any:
    """Call in a new daemon thread: the program does not wait for it at its end."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def work() -> None:
        value, failure = None, None
        try:
            value = call()
        except BaseException as error:
            # A future takes no StopIteration, and a SystemExit would end the loop.
            usable = isinstance(error, Exception) and not isinstance(error, StopIteration)
            failure = error if usable else RuntimeError(describe_exception(error))
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            return  # The loop is closed.

    threading.Thread(target=work, name="headway-python", daemon=True).start()
    return await future
