"""A pool of workers for units that somebody else hands out, with a record of each step.

The shape is the seed's: `submit_work_unit` says no when every worker is busy, callbacks hear of ends, `stop` lets what
runs finish. Inside it is the same lanes and the same records as everything else: a worker that meets a rate limit holds
the pool's lane, and its unit is tried again.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike
from typing import Any, Final

import msgspec

from headway.api.call_errors import as_exception, python_hints, rewrite_hint
from headway.api.call_records import CallRecords, RecordedUnit
from headway.api.changed_items import UNITS, ChangedItems, digest_of
from headway.api.interrupts import say
from headway.api.job_names import check_name, identity_of_pool
from headway.api.map_options import detector_of, record_path
from headway.api.pool.pool_callers import PoolCallers
from headway.api.pool.pool_records import as_declared, as_json, codec_of, cost_of, details_of, encoded
from headway.api.pool.work_units import Worker, WorkerResult, WorkUnit, view_of
from headway.api.threads import Threads
from headway.config.argument_checks import (
    must_be_function,
    must_be_number,
    must_be_recordable,
    must_be_text,
    must_be_whole,
)
from headway.config.call_settings import Duration, Retry, retry_of, seconds
from headway.core.commands import Requeue
from headway.core.model import SUCCESS, Kind, LaneLimits, LaneSpec, Outcome, Settings, Usage
from headway.core.unit_states import Status
from headway.engine.calls import DONE, CallEnd, Calls, SubmittedCall, reason_of
from headway.errors import UsageError
from headway.executors.attempt_details import encode_details
from headway.executors.limit_evidence import LimitEvidence
from headway.providers.call_reports import current_attempt
from headway.providers.error_messages import describe_exception, short_message
from headway.providers.http.timeout import AttemptTimeout
from headway.providers.limits.exception_outcome import exit_codes_in, outcome_of
from headway.providers.limits.hints import Facts
from headway.providers.limits.limit_detection import LIMIT_KINDS, limit_in_report, limit_in_result
from headway.providers.scrubber import Scrubber
from headway.runtime.loops import Background, is_cancellation
from headway.runtime.signals import wait_condition, wait_thread
from headway.safe_text import visible

_log: Final = logging.getLogger("headway")
LANE: Final = "workers"
#: Units that may wait for another try at once, beside those that have a worker: as many as `map` reads ahead.
MOST_WAITING: Final = 1_000


Callback = Callable[[Any, WorkerResult], object]


class _PoolUnit:
    """One unit on its way."""

    __slots__ = ("digest", "over", "placed", "prompt", "recorded", "result", "slot", "unit", "view")

    def __init__(self, unit: Any, view: WorkUnit, prompt: str) -> None:
        self.unit, self.view, self.prompt = unit, view, prompt
        self.recorded: RecordedUnit | None = None
        self.digest: str | None = None
        self.slot: int | None = None
        #: Whether it has a worker or is about to get one; while it waits for another try it has none.
        self.placed = True
        #: Whether its end was told: that is done once, whatever fails.
        self.over = False
        self.result: WorkerResult | None = None


class WorkerPool:
    """`max_workers` at once. With a `store` (a file) every step is on record and finished units stay finished.

    `on_unit_complete(unit, result)` and `on_unit_failed(unit, result)` are called once for every unit that is submitted and
    ends. That includes units that an earlier run has finished: `on_unit_complete` is called again with the kept result.

    A rate limit is found in what a worker raises or reports, in its output files, in log files that match `failure_logs`,
    and by `limit_exit_codes` of the programs that it ran. It holds the pool, and its unit is tried again.

    >>> import headway
    >>> class Shout:
    ...     def execute(self, prompt, payload, timeout):
    ...         return headway.WorkerResult(success=True, output=prompt.upper())
    >>> with headway.WorkerPool(Shout(), on_unit_complete=lambda unit, result: print(result.output)) as pool:
    ...     pool.submit_work_unit(headway.WorkUnit("greeting"), "hello")
    ...     pool.wait_for_completion()
    True
    HELLO
    True
    """

    def __init__(
        self,
        worker: Worker,
        job_id: str | None = None,
        store: str | PathLike[str] | None = None,
        max_workers: int = 4,
        timeout: Duration = "10m",
        on_unit_complete: Callback | None = None,
        on_unit_failed: Callback | None = None,
        *,
        retry: Retry | None = None,
        failure_logs: str | PathLike[str] | None = None,
        limit_exit_codes: Iterable[int] = (),
        renamed_from: str | None = None,
    ) -> None:
        if isinstance(worker, type):
            raise UsageError(f"worker is the class {worker.__name__}", hint=f"make one: {worker.__name__}(…)")
        if not callable(getattr(worker, "execute", None)):
            raise UsageError(
                f"worker is a {type(worker).__name__} without execute",
                hint="it has a method execute(prompt, payload, timeout) that returns a WorkerResult",
            )
        must_be_whole(max_workers, "max_workers", 1, "it is a whole number, 1 or more")
        must_be_text(job_id, "job_id", "it is a text: the name of the job in the store")
        check_name(job_id, "job_id")
        must_be_text(renamed_from, "renamed_from", "it is a text: what the worker's class was called")
        must_be_recordable(renamed_from or "", "renamed_from")
        for name, callback in (("on_unit_complete", on_unit_complete), ("on_unit_failed", on_unit_failed)):
            must_be_function(callback, name, f"it is a function of two: {name}(unit, result)")
        self._worker = worker
        self._identity = identity_of_pool(worker, job_id or "", renamed_from or "")
        self._store = record_path(store, "store")
        self._max_workers = max_workers
        self._timeout_s = seconds(timeout, "timeout")
        self._on_complete, self._on_failed = on_unit_complete, on_unit_failed
        self._retry = retry_of(retry, Retry(max_attempts=1))
        self._detector = detector_of(failure_logs, limit_exit_codes)
        self._scrub = Scrubber.of_environment()
        self._codec = codec_of(self._scrub)
        self._changed = threading.Condition()
        self._insiders = PoolCallers()
        self._background = Background()
        #: Ends a pool that was stopped from inside.
        self._ender: threading.Thread | None = None
        self._end_fault: BaseException | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._active = 0
        #: How many of those have a worker, or are about to get one; and whether a caller was told that a slot is free.
        self._placed = 0
        self._offered = False
        self._calling_back = 0
        #: Ids of what has no end yet: two units of one id at once would be one.
        self._under_way: set[str] = set()
        self._running = False
        self._threads = Threads("headway-worker")
        self._calls: Calls | None = None
        #: Held while the lane of the records is opened.
        self._opening = asyncio.Lock()
        self._records: CallRecords | None = None
        #: Numbers of idle workers; a future where the record of a new one is being made.
        self._slots: list[int | asyncio.Future[int]] = []
        self._made = 0
        #: Ids that this run has on record.
        self._ids: set[str] = set()
        self._failure: Exception | None = None
        self._interrupted = False
        #: Made here, where the caller's line is known.
        self._changes = ChangedItems(UNITS)

    # -- from any thread ----------------------------------------------------------------------------------------

    def __enter__(self) -> WorkerPool:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Get ready. The same job in the same store goes on where it stopped."""
        if self._running:
            return
        if self._ender is not None:
            if self._is_inside():
                raise UsageError("the pool is stopping", hint="start it again once stop() has ended it")
            self._join_ender()
        self._interrupted, self._failure = False, None  # Of an earlier start.
        self._background = Background().__enter__()
        try:
            self._background.make(self._begin)
        except BaseException:
            self._background.__exit__(None, None, None)
            raise
        self._running = True

    def submit_work_unit(self, unit: Any, prompt: str) -> bool:
        """Hand over a unit; False when every worker is busy. A unit that waits for another try keeps no worker busy.

        A unit is a `WorkUnit`, a mapping or an object with an `id` (and a `payload`), or just its id. One that is on
        record as succeeded is not run again: its callback hears of the kept result.
        """
        view = view_of(unit)
        if self._store is not None:
            must_be_recordable(view.id, "the id")
        with self._changed:
            if not self._running:
                raise UsageError("the pool is not running", hint="call start() first")
            if self._failure is not None:
                raise self._failure
            if not (self._offered or self._has_slot()):
                return False
            if view.id in self._under_way:
                raise UsageError(f"the unit '{view.id}' is under way already", hint="an id names one unit")
            self._under_way.add(view.id)
            self._active += 1
            self._placed += 1
            self._offered = False
        work = _PoolUnit(unit, view, prompt)
        self._background.soon(lambda: self._submit(work))
        return True

    def wait_for_available_slot(self, timeout: float | None = None) -> bool:
        """Wait until a unit can be submitted; False when that took too long.

        The next unit is accepted then, even where one that waited for another try gets the worker first. Called by
        `execute` or a callback it is False, too, when all that is under way waits as this call does.
        """
        free = self._wait("wait_for_available_slot", self._has_slot, timeout)
        with self._changed:
            self._offered = free and self._has_slot()
            return self._offered

    def _has_slot(self) -> bool:
        return self._placed < self._max_workers and self._active - self._placed < MOST_WAITING

    def _place(self, work: _PoolUnit, placed: bool) -> None:
        """A unit gets a worker, or gives up its own to wait."""
        if work.placed is not placed:
            with self._changed:
                work.placed = placed
                self._placed += 1 if placed else -1
                self._changed.notify_all()

    def wait_for_completion(self, timeout: float | None = None) -> bool:
        """Wait until nothing is under way and every callback has returned; False when that took too long.

        Called by `execute` or a callback it waits for everything but those that wait as this call does.
        """
        idle = self._wait("wait_for_completion", self._is_idle, timeout)
        if self._failure is not None:
            raise self._failure
        return idle

    def stop(self) -> None:
        """Take nothing more, let what runs finish, and go. A Ctrl-C says so; the next one cancels what runs.

        Called by `execute` or a callback it returns at once, and the pool ends when the last of them has returned; a
        `stop()` from outside waits for that.
        """
        inside = self._is_inside()
        with self._changed:
            if self._running:
                self._running = False
                if inside:
                    self._ender = threading.Thread(target=self._end_later, name="headway-stop")
                    self._ender.start()
            elif self._ender is None:
                return
        if inside:
            return
        came = self._wait_out()
        if self._ender is None:
            self._end()
        else:
            self._join_ender()
        if came:
            raise KeyboardInterrupt

    def _end(self) -> None:
        try:
            self._background.result(self._close())
        finally:
            self._background.__exit__(None, None, None)
        self._changes.tell()

    def _end_later(self) -> None:
        try:
            self._wait_out()
            self._end()
        except BaseException as error:  # Raised by the next stop() or start(), if there is one.
            _log_fault("a worker pool that was stopped from inside did not end well", error)
            self._end_fault = error

    def _join_ender(self) -> None:
        ender, self._ender = self._ender, None
        if ender is not None:
            wait_thread(ender)
        fault, self._end_fault = self._end_fault, None
        if fault is not None:
            raise fault

    # -- from inside ----------------------------------------------------------------------------------------------

    def _is_inside(self) -> bool:
        return self._background.here or self._insiders.here() is not None

    def _is_idle(self) -> bool:
        return not (self._active or self._calling_back)

    def _all_wait(self) -> bool:
        """Whether nothing is under way that could change anything: what is left waits for the pool itself."""
        return self._active + self._calling_back <= self._insiders.waiting

    def _wait(self, name: str, ready: Callable[[], bool], timeout: float | None) -> bool:
        timeout, place = _wait_s(timeout), self._insiders.here()
        if self._background.here:
            raise UsageError(
                f"{name}() would block the event loop of its own pool",
                hint=f"await asyncio.to_thread(pool.{name})",
            )
        with self._changed:
            if place is None:
                return wait_condition(self._changed, ready, timeout)
            with self._insiders.wait(place):
                self._changed.notify_all()
                return wait_condition(self._changed, lambda: ready() or self._all_wait(), timeout)

    def _wait_out(self) -> bool:
        """Until nothing is under way; whether a first Ctrl-C came meanwhile. One that leads here is on its way already."""
        outside = isinstance(sys.exception(), KeyboardInterrupt)
        times, acted = int(outside), 0
        while True:
            try:
                while acted < times:  # In here: the next one may come before the last was answered.
                    acted += 1
                    self._interrupt(cancel=acted == 2)
                with self._changed:
                    wait_condition(self._changed, self._is_idle)
                return times > 0 and not outside
            except KeyboardInterrupt:
                times += 1
                if times > 2:
                    raise

    def _interrupt(self, *, cancel: bool) -> None:
        self._interrupted = True
        if cancel:
            self._background.soon(self._cancel)
        elif self._active:
            say(self._active, "unit")

    @property
    def active(self) -> int:
        """Units that are under way."""
        return self._active

    # -- on the loop --------------------------------------------------------------------------------------------

    def _cancel(self) -> None:
        assert self._calls is not None
        self._calls.interrupt(cancel=True)

    def _begin(self) -> None:
        limits = LaneLimits(rpm=0, max_concurrency=self._max_workers)
        self._calls = Calls(
            lambda lane: LaneSpec(lane, limits, self._retry.to_core(), own_failures=True),
            Settings(max_identical_invalid=0),
            self._scrub,
        )
        if self._store is not None:
            records = CallRecords(self._store, self._identity)
            with python_hints("store"):
                records.begin(self._calls, self._lost_records)
            self._records = records
        self._calls.requeued = self._requeued
        self._made = self._max_workers
        numbers = range(1, self._max_workers + 1)
        self._slots = [
            number if self._records is None else self._records.add_worker(f"worker-{number}")
            for number in numbers
        ]

    def _new_slot(self) -> int | asyncio.Future[int]:
        """A worker in the place of one that is gone, and its record."""
        self._made += 1
        return self._made if self._records is None else self._records.add_worker_later(f"worker-{self._made}")

    async def _take_slot(self) -> int:
        slot = self._slots.pop()
        if isinstance(slot, int):
            return slot
        try:
            return await asyncio.shield(slot)
        except BaseException:
            self._slots.append(slot)
            raise

    async def _close(self) -> None:
        assert self._calls is not None
        await self._calls.close()
        if self._records is not None:
            if self._failure is None:
                for slot in self._slots:
                    number = slot if isinstance(slot, int) else await slot
                    self._records.set_worker(number, "terminated")
            await self._records.close("interrupted" if self._interrupted else None)

    def _submit(self, work: _PoolUnit) -> None:
        if self._records is not None:
            self._keep(asyncio.get_running_loop().create_task(self._submit_recorded(self._records, work)))
            return
        try:
            self._run(work)
        except BaseException as error:
            self._fail(work, error)

    async def _submit_recorded(self, records: CallRecords, work: _PoolUnit) -> None:
        """Run a unit, unless its records say that it has succeeded."""
        key, given = work.view.id, {"prompt": work.prompt, "payload": work.view.payload}
        try:
            before = key in self._ids
            self._ids.add(key)
            unit = (await records.find([key], this_run=before)).get(key)
            if unit is not None and unit.value is not None:
                self._changes.compare(key, given, unit.digest)
                work.result = self._codec.decode(unit.value)
                self._over(work, Status.SUCCEEDED, work.result)
                return
            async with self._opening:
                if not records.has_lane(LANE):
                    await records.open_lane(LANE)
            if unit is None:
                unit = records.add(key, LANE, as_json(given))
            else:
                records.run_again(unit.index, as_json(given))
            work.recorded = unit
            work.digest = digest_of(given)  # Now: a worker may write into it.
            self._run(work)
        except BaseException as error:  # A unit's payload may raise anything when it is written down.
            if is_cancellation(error):
                raise
            if self._failure is None:  # Otherwise nothing is under way any more.
                self._fail(work, error)

    def _fail(self, work: _PoolUnit, error: BaseException) -> None:
        self._over(work, Status.FAILED, WorkerResult(False, error=describe_exception(error)))

    def _run(self, work: _PoolUnit) -> None:
        assert self._calls is not None
        _fill_in(work.view, "assigned")
        self._calls.submit(
            LANE,
            lambda flight: self._try(work, flight),
            lambda flight, end: self._ended(work, flight, end),
        )

    async def _try(self, work: _PoolUnit, flight: SubmittedCall) -> Outcome:
        """One attempt, and what it leaves for the records."""
        self._place(work, True)
        outcome = await self._attempt_and_look(work, flight)
        if work.recorded is not None:
            flight.details = await encode_details(details_of(work.prompt, work.result), self._scrub)
        return outcome

    async def _attempt_and_look(self, work: _PoolUnit, flight: SubmittedCall) -> Outcome:
        """One attempt; where it failed, its logs and output files are searched for a rate limit."""
        marks = await self._detector.begin()
        began_utc = time.time()
        outcome = await self._attempt(work, flight)
        if outcome.kind is None or outcome.kind in LIMIT_KINDS:
            return outcome
        files = _files_of(work.result)
        if not files and not self._detector.looks:
            return outcome
        evidence = LimitEvidence(exit_codes_in(flight.error), files=files, began_utc=began_utc, marks=marks)
        outcome, flight.rate_limit = await asyncio.to_thread(self._detector.judge, outcome, evidence)
        return outcome

    async def _attempt(self, work: _PoolUnit, flight: SubmittedCall) -> Outcome:
        flight.value, work.result = work, None
        slot = work.slot = await self._take_slot()
        if self._records is not None and work.recorded is not None:
            self._records.set_worker(slot, "busy")
            intent = self._records.intend(work.recorded.index, LANE)
            if intent is not None:
                await intent
            self._records.running(work.recorded.index)
        flight.started_at = time.monotonic()
        _fill_in(work.view, "running")
        current_attempt.set(flight)
        self._insiders.enter()
        abandoned = False
        limit = AttemptTimeout(self._timeout_s or float("inf")) if self._timeout_s else None
        try:
            return self._judged(work, flight, await self._execute(work))
        except asyncio.CancelledError as called_off:
            abandoned = True
            if limit is None:
                raise
            limit.check_cancelled(called_off)
            work.result = WorkerResult(
                False, error=f"no result within {self._timeout_s:g} s; its thread was abandoned"
            )
            return Outcome(Kind.TIMEOUT, flight.usage, message=work.result.error)
        except BaseException as error:
            flight.error = as_exception(error)
            work.result = WorkerResult(False, error=describe_exception(error))
            return outcome_of(flight.error, flight.usage, self._retry.on)
        finally:
            if limit is not None:
                limit.end()
            with suppress(BaseException):  # A result may be of a class of the worker's own.
                if work.result is not None:
                    work.result.execution_time = time.monotonic() - flight.started_at
            self._give_back(slot, abandoned=abandoned)

    async def _execute(self, work: _PoolUnit) -> Any:
        execute, prompt, payload = self._worker.execute, work.prompt, work.view.payload
        if inspect.iscoroutinefunction(execute):
            return await execute(prompt, payload, self._timeout_s)
        value = await self._threads.run(lambda: execute(prompt, payload, self._timeout_s))
        return await value if inspect.isawaitable(value) else value

    def _judged(self, work: _PoolUnit, flight: SubmittedCall, result: Any) -> Outcome:
        """What a worker's own words mean: a failure that it reports is the unit's, and final, unless it is a rate limit."""
        refused = _refusal_in(result)
        if refused is not None:
            words = short_message(refused.message)
            work.result = result if isinstance(result, WorkerResult) else WorkerResult(False, error=words)
            return Outcome(refused.kind, flight.usage, refused.hint, words)
        if not isinstance(result, WorkerResult):
            kind = type(result).__name__
            work.result = WorkerResult(False, error=f"execute returned a {kind}, not a WorkerResult")
            return Outcome(Kind.INVALID, flight.usage, message=work.result.error)
        work.result = result
        if cost_usd := cost_of(result):
            used = flight.usage or Usage()
            flight.usage = msgspec.structs.replace(used, cost_usd=(used.cost_usd or 0.0) + cost_usd)
        if not result.success:
            message = visible(as_declared(result).error) or "the worker reported a failure"
            return Outcome(Kind.INVALID, flight.usage, message=message)
        return SUCCESS if flight.usage is None else Outcome(usage=flight.usage)

    def _give_back(self, slot: int, *, abandoned: bool) -> None:
        """A worker is free; one whose thread was abandoned is gone, and another takes its place."""
        if self._records is not None:
            self._records.set_worker(slot, "failed" if abandoned else "idle")
        self._slots.append(self._new_slot() if abandoned else slot)

    def _requeued(self, flight: SubmittedCall, command: Requeue) -> None:
        work = flight.value
        if not isinstance(work, _PoolUnit):
            return
        work.view.status = "pending"
        self._place(work, False)
        if self._records is not None and work.recorded is not None:
            wait_s = command.not_before - asyncio.get_running_loop().time()
            self._records.requeued(work.recorded, flight, wait_s, command.reason, work.slot)

    def _ended(self, work: _PoolUnit, flight: SubmittedCall, end: CallEnd) -> None:
        result, why = work.result, reason_of(flight, end)
        if result is None:
            result = WorkerResult(False, error=end.message or end.code)
        elif why and end is not DONE:
            result.error = why
        if self._records is None or work.recorded is None:
            self._over(work, end.status, result)
            return
        value = None
        if end is DONE:
            value, result = encoded(result, self._codec)
        self._records.ended(
            work.recorded, flight, end, value, lambda _, end: self._over(work, end.status, result), work.slot, work.digest
        )  # fmt: skip

    def _over(self, work: _PoolUnit, status: Status, result: WorkerResult) -> None:
        """Everything about the unit is known, and on record: its worker is free, its callback is called."""
        if work.over:
            return
        work.over = True
        good = status is Status.SUCCEEDED
        _fill_in(work.view, str(status), result)
        callback = self._on_complete if good else self._on_failed
        with self._changed:
            self._under_way.discard(work.view.id)
            self._active -= 1
            self._placed -= work.placed
            self._calling_back += callback is not None
            self._changed.notify_all()
        if callback is not None:
            self._keep(asyncio.get_running_loop().create_task(self._call_back(callback, work, result)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """A loop itself keeps no task alive."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call_back(self, callback: Callback, work: _PoolUnit, result: WorkerResult) -> None:
        self._insiders.enter()
        try:
            value = await self._threads.run(lambda: callback(work.unit, result))
            if inspect.isawaitable(value):
                await value
        except BaseException as error:
            _log_fault(f"a callback of the worker pool failed for unit {work.view.id}", error)
        finally:
            with self._changed:
                self._calling_back -= 1
                self._changed.notify_all()

    def _lost_records(self, error: Exception) -> None:
        rewrite_hint(error, "store")
        with self._changed:
            self._failure = error
            self._active = self._placed = 0
            self._changed.notify_all()


def _refusal_in(result: Any) -> Facts | None:
    """The rate limit that a worker's result reports."""
    refused = limit_in_result(result)
    if refused is not None or not isinstance(result, WorkerResult):
        return refused
    return limit_in_result(result.output) if result.success else limit_in_report(result.error, result.output)


def _files_of(result: WorkerResult | None) -> tuple[str, ...]:
    files: object = None if result is None else result.output_files
    return tuple(str(path) for path in files if path) if isinstance(files, list | tuple) else ()


def _wait_s(timeout: float | None) -> float | None:
    """How long to wait, as a lock takes it."""
    if timeout is None:
        return None
    must_be_number(timeout, "timeout", "it is seconds, 0 or more; None waits until it is so")
    return min(timeout, threading.TIMEOUT_MAX)


def _log_fault(what: str, error: BaseException) -> None:
    try:
        _log.error("%s: %s", what, describe_exception(error), exc_info=error)
    except BaseException:  # An exception whose own words raise has no traceback either.
        _log.error("%s: %s", what, describe_exception(error))


def _fill_in(view: WorkUnit, status: str, result: WorkerResult | None = None) -> None:
    """What has become of a unit. One of a class that takes no such thing stays as it is."""
    with suppress(BaseException):
        view.status = status
        if result is not None:
            view.result = result
