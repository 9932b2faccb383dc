"""opencode: `opencode run --format json`. It has no last event: its exit is the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headway.core.model import Usage
from headway.executors.commands.agent_task import AgentTask
from headway.executors.commands.clis.cli_contract import AgentCli, EventReader, number, table
from headway.executors.commands.clis.opencode_variables import opencode_variables

#: The title of a new session.
TITLE: Final = "headway"


class OpencodeReader(EventReader):
    """`step_start`, `text`, `tool_use`, `step_finish`; usage is the sum of all steps."""

    def event(self, event: dict[str, Any]) -> None:
        """The next event."""
        if not self.session_id:  # A later one may be that of a subagent.
            self.in_session(event.get("sessionID"))
        part = table(event.get("part"))
        match event.get("type"):
            case "step_start":
                pass
            case "text":
                self.text = str(part.get("text") or "")
                self.says("assistant", self.text)
            case "tool_use":
                state = table(part.get("state"))
                self.calls(part.get("callID"), part.get("tool"), state.get("input"))
                self.returns(part.get("callID"), state.get("output"))
            case "step_finish":
                self._add_usage(part)
            case _:
                self.unknown(event)

    def _add_usage(self, part: dict[str, Any]) -> None:
        self.turns += 1
        tokens = table(part.get("tokens"))
        cache = table(tokens.get("cache"))
        read, written = number(cache.get("read")), number(cache.get("write"))
        before = self.usage or Usage(cost_usd=0.0)
        self.usage = Usage(
            input_tokens=before.input_tokens + number(tokens.get("input")) + read + written,
            output_tokens=before.output_tokens
            + number(tokens.get("output"))
            + number(tokens.get("reasoning")),
            cached_input_tokens=before.cached_input_tokens + read,
            cost_usd=(before.cost_usd or 0.0) + number(part.get("cost")),
            cache_write_tokens=before.cache_write_tokens + written,
        )


class OpencodeCli(AgentCli):
    """A session's id comes with its first event."""

    name = "opencode"
    program = "opencode"
    no_session = "Session not found"

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """With a plugin that ends it at its first retry."""
        return opencode_variables(environ)

    def argv(self, command: tuple[str, ...], task: AgentTask) -> tuple[str, ...]:
        """The prompt comes on standard input. Without a title it would ask a model for one, and retry that by itself."""
        argv = [*command, "run", "--format", "json"]
        if task.model:
            argv += ["-m", task.model]
        if task.permission_mode:
            argv += ["--agent", task.permission_mode]
        if task.resumes:
            argv += ["-s", task.session_id]
        elif "--title" not in {arg.partition("=")[0] for arg in task.args}:
            argv += ["--title", TITLE]
        return (*argv, *task.args)

    def reader(self) -> EventReader:
        """A reader for one run."""
        return OpencodeReader()
