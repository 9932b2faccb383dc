"""One run of `map` or `stream`: items in, results out.

A `MapRun` lives on one event loop. It reads at most a thousand items ahead, submits a call for each, and hands results out as
they end. A `map` keeps its results, so it reads ahead of the calls that have started. The consumer of a `stream` may be slow,
so a stream reads ahead of the results that were taken.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic

from headway.api.agents.directory_groups import groups_of
from headway.api.call_errors import python_hints, rewrite_hint, to_raise
from headway.api.call_records import CallRecords, RecordedUnit
from headway.api.interrupts import unfinished
from headway.api.job_names import identity_of_map
from headway.api.mapping.item_pages import pages_of
from headway.api.mapping.map_items import MapItem, RecordedItem, invoker, plain_text, with_timeout
from headway.api.mapping.map_options import MapOptions
from headway.api.progress_bar import watching
from headway.api.results import R, Result, T
from headway.api.threads import Threads
from headway.api.value_codec import ValueCodec
from headway.config.argument_checks import must_be_recordable
from headway.config.duration_setting import LONGEST_S
from headway.core.commands import Requeue
from headway.core.model import Kind, LaneSpec, Settings
from headway.engine.calls import Calls, SubmittedCall
from headway.errors import UsageError
from headway.executors.entry_point import main_script
from headway.providers.http.timeout import TimeoutGroup
from headway.providers.scrubber import Scrubber
from headway.runtime.loops import is_cancellation, run_despite_cancellation
from headway.stores.records import State

if TYPE_CHECKING:
    from headway.api.process_calls import ProcessCalls
    from headway.executors.python_adapter import MakePool

#: Items that are read before their calls start; of a stream, before the results of earlier ones are taken.
AHEAD: Final = 1_000
#: Codes of items that ended because the run's time or money is up.
_RUN_OVER: Final = frozenset({"deadline", "budget"})
#: A stream that was full reads on when there is room for so many items: reading them one by one would switch threads for each.
LEAST_ROOM: Final = 50


class MapRun(Generic[T, R]):
    """One `map` or `stream` on the running loop. `handed`: the consumer reports which results it took (`took`)."""

    def __init__(
        self, call: Callable[[T], Any], items: Any, options: MapOptions, *, handed: bool = False
    ) -> None:
        self.options = options
        self.timeout_s = options.timeout_s
        limited = with_timeout(call, options.timeout_s, options.isolation)
        self.timeouts = TimeoutGroup(options.timeout_s if limited is call else LONGEST_S)
        self._items = items
        self.loop = asyncio.get_running_loop()
        self._threads = Threads()
        self.scrub = scrub = Scrubber.of_environment()
        self.isolated = _isolated(call, options, self.give_up, scrub)
        self.invoke = invoker(limited, self._threads, options.isolation)
        #: Whether logs and exit codes are searched for limits here. With worker processes, their pool does that.
        self._looks = options.detector.looks and self.isolated is None
        #: Says before each start whether the call may start.
        self.gate: Callable[[], Awaitable[bool]] | None = None
        self._lane_of = options.lane_of
        #: Which calls run one at a time, if the callable is an agent.
        self._groups = groups_of(call)
        self.calls = Calls(self._spec, self._settings(), scrub)
        self._results: deque[Result[T, R]] = deque()
        self._unstarted = 0
        self._handed = handed
        self._read = self._taken = 0
        self._at_once = 0
        self._under_way = 0
        self._next = 0
        self._read_all = self._mid_page = False
        #: Whether the run's time or money is up, so that no more items are read. Items that have a length are still read to
        #: their end: each of them gets a result.
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
        if self.isolated is not None and self.isolated.hosts is not None:
            self.calls.follow_cluster(self.isolated.hosts)
        if options.db is None and options.named:
            self.calls.share_in_process()
        if options.db is not None:
            self._records = CallRecords(options.db, identity_of_map(call, options.name, options.renamed_from))

    def _settings(self) -> Settings:
        options = self.options
        deadline_at = self.loop.time() + options.max_duration_s if options.max_duration_s else None
        return Settings(
            concurrency=options.concurrency,
            max_cost_usd=options.max_cost,
            costs_known_late=options.max_cost > 0,
            deadline_at=deadline_at,
            max_wait_s=options.max_wait_s,
            max_identical_invalid=0,  # The callable's own exceptions say nothing about its lane.
        )

    def _spec(self, lane: str) -> LaneSpec:
        limits = self.options.limits_of(lane)
        self._at_once += int(limits.max_concurrency or 0)
        retry = self.options.retry.to_core()
        return LaneSpec(lane, limits, retry, own_failures=True, follow_throughput=True)

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
                            await self._records.open_lane(lane, shared=self.options.named)
                    self._submit(item, lane, key, unit)
                self._mid_page = False
                if self._over:
                    return
        except BaseException as error:
            if is_cancellation(error):
                raise
            self._fail(to_raise(error, "items, or a function of the item,"))
        finally:
            self._read_all, self._mid_page = True, False
            self._news.set()

    def _fail(self, error: BaseException) -> None:
        """Raise an exception once what is under way has ended."""
        if self._failure is None:
            self._failure = error

    def _end_reading(self) -> None:
        """The run's time or money is up: stop reading. An iterator may be endless, and none of its items would be called."""
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
                raise UsageError(f"two items have the key {key!r}", hint="keys must be unique")
            self._keys.add(key)
        return keys, await records.find(keys)

    def _key(self, item: T) -> str:
        assert self.options.key is not None
        key: object = self.options.key(item)
        if isinstance(key, int):
            key = str(key)
        if not isinstance(key, str) or not key:
            raise UsageError(f"the key of an item is {key!r}", hint="a key is a string that is not empty")
        must_be_recordable(key, "the key")
        return key

    def _lane_name(self, item: T) -> str:
        lane: object = self._lane_of(item)
        if not isinstance(lane, str):
            raise UsageError(f"the lane of an item is {lane!r}", hint="a lane's name is a string")
        return lane

    def _submit(self, item: T, lane: str, key: str, unit: RecordedUnit | None) -> None:
        size, records = self.options.estimate(item), self._records
        index = self._next
        self._next += 1
        if records is None:
            one = MapItem(self, index, item)
        elif unit is not None and unit.value is not None:
            self._changes.compare(key, item, unit.digest)
            self._recalled(index, item, lane, unit.value)
            return
        else:
            unit = unit or records.add(key, lane)
            records.expect(unit.index, lane)
            one = RecordedItem(self, index, item, records, unit)
        if self._groups is not None:
            size = {**size, "exclusive": self._groups.of(item)}
        call = one.call_and_look if self._looks else one.call
        self.calls.submit(lane, call, one.ended, **size).shares_lane = self.options.named
        self._unstarted += 1  # Only now: if the lane cannot be made, nothing is under way.
        self._under_way += 1

    def _recalled(self, index: int, item: T, lane: str, value: bytes) -> None:
        """The result of an item that an earlier run has finished."""
        try:
            result = Result(index, item, self.codec.decode(value), None, "succeeded", "", 0, lane)
        except Exception as error:  # The class in `returns` may raise anything when an instance is made.
            mismatch = UsageError(
                f"the stored value of item {index} does not fit {self.options.returns}: {plain_text(error)}",
                hint="if the function has changed, use another name=…",
            )
            result = Result(index, item, None, mismatch, "failed", str(Kind.INVALID), 0, lane)
        self._under_way += 1
        self.ended(result)

    def _begin_records(self, records: CallRecords) -> None:
        with python_hints("db"):
            records.begin(self.calls, self._lost_records)
        if self.isolated is not None:
            self.isolated.watch(records.processes)
        self.calls.requeued = self._requeued

    def _requeued(self, flight: SubmittedCall, command: Requeue) -> None:
        one = flight.call.__self__  # type: ignore[attr-defined]  # a bound method of its item
        one.requeued(flight, command.not_before - self.loop.time(), command.reason)

    def give_up(self, error: Exception) -> None:
        """Start nothing more, cancel what is under way, and then raise this."""
        self._fail(error)
        self.interrupt(cancel=True)

    def _lost_records(self, error: Exception) -> None:
        """Nothing can be recorded any more: no call starts, and no end is reported."""
        rewrite_hint(error, "db")
        self.give_up(error)
        self._under_way = 0
        self._news.set()

    def began(self) -> None:
        """A call has started, or will never start."""
        self._unstarted -= 1
        if self._unstarted < AHEAD and not self._handed:
            self._room.set()

    def took(self, results: int) -> None:
        """The consumer has taken so many more results."""
        self._taken += results
        if self._left_to_read() >= LEAST_ROOM:
            self._room.set()

    def _left_to_read(self) -> int:
        """How many more items may be read. As many as may run at once do not count as reading ahead."""
        at_once = min(self._at_once, self.options.concurrency or self._at_once)
        return max(AHEAD, at_once) - (self._read - self._taken)

    async def _space(self) -> int:
        """Wait until items may be read, and return how many; 0: reading is over."""
        while self._left_to_read() < LEAST_ROOM and not (self.stopped or self._over):
            self._room.clear()
            await self._room.wait()
        return 0 if self.stopped or self._over else self._left_to_read()

    @property
    def ends(self) -> int:
        """How many items have ended, without those that an interruption left."""
        return self._next - self._under_way - self._left

    @property
    def failures(self) -> int:
        """How many of them have no value."""
        return self._failed

    @property
    def nothing_succeeded(self) -> bool:
        """Whether no item has a value yet."""
        return self.ends == self._failed

    @property
    def in_flight(self) -> int:
        """How many calls run now."""
        return self.calls.lanes.in_flight

    @property
    def busy(self) -> bool:
        """Whether an item that was read has not ended."""
        return self._under_way > 0

    def _has_room(self) -> bool:
        return self._unstarted < AHEAD or self._handed

    # -- results out ----------------------------------------------------------------------------------------------

    def ended(self, result: Result[T, R]) -> None:
        """An item has ended."""
        self._under_way -= 1
        if self.stopped and unfinished(result):
            self._left += 1
        else:
            self._failed += result.error is not None
        if result.code in _RUN_OVER and not (result.code == "deadline" and self.options.max_wait_s):
            self._end_reading()
        self._results.append(result)
        self._news.set()

    async def pages(self) -> AsyncGenerator[list[Result[T, R]], None]:
        """Results as items end, in pages of all that are ready."""
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
            self._changes.warn()
            if whole and self.options.lane_names is not None:
                self.options.lane_names.end()
        finally:
            if deadline is not None:
                deadline.cancel()
            if watch is not None:
                watch.close()
            try:
                await self._cancel_rest(feeder)
            finally:
                if records is not None:
                    state: State = "interrupted" if not whole else "failed" if self._failed else "complete"
                    await run_despite_cancellation(records.close(state))

    def _has_read(self) -> bool:
        """Whether no further item will be submitted."""
        return self._read_all or self.stopped or (self._over and not self._mid_page)

    def _deadline(self) -> asyncio.TimerHandle | None:
        """A timer that ends the reading, even if no call is under way that the deadline could end."""
        seconds = self.options.max_duration_s
        return self.loop.call_later(seconds, self._end_reading) if seconds else None

    async def _cancel_rest(self, feeder: asyncio.Task[None]) -> None:
        """Cancel what is left."""
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
    call: Callable[[T], Any], options: MapOptions, give_up: Callable[[Exception], None], scrub: Scrubber
) -> ProcessCalls | None:
    """Worker processes for the callable, if the options ask for them."""
    if options.isolation != "process":
        return None
    from headway.api.process_calls import ProcessCalls

    return ProcessCalls(
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
        make_pool=None if options.executor is None else _pool_on_ray(options),
    )


def _pool_on_ray(options: MapOptions) -> MakePool:
    """Makes the pool on a Ray cluster. The folder of the script travels: the callable is imported from there."""
    from headway.executors.on_ray.cluster import ClusterSettings, require_package
    from headway.executors.on_ray.hosts import HostSettings
    from headway.executors.on_ray.ray_pool import RayPool
    from headway.executors.on_ray.resources import Resources

    require_package()
    taken, script = options.resources, main_script()
    root = os.path.dirname(script[1]) if script is not None and script[0] == "path" else os.getcwd()
    environ = {name: os.environ[name] for name in options.env or () if name in os.environ}
    settings = HostSettings(
        ClusterSettings(options.ray_address, root),
        Resources(taken.num_cpus, taken.num_gpus, taken.memory, taken.custom),
        options.workers,
        environ=environ,
    )
    return partial(RayPool, settings)
