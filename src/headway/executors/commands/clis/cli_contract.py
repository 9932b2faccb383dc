"""The contract of an agent CLI: how it is started, and how its events are read. Both are pure.

The events become one normalised conversation, whatever the CLI: messages with `role` and `content`, tool calls
(`role: assistant`, `tool_calls`), their results (`role: tool`), and, so that nothing is lost, every event that is not understood
(`role: event`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

import msgspec

from headway.core.model import Usage
from headway.executors.commands.agent_task import AgentTask
from headway.providers.attempt_log import AgentProgress

#: There is no such session; its id is taken; this version of the CLI takes no id.
SessionTrouble = Literal["", "unknown", "taken", "unsupported"]

_decode = msgspec.json.Decoder().decode
#: The tools of the CLIs that write files, and the arguments that name the file.
_WRITERS: Final = frozenset(
    ("Write", "Edit", "MultiEdit", "NotebookEdit", "write_file", "replace", "write", "edit")
)
_PATHS: Final = ("file_path", "notebook_path", "filePath")
#: Ids of sessions become arguments of the CLI.
_SESSION_ID: Final = re.compile(r"\w[\w.:/-]{0,199}", re.ASCII)
#: The most files that an attempt names.
MOST_FILES: Final = 1_000
#: No count of tokens or turns and no cost of a run is larger. The records hold no larger integers either.
LARGEST: Final = 1e15


class EventReader(ABC):
    """Reads the lines of one run."""

    def __init__(self) -> None:
        self.session_id = ""
        #: The messages since the last `drain`.
        self.messages: list[dict[str, Any]] = []
        #: The final answer; None if there is none yet.
        self.text: str | None = None
        self.usage: Usage | None = None
        self.turns = 0
        self.is_over = False
        #: Whether any event was printed.
        self.began = False
        #: The tool that was called last, and the usage so far, where events tell it before the end.
        self.tool = ""
        self.so_far: Usage | None = None
        #: The files that tools were told to write.
        self.files: list[str] = []

    def take(self, line: bytes, left_out: int = 0) -> None:
        """The next line of standard output."""
        try:
            event = _decode(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            event = None
        if isinstance(event, dict):
            self.began = True
            self.event(event)
        else:
            self.unknown(line.decode("utf-8", errors="replace"))

    def drain(self) -> list[dict[str, Any]]:
        """The messages of the lines since the last call."""
        messages, self.messages = self.messages, []
        return messages

    def finish(self) -> None:
        """The program has ended. A message that came in parts is whole now."""
        return

    @property
    def progress(self) -> AgentProgress:
        """How far the agent is."""
        used = self.usage or self.so_far
        tokens = 0 if used is None else int(used.input_tokens + used.output_tokens)
        return AgentProgress(self.turns, self.tool, tokens, 0.0 if used is None else used.cost_usd or 0.0)

    @abstractmethod
    def event(self, event: dict[str, Any]) -> None:
        """The next event."""

    def in_session(self, name: object) -> None:
        """An event names the session. What cannot be an argument, or would be an option, is not taken for an id."""
        if isinstance(name, str) and _SESSION_ID.fullmatch(name):
            self.session_id = name

    def says(self, role: str, text: object) -> None:
        """Add a message, if it has a text."""
        if isinstance(text, str) and text:
            self.messages.append({"role": role, "content": text})

    def calls(self, call_id: object, name: object, arguments: object) -> None:
        """Add a tool call."""
        self.tool = name if isinstance(name, str) else ""
        if self.tool in _WRITERS:
            self.wrote(*(table(arguments).get(key) for key in _PATHS))
        call = {"id": call_id, "name": name, "arguments": arguments}
        self.messages.append({"role": "assistant", "tool_calls": [call]})

    def wrote(self, *paths: object) -> None:
        """A tool wrote these files."""
        for path in paths:
            if isinstance(path, str) and path and path not in self.files and len(self.files) < MOST_FILES:
                self.files.append(path)

    def returns(self, call_id: object, content: object) -> None:
        """Add the result of a tool call."""
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})

    def unknown(self, event: object) -> None:
        """Keep an event that is not understood."""
        self.messages.append({"role": "event", "content": event})


class AgentCli(ABC):
    """One agent CLI."""

    #: The name of its kind, and of its profile in `providers.limits.profiles`.
    name: ClassVar[str]
    program: ClassVar[str]
    #: Variables that switch off its own retries, updates and telemetry.
    environ: ClassVar[dict[str, str]] = {}
    #: Whether the id of a session can be chosen before the start.
    takes_session_id: ClassVar[bool] = False

    #: What it prints if there is no session to resume, if the id of a new session is taken, and if this version takes no id.
    no_session: ClassVar[str] = ""
    session_exists: ClassVar[str] = ""
    no_session_option: ClassVar[str] = ""

    #: What it prints on standard error when it is about to retry by itself, where no setting prevents that. It is ended then.
    retries: ClassVar[re.Pattern[bytes] | None] = None

    def refusal(self, stderr: bytes) -> str:
        """What the standard error of a failed run says of the failure."""
        found = self.retries.search(stderr) if self.retries is not None else None
        return stderr[found.start() if found else 0 :].decode("utf-8", errors="replace")

    def session_trouble(self, task: AgentTask, message: str, stderr: bytes) -> SessionTrouble:
        """Whether a run failed because of its session."""
        text = f"{message} {stderr.decode('utf-8', errors='replace')}"
        if task.resumes:
            return "unknown" if self.no_session and self.no_session in text else ""
        if self.session_exists and self.session_exists in text:
            return "taken"
        return "unsupported" if self.no_session_option and self.no_session_option in text else ""

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables to set in an environment: `environ`, unless they depend on what is there."""
        return self.environ

    def switches(self, environ: Mapping[str, str], args: Sequence[str]) -> tuple[str, ...]:
        """Further arguments after the program's name, which switch off its own retries and telemetry."""
        return ()

    @abstractmethod
    def argv(self, command: tuple[str, ...], task: AgentTask) -> tuple[str, ...]:
        """The command line of a task. The prompt is never in it."""

    @abstractmethod
    def reader(self) -> EventReader:
        """A reader for one run."""


def number(value: object) -> float:
    """A count or an amount; 0.0 if it is none, or impossible: negative, or too large."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        return 0.0
    return float(value)


def table(value: object) -> dict[str, Any]:
    """A JSON object; empty if it is none."""
    return value if isinstance(value, dict) else {}


def with_change(total: Usage, before: Usage, now: Usage) -> Usage:
    """The total after one part of it has changed. Its cost is not known."""
    return Usage(
        total.input_tokens + now.input_tokens - before.input_tokens,
        total.output_tokens + now.output_tokens - before.output_tokens,
        total.cached_input_tokens + now.cached_input_tokens - before.cached_input_tokens,
        cache_write_tokens=total.cache_write_tokens + now.cache_write_tokens - before.cache_write_tokens,
    )
