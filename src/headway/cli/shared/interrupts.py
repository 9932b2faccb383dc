"""Ctrl-C, SIGTERM and SIGHUP until a command installs handlers of its own.

They raise `KeyboardInterrupt`, with one exception: if a module is being imported, the import finishes first. Callbacks of
the import system's locks print an exception and continue, so an exception in the middle of an import could lose the
signal or leave a traceback.
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

#: How long a signal waits for an import. The imports of a run take 0.3 s, and 1.4 to 2.2 s beside six busy processes on
#: two cores. A user's module may never finish.
PATIENCE_S = 5.0
#: How often it checks whether the import has finished.
POLL_S = 0.01


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C from the start, even as process 1 of a container, which ignores them by default."""
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
    """The signal handler. During an import it sends the signal again later."""

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
    """Send it to the main thread: in another thread it would not wake a blocking read."""
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, number)


def _is_loading(frame: FrameType | None) -> bool:
    """Whether a caller of the frame is the import system."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def terminal_gone() -> bool:
    """Whether standard error is a terminal that was closed."""
    import termios  # Loaded only if output cannot be written.

    try:
        termios.tcgetattr(2)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False
