"""`map` and `stream`: any callable over any iterable, through lanes.

A `_Run` lives on one event loop: it reads items at most a thousand ahead, submits a call for each, and hands results
out as they end. Who asks from a plain script gets a loop for it; who asks from inside one uses `amap` or `async for`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, Generic

from headway.api.attempt import current, succeeded
from headway.api.failures import outcome_of
from headway.api.options import Options
from headway.api.reading import pages_of
from headway.api.results import R, Result, T, UnitError
from headway.api.threads import Threads
from headway.core.model import Kind, LaneSpec, Outcome, Settings
from headway.engine.calls import DONE, Calls, End, Flight
from headway.providers.limit import Limit

#: Items that are read before their calls start, and results that wait for whoever takes them.
AHEAD: Final = 1_000


class _Item:
    """An item on its way, and what it takes to call for it."""

    __slots__ = ("index", "item", "run", "started")

    def __init__(self, run: Run[Any, Any], index: int, item: Any) -> None:
        self.run, self.index, self.item = run, index, item
        self.started = False

    async def call(self, flight: Flight) -> Outcome:
        """One attempt."""
        run = self.run
        if not self.started:
            self.started = True
            run.began()
        current.set(flight)
        limit = Limit(run.timeout_s)
        try:
            flight.value = await run.invoke(self.item)
        except Exception as error:
            flight.error = error
            return outcome_of(error, flight.usage, run.options.retry.on)
        except asyncio.CancelledError as called_off:
            limit.judge(called_off)
            flight.error = TimeoutError(f"no result within {run.timeout_s:g} s")
            return Outcome(Kind.TIMEOUT, flight.usage, message=str(flight.error))
        finally:
            limit.end()
        return succeeded(flight)

    def ended(self, flight: Flight, end: End) -> None:
        """Its end, as the scheduler sees it."""
        run = self.run
        if not self.started:
            run.began()
        error = None
        if end is not DONE:
            error = flight.error or UnitError(end.code or str(end.status), end.message)
        value = None if error is not None else flight.value
        run.ended(
            Result(
                self.index, self.item, value, error, str(end.status), end.code, flight.attempts, flight.lane, flight.usage
            )
        )  # fmt: skip


class Run(Generic[T, R]):
    """One `map` or `stream` on the running loop."""

    def __init__(self, call: Callable[[T], Any], items: Any, options: Options) -> None:
        self.options = options
        self.timeout_s = options.timeout_s
        self._items = items
        self._loop = asyncio.get_running_loop()
        self._threads = Threads()
        self.invoke = _invoker(call, self._threads)
        self._lane_of = options.lane_of
        self.calls = Calls(self._spec, self._settings())
        self._results: deque[Result[T, R]] = deque()
        self._unstarted = self._kept = 0
        self._under_way = 0
        self._next = 0
        self._read_all = False
        self._failure: BaseException | None = None
        self._room = asyncio.Event()
        self._news = asyncio.Event()
        self._stopped = False

    def _settings(self) -> Settings:
        options = self.options
        deadline_at = self._loop.time() + options.max_duration_s if options.max_duration_s else None
        return Settings(
            concurrency=options.concurrency,
            max_cost_usd=options.max_cost,
            deadline_at=deadline_at,
            max_identical_invalid=0,  # An exception of the callable's own says nothing of its lane.
        )

    def _spec(self, lane: str) -> LaneSpec:
        return LaneSpec(lane, self.options.limits_of(lane), self.options.retry.to_core())

    # -- items in -------------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        try:
            async for page in pages_of(self._items, self._threads):
                for item in page:
                    if self._stopped:
                        return
                    if not self._has_room():
                        self._room.clear()
                        await self._room.wait()
                    self._submit(item)
        except Exception as error:
            self._failure = error
        finally:
            self._read_all = True
            self._news.set()

    def _submit(self, item: T) -> None:
        lane = self._lane_of(item)
        one = _Item(self, self._next, item)
        self._next += 1
        self._unstarted += 1
        self._under_way += 1
        self.calls.submit(lane, one.call, one.ended, **self.options.estimate(item))

    def began(self) -> None:
        """A call has started, or will not."""
        self._unstarted -= 1
        self._make_room()

    def keep(self, results: int) -> None:
        """So many results wait for earlier ones."""
        self._kept = results
        self._make_room()

    def _has_room(self) -> bool:
        return self._unstarted < AHEAD and len(self._results) + self._kept < AHEAD

    def _make_room(self) -> None:
        if self._has_room():
            self._room.set()

    # -- results out ----------------------------------------------------------------------------------------------

    def ended(self, result: Result[T, R]) -> None:
        """An item has come to its end."""
        self._under_way -= 1
        self._results.append(result)
        self._news.set()

    async def pages(self) -> AsyncGenerator[list[Result[T, R]], None]:
        """Results as they end, all that are there at once."""
        feeder = self._loop.create_task(self._feed())
        try:
            while True:
                if self._results:
                    page = list(self._results)
                    self._results.clear()
                    self._make_room()
                    yield page
                elif self._read_all and not self._under_way:
                    break
                else:
                    self._news.clear()
                    await self._news.wait()
            if self._failure is not None:
                raise self._failure
        finally:
            feeder.cancel()
            await asyncio.wait([feeder])
            await self.calls.close()

    def interrupt(self, *, cancel: bool = False) -> None:
        """Nothing new starts; what is in flight finishes, or is cancelled."""
        self._stopped = True
        self._room.set()
        self.calls.interrupt(cancel=cancel)


def _invoker(call: Callable[[T], Any], threads: Threads) -> Callable[[T], Awaitable[Any]]:
    """How the callable is called: on the loop if it is asynchronous, otherwise in a thread."""
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        return call

    async def in_thread(item: T) -> Any:
        value = await threads.run(lambda: call(item))
        return await value if inspect.isawaitable(value) else value

    return in_thread
