"""Virtual time: when nothing is ready, the clock of the event loop jumps to the next timer.

Only the loop's own timers can be skipped. Running threads and open sockets are waited for in real time. One that is
silent for longer than the clock's patience counts as blocked, and the clock moves on.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextlib import ContextDecorator
from typing import Any, Final, TypeVar, TypeVarTuple

from headway.runtime import loops

V = TypeVar("V")
Ts = TypeVarTuple("Ts")

#: A thread or a socket that is silent for so long counts as blocked. Longer than any machine delays a thread.
PATIENCE_S: Final = 1.0


class Clock:
    """Virtual seconds since the beginning of a test. All loops made with this clock share it."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.now = 0.0
        self.patience_s = patience_s

    def loop(self) -> VirtualLoop:
        """A new event loop with this clock."""
        return VirtualLoop(self)

    def run(self, work: Coroutine[Any, Any, V]) -> V:
        """`asyncio.run` with this clock.

        >>> import asyncio
        >>> clock = Clock()
        >>> clock.run(asyncio.sleep(3600, "an hour later"))
        'an hour later'
        >>> clock.now
        3600.0
        """
        with asyncio.Runner(loop_factory=self.loop) as runner:
            return runner.run(work)

    def jump(self, seconds: float) -> None:
        """Move the clock forward."""
        # The clock must move, even if the step is too small for the float.
        self.now = max(self.now + seconds, math.nextafter(self.now, math.inf))


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps. A loop factory: `asyncio.Runner(loop_factory=VirtualLoop)`."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self._held = 0
        super().__init__(_Jumps(self))

    def time(self) -> float:
        """Virtual seconds."""
        return self.clock.now

    @property
    def held(self) -> bool:
        """Whether work outside the loop is in progress. Then no time is skipped."""
        return self._held > 0

    def hold_for(self, future: asyncio.Future[Any]) -> None:
        """Skip no time until this future is done: it is completed outside the loop."""
        self._held += 1
        future.add_done_callback(self._release)

    def _release(self, future: asyncio.Future[Any]) -> None:
        self._held -= 1

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], V], *args: *Ts
    ) -> asyncio.Future[V]:
        """The same, with virtual time stopped meanwhile."""
        future = super().run_in_executor(executor, func, *args)
        self.hold_for(future)
        return future

    async def shutdown_default_executor(self, *args: Any, **more: Any) -> None:
        """The same, with virtual time stopped meanwhile."""
        self._held += 1
        try:
            await super().shutdown_default_executor(*args, **more)
        finally:
            self._held -= 1


class _Jumps(selectors.BaseSelector):
    """A selector that moves the clock instead of waiting, if nothing else could become ready."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:  # No timer: only another thread can wake the loop.
            return self._real.select(None)
        if self._loop.held or len(self.get_map()) > 1:  # The loop's own pipe is always registered.
            ready = self._real.select(self._loop.clock.patience_s)
        if not ready:
            self._loop.clock.jump(timeout)
        return ready


class VirtualTime(ContextDecorator):
    """The context manager and decorator that `virtual_time` returns."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._before: list[Callable[[], asyncio.AbstractEventLoop] | None] = []

    def __enter__(self) -> Clock:
        clock = Clock(self._patience_s)
        self._before.append(loops.virtual_loop_factory)
        loops.virtual_loop_factory = clock.loop
        return clock

    def __exit__(self, *_: object) -> None:
        loops.virtual_loop_factory = self._before.pop()

    def __call__(self, test: Callable[..., Any]) -> Any:
        """The test in virtual time. An asynchronous test becomes an ordinary one and needs no plugin."""

        @functools.wraps(test)
        def in_virtual_time(*args: Any, **named: Any) -> Any:
            with self as clock:
                result = test(*args, **named)
                return clock.run(result) if inspect.iscoroutine(result) else result

        return in_virtual_time


def virtual_time(*, patience_s: float = PATIENCE_S) -> VirtualTime:
    """Run `headway.map`, `stream` and everything built on them in virtual time.

    Waits of hours (limits, retries, `asyncio.sleep` in a callable) end at once, and always in the same order. `patience_s`
    is how long a thread or a socket may be silent, in real seconds, before the clock moves on without it.

    >>> import asyncio, headway
    >>> async def call(number):
    ...     await asyncio.sleep(300)
    ...     return number
    >>> with virtual_time() as clock:
    ...     headway.map(call, range(3), limits=headway.Limits(max_concurrency=1))
    [0, 1, 2]
    >>> round(clock.now)
    900

    As a decorator it accepts plain and asynchronous tests:

    >>> @virtual_time()
    ... async def test_a_day():
    ...     await asyncio.sleep(86_400)
    >>> test_a_day()
    """
    return VirtualTime(patience_s)
