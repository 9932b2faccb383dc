"""A CLI that refuses its command line fails the same way each time: the unit is not tried again."""

from __future__ import annotations

import pytest
from tests.executors.agent_runs import judged

from headway.config.settings import CommandConfig
from headway.core.model import Kind
from headway.executors.commands import run_outcome
from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.program import ProgramEnd
from headway.executors.work_result import WorkResult

MODE = "error: option '--permission-mode <mode>' argument 'nope' is invalid. Allowed choices are acceptEdits, auto, plan."
SANDBOX = """WARNING: proceeding, even though we could not create PATH aliases
error: invalid value 'nope' for '--sandbox <SANDBOX_MODE>'
  [possible values: read-only, workspace-write, danger-full-access]

For more information, try '--help'.
"""
UNEXPECTED = """error: unexpected argument '--bogus' found

  tip: to pass '--bogus' as a value, use '-- --bogus'

Usage: codex exec [OPTIONS] [PROMPT]

For more information, try '--help'.
"""
OPENCODE_HELP = """opencode run [message..]

run opencode with a message

Positionals:
  message  message to send            [array] [default: []]

Options:
  -h, --help         show help                    [boolean]
  -v, --version      show version number          [boolean]
"""
GEMINI_MODE = """Usage: gemini [options] [command]

Invalid values:
  Argument: approval-mode, Given: "nope", Choices: "default", "auto_edit", "yolo"
"""


@pytest.mark.parametrize(
    ("cli", "code", "stderr", "says"),
    [
        ("claude", 1, MODE, "Allowed choices are acceptEdits"),
        ("claude", 1, "error: unknown option '--bogus'\n", "unknown option '--bogus'"),
        ("claude", 1, "error: option '--max-turns <turns>' argument 'abc' is invalid. must be a number", "'abc'"),
        ("claude", 2, "Invalid value for --permission-mode: nope", "nope"),
        ("codex", 2, SANDBOX, "[possible values: read-only"),
        ("codex", 2, UNEXPECTED, "unexpected argument '--bogus' found"),
        ("gemini-cli", 1, "Usage: gemini [options]\n\nUnknown argument: bogus\n", "Unknown argument: bogus"),
        ("gemini-cli", 1, GEMINI_MODE, 'Given: "nope"'),
        ("opencode", 1, OPENCODE_HELP, "it printed its help"),
        ("opencode", 1, "Unknown arguments: bogus, other\n", "bogus"),
    ],
)  # fmt: skip
def test_a_refused_command_line_is_invalid_at_once(cli: str, code: int, stderr: str, says: str) -> None:
    outcome = judged(cli, [], code=code, stderr=stderr).outcome
    assert outcome.kind is Kind.INVALID, outcome
    assert says in outcome.message
    assert "see args and permission_mode" in outcome.message
    assert outcome.message == judged(cli, [], code=code, stderr=stderr).outcome.message


@pytest.mark.parametrize("cli", sorted(AGENT_CLIS))
@pytest.mark.parametrize(
    "stderr",
    [
        "(node:1) Warning: unknown option was ignored in /etc/npmrc\n",
        "npm WARN config invalid value for key\n",
        "TypeError: fetch failed\n    at unexpected argument (internal/x.js:1)\n",
        "Error: socket hang up",
        "see --help for options\n",
        "",
    ],
)
def test_other_words_on_standard_error_are_tried_again(cli: str, stderr: str) -> None:
    assert judged(cli, [], code=1, stderr=stderr).outcome.kind is Kind.TRANSIENT


def test_an_agent_that_began_was_not_refused() -> None:
    begun = [{"type": "system", "subtype": "init", "session_id": "s"}]
    assert judged("claude", begun, code=1, stderr=MODE).outcome.kind is Kind.TRANSIENT


def _ended(took_s: float, settings: CommandConfig) -> WorkResult:
    end = ProgramEnd(1, False, b"", MODE.encode(), 1, 0.0, took_s)
    return run_outcome.of_agent(AGENT_CLIS["claude"], AGENT_CLIS["claude"].reader(), end, settings, 600.0)


def test_only_a_quick_exit_counts_and_configured_exit_codes_win() -> None:
    assert _ended(2.0, CommandConfig(("claude",))).outcome.kind is Kind.INVALID
    assert _ended(90.0, CommandConfig(("claude",))).outcome.kind is Kind.TRANSIENT
    assert _ended(2.0, CommandConfig(("claude",), exit_codes={1: "hold"})).outcome.kind is not Kind.INVALID
