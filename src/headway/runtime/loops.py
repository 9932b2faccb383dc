"""Event loops for who has none, or has one that may not be blocked."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from headway.runtime.signals import from_signal, wait_future, wait_item, wait_thread

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
    loop = new_loop()
    try:
        return completed(loop, make())
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop. Tasks that ignore their cancellation are left behind: after a third Ctrl-C nothing waits for them."""
    try:
        loop.run_until_complete(_call_off_the_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def completed(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, V]) -> V:
    """The result of a coroutine on a loop that is not running.

    A task that raises KeyboardInterrupt or SystemExit stops its loop. Where that is a task of the callable's own, whoever
    awaits the task hears of it, and the loop goes on.
    """
    task = loop.create_task(_boxed(work))
    while True:
        try:
            return loop.run_until_complete(task).opened()
        except (KeyboardInterrupt, SystemExit) as error:
            if task.done() or from_signal(error):
                raise


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


def called_off(error: BaseException) -> bool:
    """Whether it is a cancellation of the running task, and not an exception that the code in it raised."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class _Box(Generic[V]):
    """What a coroutine came to. A future would ask an exception for its truth, and the loop would stop for some of them."""

    __slots__ = ("error", "value")

    def __init__(self, value: V | None, error: BaseException | None) -> None:
        self.value, self.error = value, error

    def opened(self) -> V:
        """The value, or the exception raised; once. An exception that knows its box would be a ring with it."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
            return self.value  # type: ignore[return-value]  # without an error there is one
        finally:
            del error, self


async def _boxed(work: Coroutine[Any, Any, V]) -> _Box[V]:
    try:
        return _Box(await work, None)
    except BaseException as error:
        if called_off(error):
            raise
        return _Box(None, error)


class Stoppable(Protocol):
    """A run that Ctrl-C stops."""

    def interrupt(self, *, cancel: bool = False) -> None:
        """Start nothing more; `cancel` also ends what is in flight."""


class InterruptCount(Protocol):
    """The Ctrl-Cs that a run's own handler has seen."""

    @property
    def count(self) -> int: ...
    @property
    def run(self) -> Stoppable: ...


class Background:
    """A loop in a thread of its own, from `__enter__` to `__exit__`."""

    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._loop = new_loop()
        self._ending = False
        self._posted: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._waking = False
        self._thread = threading.Thread(target=self._run, name="headway-loop", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            wait_future(asyncio.run_coroutine_threadsafe(_call_off_the_rest(), self._loop))
        finally:
            self.abandon()
            if self._thread is not None:
                wait_thread(self._thread)

    def _run(self) -> None:
        """All that the loop does in its thread; what was asked of it before it was stopped is done."""
        while True:
            try:
                self._loop.run_forever()
                break
            except (KeyboardInterrupt, SystemExit):
                # A task raised it, which stops a loop. The code that awaits the task gets it; everything else goes on.
                # It comes from no signal: those are handled in the main thread.
                if self._ending:
                    break
        self._take_posted()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def abandon(self) -> None:
        """End it some time soon: for who cannot wait."""
        self._ending = True
        self.post(self._loop.stop)

    @property
    def alive(self) -> bool:
        """Whether its thread runs in this process: a fork does not copy it."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def here(self) -> bool:
        """Whether the caller is on the loop, and would block it by waiting."""
        return threading.current_thread() is self._thread

    def make(self, make: Callable[[], V]) -> V:
        """Call on the loop and wait."""

        async def made() -> V:
            return make()

        return self.run(made())

    def run(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a coroutine that takes no time to speak of."""
        return self.result(work)

    def post(self, act: Callable[..., object], *arguments: Any) -> bool:
        """Call on the loop, soon; False: the loop has ended, and nothing will be called.

        Waking a loop up costs a system call, so what is posted until it wakes up shares one.
        """
        self._posted.append((act, arguments))
        if self._waking and not self._loop.is_closed():
            return True
        self._waking = True
        try:
            self._loop.call_soon_threadsafe(self._take_posted)
        except RuntimeError:
            return False
        return True

    def _take_posted(self) -> None:
        self._waking = False  # First: what is posted from now on wakes the loop again.
        while self._posted:
            act, arguments = self._posted.popleft()
            self._loop.call_soon(act, *arguments)

    def soon(self, act: Callable[[], object]) -> None:
        """Call on the loop, without waiting for it."""
        self._loop.call_soon_threadsafe(act)

    def result(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a coroutine."""
        return wait_future(self._begun(work)).opened()

    def _begun(self, work: Coroutine[Any, Any, V]) -> Future[_Box[V]]:
        return asyncio.run_coroutine_threadsafe(_boxed(work), self._loop)

    def wait(self, work: Coroutine[Any, Any, V], interrupts: InterruptCount) -> V:
        """The result of a run's coroutine. A Ctrl-C meanwhile stops it, gently at first, and is raised at the end.

        Where our own handler listens, it stops the run, and what it raises is the third, which waits for nothing.
        """
        future = self._begun(work)
        times = 0
        while True:
            try:
                box = wait_future(future)
                break
            except KeyboardInterrupt:
                times = max(times + 1, interrupts.count)
                if times > 2:
                    raise
                self._loop.call_soon_threadsafe(partial(interrupts.run.interrupt, cancel=times > 1))
        if times:
            raise KeyboardInterrupt from box.error
        return box.opened()

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

        work = self._begun(hand_over())
        taken = 0
        try:
            while True:
                more, result = wait_item(handed)
                if not more:
                    work.result().opened()
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
                while wait_item(handed)[0]:
                    pass
