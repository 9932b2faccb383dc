"""Claude Code: `claude -p --output-format stream-json`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from headway.core.model import Usage
from headway.executors.commands.agent_task import AgentTask
from headway.executors.commands.clis.cli_contract import AgentCli, EventReader, number, table, with_change

#: The latest turns whose usage may still change. Agents inside of an agent take turns at the same time.
MOST_TURNS: Final = 1_000


class ClaudeReader(EventReader):
    """`system`, `assistant` and `user` events, then one `result`. A turn may have several `assistant` events with one id."""

    def __init__(self) -> None:
        super().__init__()
        #: Of the latest turns, by their ids.
        self._usages: dict[str, Usage] = {}

    def event(self, event: dict[str, Any]) -> None:
        """The next event."""
        kind = event.get("type")
        self.in_session(event.get("session_id"))
        if kind in ("assistant", "user"):
            message = table(event.get("message"))
            if kind == "assistant":
                self._count(message)
            self._message(str(kind), message.get("content"))
        elif kind == "result":
            self._result(event)
        elif kind != "system" or event.get("subtype") != "init":
            self.unknown(event)

    def _count(self, message: dict[str, Any]) -> None:
        """Count a turn and its usage. Further events of a turn have the same id, and newer numbers."""
        turn, used = str(message.get("id")), table(message.get("usage"))
        if turn not in self._usages or message.get("id") is None:
            self.turns += 1
        before = self._usages.pop(turn, Usage())
        now = self._usages[turn] = _usage_of(used) if used else before
        if len(self._usages) > MOST_TURNS:
            del self._usages[next(iter(self._usages))]
        if used:
            self.so_far = with_change(self.so_far or Usage(), before, now)

    def _message(self, role: str, content: object) -> None:
        if isinstance(content, str):
            self.says(role, content)
            return
        for part in content if isinstance(content, list) else ():
            match part:
                case {"type": "text", "text": text}:
                    self.says(role, text)
                case {"type": "tool_use", "id": call, "name": name, "input": arguments}:
                    self.calls(call, name, arguments)
                case {"type": "tool_result", "tool_use_id": call}:
                    self.returns(call, part.get("content"))
                case _:
                    self.unknown(part)

    def _result(self, event: dict[str, Any]) -> None:
        text = event.get("result")
        self.text = text if isinstance(text, str) else ""
        self.turns = int(number(event.get("num_turns")))
        used, cost = _usage_of(table(event.get("usage"))), event.get("total_cost_usd")
        self.usage = msgspec.structs.replace(used, cost_usd=None if cost is None else number(cost))
        self.is_over = True


def _usage_of(used: dict[str, Any]) -> Usage:
    read = number(used.get("cache_read_input_tokens"))
    written = number(used.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=number(used.get("input_tokens")) + read + written,
        output_tokens=number(used.get("output_tokens")),
        cached_input_tokens=read,
        cache_write_tokens=written,
    )


class ClaudeCli(AgentCli):
    """Headway chooses the session's id, so that the same session can be resumed after a crash."""

    name = "claude"
    program = "claude"
    environ: ClassVar[dict[str, str]] = {
        "CLAUDE_CODE_MAX_RETRIES": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
    }
    takes_session_id = True
    no_session = "No conversation found"
    session_exists = "already in use"

    def argv(self, command: tuple[str, ...], task: AgentTask) -> tuple[str, ...]:
        """The prompt comes on standard input."""
        argv = [*command, "-p", "--output-format", "stream-json", "--verbose"]
        if task.session_id:
            argv += ["--resume" if task.resumes else "--session-id", task.session_id]
        if task.model:
            argv += ["--model", task.model]
        if task.max_turns:
            argv += ["--max-turns", str(task.max_turns)]
        if task.max_unit_cost:
            argv += ["--max-budget-usd", f"{task.max_unit_cost:g}"]
        if task.permission_mode:
            argv += ["--permission-mode", task.permission_mode]
        if task.allowed_tools:
            argv += ["--allowedTools", ",".join(task.allowed_tools)]
        return (*argv, *task.args)

    def reader(self) -> EventReader:
        """A reader for one run."""
        return ClaudeReader()
