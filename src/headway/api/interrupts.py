"""Ctrl-C in three stages: nothing new starts; what is in flight is cancelled; now.

One handler serves every run that listens: several `amap`s of one loop stop together, and the handler that was there before
comes back with the last of them. Only Python's own handler and that of `asyncio.run` are taken over; a program's own stays,
and so does whatever it does to the run (most of them cancel it). Everything here happens in the main thread, where Python
runs handlers.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Final, Protocol, Self

from headway.api.results import Result
from headway.engine.calls import SubmittedCall
from headway.providers.call_reports import current_attempt
from headway.runtime.signals import handler_of, in_main_thread, remember

#: How often a run that is over looks whether the others beside it are.
LOOK_S: Final = 0.02


class Interruptible(Protocol):
    """A run, as far as Ctrl-C must know it."""

    loop: asyncio.AbstractEventLoop

    @property
    def in_flight(self) -> int:
        """Calls that run now."""

    @property
    def busy(self) -> bool:
        """Whether an end of one of its calls is still to come."""

    def interrupt(self, *, cancel: bool = False) -> None:
        """Start nothing more; what is in flight finishes, or is cancelled."""


class Interrupts:
    """While it is entered, Ctrl-C stops a run. On leaving, KeyboardInterrupt says that it came.

    `outside`: the code between two results is somebody else's, and the second Ctrl-C is for that, too.
    """

    def __init__(self, run: Interruptible, *, outside: bool = False) -> None:
        self.run, self.outside = run, outside
        self.count = 0
        #: What had finished, for whoever catches the KeyboardInterrupt.
        self.results: Sequence[Result[Any, Any]] = ()

    def __enter__(self) -> Self:
        if ours():
            _ears.join(self)
        return self

    def tell(self) -> None:
        """Stop the run, on its own loop."""
        with suppress(RuntimeError):  # The loop is closed, and the run over.
            self.run.loop.call_soon_threadsafe(partial(self._stop, cancel=self.count > 1))

    def _stop(self, *, cancel: bool) -> None:
        if not cancel:
            say(self.run.in_flight)
        self.run.interrupt(cancel=cancel)

    async def others(self) -> None:
        """Until the calls of runs on the same loop have ended as well: KeyboardInterrupt would cut those short."""
        while self.count and _ears.still_hear_of(self):  # noqa: ASYNC110 - they end in any order
            await asyncio.sleep(LOOK_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        heard = _ears.leave(self)
        if heard and (error is None or isinstance(error, Exception | asyncio.CancelledError)):
            _ears.close()
            raise stopped(self.results) from (error if isinstance(error, Exception) else None)


class _SigintHandler:
    """The handler, while anybody listens."""

    def __init__(self) -> None:
        self._listeners: list[Interrupts] = []
        self._before: Any = None
        self.handler = self._came  # One object, to be known again.

    def join(self, one: Interrupts) -> None:
        """One more listens."""
        if not self._listeners:
            self._before = signal.signal(signal.SIGINT, self.handler)
        self._listeners.append(one)

    def leave(self, one: Interrupts) -> bool:
        """One less; whether Ctrl-C came, and it is for this one to say so."""
        if one not in self._listeners:
            return False
        self._listeners.remove(one)
        if not self._listeners:
            self.close()
        return one.count > 0

    def close(self) -> None:
        """Nobody listens any more. A handler that was set meanwhile is somebody's own."""
        self._listeners.clear()
        # A generator may end in any thread: then the next signal puts things right.
        if in_main_thread():
            if handler_of(signal.SIGINT) is self.handler:
                signal.signal(signal.SIGINT, self._before)
            self._before = None  # That of `asyncio.run` knows its task, and that all results.

    def still_hear_of(self, one: Interrupts) -> bool:
        """Whether another one of its loop was stopped and has calls in flight."""
        return any(each.count and each.run.busy and each.run.loop is one.run.loop for each in self._listeners)

    def _came(self, number: int, frame: FrameType | None) -> None:
        listeners, before = tuple(self._listeners), self._before
        for each in listeners:
            each.count += 1
        if not listeners:
            self.close()
            before(number, frame)
        elif any(each.count > 2 for each in listeners):
            self.close()
            raise KeyboardInterrupt
        for each in listeners:
            each.tell()
        if any(each.outside and each.count == 2 for each in listeners):
            before(number, frame)


_ears: Final = _SigintHandler()
remember(_ears.handler)


def ours() -> bool:
    """Whether Ctrl-C may be taken over here: only the main thread hears it, and a program's own handler stays.

    A run inside of another one's call is what is in flight there: it finishes, or is cancelled with it.
    """
    if not in_main_thread() or isinstance(current_attempt.get(), SubmittedCall):
        return False
    handler = handler_of(signal.SIGINT)
    return handler is signal.default_int_handler or handler is _ears.handler or _is_a_runners(handler)


def _is_a_runners(handler: Any) -> bool:
    """Whether it is what `asyncio.run` sets: it would cancel the main task."""
    method = getattr(asyncio.Runner, "_on_sigint", None)
    return method is not None and getattr(getattr(handler, "func", None), "__func__", None) is method


def stopped(results: Sequence[Result[Any, Any]] = ()) -> KeyboardInterrupt:
    """What is raised in the end, with what had finished.

    It is KeyboardInterrupt itself and not a class of its own: only that makes Python end as a program does that Ctrl-C
    has ended, and a shell's loop around it end too.
    """
    error = KeyboardInterrupt(f"{len(results):,} calls had finished" if results else "")
    error.results = results  # type: ignore[attr-defined]
    if results:
        error.add_note("`except KeyboardInterrupt as stopped` has them in stopped.results")
    return error


def unfinished(result: Result[Any, Any]) -> bool:
    """Whether an interruption left the item without an end of its own."""
    return result.code == "interrupted" and result.error is not None


def say(in_flight: int, what: str = "call") -> None:
    """What the first Ctrl-C does. On stderr, as a bar is."""
    finish = (
        f"{in_flight:,} in flight will finish; Ctrl-C again cancels" if in_flight else "none is in flight"
    )
    with suppress(Exception):  # There is none, or it is closed.
        sys.stderr.write(f"headway: stopping, no new {what} starts, {finish}\n")
        sys.stderr.flush()
