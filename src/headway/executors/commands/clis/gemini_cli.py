"""Gemini CLI: `gemini -o stream-json`."""

from __future__ import annotations

import json
import re
from typing import Any

from headway.core.model import Usage
from headway.executors.commands.agent_task import AgentTask
from headway.executors.commands.clis.cli_contract import AgentCli, EventReader, number, table


class GeminiCliReader(EventReader):
    """`init`, `message`, `tool_use`, `tool_result`, then one `result`. An answer comes in parts (`delta`): it is a message once
    something else follows.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []

    def event(self, event: dict[str, Any]) -> None:
        """The next event."""
        if event.get("type") != "message" or event.get("delta") is not True or event.get("role") == "user":
            self.finish()
        match event.get("type"):
            case "init":
                self.in_session(event.get("session_id"))
            case "message":
                self._message(event)
            case "tool_use":
                self.calls(event.get("tool_id"), event.get("tool_name"), event.get("parameters"))
            case "tool_result":
                self.returns(event.get("tool_id"), event.get("output"))
            case "result":
                self._result(table(event.get("stats")))
            case _:
                self.unknown(event)

    def _message(self, event: dict[str, Any]) -> None:
        if event.get("role") == "user":  # It repeats the prompt.
            return
        self._parts.append(str(event.get("content") or ""))
        self.text = "".join(self._parts)
        if event.get("delta") is not True:
            self.finish()

    def finish(self) -> None:
        """The message that came in parts is whole."""
        parts, self._parts = self._parts, []
        self.says("assistant", "".join(parts))

    def _result(self, stats: dict[str, Any]) -> None:
        self.turns = int(number(stats.get("tool_calls"))) + 1
        self.usage = Usage(
            input_tokens=number(stats.get("input_tokens")),
            output_tokens=number(stats.get("output_tokens")),
            cached_input_tokens=number(stats.get("cached")),
        )
        self.text = self.text or ""
        self.is_over = True


class GeminiCli(AgentCli):
    """Headway chooses the id of a session. Older versions take none: there it comes with the first event."""

    name = "gemini-cli"
    program = "gemini"
    takes_session_id = True
    no_session = "Error resuming session"
    session_exists = "already exists"
    no_session_option = "Unknown arguments: session-id"
    # Ten attempts, unless the user's settings.json says otherwise: the CLI takes defaults only from files of root.
    retries = re.compile(rb"Attempt 1 failed(.{0,8000}?)\.? ?Retrying (after \d+ms|with backoff)", re.DOTALL)

    def refusal(self, stderr: bytes) -> str:
        """What it says of its first retry. It waits "after" a time only if a quota's error names one."""
        found = self.retries.search(stderr)
        if found is None or not found[2].startswith(b"after"):
            return super().refusal(stderr)
        message = found[1].decode("utf-8", errors="replace").removeprefix(": ")
        return json.dumps({"error": {"type": "RetryableQuotaError", "message": message, "code": 429}})

    def argv(self, command: tuple[str, ...], task: AgentTask) -> tuple[str, ...]:
        """The prompt comes on standard input."""
        argv = [*command, "-o", "stream-json"]
        if task.model:
            argv += ["-m", task.model]
        if task.permission_mode:
            argv += ["--approval-mode", task.permission_mode]
        if task.allowed_tools:
            argv += ["--allowed-tools", ",".join(task.allowed_tools)]
        if task.session_id:
            argv += ["-r" if task.resumes else "--session-id", task.session_id]
        return (*argv, *task.args)

    def reader(self) -> EventReader:
        """A reader for one run."""
        return GeminiCliReader()
