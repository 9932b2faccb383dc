"""Signals that end a program; whether a signal handler raised an exception; waits that let handlers run.

Python runs signal handlers in the main thread, between two instructions of the running code. What a handler raises
(KeyboardInterrupt, or SystemExit for SIGTERM) is for the program; the same exception raised by a callable is an outcome of
its unit.

Every command imports this file before it does anything, so `concurrent.futures` (10 ms) is loaded where it is needed.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

V = TypeVar("V")

#: A signal that arrives just before the main thread blocks does not wake it, so its handler would run late. The main
#: thread never blocks for longer than this at once.
_WAKE_S: Final = 0.1

#: The code of our own handlers: one may be replaced before its exception is caught.
_ours: Final[set[CodeType]] = set()


def stop_signals() -> tuple[signal.Signals, ...]:
    """The signals that end a program: Ctrl-C, SIGTERM, and SIGHUP (a closed terminal). `nohup` makes a program ignore SIGHUP."""
    stops = (signal.SIGINT, signal.SIGTERM)
    return stops if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (*stops, signal.SIGHUP)


def remember(handler: Any) -> None:
    """Register a handler of ours."""
    code = _code_of(handler)
    if code is not None:
        _ours.add(code)


def in_main_thread() -> bool:
    """Whether this thread is the one that handles signals."""
    return threading.current_thread() is threading.main_thread()


def from_signal(error: BaseException) -> bool:
    """Whether a signal handler raised it.

    A handler written in Python appears in the traceback. Python's default handler does not, so while that is installed
    every KeyboardInterrupt counts as its own.
    """
    if not isinstance(error, KeyboardInterrupt | SystemExit) or not in_main_thread():
        return False
    handlers = {_code_of(handler_of(number)) for number in signal.valid_signals()} | _ours
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return isinstance(error, KeyboardInterrupt) and handler_of(signal.SIGINT) is signal.default_int_handler


def handler_of(number: int) -> Any:
    """The handler of a signal."""
    try:
        return signal.getsignal(number)
    except Exception:  # Python calls the handler's repr, which may raise.
        return None


def _code_of(handler: Any) -> CodeType | None:
    """The code object of a handler, if it has one."""
    while isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    code = getattr(function, "__code__", None) or getattr(type(handler).__call__, "__code__", None)
    return code if isinstance(code, CodeType) else None


def wait_future(future: Future[V]) -> V:
    """The result of a future. Signal handlers run meanwhile."""
    if in_main_thread() and not future.done():
        from concurrent import futures

        while not future.done():
            futures.wait([future], timeout=_WAKE_S)
    return future.result()


def wait_item(items: queue.SimpleQueue[V]) -> V:
    """The next item of a queue. Signal handlers run meanwhile."""
    while in_main_thread():
        try:
            return items.get(timeout=_WAKE_S)
        except queue.Empty:
            continue
    return items.get()


def wait_thread(thread: threading.Thread) -> None:
    """Wait until a thread has ended. Signal handlers run meanwhile."""
    while thread.is_alive():
        thread.join(_WAKE_S)


def wait_condition(
    condition: threading.Condition, ready: Callable[[], bool], timeout: float | None = None
) -> bool:
    """Wait for `ready` under a held condition; False after the timeout. Signal handlers run meanwhile."""
    ends_at = None if timeout is None else time.monotonic() + timeout
    while True:
        left = _WAKE_S if ends_at is None else min(_WAKE_S, ends_at - time.monotonic())
        if condition.wait_for(ready, max(left, 0.0)):
            return True
        if ends_at is not None and time.monotonic() >= ends_at:
            return False
