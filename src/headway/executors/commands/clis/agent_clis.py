"""The agent CLIs, by the names of their kinds."""

from __future__ import annotations

from typing import Final

from headway.executors.commands.clis.claude import ClaudeCli
from headway.executors.commands.clis.cli_contract import AgentCli
from headway.executors.commands.clis.codex import CodexCli
from headway.executors.commands.clis.gemini_cli import GeminiCli
from headway.executors.commands.clis.opencode import OpencodeCli

AGENT_CLIS: Final[dict[str, AgentCli]] = {
    cli.name: cli for cli in (ClaudeCli(), CodexCli(), GeminiCli(), OpencodeCli())
}
