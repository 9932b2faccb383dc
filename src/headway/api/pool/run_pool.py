"""`headway.run_pool`: items and a handler, at most so many at once, on the same lanes as `map`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from headway.api.call_errors import to_raise
from headway.api.interrupts import Interrupts
from headway.api.mapping.map_items import NotStarted
from headway.api.mapping.map_options import MapOptions, check_work, detector_of
from headway.api.mapping.map_run import MapRun
from headway.api.progress_bar import length_of
from headway.api.results import Result, T
from headway.config.argument_checks import must_be_function, must_be_whole
from headway.config.call_settings import Duration, Limits, Retry
from headway.runtime.loops import Background, in_a_loop, is_cancellation, run_here

#: How often `is_interrupted` is called. DESIGN promises that an interruption is noticed within 250 ms.
POLL_S: Final = 0.1
#: How long an asynchronous `is_interrupted` may take. A flag on a server takes milliseconds; a timeout there, seconds.
ANSWER_S: Final = 10.0
#: Reviews and agents are worth longer waits than single requests.
RETRY: Final = Retry(base="5s", cap="120s")

#: Returns whether to stop. An awaitable is awaited.
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
    """Call the handler for every item, at most `concurrency` at once. A handler that raises is counted; the others go on.

    Once `is_interrupted` returns True, nothing new starts, what is in flight finishes, and the rest is skipped (of an iterator:
    the items that had been read). It is called before every start and ten times a second, and may be asynchronous. An item
    that meets a rate limit waits outside the pool and is tried again. If a handler fails, what was written since it began to
    log files that match `failure_logs` is searched for a limit; `limit_exit_codes` are exit codes of programs that mean one.

    >>> import headway
    >>> headway.run_pool(["1", "2", "x"], 4, int)
    PoolResult(completed=2, errored=1, skipped=0)
    >>> headway.run_pool(range(100), 4, print, lambda: True)
    PoolResult(completed=0, errored=0, skipped=100)
    """
    check_work(handler, items, call_name="handler", usage="items, concurrency, handler")
    must_be_whole(concurrency, "concurrency", 1, "use a whole number of 1 or more")
    must_be_function(is_interrupted, "is_interrupted", "use a function that returns whether to stop")
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
        """Whether the run was interrupted. If `is_interrupted` raises or times out, the run ends with that error."""
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
        while not await self._look():  # noqa: ASYNC110 - there is only a function to call
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
    """The result of an asynchronous `is_interrupted`. Nothing starts while it is awaited, so it has a timeout."""
    pending = asyncio.ensure_future(answer)
    try:
        done, _ = await asyncio.wait([pending], timeout=ANSWER_S)
    finally:
        pending.cancel()
    if not done:
        raise TimeoutError(f"is_interrupted gave no answer within {ANSWER_S:g} s")
    return pending.result()


def _ended(result: Result[Any, Any]) -> str:
    if result.error is None:
        return "completed"
    # One that waited for another try when the interruption came did start: its last error counts.
    unstarted = result.attempts == 0 or (result.attempts == 1 and isinstance(result.error, NotStarted))
    return "skipped" if unstarted else "errored"
