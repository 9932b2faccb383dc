"""`map` and `stream`: any callable over any iterable, through lanes.

A `Run` lives on one event loop: it reads items at most a thousand ahead, submits a call for each, and hands results
out as they end. Ahead of what: a `map` keeps its results, so of the calls that have started; a `stream` hands them to somebody
who may be slow, so of the results that were taken. Who asks from a plain script gets a loop for it; who asks from inside one uses `amap` or `async for`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Final, Generic

import msgspec

from headway.api.call_records import CallRecords, RecordedUnit
from headway.api.callable_errors import as_exception, note, to_raise, wrapped
from headway.api.changed_items import digest_of
from headway.api.error_hints import python_hints, rewrite_hint
from headway.api.interrupts import unfinished
from headway.api.item_pages import pages_of
from headway.api.job_names import identity_of_map
from headway.api.options import Isolation, Options
from headway.api.progress import watching
from headway.api.results import R, Result, T
from headway.api.threads import Threads
from headway.api.value_codec import ValueCodec
from headway.config.argument_checks import must_be_recordable
from headway.core.commands import Requeue
from headway.core.model import Kind, LaneSpec, Outcome, Settings
from headway.engine.calls import DONE, CallEnd, Calls, SubmittedCall, reason_of
from headway.errors import UnitError, UsageError
from headway.executors.attempt_details import AttemptDetails, encode_details
from headway.executors.limit_evidence import LimitEvidence
from headway.providers.call_reports import current_attempt, success_outcome
from headway.providers.error_messages import describe_exception, exception_text
from headway.providers.http.timeout import AttemptTimeout
from headway.providers.limits.exception_outcome import exit_codes_in, outcome_of
from headway.providers.limits.limit_detection import LIMIT_KINDS, limit_in_result
from headway.providers.scrubber import Scrubber
from headway.runtime.loops import called_off, uncut
from headway.stores.records import State

if TYPE_CHECKING:
    from headway.api.process_calls import Isolated

#: Items that are read before their calls start; of a stream, before the results of earlier ones are taken.
AHEAD: Final = 1_000
#: How an item ends for the whole run's sake.
_RUNS_OWN: Final = frozenset({"deadline", "budget"})
#: Once it was full a stream reads on when there is room for so many: item by item would cost a change of threads for each.
LEAST_ROOM: Final = 50


class _MapItem:
    """An item on its way, and what it takes to call for it."""

    __slots__ = ("index", "item", "run", "started")

    def __init__(self, run: Run[Any, Any], index: int, item: Any) -> None:
        self.run, self.index, self.item = run, index, item
        self.started = False

    async def call(self, flight: SubmittedCall) -> Outcome:
        """One attempt."""
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
        limit = AttemptTimeout(run.timeout_s)
        try:
            flight.value = await run.invoke(self.item)
        except asyncio.CancelledError as called_off:
            limit.check_cancelled(called_off)
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
        """One attempt; where it failed, the logs that it left are searched for a limit."""
        detector = self.run.options.detector
        marks = await detector.begin()
        began_utc = time()
        outcome = await self.call(flight)
        if outcome.kind is None or outcome.kind in LIMIT_KINDS:
            return outcome
        evidence = LimitEvidence(exit_codes_in(flight.error), began_utc=began_utc, marks=marks)
        outcome, flight.rate_limit = await asyncio.to_thread(detector.judge, outcome, evidence)
        return outcome

    async def _call_isolated(self, isolated: Isolated, flight: SubmittedCall) -> Outcome:
        try:
            return await isolated.attempt(self.item, flight, self.run.timeout_s)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # Pickling runs code of the item's and of the exception's.
            return self._raised(error, flight)

    def _raised(self, error: BaseException, flight: SubmittedCall) -> Outcome:
        flight.error = as_exception(error)
        return outcome_of(flight.error, flight.usage, self.run.options.retry.on)

    def ended(self, flight: SubmittedCall, end: CallEnd) -> None:
        """Its end, as the scheduler sees it."""
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
    """What the last attempt raised, with a note where the end has another reason than that."""
    error = flight.error
    if error is None:
        return UnitError(end.code or str(end.status), end.message)
    if not isinstance(error, Exception):  # asyncio takes a GeneratorExit past everybody who would catch it.
        error = wrapped(error, "the callable")
    why = reason_of(flight, end)
    if why:
        note(error, why)
    return error


class NotStarted(Exception):
    """The gate of the run was closed when the call was to start."""

    def __str__(self) -> str:
        return "the run was interrupted just before it started"


class _RecordedItem(_MapItem):
    """One whose end is on record before anybody hears of it."""

    __slots__ = ("digest", "encoded", "recorded", "records")

    def __init__(
        self, run: Run[Any, Any], index: int, item: Any, records: CallRecords, recorded: RecordedUnit
    ) -> None:
        super().__init__(run, index, item)
        self.records, self.recorded = records, recorded
        self.encoded: bytes | None = None
        self.digest = digest_of(item)  # Now: a call may write into it.

    async def call(self, flight: SubmittedCall) -> Outcome:
        intent = self.records.intend(self.recorded.index, flight.lane)
        if intent is not None:
            await intent
            flight.started_at = monotonic()
        self.records.running(self.recorded.index)
        outcome = await super().call(flight)
        if outcome.kind is not None:
            return outcome
        value = flight.value
        outcome = self._keep(flight, outcome)
        if outcome.kind is not None:
            await self._keep_text(flight, value)
        return outcome

    async def _keep_text(self, flight: SubmittedCall, value: Any) -> None:
        """Of a value that cannot be kept the text is, with the attempt: it was paid."""
        details = (
            msgspec.json.decode(flight.details, type=AttemptDetails) if flight.details else AttemptDetails()
        )
        details = msgspec.structs.replace(details, output=value)
        flight.details = await encode_details(details, self.run.scrub)

    def _keep(self, flight: SubmittedCall, outcome: Outcome) -> Outcome:
        """The value as a run that finds it on record would see it; a failure where it cannot be kept."""
        kind = type(flight.value).__name__
        try:
            self.encoded, flight.value, _ = self.run.codec.encode(flight.value)
        except msgspec.ValidationError as error:
            flight.error = UsageError(
                f"its value ({kind}) is no {self.run.options.returns}: {error}",
                hint="returns=… names the type that the function returns",
            )
        except BaseException as error:  # A value's class may raise anything when it is encoded or compared.
            flight.error = UsageError(
                f"its value ({kind}) cannot be kept: {_plain(as_exception(error))}",
                hint="return what JSON can say: texts, numbers, lists, dictionaries, dataclasses",
            )
        else:
            return outcome
        return Outcome(Kind.INVALID, flight.usage, message=str(flight.error))

    def requeued(self, flight: SubmittedCall, wait_s: float, reason: str) -> None:
        self.records.requeued(self.recorded, flight, wait_s, reason)

    def ended(self, flight: SubmittedCall, end: CallEnd) -> None:
        value = self.encoded if end is DONE else None
        self.records.ended(self.recorded, flight, end, value, super().ended, digest=self.digest)


def _plain(error: Exception) -> str:
    """What an encoder says by itself; the type's name in front of anything else."""
    return (
        exception_text(error)
        if isinstance(error, TypeError | ValueError | RecursionError)
        else describe_exception(error)
    )


