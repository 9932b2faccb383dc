"""How a unit ended in a worker: its value, or what went wrong with all the evidence there is."""

from __future__ import annotations

import signal
from typing import Any, Final, Literal

import msgspec

from headway.core.model import SUCCESS, Kind, Outcome, Usage
from headway.executors import crash_dumps
from headway.providers.adapter import RateLimit
from headway.providers.error_messages import short_message

#: How much of what a worker said last is quoted.
QUOTED: Final = 240


class Death(msgspec.Struct, frozen=True):
    """How a process ended. `why` is set where we ended it ourselves; a code of None is one that nobody knows."""

    code: int | None
    why: str = ""

    @property
    def signal(self) -> str:
        """The signal's name, if it was one."""
        if self.code is None or self.code >= 0:
            return ""
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"

    def __str__(self) -> str:
        if self.why:
            return self.why
        if self.code is None:
            return "it ended, and nobody knows how"
        return f"killed by {self.signal}" if self.code < 0 else f"it exited with code {self.code}"


class WorkResult(msgspec.Struct, frozen=True):
    """A unit's end. Output is bounded; `memory` is the most that its process has had, in bytes (0: unknown)."""

    end: Literal["value", "error", "crash", "timeout"]
    value: bytes = b""
    outcome: Outcome = SUCCESS
    #: Of an error: the exception, pickled, and its traceback.
    error: bytes = b""
    trace: str = ""
    death: Death | None = None
    #: Of programs that the exception reports on.
    exit_codes: tuple[int, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    memory: int = 0
    began_utc: float = 0.0
    took_s: float = 0.0
    rate_limit: RateLimit | None = None
    messages: list[Any] = []
    files: list[str] = []
    pid: int = 0


def crashed(death: Death, took_s: float, memory: int, stderr: bytes, used: Usage | None = None) -> Outcome:
    """The outcome of a unit whose worker died; what it had told of its usage was paid."""
    text = f"its worker died: {death}"
    dump = crash_dumps.read(_text(stderr))
    if dump is not None:
        text += f" in {dump.place}" if dump.place else ""
        stderr = dump.before.encode()
    return Outcome(Kind.CRASH, used, message=with_evidence(text, took_s, memory, stderr))


def timed_out(timeout_s: float, memory: int, stderr: bytes, used: Usage | None = None) -> Outcome:
    """The outcome of one that took too long; its worker's process group was killed."""
    text = f"no result within {timeout_s:g} s, and its worker was killed"
    return Outcome(Kind.TIMEOUT, used, message=with_evidence(text, None, memory, stderr))


def with_evidence(text: str, took_s: float | None, memory: int, stderr: bytes) -> str:
    """What happened, and everything that may explain it."""
    if took_s is not None:
        text += f" after {took_s:.1f} s"
    if memory:
        text += f"; it had {memory / 1e6:.0f} MB at the most"
    said = last_words(stderr)
    return short_message(f"{text}; last on standard error: {said}" if said else text)


def last_words(stderr: bytes) -> str:
    """The end of what it said, from the beginning of a line."""
    text = _text(stderr[-4 * QUOTED :]).strip()
    if len(text) <= QUOTED:
        return text
    cut = text[-QUOTED:]
    return cut.partition("\n")[2].strip() or cut


def _text(said: bytes) -> str:
    return said.decode("utf-8", errors="replace")
