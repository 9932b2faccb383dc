"""Ctrl-C in three stages: nothing new starts; what is in flight is cancelled; the program ends at once.

One handler serves all active runs: several `amap`s of one loop stop together, and the last of them restores the handler from
before. Only the default handlers of Python and of `asyncio.run` are replaced. A program's own handler stays, with its effect on
the run (most of them cancel it). Everything here happens in the main thread, where Python runs signal handlers.
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

#: How often a run that is over checks whether the others on its loop are.
LOOK_S: Final = 0.02


class Interruptible(Protocol):
    """What Ctrl-C needs of a run."""

    loop: asyncio.AbstractEventLoop

    @property
    def in_flight(self) -> int:
        """How many calls run now."""

    @property
    def busy(self) -> bool:
        """Whether a call has not ended yet."""

    def interrupt(self, *, cancel: bool = False) -> None:
        """Start nothing more; what is in flight finishes, or is cancelled."""


class Interrupts:
    """A context in which Ctrl-C stops a run. If Ctrl-C came, leaving the context raises KeyboardInterrupt.

    `outside`: the caller's code runs between two results, and the second Ctrl-C is also for that.
    """

    def __init__(self, run: Interruptible, *, outside: bool = False) -> None:
        self.run, self.outside = run, outside
        self.count = 0
        #: The finished results, for the KeyboardInterrupt.
        self.results: Sequence[Result[Any, Any]] = ()

    def __enter__(self) -> Self:
        if ours():
            _sigint.join(self)
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
        """Wait until the stopped runs on the same loop have ended, too: KeyboardInterrupt would cut their calls short."""
        while self.count and _sigint.others_are_busy(self):  # noqa: ASYNC110 - they end in any order
            await asyncio.sleep(LOOK_S)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        came = _sigint.leave(self)
        if came and (error is None or isinstance(error, Exception | asyncio.CancelledError)):
            _sigint.close()
            raise stopped(self.results) from (error if isinstance(error, Exception) else None)


class _SigintHandler:
    """The handler of SIGINT while runs are active."""

    def __init__(self) -> None:
        self._listeners: list[Interrupts] = []
        self._before: Any = None
        self.handler = self._came  # One object, so that it can be compared.

    def join(self, one: Interrupts) -> None:
        """Add a run; the first one installs the handler."""
        if not self._listeners:
            self._before = signal.signal(signal.SIGINT, self.handler)
        self._listeners.append(one)

    def leave(self, one: Interrupts) -> bool:
        """Remove a run; returns whether Ctrl-C came while it was active."""
        if one not in self._listeners:
            return False
        self._listeners.remove(one)
        if not self._listeners:
            self.close()
        return one.count > 0

    def close(self) -> None:
        """Restore the handler from before, unless the program has set another one meanwhile."""
        self._listeners.clear()
        # A generator may end in any thread. Then the next signal restores the handler.
        if in_main_thread():
            if handler_of(signal.SIGINT) is self.handler:
                signal.signal(signal.SIGINT, self._before)
            self._before = None  # The handler of `asyncio.run` refers to its task, and so to all results.

    def others_are_busy(self, one: Interrupts) -> bool:
        """Whether another stopped run on the same loop has calls in flight."""
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


_sigint: Final = _SigintHandler()
remember(_sigint.handler)


def ours() -> bool:
    """Whether Headway may handle Ctrl-C here: only in the main thread, and only if the program has no handler of its own.

    A run inside a call of another run is in flight there: it finishes, or is cancelled with that call.
    """
    if not in_main_thread() or isinstance(current_attempt.get(), SubmittedCall):
        return False
    handler = handler_of(signal.SIGINT)
    return handler is signal.default_int_handler or handler is _sigint.handler or _is_a_runners(handler)


def _is_a_runners(handler: Any) -> bool:
    """Whether a handler is the one of `asyncio.run`, which would cancel the main task."""
    method = getattr(asyncio.Runner, "_on_sigint", None)
    return method is not None and getattr(getattr(handler, "func", None), "__func__", None) is method


def stopped(results: Sequence[Result[Any, Any]] = ()) -> KeyboardInterrupt:
    """The exception at the end of a stopped run, with the results that had finished.

    It is KeyboardInterrupt itself and not a subclass: only then does Python exit as after a Ctrl-C, so that a loop in a shell
    script stops, too.
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
    """Print what the first Ctrl-C does, on stderr like the bar."""
    finish = (
        f"{in_flight:,} in flight will finish; Ctrl-C again cancels" if in_flight else "none is in flight"
    )
    with suppress(Exception):  # stderr may be None or closed.
        sys.stderr.write(f"headway: stopping, no new {what} starts, {finish}\n")
        sys.stderr.flush()
