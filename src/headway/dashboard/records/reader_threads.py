"""A few threads that carry out work for a loop. They end with the process: a slow query cannot delay Ctrl-C, as a thread of an executor would."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")


class _Reading(NamedTuple):
    call: Callable[[], Any]
    done: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class ReaderThreads:
    """So many threads, which begin with the first work."""

    def __init__(self, count: int, name: str) -> None:
        self._queue: SimpleQueue[_Reading | None] = SimpleQueue()
        self._count, self._name = count, name
        self._threads: list[threading.Thread] = []

    async def run(self, call: Callable[[], Result]) -> Result:
        """The result of `call`, which runs in one of the threads. If nobody waits for it any more before it begins, it does not run."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Result] = loop.create_future()
        if len(self._threads) < self._count:
            thread = threading.Thread(target=self._carry_out, name=self._name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(_Reading(call, done, loop))
        return await done

    def close(self) -> None:
        """Let the threads end when their work is done."""
        for _ in self._threads:
            self._queue.put(None)

    def _carry_out(self) -> None:
        while (work := self._queue.get()) is not None:
            if work.done.cancelled():
                continue
            try:
                result, error = work.call(), None
            except BaseException as raised:
                result, error = None, raised
            if not work.loop.is_closed():
                work.loop.call_soon_threadsafe(_tell, work.done, result, error)
            del work, result, error


def _tell(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
