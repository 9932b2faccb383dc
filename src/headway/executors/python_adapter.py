"""`kind = "python"`: a function of the user's as a provider. Its units run in worker processes, in threads, or inline."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

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
from headway.executors.work_result import WorkResult, work_result_of
from headway.executors.worker_protocol import ReplyNote
from headway.providers.adapter import Admitted, Answer, Request
from headway.providers.error_messages import describe_exception, short_message
from headway.providers.scrubber import NO_SECRETS, Scrubber

#: What the database takes of one answer, in bytes: SQLite stores no value of more than 10⁹.
MOST_STORED: Final = 900_000_000
#: As a server that has done what it was asked for.
OK: Final = 200

Run = Callable[[Request, float], Awaitable[WorkResult]]


class PythonAdapter:
    """Calls a function for every unit. Nothing is started before the first one may go, but for a `check`.

    `place` is where it is configured, for errors. `scrub` blots secrets out of everything that comes back.
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
        self._most = min(max_answer_bytes or MOST_STORED, MOST_STORED)
        self._settings, self._size, self._root, self._place = settings, size, root, place
        self._given = (settings.target, model, root, self._most)
        self._detector = LimitDetector(settings.limit_exit_codes, settings.failure_logs, root)
        ask = None
        if settings.preflight == "command":
            ask = preflight_command(settings.preflight_command, settings.preflight_timeout_s, settings.env)
        self._ahead = PreflightRunner(ask, canary=settings.preflight == "canary")
        self._pool: ProcessPool | None = None
        self._here: _Here | None = None
        self._run: Run | None = None

    async def open(self) -> None:
        """Nothing yet: a lane that is held starts no worker."""

    async def check(self) -> None:
        """Start one worker, which the first unit will have: a function that cannot be imported is told before a run."""
        self._run = self._run or self._runner()
        try:
            why = await (self._here.load() if self._here is not None else self._pool_of().warm())
        except BaseException:  # Called off: somebody pressed Ctrl-C while it is imported.
            await self.close()
            raise
        if why:
            await self.close()
            raise ConfigError(
                f"{self._place}.target: '{self._settings.target}' cannot be used: {self._scrub.message(why)}",
                hint="mend its module, or install what it imports",
            )

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """One unit, once."""
        result = await self._ahead.run(lambda: self._one(request, timeout_s), lambda: admitted(None, None))
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

    async def _in_process(self, request: Request, timeout_s: float) -> WorkResult:
        return await self._pool_of().run(request.body, timeout_s, fresh=request.alone)

    def _runner(self) -> Run:
        with_root(self._root)
        if self._settings.isolation != "process":
            self._here = _Here(self._given, self._detector, threads=self._settings.isolation == "thread")
            return self._here.run
        self._pool = ProcessPool(
            EntryPoint(entry_name(worker_entry.serve_rows), pickle.dumps(self._given)),
            self._size,
            recycle_after=self._settings.recycle_after,
            memory_ceiling=self._settings.memory_ceiling,
            memory_limit=self._settings.memory_limit,
            detector=self._detector,
            env=self._settings.env,
            max_value=self._most,
        )
        return self._in_process

    def _pool_of(self) -> ProcessPool:
        assert self._pool is not None
        return self._pool

    async def close(self) -> None:
        """End every worker."""
        if self._pool is not None:
            await self._pool.close()


def with_root(root: str) -> None:
    """Let the target import modules beside headway.toml; a worker gets this path with the rest.

    It comes last: a file there that has the name of an installed module is not imported in its place.
    """
    if root not in sys.path:
        sys.path.append(root)


class _Here:
    """In this process: no death is survived, and a thread that is past its timeout is left alone.

    Inline, an asynchronous function runs on the engine's loop and is cancelled at its timeout; any other blocks the loop.
    """

    def __init__(self, given: tuple[Any, ...], detector: LimitDetector, *, threads: bool) -> None:
        self._given, self._detector, self._threads = given, detector, threads
        self._serve: Callable[[bytes], Any] | None = None
        self._lock = threading.Lock()

    async def run(self, request: Request, timeout_s: float) -> WorkResult:
        """One unit."""
        payload = request.body
        marks = await self._detector.begin()
        began_utc, began_at = time.time(), time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                value, note = await self._served(payload)
        except TimeoutError:
            left = "its thread was left alone" if self._threads else "it was cancelled"
            text = f"no result within {timeout_s:g} s; {left}"
            late = WorkResult("timeout", outcome=Outcome(Kind.TIMEOUT, message=text), began_utc=began_utc)
            return self._detector.read(late, marks)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # Also an exit, or a panic, of the module that is imported.
            text = f"the function cannot be imported: {describe_exception(error)}"
            return WorkResult("error", outcome=Outcome(Kind.AUTH, message=text), began_utc=began_utc)
        result = work_result_of(value, note)
        result = msgspec.structs.replace(result, began_utc=began_utc, took_s=time.monotonic() - began_at)
        return result if result.outcome is SUCCESS else self._detector.read(result, marks)

    async def load(self) -> str:
        """Import the function; returns why that cannot be done, if so."""
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
                self._serve = make(*self._given)
            return self._serve

    async def _served(self, payload: bytes) -> tuple[bytes, ReplyNote | None]:
        served: tuple[bytes, ReplyNote | None]
        if self._threads:
            served = await _in_thread(lambda: self._loaded()(payload))
        else:
            served = await self._loaded()(payload)
        return served


async def _in_thread(call: Callable[[], Any]) -> Any:
    """A thread of its own, which nobody waits for at the end of the program."""
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
        value, fault = None, None
        try:
            value = call()
        except BaseException as error:
            # A future takes no StopIteration, and the loop would end with a SystemExit.
            usable = isinstance(error, Exception) and not isinstance(error, StopIteration)
            fault = error if usable else RuntimeError(describe_exception(error))
        try:
            loop.call_soon_threadsafe(settle, value, fault)
        except RuntimeError:
            return  # The loop is closed.

    threading.Thread(target=work, name="headway-python", daemon=True).start()
    return await future
