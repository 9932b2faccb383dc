"""Reports the exit of a process on the event loop, without waiting for its pipes, which its children may keep open."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress


class ExitWatch:
    """Calls `exited` once, when the process has ended. Its exit code is collected by `wait`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, process: subprocess.Popen[bytes], exited: Callable[[], None]
    ) -> None:
        self._loop, self._process, self._exited = loop, process, exited
        self.is_over = False
        self._waits: asyncio.Future[None] | None = None
        self._descriptor = -1
        with suppress(AttributeError, OSError):  # Only Linux has it.
            self._descriptor = os.pidfd_open(process.pid)
        if self._descriptor >= 0:
            loop.add_reader(self._descriptor, self._over)
        else:
            threading.Thread(target=self._wait_in_thread, name="headway-program", daemon=True).start()

    def _wait_in_thread(self) -> None:
        self._process.wait()
        with suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._over)

    def _over(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._close()
        if self._waits is not None and not self._waits.done():
            self._waits.set_result(None)
        self._exited()

    async def wait(self, timeout_s: float) -> None:
        """Wait for the exit, for so long at the most, and collect the exit code."""
        if not self.is_over:
            self._waits = self._loop.create_future()
            await asyncio.wait((self._waits,), timeout=timeout_s)
        self._close()
        self._process.poll()

    def _close(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
