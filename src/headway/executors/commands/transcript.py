"""What a program prints, line by line, on its way to the records: without secrets, and in bounded memory.

With a log (`providers.attempt_log`) every line is recorded while the program runs. Without one only the messages are kept, for the
attempt's details. A program that prints without end fills neither the memory nor the disk: above `MOST` bytes or `MOST_LINES` lines only the last
lines are recorded, after a message that says how much was left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import Any, Final

import msgspec

from headway.executors.attempt_details import blotted_json, blotted_line, plain_value
from headway.providers.attempt_log import AttemptLog
from headway.providers.scrubber import NO_SECRETS, Scrubber

#: The most bytes of lines that one attempt leaves in the records. The longest sessions of agents have a few megabytes.
MOST: Final = 64 * 1024 * 1024
#: The most lines. Long sessions have a few thousand events.
MOST_LINES: Final = 100_000
#: The last lines of a longer transcript that are recorded nevertheless: the final event is among them.
LAST: Final = 1024 * 1024
#: A longer line is searched for secrets in a thread: a search in 1 MB takes up to 0.1 s.
_IN_THREAD: Final = 128 * 1024

#: The end of a cut line that is searched for the beginning of a secret.
_END: Final = 8_192

_Line = tuple[bytes, list[dict[str, Any]]]


class Transcript:
    """The lines of one attempt, which may run its program more than once."""

    def __init__(self, log: AttemptLog | None = None, scrub: Scrubber = NO_SECRETS) -> None:
        self._log, self._scrub = log, scrub
        #: The messages, if there is no log.
        self.messages: list[dict[str, Any]] = []
        self._bytes = self._lines = 0
        self._last: deque[_Line] = deque()
        self._last_bytes = 0
        self._left_out_lines = self._left_out_bytes = 0

    def add(self, line: bytes, messages: list[dict[str, Any]]) -> Awaitable[None] | None:
        """A line that the program printed, and its messages. Returns something to wait for before the next line is read."""
        self._bytes += len(line)
        self._lines += 1
        if self._bytes > MOST or self._lines > MOST_LINES:
            self._keep_last(line, messages)
            return None
        if len(line) > _IN_THREAD:
            return self._record_in_thread(line, messages)
        return self._record(line, messages)

    def add_cut(self, line: bytes, messages: list[dict[str, Any]]) -> Awaitable[None] | None:
        """A line whose rest was left out. Its end may be the beginning of a secret."""
        start, end = line[:-_END], line[-_END:]
        clean = self._scrub.beginning(end, max(0, len(end) - 1))
        return self.add(line if clean == end[:-1] else start + clean, messages)

    def remark(self, text: str) -> None:
        """A message of Headway's own."""
        self._record(b"", [{"role": "headway", "content": text}])

    def prompt(self, text: str, *, own: bool) -> None:
        """What the program is told. The unit's own prompt is on record with its request."""
        if self._log is None or not own:
            self._record(b"", [{"role": "user", "content": text}])

    def finish(self) -> None:
        """The program has ended."""
        if not self._last:
            return
        if self._left_out_lines:
            self.remark(
                f"{self._left_out_lines:,} lines ({self._left_out_bytes:,} bytes) left out: an attempt records"
                f" {MOST:,} bytes of output, and {MOST_LINES:,} lines"
            )
        while self._last:
            self._record(*self._last.popleft())
        self._last_bytes = self._left_out_lines = self._left_out_bytes = 0

    def _keep_last(self, line: bytes, messages: list[dict[str, Any]]) -> None:
        self._last.append((line, messages))
        self._last_bytes += len(line)
        while self._last_bytes > LAST and len(self._last) > 1:
            dropped, _ = self._last.popleft()
            self._last_bytes -= len(dropped)
            self._left_out_lines += 1
            self._left_out_bytes += len(dropped)

    def _record(self, line: bytes, messages: list[dict[str, Any]]) -> Awaitable[None] | None:
        if self._log is None:
            self.messages += messages
            return None
        return self._log.line(*blotted(line, messages, self._scrub))

    async def _record_in_thread(self, line: bytes, messages: list[dict[str, Any]]) -> None:
        if self._log is None:
            self.messages += messages
            return
        wait = self._log.line(*await asyncio.to_thread(blotted, line, messages, self._scrub))
        if wait is not None:
            await wait


def blotted(line: bytes, messages: list[dict[str, Any]], scrub: Scrubber) -> tuple[bytes, bytes]:
    """A line and its messages as JSON, without secrets."""
    if not messages:
        return blotted_line(line, scrub), b"[]"
    plain = plain_value(messages)
    return blotted_line(line, scrub), blotted_json(plain, msgspec.json.encode(plain), scrub)
