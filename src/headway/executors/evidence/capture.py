"""Output of any length in bounded memory: its beginning, and its end."""

from __future__ import annotations

import os
from typing import Final

#: Bytes kept of the beginning and of the end. An agent's last event is at the end, and may be long.
HEAD: Final = 65_536
TAIL: Final = 262_144
#: The size of one read, and how many are made in a row: a worker that prints without end must not block the loop.
CHUNK: Final = 65_536
MOST_READS: Final = 64


class WholeOutput:
    """All of a stream, up to a ceiling. Above it, `is_too_long` and nothing more is kept."""

    __slots__ = ("_chunks", "_most", "_total")

    def __init__(self, most: int) -> None:
        self._most = most
        self._chunks: list[bytes] = []
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Append output."""
        self._total += len(chunk)
        if self.is_too_long:
            self._chunks.clear()
        else:
            self._chunks.append(chunk)

    @property
    def is_too_long(self) -> bool:
        """Whether there was more than may be kept."""
        return self._total > self._most

    def take(self) -> bytes:
        """The output; empty if it is too long."""
        return b"".join(self._chunks)


class Capture:
    """The output of one stream since the last `take`."""

    __slots__ = ("_head", "_tail", "_total")

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Append output."""
        self._total += len(chunk)
        room = HEAD - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * TAIL:
            del self._tail[:-TAIL]

    def take(self) -> bytes:
        """All output, or its two ends and a line between them that says how much is left out."""
        if not self._total:
            return b""
        tail = bytes(self._tail[-TAIL:])
        missing = self._total - len(self._head) - len(tail)
        gap = b"\n[... %d bytes left out ...]\n" % missing if missing else b""
        taken = bytes(self._head) + gap + tail
        self._head.clear()
        self._tail.clear()
        self._total = 0
        return taken


def drain(descriptor: int, into: Capture) -> bool:
    """Read what is available without waiting. Returns whether more may come."""
    for _ in range(MOST_READS):
        try:
            chunk = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not chunk:
            return False
        into.add(chunk)
        if len(chunk) < CHUNK:
            # The pipe is empty: it would have filled the chunk otherwise. Saves a call for most units.
            return True
    return True
