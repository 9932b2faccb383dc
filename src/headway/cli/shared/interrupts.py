"""What Ctrl-C, SIGTERM and SIGHUP do before a command has handlers of its own.

They raise `KeyboardInterrupt`, with one exception: a module that is being loaded is loaded to its end first. An
exception in the middle of an import reaches places that print it and go on (the callbacks of the import system's own
locks), so the signal would be lost, or leave a traceback behind.
"""

from __future__ import annotations

import errno
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headway.runtime.signals import stop_signals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

#: How long a signal waits for a module. Those of a run load in 0.3 s, in 1.4 to 2.2 s beside six busy processes on two
#: cores; a user's may never.
PATIENCE_S = 5.0
#: How often it looks whether the module is loaded.
POLL_S = 0.01


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP are a Ctrl-C from the first moment on, also where a container would otherwise not hear it at all."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = _StopHandler()
    previous = {number: signal.signal(number, handler.handle) for number in stop_signals()}
    try:
        yield
    finally:
        handler.close()
        for number, old in previous.items():
            signal.signal(number, old)


class _StopHandler:
    """The handler of these signals, and the one that waits for a module."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._timer: threading.Timer | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since < PATIENCE_S and _is_loading(frame):
            self.close()
            self._timer = threading.Timer(POLL_S, _send_again, (number,))
            self._timer.daemon = True
            self._timer.start()
            return
        self._since = None
        raise KeyboardInterrupt

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _send_again(number: int) -> None:
    """To the main thread by name: another one would take it without waking a read that blocks."""
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, number)


def _is_loading(frame: FrameType | None) -> bool:
    """Whether the import system is at work somewhere above a frame."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def terminal_gone() -> bool:
    """Whether standard error is a terminal that was closed: nothing can be said any more."""
    import termios  # only a command that cannot write pays for it

    try:
        termios.tcgetattr(2)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False
