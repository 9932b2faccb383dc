"""One item of a `map` or `stream`: how its callable is called, and what its end means for the caller.

`MapItem` is an item without records. `RecordedItem` records its intent, its attempts and its value first.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import msgspec

from headway.api.call_errors import as_exception, note, wrapped
from headway.api.call_records import CallRecords, RecordedUnit
from headway.api.foreign_loop import foreign_loop_error
from headway.api.mapping.changed_items import digest_of
from headway.api.results import Result, T
from headway.api.threads import Threads
from headway.core.model import Kind, Outcome
from headway.engine.calls import DONE, CallEnd, SubmittedCall, reason_of
from headway.errors import UnitError, UsageError
from headway.executors.attempt_details import AttemptDetails, encode_details
from headway.executors.limit_evidence import LimitEvidence
from headway.providers.call_reports import current_attempt, success_outcome
from headway.providers.error_messages import describe_exception, exception_text
from headway.providers.http.timeout import AttemptTimeout
from headway.providers.limits.exception_outcome import exit_codes_in, outcome_of
from headway.providers.limits.limit_detection import LIMIT_KINDS, limit_in_result

if TYPE_CHECKING:
    from headway.api.mapping.map_options import Isolation
    from headway.api.mapping.map_run import MapRun
    from headway.api.process_calls import ProcessCalls


class MapItem:
    """An item from its submission to its end."""

    __slots__ = ("index", "item", "run", "started")

    def __init__(self, run: MapRun[Any, Any], index: int, item: Any) -> None:
        self.run, self.index, self.item = run, index, item
        self.started = False

    async def call(self, flight: SubmittedCall) -> Outcome:
        """One attempt. If its value does not fit the schema, the lane has succeeded and the item has not."""
        outcome = await self._call(flight)
        answer_type = self.run.options.answer_type
        if answer_type is not None and outcome.kind is None:
            try:
                flight.value = answer_type.fit(flight.value)
            except Exception as error:  # The class of the schema may raise anything when an instance is made.
                flight.value, flight.rejected = None, f"what the function returned: {plain_text(error)}"
        return outcome

    async def _call(self, flight: SubmittedCall) -> Outcome:
        run = self.run
        if not self.started:
            self.started = True
            run.began()
        if run.gate is not None and not await run.gate():
            flight.error = NotStarted()
            return Outcome(Kind.INVALID, message=str(flight.error))
        if run.isolated is not None:
            return await self._call_isolated(run.isolated, flight)
        current_attempt.set(flight)
        limit = AttemptTimeout(run.timeouts)
        try:
            flight.value = await run.invoke(self.item)
        except asyncio.CancelledError as cancelled:
            limit.check_cancelled(cancelled)
            flight.error = TimeoutError(f"no result within {run.timeout_s:g} s")
            return Outcome(Kind.TIMEOUT, flight.usage, message=str(flight.error))
        except BaseException as error:
            return self._raised(error, flight)
        finally:
            limit.end()
        refused = limit_in_result(flight.value)
        if refused is not None:
            flight.value = None
            return Outcome(refused.kind, flight.usage, refused.hint, refused.message)
        return success_outcome(flight)

    async def call_and_look(self, flight: SubmittedCall) -> Outcome:
        """One attempt. If it failed, the logs that it left are searched for a rate limit."""
        detector = self.run.options.detector
        marks = await detector.begin()
        began_utc = time()
        outcome = await self.call(flight)
        if outcome.kind is None or outcome.kind in LIMIT_KINDS:
            return outcome
        evidence = LimitEvidence(exit_codes_in(flight.error), began_utc=began_utc, marks=marks)
        outcome, flight.rate_limit = await asyncio.to_thread(detector.judge, outcome, evidence)
        return outcome

    async def _call_isolated(self, isolated: ProcessCalls, flight: SubmittedCall) -> Outcome:
        try:
            return await isolated.attempt(self.item, flight, self.run.timeout_s, self.began_in(flight))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # Pickling runs code of the item's class and of the exception's.
            return self._raised(error, flight)

    def began_in(self, flight: SubmittedCall) -> Callable[[int], None] | None:
        """What to call with the number of the worker process that runs the attempt."""
        return None

    def _raised(self, error: BaseException, flight: SubmittedCall) -> Outcome:
        flight.error = as_exception(error)
        if self.run.nothing_succeeded and (foreign := foreign_loop_error(flight.error)) is not None:
            self.run.give_up(foreign)
        return outcome_of(flight.error, flight.usage, self.run.options.retry.on)

    def ended(self, flight: SubmittedCall, end: CallEnd) -> None:
        """The scheduler has ended the item: make its result."""
        run = self.run
        if not self.started:
            run.began()
        error = None
        if end is not DONE:
            error = _error_of(flight, end)
        value = None if error is not None else flight.value
        run.ended(
            Result(
                self.index, self.item, value, error, str(end.status), end.code, flight.attempts, flight.lane, flight.usage
            )
        )  # fmt: skip


def _error_of(flight: SubmittedCall, end: CallEnd) -> BaseException:
    """What the last attempt raised, with a note if the item ended for another reason."""
    error = flight.error
    if error is None:
        return UnitError(end.code or str(end.status), end.message)
    if not isinstance(error, Exception):  # asyncio passes a GeneratorExit by all handlers.
        error = wrapped(error, "the callable")
    why = reason_of(flight, end)
    if why:
        note(error, why)
    return error


class NotStarted(Exception):
    """The gate of the run was closed just before the call started."""

    def __str__(self) -> str:
        return "the run was interrupted just before it could start"


class RecordedItem(MapItem):
    """An item whose end is recorded before it is reported."""

    __slots__ = ("digest", "encoded", "recorded", "records")

    def __init__(
        self, run: MapRun[Any, Any], index: int, item: Any, records: CallRecords, recorded: RecordedUnit
    ) -> None:
        super().__init__(run, index, item)
        self.records, self.recorded = records, recorded
        self.encoded: bytes | None = None
        self.digest = digest_of(item)  # Now: the call may change the item.

    async def call(self, flight: SubmittedCall) -> Outcome:
        intent = self.records.intend(self.recorded.index, flight.lane)
        if intent is not None:
            await intent
            flight.started_at = monotonic()
        self.records.running(self.recorded.index)
        flight.keeps_details = True
        outcome = await super().call(flight)
        if flight.worker is not None:
            self.records.processes.idle(flight.worker)
        if outcome.kind is not None or flight.rejected:
            return outcome
        value = flight.value
        outcome = self._encode(flight, outcome)
        if outcome.kind is not None:
            await self._record_text(flight, value)
        return outcome

    def began_in(self, flight: SubmittedCall) -> Callable[[int], None] | None:
        def began(pid: int) -> None:
            flight.worker = self.records.processes.busy(pid, self.recorded.index)

        return began

    async def _record_text(self, flight: SubmittedCall, value: Any) -> None:
        """Record the text of a value that cannot be stored, with the attempt: it was paid for."""
        details = (
            msgspec.json.decode(flight.details, type=AttemptDetails) if flight.details else AttemptDetails()
        )
        details = msgspec.structs.replace(details, output=value)
        flight.details = await encode_details(details, self.run.scrub)

    def _encode(self, flight: SubmittedCall, outcome: Outcome) -> Outcome:
        """Encode the value, and replace it by what a later run reads. The outcome is a failure if it cannot be stored."""
        kind = type(flight.value).__name__
        try:
            self.encoded, flight.value, _ = self.run.codec.encode(flight.value)
        except msgspec.ValidationError as error:
            flight.error = UsageError(
                f"the returned value ({kind}) does not fit {self.run.options.returns}: {error}",
                hint="returns=… names the type that the function returns",
            )
        except BaseException as error:  # A value's class may raise anything when it is encoded or compared.
            flight.error = UsageError(
                f"the returned value ({kind}) cannot be stored: {plain_text(as_exception(error))}",
                hint="return something that JSON can represent: text, numbers, lists, dictionaries, dataclasses",
            )
        else:
            return outcome
        return Outcome(Kind.INVALID, flight.usage, message=str(flight.error))

    def requeued(self, flight: SubmittedCall, wait_s: float, reason: str) -> None:
        self.records.requeued(self.recorded, flight, wait_s, reason)

    def ended(self, flight: SubmittedCall, end: CallEnd) -> None:
        value = self.encoded if end is DONE else None
        self.records.ended(self.recorded, flight, end, value, super().ended, digest=self.digest)


def plain_text(error: Exception) -> str:
    """The text of an encoder's error; other errors with the name of their type."""
    return (
        exception_text(error)
        if isinstance(error, TypeError | ValueError | RecursionError)
        else describe_exception(error)
    )


