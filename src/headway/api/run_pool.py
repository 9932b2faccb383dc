"""`headway.run_pool`: the classic pool, items and a handler, as a thin front on the same lanes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sized
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

from headway.api.checks import must_be_function, must_be_whole
from headway.api.interrupts import Interrupts
from headway.api.loops import Background, in_a_loop, run_here
from headway.api.mapping import Run, invoker
from headway.api.options import Options, check_work, detector_of
from headway.api.results import Result, T
from headway.api.settings import Duration, Limits, Retry
from headway.api.threads import Threads

#: An interruption is looked for so often; it is promised to be noticed within 250 ms.
POLL_S: Final = 0.1
#: What is reviewed or done by an agent is worth longer waits than a request is.
RETRY: Final = Retry(base="5s", cap="120s")


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
    is_interrupted: Callable[[], bool] | None = None,
    *,
    retry: Retry | None = RETRY,
    timeout: Duration = "10m",
    progress: bool | None = None,
    failure_logs: str | PathLike[str] | None = None,
    limit_exit_codes: Iterable[int] = (),
) -> PoolResult:
    """Handle every item, at most `concurrency` at once. A handler that raises counts, and stops nobody else.

    Once `is_interrupted` says so nothing new starts, what is in flight finishes, and the rest is skipped (of an iterator:
    what had been read of it). It is asked before every start and ten times a second, also while everything waits. A rate
    limit is waited for, and holds no place in the pool. Where a handler fails, log files that match `failure_logs` and were
    written since it began are searched for a limit, and `limit_exit_codes` are exit codes of programs that mean one.

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
    options = Options({"limits": limits, "retry": retry, "timeout": timeout, "progress": progress})
    options.detector = detector_of(failure_logs, limit_exit_codes)

    def made() -> _Pool:
        return _Pool(items, handler, is_interrupted or (lambda: False), options)

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


class _NotStarted(Exception):
    """The interruption came just before."""


class _Pool:
    """One run of a pool, on one loop."""

    def __init__(
        self, items: Any, handler: Callable[[Any], Any], is_interrupted: Callable[[], bool], options: Options
    ) -> None:
        self._items = items
        self._is_interrupted = is_interrupted
        self._interrupted = False
        self._fault: Exception | None = None
        self._handle: Callable[[Any], Awaitable[Any]] = invoker(handler, Threads("headway-pool"))
        self.run: Run[Any, Any] = Run(self._handled, items, options)

    async def _handled(self, item: Any) -> Any:
        if self._look():
            raise _NotStarted
        return await self._handle(item)

    def _look(self) -> bool:
        """Whether it is over. Who asks and gets an exception stops the run with it."""
        if self._interrupted:
            return True
        try:
            self._interrupted = bool(self._is_interrupted())
        except Exception as error:
            self._fault, self._interrupted = error, True
        if self._interrupted:
            self.run.interrupt()
        return self._interrupted

    async def _poll(self) -> None:
        while not self._look():  # noqa: ASYNC110 - a plain function is all that there is to ask
            await asyncio.sleep(POLL_S)

    async def counted(self) -> PoolResult:
        """Run, and count."""
        counts = dict.fromkeys(("completed", "errored", "skipped"), 0)
        poll = asyncio.get_running_loop().create_task(self._poll())
        try:
            async for page in self.run.pages():
                for result in page:
                    counts[_ended(result)] += 1
        finally:
            poll.cancel()
        if self._fault is not None:
            raise self._fault
        if isinstance(self._items, Sized):  # What was never read is skipped, too.
            counts["skipped"] = len(self._items) - counts["completed"] - counts["errored"]
        return PoolResult(**counts)


def _ended(result: Result[Any, Any]) -> str:
    if result.error is None:
        return "completed"
    # One that waited for another try when the interruption came did start: its last error counts.
    unstarted = result.attempts == 0 or (result.attempts == 1 and isinstance(result.error, _NotStarted))
    return "skipped" if unstarted else "errored"
