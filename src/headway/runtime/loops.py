"""Event loops for callers that have none, or have one that must not be blocked."""

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

#: Results that are made ahead of a consumer in another thread.
_AHEAD: Final = 100
#: Results that the consumer takes between two reports.
_TAKEN: Final = 25
#: How long cancelled tasks may take to end.
_TIDY_S: Final = 1.0


def in_a_loop() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


#: Makes event loops in tests with virtual time; set by `headway.testing`.
virtual_loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: a virtual one in tests with virtual time."""
    return usual_loop() if virtual_loop_factory is None else virtual_loop_factory()


def usual_loop() -> asyncio.AbstractEventLoop:
    """A new event loop, uvloop's if that is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run_here(make: Callable[[], Coroutine[Any, Any, V]]) -> V:
    """Run a coroutine on a new loop in this thread."""
    loop = new_loop()
    try:
        return run_on(loop, make())
    finally:
        _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """Close a loop. Tasks that ignore their cancellation are left behind."""
    try:
        loop.run_until_complete(_cancel_other_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def run_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, V]) -> V:
    """The result of a coroutine on a loop that is not running.

    A task that raises KeyboardInterrupt or SystemExit stops its loop. If it is a task of the callable's own, the code that
    awaits the task gets the exception, and the loop is run again.
    """
    task = loop.create_task(_as_result(work))
    while True:
        try:
            return loop.run_until_complete(task).unwrap()
        except (KeyboardInterrupt, SystemExit) as error:
            if task.done() or from_signal(error):
                raise


async def _cancel_other_tasks() -> None:
    """Cancel all other tasks, and give them a moment to clean up."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_TIDY_S)


async def run_despite_cancellation(work: Coroutine[Any, Any, V]) -> V:
    """Run a coroutine to its end. A cancellation of the caller takes effect afterwards."""
    task = asyncio.get_running_loop().create_task(work)
    cut: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancellation:
            cut = cancellation
    if cut is not None and not task.cancelled():
        raise cut
    return task.result()


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception is the cancellation of the running task, not one that its code raised."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class _Result(Generic[V]):
    """The result of a coroutine. A future would test exceptions for truth, and some exceptions would stop the loop."""

    __slots__ = ("error", "value")

    def __init__(self, value: V | None, error: BaseException | None) -> None:
        self.value, self.error = value, error

    def unwrap(self) -> V:
        """The value, or the exception raised; once, because an exception that refers to this object is a reference cycle."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
            return self.value  # type: ignore[return-value]  # without an error there is one
        finally:
            del error, self


async def _as_result(work: Coroutine[Any, Any, V]) -> _Result[V]:
    try:
        return _Result(await work, None)
    except BaseException as error:
        if is_cancellation(error):
            raise
        return _Result(None, error)


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
            wait_future(asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), self._loop))
        finally:
            self.abandon()
            if self._thread is not None:
                wait_thread(self._thread)

    def _run(self) -> None:
        """The body of the thread. What was posted before the loop was stopped is still done."""
        while True:
            try:
                self._loop.run_forever()
                break
            except (KeyboardInterrupt, SystemExit):
                # A task raised it, which stops a loop. The code that awaits the task gets it; everything else continues.
                # No signal handler raised it: those run in the main thread.
                if self._ending:
                    break
        self._take_posted()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def abandon(self) -> None:
        """Stop the loop soon, without waiting."""
        self._ending = True
        self.post(self._loop.stop)

    @property
    def alive(self) -> bool:
        """Whether its thread runs in this process: a fork does not copy it."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def here(self) -> bool:
        """Whether the caller is in the loop's thread, and would block it by waiting."""
        return threading.current_thread() is self._thread

    def make(self, make: Callable[[], V]) -> V:
        """Call on the loop, and wait for the result."""

        async def made() -> V:
            return make()

        return self.run(made())

    def run(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a short coroutine."""
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
        return wait_future(self._started(work)).unwrap()

    def wait_or_cancel(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a coroutine. An exception of a signal handler, such as KeyboardInterrupt, cancels it."""
        future = self._started(work)
        try:
            return wait_future(future).unwrap()
        finally:
            future.cancel()

    async def shared(self, work: Coroutine[Any, Any, V]) -> V:
        """The result of a coroutine, for a caller on another loop. A cancellation of the caller cancels it."""
        return (await asyncio.wrap_future(self._started(work))).unwrap()

    def _started(self, work: Coroutine[Any, Any, V]) -> Future[_Result[V]]:
        return asyncio.run_coroutine_threadsafe(_as_result(work), self._loop)

    def wait(self, work: Coroutine[Any, Any, V], interrupts: InterruptCount) -> V:
        """The result of a run's coroutine. Ctrl-C stops the run, the second one cancels it, and KeyboardInterrupt follows.

        If our own signal handler is installed, it stops the run, and raises only at the third Ctrl-C, which does not wait.
        """
        future = self._started(work)
        times = 0
        while True:
            try:
                result = wait_future(future)
                break
            except KeyboardInterrupt:
                times = max(times + 1, interrupts.count)
                if times > 2:
                    raise
                self._loop.call_soon_threadsafe(partial(interrupts.run.interrupt, cancel=times > 1))
        if times:
            raise KeyboardInterrupt from result.error
        return result.unwrap()

    def iterate(self, results: AsyncGenerator[V, None], took: Callable[[int], None]) -> Iterator[V]:
        """The results of an asynchronous generator, a few ahead. Leaving early cancels the rest.

        `took` is called on the loop, now and then, with the number of results that were taken since.
        """
        queued: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        room = asyncio.Event()

        async def hand_over() -> None:
            try:
                async with aclosing(results):  # It may be cancelled between two results.
                    async for result in results:
                        queued.put((True, result))
                        while queued.qsize() >= _AHEAD:
                            room.clear()
                            await room.wait()
            finally:
                queued.put((False, None))

        work = self._started(hand_over())
        taken = 0
        try:
            while True:
                more, result = wait_item(queued)
                if not more:
                    work.result().unwrap()
                    return
                if queued.qsize() == _AHEAD // 2:
                    self._loop.call_soon_threadsafe(room.set)
                yield result
                taken += 1
                if taken == _TAKEN:
                    self._loop.call_soon_threadsafe(took, taken)
                    taken = 0
        finally:
            if not work.done():
                work.cancel()
                while wait_item(queued)[0]:
                    pass