def with_timeout(
    call: Callable[[T], Any], timeout_s: float, isolation: Isolation | None
) -> Callable[[T], Any]:
    """The callable with its timeout, if it keeps that itself as an `AgentWorker` does; otherwise the callable as it is."""
    if isolation == "process" or not getattr(call, "keeps_timeout", False):
        return call
    within: Callable[[float, T], Any] | None = getattr(call, "call_within", None)
    return call if within is None else partial(within, timeout_s)


def invoker(
    call: Callable[[T], Any], threads: Threads, isolation: Isolation | None = None
) -> Callable[[T], Awaitable[Any]]:
    """A function that calls the callable: on the loop if it is asynchronous, otherwise in a thread."""
    asynchronous = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
    if asynchronous and isolation != "thread":
        return call

    async def inline(item: T) -> Any:
        value = call(item)
        return await value if inspect.isawaitable(value) else value

    async def in_thread(item: T) -> Any:
        value = await threads.run(lambda: call(item))
        return await value if inspect.isawaitable(value) else value

    async def wholly_in_thread(item: T) -> Any:
        return await threads.run(lambda: call_to_end(call, item))

    if isolation == "thread":
        from headway.executors.worker_entry import call_to_end

        return wholly_in_thread
    return inline if isolation == "inline" else in_thread
