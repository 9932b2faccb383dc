"""A worker pool on its event loop: units in, attempts, records, callbacks.

Units run through one lane with `max_workers` at once. A worker that meets a rate limit holds the lane, and its unit is tried
again. One `PoolLoop` lives from `start()` to `stop()`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from headway.api.agents.agent_result import AgentRunResult
from headway.api.agents.directory_groups import groups_of
from headway.api.call_errors import as_exception, python_hints, rewrite_hint
from headway.api.call_records import CallRecords
from headway.api.job_names import JobIdentity
from headway.api.mapping.changed_items import ChangedItems, digest_of
from headway.api.pool.pool_records import as_declared, as_json, codec_of, cost_of, details_of, encoded
from headway.api.pool.pool_state import PoolState, PoolUnit
from headway.api.pool.work_units import Worker, WorkerResult, WorkUnit
from headway.api.threads import Threads
from headway.config.call_settings import Retry
from headway.core.commands import Requeue
from headway.core.model import SUCCESS, Kind, LaneLimits, LaneSpec, Outcome, Settings, Usage
from headway.core.unit_states import Status
from headway.engine.calls import DONE, CallEnd, Calls, SubmittedCall, reason_of
from headway.executors.attempt_details import encode_details
from headway.executors.limit_evidence import LimitDetector, LimitEvidence
from headway.providers.call_reports import current_attempt
from headway.providers.error_messages import describe_exception, short_message
from headway.providers.http.timeout import AttemptTimeout, TimeoutGroup
from headway.providers.limits.exception_outcome import exit_codes_in, outcome_of
from headway.providers.limits.hints import Facts
from headway.providers.limits.limit_detection import LIMIT_KINDS, limit_in_report, limit_in_result
from headway.providers.scrubber import Scrubber
from headway.runtime.loops import is_cancellation
from headway.safe_text import visible

_log: Final = logging.getLogger("headway")
LANE: Final = "workers"

Callback = Callable[[Any, WorkerResult], object]


class PoolSettings(msgspec.Struct, frozen=True):
    """What a pool was made with. `store` is the file of its records, None if it has none."""

    worker: Worker
    identity: JobIdentity
    store: str | None
    max_workers: int
    timeout_s: float
    retry: Retry
    detector: LimitDetector
    on_complete: Callback | None
    on_failed: Callback | None


class PoolLoop:
    """The units of one pool. All methods are for the thread of its loop."""

    def __init__(self, settings: PoolSettings, state: PoolState, changes: ChangedItems) -> None:
        self._settings, self._state, self._changes = settings, state, changes
        #: Whether an attempt is abandoned at its timeout, or sees to that itself.
        self._has_timeout = bool(settings.timeout_s) and not getattr(settings.worker, "keeps_timeout", False)
        #: Which units run one at a time, if the worker is an agent.
        self._groups = groups_of(settings.worker)
        self._scrub = Scrubber.of_environment()
        self._codec = codec_of(self._scrub)
        self._threads = Threads("headway-worker")
        self._tasks: set[asyncio.Task[None]] = set()
        #: Held while the lane of the records is opened.
        self._opening = asyncio.Lock()
        #: Ids that this run has on record.
        self._ids: set[str] = set()
        limits = LaneLimits(rpm=0, max_concurrency=settings.max_workers)
        self._calls = Calls(
            lambda lane: LaneSpec(lane, limits, settings.retry.to_core(), own_failures=True),
            Settings(max_identical_invalid=0),
            self._scrub,
        )
        self._calls.requeued = self._requeued
        self._records: CallRecords | None = None
        if settings.store is not None:
            records = CallRecords(settings.store, settings.identity)
            with python_hints("store"):
                records.begin(self._calls, self._lost_records)
            self._records = records
        #: Numbers of idle workers; a future where the record of a new one is being made.
        self._slots: list[int | asyncio.Future[int]] = [
            number if self._records is None else self._records.add_worker(f"worker-{number}")
            for number in range(1, settings.max_workers + 1)
        ]
        self._made = settings.max_workers

    def cancel(self) -> None:
        """Cancel what runs; nothing more starts."""
        self._calls.interrupt(cancel=True)

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

    async def close(self, *, interrupted: bool) -> None:
        """Cancel what is left, and end the run in the records."""
        await self._calls.close()
        if self._records is None:
            return
        try:
            if self._state.failure is None:
                for slot in self._slots:
                    number = slot if isinstance(slot, int) else await slot
                    self._records.set_worker(number, "terminated")
        finally:
            await self._records.close("interrupted" if interrupted else None)

    def submit(self, work: PoolUnit) -> None:
        """Run a unit. Its end is reported once, whatever fails."""
        if self._records is not None:
            self._keep(asyncio.get_running_loop().create_task(self._submit_recorded(self._records, work)))
            return
        try:
            self._run(work)
        except BaseException as error:
            self._fail(work, error)

    async def _submit_recorded(self, records: CallRecords, work: PoolUnit) -> None:
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
            if self._state.failure is None:  # Otherwise nothing is under way any more.
                self._fail(work, error)

    def _fail(self, work: PoolUnit, error: BaseException) -> None:
        self._over(work, Status.FAILED, WorkerResult(False, error=describe_exception(error)))

    def _run(self, work: PoolUnit) -> None:
        _fill_in(work.view, "assigned")
        self._calls.submit(
            LANE,
            lambda flight: self._try(work, flight),
            lambda flight, end: self._ended(work, flight, end),
            exclusive=0 if self._groups is None else self._groups.of(work.view.payload),
        )

    async def _try(self, work: PoolUnit, flight: SubmittedCall) -> Outcome:
        """Make one attempt, with its details for the records."""
        self._state.place(work, placed=True)
        outcome = await self._attempt_and_look(work, flight)
        if work.recorded is not None:
            flight.details = await encode_details(details_of(work.prompt, work.result), self._scrub)
        return outcome

    async def _attempt_and_look(self, work: PoolUnit, flight: SubmittedCall) -> Outcome:
        """Make one attempt. If it failed, its logs and output files are searched for a rate limit."""
        marks = await self._settings.detector.begin()
        began_utc = time.time()
        outcome = await self._attempt(work, flight)
        if outcome.kind is None or outcome.kind in LIMIT_KINDS:
            return outcome
        files = _files_of(work.result)
        if not files and not self._settings.detector.looks:
            return outcome
        evidence = LimitEvidence(exit_codes_in(flight.error), files=files, began_utc=began_utc, marks=marks)
        outcome, flight.rate_limit = await asyncio.to_thread(self._settings.detector.judge, outcome, evidence)
        return outcome

    async def _attempt(self, work: PoolUnit, flight: SubmittedCall) -> Outcome:
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
        self._state.callers.enter()
        abandoned = False
        limit = AttemptTimeout(TimeoutGroup(self._settings.timeout_s)) if self._has_timeout else None
        try:
            return self._outcome_of(work, flight, await self._execute(work))
        except asyncio.CancelledError as cancelled:
            abandoned = True
            if limit is None:
                raise
            limit.check_cancelled(cancelled)
            work.result = WorkerResult(
                False, error=f"no result within {self._settings.timeout_s:g} s; its thread was abandoned"
            )
            return Outcome(Kind.TIMEOUT, flight.usage, message=work.result.error)
        except BaseException as error:
            flight.error = as_exception(error)
            work.result = WorkerResult(False, error=describe_exception(error))
            return outcome_of(flight.error, flight.usage, self._settings.retry.on)
        finally:
            if limit is not None:
                limit.end()
            with suppress(BaseException):  # A result may be of a class of the worker's own.
                if work.result is not None:
                    work.result.execution_time = time.monotonic() - flight.started_at
            self._give_back(slot, abandoned=abandoned)

    async def _execute(self, work: PoolUnit) -> Any:
        execute, prompt, payload = self._settings.worker.execute, work.prompt, work.view.payload
        if inspect.iscoroutinefunction(execute):
            return await execute(prompt, payload, self._settings.timeout_s)
        value = await self._threads.run(lambda: execute(prompt, payload, self._settings.timeout_s))
        return await value if inspect.isawaitable(value) else value

    def _outcome_of(self, work: PoolUnit, flight: SubmittedCall, result: Any) -> Outcome:
        """The outcome of a returned result. A failure that the worker reports is final, unless it is a rate limit."""
        if isinstance(result, AgentRunResult):
            work.result, flight.usage, flight.rate_limit = result, result.outcome.usage, result.rate_limit
            return result.outcome
        refused = _refusal_in(result)
        if refused is not None:
            text = short_message(refused.message)
            work.result = result if isinstance(result, WorkerResult) else WorkerResult(False, error=text)
            return Outcome(refused.kind, flight.usage, refused.hint, text)
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
        """A worker is free. One whose thread was abandoned is replaced by a new worker."""
        if self._records is not None:
            self._records.set_worker(slot, "failed" if abandoned else "idle")
        self._slots.append(self._new_slot() if abandoned else slot)

    def _requeued(self, flight: SubmittedCall, command: Requeue) -> None:
        work = flight.value
        if not isinstance(work, PoolUnit):
            return
        work.view.status = "pending"
        self._state.place(work, placed=False)
        if self._records is not None and work.recorded is not None:
            wait_s = command.not_before - asyncio.get_running_loop().time()
            self._records.requeued(work.recorded, flight, wait_s, command.reason, work.slot)

    def _ended(self, work: PoolUnit, flight: SubmittedCall, end: CallEnd) -> None:
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

    def _over(self, work: PoolUnit, status: Status, result: WorkerResult) -> None:
        """A unit has ended, and that is recorded: free its worker, and call its callback."""
        if work.over:
            return
        work.over = True
        good = status is Status.SUCCEEDED
        _fill_in(work.view, str(status), result)
        callback = self._settings.on_complete if good else self._settings.on_failed
        self._state.end(work, calls_back=callback is not None)
        if callback is not None:
            self._keep(asyncio.get_running_loop().create_task(self._call_back(callback, work, result)))

    def _keep(self, task: asyncio.Task[None]) -> None:
        """Keep a task alive until it is done: a loop has only weak references to tasks."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call_back(self, callback: Callback, work: PoolUnit, result: WorkerResult) -> None:
        self._state.callers.enter()
        try:
            value = await self._threads.run(lambda: callback(work.unit, result))
            if inspect.isawaitable(value):
                await value
        except BaseException as error:
            log_fault(f"a callback of the worker pool failed for unit {work.view.id}", error)
        finally:
            self._state.end_callback()

    def _lost_records(self, error: Exception) -> None:
        rewrite_hint(error, "store")
        self._state.fail(error)


def _refusal_in(result: Any) -> Facts | None:
    """The rate limit that a worker's result reports."""
    refused = limit_in_result(result)
    if refused is not None or not isinstance(result, WorkerResult):
        return refused
    return limit_in_result(result.output) if result.success else limit_in_report(result.error, result.output)


def _files_of(result: WorkerResult | None) -> tuple[str, ...]:
    files: object = None if result is None else result.output_files
    return tuple(str(path) for path in files if path) if isinstance(files, list | tuple) else ()


def log_fault(what: str, error: BaseException) -> None:
    """Log an exception that nothing else reports."""
    try:
        _log.error("%s: %s", what, describe_exception(error), exc_info=error)
    except BaseException:  # An exception that cannot be formatted has no traceback, either.
        _log.error("%s: %s", what, describe_exception(error))


def _fill_in(view: WorkUnit, status: str, result: WorkerResult | None = None) -> None:
    """Set the status and result of the caller's unit. A class that refuses attributes stays as it is."""
    with suppress(BaseException):
        view.status = status
        if result is not None:
            view.result = result
