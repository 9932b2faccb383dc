"""Threads for callables that block. A thread that is past its timeout is abandoned: its late result is dropped.

They are daemon threads, unlike those of `ThreadPoolExecutor`: a program that ends does not wait for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final

from headway.api.call_errors import wrapped

#: A thread ends after so long without work.
IDLE_S: Final = 10.0

_Job = tuple[Context, Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class Threads:
    """As many threads as there are calls at once. The caller limits that number."""

    def __init__(self, name: str = "headway-call") -> None:
        self._name = name
        self._waiting = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._idle = 0
        self._made = 0

    async def run(self, call: Callable[[], Any]) -> Any:
        """Call in a thread, with the caller's context. A cancellation abandons the thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        hold_for = getattr(loop, "hold_for", None)
        if hold_for is not None:  # A loop in virtual time: its clock must not jump while a thread works.
            hold_for(future)
        with self._waiting:
            self._jobs.append((copy_context(), call, loop, future))
            if self._idle >= len(self._jobs):
                self._waiting.notify()
            else:
                self._made += 1
                threading.Thread(target=self._work, name=f"{self._name}-{self._made}", daemon=True).start()
        try:
            return await future
        finally:
            # The traceback of an exception refers to this frame. Without this, what the exception holds (a socket, say)
            # would live until the garbage collector runs.
            del future

    def _work(self) -> None:
        while (job := self._next()) is not None:
            context, call, loop, future = job
            try:
                value, error = context.run(call), None
            except BaseException as raised:  # Also SystemExit: it ends the call, not the program.
                value, error = None, raised
            try:
                loop.call_soon_threadsafe(_settle, future, value, error)
            except RuntimeError:
                return  # The loop is closed, and nothing waits for the result.
            del job, context, call, future, value, error

    def _next(self) -> _Job | None:
        with self._waiting:
            self._idle += 1
            found = self._waiting.wait_for(lambda: self._jobs, IDLE_S)
            self._idle -= 1
            return self._jobs.popleft() if found else None


def _settle(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return  # Too late: it was abandoned.
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration) or not isinstance(error, Exception):
        # A future refuses StopIteration; SystemExit or a cancellation would end the loop, not the call.
        future.set_exception(wrapped(error, "the callable"))
    else:
        future.set_exception(error)
