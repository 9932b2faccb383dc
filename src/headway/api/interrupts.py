"""Ctrl-C in three stages: nothing new starts; what is in flight is cancelled; now."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Protocol


class Stop(Protocol):
    """Ends a run, gently or not."""

    def __call__(self, *, cancel: bool = False) -> None: ...


class Interrupts:
    """While it is entered, Ctrl-C stops a run on the running loop; on leaving, KeyboardInterrupt says that it came."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._count = 0
        self._before: Any = None

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._before = signal.signal(signal.SIGINT, self._came)

    def _came(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        if self._count > 2:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(lambda: self._stop(cancel=self._count > 1))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)
        if self._count and (error is None or isinstance(error, Exception)):
            raise KeyboardInterrupt from error


def ours() -> bool:
    """Whether Ctrl-C may be taken over here: only the main thread hears it, and a program's own handler stays."""
    in_main = threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
