"""The pipes of a program, read and written as soon as the event loop says that they are ready.

asyncio's own subprocesses are not used: a program costs about three times as much with its transports, on Python 3.11 each has a
thread, and uvloop forks the whole process, which takes 20 ms (docs/decisions/0046).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

_CHUNK: Final = 65_536
#: Chunks that are read in a row after the exit: a child of the program that prints without end must not block the loop.
_MOST_READS: Final = 64


class InputPipe:
    """Standard input. A program may end without reading it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, data: bytes) -> None:
        self._loop = loop
        #: The program's end.
        self.other, self._descriptor = os.pipe()
        os.set_blocking(self._descriptor, False)
        self._rest = memoryview(data)
        self._write()  # Nearly every prompt fits into the pipe, even before the program runs.
        if self._descriptor >= 0:
            loop.add_writer(self._descriptor, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._descriptor, self._rest) :] if self._rest else self._rest
        except BlockingIOError:
            return
        except OSError:  # It was closed.
            self._rest = self._rest[:0]
        if not self._rest:
            self.close()

    def close(self) -> None:
        """Close our end."""
        if self._descriptor >= 0:
            self._loop.remove_writer(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1


class OutputPipe:
    """Standard output or standard error. `take` gets what arrives, `ended` is called at its end."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, take: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._loop, self._take, self._ended = loop, take, ended
        #: The program's end is `other`.
        self._descriptor, self.other = os.pipe()
        os.set_blocking(self._descriptor, False)
        loop.add_reader(self._descriptor, self._read)

    @property
    def is_open(self) -> bool:
        """Whether more may come."""
        return self._descriptor >= 0

    def _read(self) -> bool:
        """Read once; returns whether there may be more at once."""
        try:
            chunk = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if chunk:
            self._take(chunk)
            return True
        self.close()
        self._ended()
        return False

    def read_rest(self) -> None:
        """Read what is there now."""
        for _ in range(_MOST_READS):
            if not self.is_open or not self._read():
                return

    def pause(self, *, paused: bool) -> None:
        """Read nothing more until it is called again."""
        if not self.is_open:
            return
        if paused:
            self._loop.remove_reader(self._descriptor)
        else:
            self._loop.add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Close our end."""
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1
