"""Codex: `codex exec --json`. Its `turn.completed` comes seconds before its exit, so the event decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headway.core.model import Usage
from headway.executors.commands.agent_task import AgentTask
from headway.executors.commands.clis.cli_contract import AgentCli, EventReader, number, table
from headway.executors.commands.clis.codex_switches import codex_switches


class CodexReader(EventReader):
    """`thread.started`, `item.completed`, then `turn.completed` or `turn.failed`."""

    def event(self, event: dict[str, Any]) -> None:
        """The next event."""
        match event.get("type"):
            case "thread.started":
                self.in_session(event.get("thread_id"))
            case "turn.started" | "item.updated":
                pass
            case "item.started":
                self._started(table(event.get("item")))
            case "item.completed":
                self._item(table(event.get("item")))
            case "turn.completed":
                self._completed(table(event.get("usage")))
            case "turn.failed":
                self.is_over = True
                self.unknown(event)
            case _:
                self.unknown(event)

    def _started(self, item: dict[str, Any]) -> None:
        names = {
            "command_execution": "shell",
            "file_change": "file_change",
            "mcp_tool_call": item.get("tool"),
        }
        self.tool = str(names.get(str(item.get("type"))) or self.tool)

    def _item(self, item: dict[str, Any]) -> None:
        match item.get("type"):
            case "agent_message":
                self.text = str(item.get("text") or "")
                self.says("assistant", self.text)
            case "command_execution":
                self.calls(item.get("id"), "shell", {"command": item.get("command")})
                self.returns(item.get("id"), item.get("aggregated_output"))
            case "mcp_tool_call":
                self.calls(item.get("id"), item.get("tool"), item.get("arguments"))
                self.returns(item.get("id"), item.get("result"))
            case "file_change":
                changes = item.get("changes")
                self.calls(item.get("id"), "file_change", changes)
                self.wrote(
                    *(table(one).get("path") for one in (changes if isinstance(changes, list) else ()))
                )
                self.returns(item.get("id"), item.get("status"))
            case _:
                self.unknown(item)

    def _completed(self, used: dict[str, Any]) -> None:
        self.turns += 1
        self.usage = Usage(
            input_tokens=number(used.get("input_tokens")),
            output_tokens=number(used.get("output_tokens")),
            cached_input_tokens=number(used.get("cached_input_tokens")),
        )
        self.text = self.text or ""
        self.is_over = True


class CodexCli(AgentCli):
    """A session's id comes with its first event."""

    name = "codex"
    program = "codex"
    no_session = "no rollout found"

    def switches(self, environ: Mapping[str, str], args: Sequence[str]) -> tuple[str, ...]:
        """Its retries are those of a model provider."""
        return codex_switches(environ, args)

    def argv(self, command: tuple[str, ...], task: AgentTask) -> tuple[str, ...]:
        """The prompt comes on standard input: that is what `-` means."""
        argv = [*command, "exec", "--json", "--skip-git-repo-check"]
        if task.model:
            argv += ["--model", task.model]
        if task.permission_mode:
            argv += ["--sandbox", task.permission_mode]
        argv += task.args
        return (*argv, "resume", task.session_id, "-") if task.resumes else (*argv, "-")

    def reader(self) -> EventReader:
        """A reader for one run."""
        return CodexReader()
