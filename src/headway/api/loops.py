"""Event loops for who has none, or has one that may not be blocked."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from headway.api.interrupts import Interrupts

V = TypeVar("V")

#: Results that a thread's consumer is ahead of.
_AHEAD: Final = 100
#: Results that it takes before it says so.
_TAKEN: Final = 25
#: What is called off has so long to end.
_TIDY_S: Final = 1.0


def in_a_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


#: What makes loops instead, for tests in virtual time: `headway.testing` sets it.
instead: Callable[[], asyncio.AbstractEventLoop] | None = None


def new_loop() -> asyncio.AbstractEventLoop:
    """The loop for whoever has none."""
    return usual_loop() if instead is None else instead()


def usual_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_here(make: Callable[[], Coroutine[Any, Any, V]]) -> V:
    """A loop of its own in this thread."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(make())


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """All that a loop does in its thread; what was asked of it before it was stopped is done."""
    loop.run_forever()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


async def _call_off_the_rest() -> None:
    """What is left when somebody leaves in a hurry (a third Ctrl-C) gets the chance to tidy up."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_TIDY_S)


async def uncut(work: Coroutine[Any, Any, V]) -> V:
    """A coroutine to its end: a cancellation of whoever awaits it is heard afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    cut: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as called_off:
            cut = called_off
    if cut is not None and not task.cancelled():
        raise cut
    return task.result()


class Background:
    """A loop in a thread of its own, from `__enter__` to `__exit__`."""

    def __enter__(self) -> Self:
        self._loop = new_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="headway-loop", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            asyncio.run_coroutine_threadsafe(_call_off_the_rest(), self._loop).result()
        finally:
            self.abandon()
            self._thread.join()

    def abandon(self) -> None:
        """End it some time soon: for who cannot wait."""
        self.post(self._loop.stop)

    def make(self, make: Callable[[], V]) -> V:
        """Call on the loop and wait."""

        async def made() -> V:
            return make()

        return self.run(made())

    def run(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a coroutine that takes no time to speak of."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def post(self, act: Callable[..., object], *told: Any) -> bool:
        """Call on the loop, some time soon; False: it is gone, and nothing will be called."""
        try:
            self._loop.call_soon_threadsafe(act, *told)
        except RuntimeError:
            return False
        return True

    def soon(self, act: Callable[[], object]) -> None:
        """Call on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(act)

    def result(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def wait(self, work: Coroutine[Any, Any, V], interrupts: Interrupts) -> V:
        """The result of a run's coroutine. A Ctrl-C meanwhile stops it, gently at first, and is raised at the end.

        Where our own handler listens, it stops the run, and what it raises is the third, which waits for nothing.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        times = 0
        while True:
            try:
                value = future.result()
                break
            except KeyboardInterrupt:
                times = max(times + 1, interrupts.count)
                if times > 2:
                    raise
                self._loop.call_soon_threadsafe(partial(interrupts.run.interrupt, cancel=times > 1))
            except BaseException as error:
                if times:
                    raise KeyboardInterrupt from error
                raise
        if times:
            raise KeyboardInterrupt
        return value

    def iterate(self, results: AsyncGenerator[V, None], took: Callable[[int], None]) -> Iterator[V]:
        """The results of an asynchronous iterator, a few ahead. Whoever leaves early calls the rest off.

        `took` hears on the loop, now and then, with how many more the consumer has done.
        """
        handed: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        room = asyncio.Event()

        async def hand_over() -> None:
            try:
                async with aclosing(results):  # It may be left between two results.
                    async for result in results:
                        handed.put((True, result))
                        while handed.qsize() >= _AHEAD:
                            room.clear()
                            await room.wait()
            finally:
                handed.put((False, None))

        work = asyncio.run_coroutine_threadsafe(hand_over(), self._loop)
        taken = 0
        try:
            while True:
                more, result = handed.get()
                if not more:
                    work.result()
                    return
                if handed.qsize() == _AHEAD // 2:
                    self._loop.call_soon_threadsafe(room.set)
                yield result
                taken += 1
                if taken == _TAKEN:
                    self._loop.call_soon_threadsafe(took, taken)
                    taken = 0
        finally:
            if not work.done():
                work.cancel()
                while handed.get()[0]:
                    pass
