"""What an adapter reports of an attempt while it runs, for the records: lines of output, details, progress.

The engine implements it (`engine.recording.attempt_log`) and gives it to adapters that ask for it with `takes_log`. Every method is for the
engine's loop.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

import msgspec


class AgentProgress(msgspec.Struct, frozen=True, gc=False):
    """How far an agent is: its turn, the tool that it called last, the tokens and the cost so far (0: not reported)."""

    turn: int = 0
    tool: str = ""
    tokens: int = 0
    cost_usd: float = 0.0


class EarlierSession(msgspec.Struct, frozen=True):
    """The session of an earlier attempt at the same unit, and the directory in which it worked.

    `spoke`: the agent said something, so it has got its task. A session that was killed before that may not have it.
    """

    session_id: str
    directory: str
    succeeded: bool = False
    spoke: bool = True


class WorkerWatcher(Protocol):
    """Records worker processes. An adapter that starts some has `watch_workers`, which the engine calls before the first attempt."""

    def started(self, pid: int, name: str) -> None:
        """A process has started; `name` says what it is."""

    def ended(self, pid: int, *, failed: bool) -> None:
        """A process has ended. `failed`: it was killed, or died."""


class AttemptLog(Protocol):
    """Records one attempt while it runs."""

    def runs_in(self, pid: int) -> None:
        """This worker process runs the attempt."""

    async def earlier_session(self) -> EarlierSession | None:
        """The session of the latest earlier attempt that had one."""

    def line(self, line: bytes, messages: bytes) -> Awaitable[None] | None:
        """A line of output, and the messages that it stands for, as a JSON array. Both are without secrets.

        Returns something to wait for if more is on its way to the disk than fits into memory.
        """

    async def record(self, details: bytes) -> None:
        """Record details of the attempt, as JSON; they are durable when this returns. What the answer says replaces them."""

    def progress(self, progress: AgentProgress) -> None:
        """How far the agent is."""