class Run(Generic[T, R]):
    """One `map` or `stream` on the running loop. `handed`: results go to somebody who says what he took (`took`)."""

    def __init__(
        self, call: Callable[[T], Any], items: Any, options: Options, *, handed: bool = False
    ) -> None:
        self.options = options
        self.timeout_s = options.timeout_s
        self._items = items
        self.loop = asyncio.get_running_loop()
        self._threads = Threads()
        self.scrub = scrub = Scrubber.of_environment()
        self.isolated = _isolated(call, options, self._give_up, scrub)
        self.invoke = invoker(call, self._threads, options.isolation)
        #: Whether logs and exit codes are looked at here: worker processes have that done already.
        self._looks = options.detector.looks and self.isolated is None
        #: Asked before each start whether the call may still start.
        self.gate: Callable[[], Awaitable[bool]] | None = None
        self._lane_of = options.lane_of
        self.calls = Calls(self._spec, self._settings(), scrub)
        self._results: deque[Result[T, R]] = deque()
        self._unstarted = 0
        self._handed = handed
        self._read = self._taken = 0
        self._at_once = 0
        self._under_way = 0
        self._next = 0
        self._read_all = self._mid_page = False
        #: Whether the run's time or money is up, and no item is read any more. What has a length is read to its end:
        #: each of its items gets a result.
        self._over = False
        self._sized = isinstance(items, Collection)
        #: Whether it was interrupted: nothing new starts.
        self.stopped = False
        self._failure: BaseException | None = None
        self._room = asyncio.Event()
        self._news = asyncio.Event()
        self._failed = self._left = 0
        self._keys: set[str] = set()
        self._changes = options.changes
        self.codec = ValueCodec(options.returns, scrub=scrub)
        self._records: CallRecords | None = None
        if options.db is not None:
            self._records = CallRecords(options.db, identity_of_map(call, options.name, options.renamed_from))

    def _settings(self) -> Settings:
        options = self.options
        deadline_at = self.loop.time() + options.max_duration_s if options.max_duration_s else None
        return Settings(
            concurrency=options.concurrency,
            max_cost_usd=options.max_cost,
            costs_told_late=options.max_cost > 0,
            deadline_at=deadline_at,
            max_identical_invalid=0,  # An exception of the callable's own says nothing of its lane.
        )

    def _spec(self, lane: str) -> LaneSpec:
        limits = self.options.limits_of(lane)
        self._at_once += int(limits.max_concurrency or 0)
        return LaneSpec(lane, limits, self.options.retry.to_core(), own_failures=True)

    # -- items in -------------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        try:
            async for page in pages_of(self._items, self._threads, self._space if self._handed else None):
                self._read += len(page)
                self._mid_page = True
                keys, recorded = await self._recorded(page)
                for item, key in zip(page, keys, strict=True):
                    if not self._has_room():
                        self._room.clear()
                        await self._room.wait()
                    if self.stopped:
                        return
                    lane, unit = self._lane_name(item), recorded.get(key)
                    if self._records is not None and not self._records.has_lane(lane):
                        must_be_recordable(lane, "the lane")
                        if unit is None or unit.value is None:
                            await self._records.open_lane(lane)
                    self._submit(item, lane, key, unit)
                self._mid_page = False
                if self._over:
                    return
        except BaseException as error:
            if called_off(error):
                raise
            self._fail(to_raise(error, "items, or a function of the item,"))
        finally:
            self._read_all, self._mid_page = True, False
            self._news.set()

    def _fail(self, error: BaseException) -> None:
        """Raise this once what is under way has ended."""
        if self._failure is None:
            self._failure = error

    def _end_reading(self) -> None:
        """The run's time or money is up: an iterator may go on for ever, and nothing that it gives would be called."""
        if not self._sized:
            self._over = True
            self._room.set()
            self._news.set()

    async def _recorded(self, page: list[T]) -> tuple[list[str], dict[str, RecordedUnit]]:
        """The keys of the items of a page, and what is on record for them."""
        records = self._records
        if records is None:
            return [""] * len(page), {}
        keys = [self._key(item) for item in page]
        for key in keys:
            if key in self._keys:
                raise UsageError(f"two items have the key {key!r}", hint="a key names one item")
            self._keys.add(key)
        return keys, await records.find(keys)

    def _key(self, item: T) -> str:
        assert self.options.key is not None
        key: object = self.options.key(item)
        if isinstance(key, int):
            key = str(key)
        if not isinstance(key, str) or not key:
            raise UsageError(f"the key of an item is {key!r}", hint="a key is a text that is not empty")
        must_be_recordable(key, "the key")
        return key

    def _lane_name(self, item: T) -> str:
        lane: object = self._lane_of(item)
        if not isinstance(lane, str):
            raise UsageError(f"the lane of an item is {lane!r}", hint="a lane's name is a text")
        return lane

    def _submit(self, item: T, lane: str, key: str, unit: RecordedUnit | None) -> None:
        size, records = self.options.estimate(item), self._records
        index = self._next
        self._next += 1
        if records is None:
            one = _MapItem(self, index, item)
        elif unit is not None and unit.value is not None:
            self._changes.compare(key, item, unit.digest)
            self._recalled(index, item, lane, unit.value)
            return
        else:
            unit = unit or records.add(key, lane)
            records.expect(unit.index, lane)
            one = _RecordedItem(self, index, item, records, unit)
        self.calls.submit(lane, one.call_and_look if self._looks else one.call, one.ended, **size)
        self._unstarted += 1  # Only now: a lane that cannot be made has nothing under way.
        self._under_way += 1

    def _recalled(self, index: int, item: T, lane: str, value: bytes) -> None:
        """An earlier run has its result."""
        try:
            found = Result(index, item, self.codec.decode(value), None, "succeeded", "", 0, lane)
        except Exception as error:  # Also whatever the class that `returns` names raises when one is made.
            mismatch = UsageError(
                f"the kept value of item {index} is no {self.options.returns}: {_plain(error)}",
                hint="a changed function wants another name=…",
            )
            found = Result(index, item, None, mismatch, "failed", str(Kind.INVALID), 0, lane)
        self._under_way += 1
        self.ended(found)

    def _begin_records(self, records: CallRecords) -> None:
        with python_hints("db"):
            records.begin(self.calls, self._lost_records)
        self.calls.requeued = self._requeued

    def _requeued(self, flight: SubmittedCall, command: Requeue) -> None:
        one = flight.call.__self__  # type: ignore[attr-defined]  # a bound method of its item
        one.requeued(flight, command.not_before - self.loop.time(), command.reason)

    def _give_up(self, error: Exception) -> None:
        """Nothing more is called; what is under way ends, and then this is raised."""
        self._fail(error)
        self.interrupt(cancel=True)

    def _lost_records(self, error: Exception) -> None:
        """Nothing can be kept any more: nothing more is called, and nobody hears of an end."""
        rewrite_hint(error, "db")
        self._give_up(error)
        self._under_way = 0
        self._news.set()

    def began(self) -> None:
        """A call has started, or will not."""
        self._unstarted -= 1
        if self._unstarted < AHEAD and not self._handed:
            self._room.set()

    def took(self, results: int) -> None:
        """Whoever they are handed to has done with so many more."""
        self._taken += results
        if self._left_to_read() >= LEAST_ROOM:
            self._room.set()

    def _left_to_read(self) -> int:
        """How many more items may be read: as many as there may be at once are no reading ahead."""
        at_once = min(self._at_once, self.options.concurrency or self._at_once)
        return max(AHEAD, at_once) - (self._read - self._taken)

    async def _space(self) -> int:
        """How many items may be read now; 0: no more at all."""
        while self._left_to_read() < LEAST_ROOM and not (self.stopped or self._over):
            self._room.clear()
            await self._room.wait()
        return 0 if self.stopped or self._over else self._left_to_read()

    @property
    def ends(self) -> int:
        """How many items have come to their own end: what an interruption left has not."""
        return self._next - self._under_way - self._left

    @property
    def failures(self) -> int:
        """How many of them have no value."""
        return self._failed

    @property
    def in_flight(self) -> int:
        """How many calls run now."""
        return self.calls.lanes.in_flight

    @property
    def busy(self) -> bool:
        """Whether an item that was read has not come to its end."""
        return self._under_way > 0

    def _has_room(self) -> bool:
        return self._unstarted < AHEAD or self._handed

    # -- results out ----------------------------------------------------------------------------------------------

    def ended(self, result: Result[T, R]) -> None:
        """An item has come to its end."""
        self._under_way -= 1
        if self.stopped and unfinished(result):
            self._left += 1
        else:
            self._failed += result.error is not None
        if result.code in _RUNS_OWN:
            self._end_reading()
        self._results.append(result)
        self._news.set()

    async def pages(self) -> AsyncGenerator[list[Result[T, R]], None]:
        """Results as they end, all that are there at once."""
        records, whole = self._records, False
        if records is not None:
            self._begin_records(records)
        feeder = self.loop.create_task(self._feed())
        deadline, watch = self._deadline(), None
        try:
            watch = watching(self, self._items, self.options.progress)
            while True:
                if self._results:
                    page = list(self._results)
                    self._results.clear()
                    yield page
                elif self._has_read() and not self._under_way:
                    whole = self._failure is None and not self.stopped and self._read_all
                    break
                else:
                    self._news.clear()
                    await self._news.wait()
            if self._failure is not None:
                raise self._failure
            self._changes.tell()
            if whole and self.options.lane_names is not None:
                self.options.lane_names.end()
        finally:
            if deadline is not None:
                deadline.cancel()
            if watch is not None:
                watch.close()
            try:
                await self._call_off(feeder)
            finally:
                if records is not None:
                    state: State = "interrupted" if not whole else "failed" if self._failed else "complete"
                    await uncut(records.close(state))

    def _has_read(self) -> bool:
        """Whether no further item will be submitted."""
        return self._read_all or self.stopped or (self._over and not self._mid_page)

    def _deadline(self) -> asyncio.TimerHandle | None:
        """What ends the reading also where no call is under way that the deadline could end."""
        seconds = self.options.max_duration_s
        return self.loop.call_later(seconds, self._end_reading) if seconds else None

    async def _call_off(self, feeder: asyncio.Task[None]) -> None:
        """End whatever is left."""
        feeder.cancel()
        try:
            await asyncio.wait([feeder])
        finally:
            await self.calls.close()
        if self.isolated is not None:
            await self.isolated.close()

    def interrupt(self, *, cancel: bool = False) -> None:
        """Nothing new starts; what is in flight finishes, or is cancelled."""
        self.stopped = True
        self._room.set()
        self._news.set()
        self.calls.interrupt(cancel=cancel)


def _isolated(
    call: Callable[[T], Any], options: Options, give_up: Callable[[Exception], None], scrub: Scrubber
) -> Isolated | None:
    """Worker processes for it, where they are asked for."""
    if options.isolation != "process":
        return None
    from headway.api.process_calls import Isolated

    return Isolated(
        call,
        options.workers,
        options.retry.on,
        give_up=give_up,
        scrub=scrub if options.db is not None else None,
        recycle_after=options.recycle_after,
        memory_ceiling=options.memory_ceiling,
        memory_limit=options.memory_limit,
        detector=options.detector,
        env=options.env,
    )


def invoker(
    call: Callable[[T], Any], threads: Threads, isolation: Isolation | None = None
) -> Callable[[T], Awaitable[Any]]:
    """How the callable is called: on the loop if it is asynchronous, otherwise in a thread."""
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
