"""The lines of an agent CLI: read as events, recorded, and its session made durable before the next line is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable

from headway.executors.commands.agent_session import AgentSession
from headway.executors.commands.clis.cli_contract import EventReader
from headway.executors.commands.output_lines import LONGEST_LINE
from headway.providers.limits.agent_events import LONGEST_TAIL, MOST_EVENTS, is_telling


class AgentLines:
    """Implements `output_lines.LineReader`. `session_id` is the id that is on record already, or ""."""

    def __init__(self, reader: EventReader, session: AgentSession, session_id: str) -> None:
        self._reader, self._session, self._session_id = reader, session, session_id
        self._transcript, self._log = session.transcript, session.log
        self._finished = False
        #: The last lines up to the final event, and what is said about the end after it.
        self._last: deque[bytes] = deque(maxlen=MOST_EVENTS)
        self._last_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether the last event has come."""
        return self._reader.is_over

    def started(self, pid: int) -> None:
        """The program runs."""
        self._session.pid = pid

    def take(self, line: bytes, left_out: int) -> Awaitable[None] | None:
        """The next line. A line that was cut is recorded, and not read as an event."""
        reader = self._reader
        if self._finished:  # The attempt was cancelled.
            return None
        if left_out:
            text = f"a line was cut after {LONGEST_LINE:,} bytes: {left_out:,} bytes left out"
            return self._transcript.add_cut(line, [{"role": "headway", "content": text}])
        if not reader.is_over or is_telling(line):
            self._keep(line)
        reader.take(line)
        pause = self._transcript.add(line, reader.drain())
        if self._log is not None:
            self._log.progress(reader.progress)
        if reader.session_id and reader.session_id != self._session_id:
            self._session_id = reader.session_id
            return _both(pause, self._session.record(reader.session_id))
        return pause

    @property
    def last_lines(self) -> bytes:
        """The lines that say how the run ended. What a CLI prints after its final event does not push them out."""
        return b"\n".join(self._last)

    def _keep(self, line: bytes) -> None:
        if len(self._last) == MOST_EVENTS:
            self._last_bytes -= len(self._last.popleft())
        self._last.append(line)
        self._last_bytes += len(line)
        while self._last_bytes > LONGEST_TAIL and len(self._last) > 1:
            self._last_bytes -= len(self._last.popleft())

    def finish(self) -> None:
        """The program has ended."""
        self._finished = True
        self._reader.finish()
        if messages := self._reader.drain():
            self._transcript.add(b"", messages)
        self._transcript.finish()


async def _both(first: Awaitable[None] | None, second: Awaitable[None]) -> None:
    if first is not None:
        await first
    await second
