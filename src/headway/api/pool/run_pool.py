"""`headway.run_pool`: the classic pool, items and a handler, as a thin front on the same lanes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from headway.api.call_errors import to_raise
from headway.api.interrupts import Interrupts
from headway.api.map_items import NotStarted
from headway.api.map_options import MapOptions, check_work, detector_of
from headway.api.map_run import MapRun
from headway.api.progress_bar import length_of
from headway.api.results import Result, T
from headway.config.argument_checks import must_be_function, must_be_whole
from headway.config.call_settings import Duration, Limits, Retry
from headway.runtime.loops import Background, in_a_loop, is_cancellation, run_here

#: An interruption is looked for so often; it is promised to be noticed within 250 ms.
POLL_S: Final = 0.1
#: An asynchronous `is_interrupted` has so long to answer. A flag on a server takes milliseconds; its timeout may take seconds.
ANSWER_S: Final = 10.0
#: What is reviewed or done by an agent is worth longer waits than a request is.
RETRY: Final = Retry(base="5s", cap="120s")

#: Whether to stop; what it gives is awaited where it can be.
IsInterrupted = Callable[[], bool | Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class PoolResult:
    """How the items of a pool ended.

    completed: the handler returned. errored: it raised, after its retries. skipped: never started.
    """

    completed: int = 0
    errored: int = 0
    skipped: int = 0


def run_pool(
    items: Iterable[T] | AsyncIterable[T],
    concurrency: int,
    handler: Callable[[T], Any],
    is_interrupted: IsInterrupted | None = None,
    *,
    retry: Retry | None = RETRY,
    timeout: Duration = "10m",
    progress: bool | None = None,
    failure_logs: str | PathLike[str] | None = None,
    limit_exit_codes: Iterable[int] = (),
) -> PoolResult:
    """Handle every item, at most `concurrency` at once. A handler that raises counts, and stops nobody else.

    Once `is_interrupted` says so nothing new starts, what is in flight finishes, and the rest is skipped (of an iterator:
    what had been read of it). It is asked before every start and ten times a second, also while everything waits, and awaited
    where it is asynchronous. A rate limit is waited for, and holds no place in the pool. Where a handler fails, what
    was written since it began to log files that match `failure_logs` is searched for a limit, and `limit_exit_codes` are
    exit codes of programs that mean one.

    >>> import headway
    >>> headway.run_pool(["1", "2", "x"], 4, int)
    PoolResult(completed=2, errored=1, skipped=0)
    >>> headway.run_pool(range(100), 4, print, lambda: True)
    PoolResult(completed=0, errored=0, skipped=100)
    """
    check_work(handler, items, call_name="handler", usage="items, concurrency, handler")
    must_be_whole(concurrency, "concurrency", 1, "it is a whole number; one at a time is the least")
    must_be_function(is_interrupted, "is_interrupted", "it is a function that says whether to stop")
    limits = Limits(max_concurrency=concurrency)
    options = MapOptions({"limits": limits, "retry": retry, "timeout": timeout, "progress": progress})
    options.detector = detector_of(failure_logs, limit_exit_codes)

    def made() -> _Pool:
        return _Pool(items, handler, is_interrupted, options)

    if in_a_loop():
        with Background() as background:
            pool = background.make(made)
            with Interrupts(pool.run) as interrupts:
                return background.wait(pool.counted(), interrupts)
    return run_here(lambda: _here(made))


async def _here(made: Callable[[], _Pool]) -> PoolResult:
    pool = made()
    with Interrupts(pool.run):
        return await pool.counted()


class _Pool:
    """One run of a pool, on one loop."""

    def __init__(
        self,
        items: Any,
        handler: Callable[[Any], Any],
        is_interrupted: IsInterrupted | None,
        options: MapOptions,
    ) -> None:
        self._items = items
        self._is_interrupted = is_interrupted
        self._interrupted = False
        self._fault: BaseException | None = None
        self.run: MapRun[Any, Any] = MapRun(handler, items, options)
        if is_interrupted is not None:
            self.run.gate = self._may_start

    async def _may_start(self) -> bool:
        return not await self._look()

    async def _look(self) -> bool:
        """Whether it is over. A question that raises, or is not answered, ends the run with that error."""
        if self._interrupted or self._is_interrupted is None:
            return self._interrupted
        try:
            answer: object = self._is_interrupted()
            if inspect.isawaitable(answer):
                answer = await _answered(answer)
            over = bool(answer)
        except BaseException as error:
            if is_cancellation(error):
                raise
            self._fault, over = to_raise(error, "is_interrupted"), True
        if over and not self._interrupted:
            self._interrupted = True
            self.run.interrupt()
        return self._interrupted

    async def _poll(self) -> None:
        while not await self._look():  # noqa: ASYNC110 - a function is all that there is to ask
            await asyncio.sleep(POLL_S)

    async def counted(self) -> PoolResult:
        """Run, and count."""
        counts = dict.fromkeys(("completed", "errored", "skipped"), 0)
        poll = asyncio.get_running_loop().create_task(self._poll()) if self.run.gate is not None else None
        try:
            async for page in self.run.pages():
                for result in page:
                    counts[_ended(result)] += 1
        finally:
            if poll is not None:
                poll.cancel()
        if self._fault is not None:
            raise self._fault
        length = length_of(self._items)
        if length is not None:  # What was never read is skipped, too.
            counts["skipped"] = max(counts["skipped"], length - counts["completed"] - counts["errored"])
        return PoolResult(**counts)


async def _answered(answer: Awaitable[object]) -> object:
    """The answer of an asynchronous question. One that never comes is given up: nothing starts while it is waited for."""
    asked = asyncio.ensure_future(answer)
    try:
        done, _ = await asyncio.wait([asked], timeout=ANSWER_S)
    finally:
        asked.cancel()
    if not done:
        raise TimeoutError(f"is_interrupted gave no answer within {ANSWER_S:g} s")
    return asked.result()


def _ended(result: Result[Any, Any]) -> str:
    if result.error is None:
        return "completed"
    # One that waited for another try when the interruption came did start: its last error counts.
    unstarted = result.attempts == 0 or (result.attempts == 1 and isinstance(result.error, NotStarted))
    return "skipped" if unstarted else "errored"
