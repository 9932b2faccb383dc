"""How a unit ended in a worker: its value, or what went wrong and the evidence for it."""

from __future__ import annotations

import re
import signal
import time
from typing import Any, Final, Literal

import msgspec

from headway.core.model import SUCCESS, Kind, Outcome, Usage
from headway.executors.evidence import crash_dumps
from headway.executors.worker_protocol import ReplyNote, checked_usage
from headway.providers.adapter import RateLimit
from headway.providers.error_messages import short_message

#: Characters quoted from the end of a worker's standard error.
QUOTED: Final = 240
#: Bytes at its end in which an error with its stack is searched.
_SEARCHED: Final = 16_384
#: The line of a JavaScript error above the frames of its stack.
_WITH_FRAMES: Final = re.compile(r"^((?:Uncaught )?[\w$.]*Error(?: \[\w+\])?: .*)\r?\n\s+at ", re.MULTILINE)


class Death(msgspec.Struct, frozen=True):
    """How a process ended. `why` is set if we ended it ourselves; a code of None is unknown."""

    code: int | None
    why: str = ""

    @property
    def signal(self) -> str:
        """The name of the signal that killed it, or ""."""
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
            return "it ended with an unknown exit code"
        return f"killed by {self.signal}" if self.code < 0 else f"it exited with code {self.code}"


class WorkResult(msgspec.Struct, frozen=True):
    """The result of one attempt at a unit. Output is bounded; `memory` is the peak of its process in bytes (0: unknown)."""

    end: Literal["value", "error", "crash", "timeout"]
    value: bytes = b""
    outcome: Outcome = SUCCESS
    #: The pickled exception of an error, and its traceback.
    error: bytes = b""
    trace: str = ""
    death: Death | None = None
    #: Exit codes of programs that the exception names.
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
    #: For resuming the conversation.
    session_id: str = ""
    #: Of programs: why the session is a new one, the directory, how many turns an agent took, the exit code (None: not known).
    session_note: str = ""
    directory: str = ""
    turns: int = 0
    exit_code: int | None = None


def work_result_of(value: bytes, note: ReplyNote | None) -> WorkResult:
    """The result that a worker's reply describes."""
    if note is None:
        return WorkResult("value", value)
    outcome = note.outcome
    if outcome.usage is not checked_usage(outcome.usage):
        outcome = msgspec.structs.replace(outcome, usage=None)
    death = None if note.code is None else Death(note.code)
    limit = None
    if note.source:
        wait_s = None if outcome.hint is None else outcome.hint.retry_after_s
        limit = RateLimit(note.source, wait_s, outcome.message, time.time())
    return WorkResult(
        "value" if outcome.kind is None else "error" if death is None else "crash",
        value,
        outcome,
        note.error,
        note.trace,
        death,
        tuple(note.exit_codes),
        rate_limit=limit,
        messages=note.messages,
        files=note.files,
    )


def crashed(death: Death, took_s: float, memory: int, stderr: bytes, used: Usage | None = None) -> Outcome:
    """The outcome of a unit whose worker died. `used` is the usage that it had reported: that was paid."""
    text = f"its worker died: {death}"
    dump = crash_dumps.read(_text(stderr))
    if dump is not None:
        text += f" in {dump.place}" if dump.place else ""
        stderr = dump.before.encode()
    return Outcome(Kind.CRASH, used, message=with_evidence(text, took_s, memory, stderr))


def timed_out(timeout_s: float, memory: int, stderr: bytes, used: Usage | None = None) -> Outcome:
    """The outcome of a unit that took too long; the process group of its worker was killed."""
    text = f"no result within {timeout_s:g} s, and its worker was killed"
    return Outcome(Kind.TIMEOUT, used, message=with_evidence(text, None, memory, stderr))


def with_evidence(text: str, took_s: float | None, memory: int, stderr: bytes) -> str:
    """A message with what may explain it: duration, memory, the end of standard error."""
    if took_s is not None:
        text += f" after {took_s:.1f} s"
    if memory:
        text += f"; its memory peaked at {memory / 1e6:.0f} MB"
    last = last_words(stderr)
    return short_message(f"{text}; last on standard error: {last}" if last else text)


def last_words(stderr: bytes) -> str:
    """The end of standard error, from the beginning of a line. Of a JavaScript error its line, without the frames of the stack below it."""
    if errors := _WITH_FRAMES.findall(_text(stderr[-_SEARCHED:])):
        return str(errors[-1]).strip()[:QUOTED]
    text = _text(stderr[-4 * QUOTED :]).strip()
    if len(text) <= QUOTED:
        return text
    cut = text[-QUOTED:]
    return cut.partition("\n")[2].strip() or cut


def _text(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")
