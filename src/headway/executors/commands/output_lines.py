"""Cuts the output of a program into lines, and gives them to a reader one after the other."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Protocol

#: The longest line that a reader gets; the rest of a longer one is left out.
LONGEST_LINE: Final = 16 * 1024 * 1024


class LineReader(Protocol):
    """Gets standard output line by line."""

    @property
    def is_over(self) -> bool:
        """Whether the last line has come."""

    def take(self, line: bytes, left_out: int) -> Awaitable[None] | None:
        """The next line, without its end; `left_out` bytes were cut off. The next line is read after what this returns."""


class OutputLines:
    """The lines of one program. `over` is called after the last one, `paused` when reading has to wait, and when it may go on."""

    def __init__(self, reader: LineReader, over: Callable[[], None], paused: Callable[[bool], None]) -> None:
        self._reader, self._over, self._paused = reader, over, paused
        self._rest = bytearray()
        self._left_out = 0
        self._waiting: deque[tuple[bytes, int]] = deque()
        self._pause: asyncio.Future[None] | None = None

    def add(self, chunk: bytes) -> None:
        """More output."""
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            if not part and not self._rest:
                continue
            self._append(part)
            self._cut()
        self._append(rest)
        self._go_on()

    async def finish(self) -> None:
        """The output has ended: a last line may lack its end. Returns when the reader has all lines."""
        if self._rest:
            self._cut()
        while self._waiting or self._pause is not None:
            if self._pause is not None:
                with suppress(Exception):  # Logged where it was raised.
                    await self._pause
                self._pause = None
            self._go_on()

    def _append(self, part: bytes) -> None:
        room = max(0, LONGEST_LINE - len(self._rest))
        self._rest += part[:room]
        self._left_out += max(0, len(part) - room)

    def _cut(self) -> None:
        line, left_out = bytes(self._rest), self._left_out
        self._rest.clear()
        self._left_out = 0
        if line.strip():
            self._waiting.append((line, left_out))

    def _go_on(self) -> None:
        while self._waiting and self._pause is None:
            line, left_out = self._waiting.popleft()
            was_over = self._reader.is_over
            pause = self._reader.take(line, left_out)
            if pause is not None:
                self._pause = asyncio.ensure_future(pause)
                self._pause.add_done_callback(self._resume)
                self._paused(True)
            if self._reader.is_over and not was_over:
                self._over()

    def _resume(self, pause: asyncio.Future[None]) -> None:
        if self._pause is pause:
            self._pause = None
            self._paused(False)
            self._go_on()
