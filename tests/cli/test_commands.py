"""Every command loads, is documented and shows an example."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from headway.cli import COMMANDS, LazyGroup

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_loads_and_shows_an_example(name: str) -> None:
    command = LazyGroup().get_command(click.Context(click.Group()), name)
    assert command is not None
    assert (command.epilog or "").startswith(f"Example: headway {name}")
    assert command.help


def test_the_page_of_commands_is_current() -> None:
    done = subprocess.run(
        [sys.executable, "tools/draw_commands.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("simulate", "fake", "demo")])
def test_every_job_command_has_json(name: str) -> None:
    command = LazyGroup().get_command(click.Context(click.Group()), name)
    assert command is not None
    commands = command.commands.values() if isinstance(command, click.Group) else (command,)
    assert all(any("--json" in param.opts for param in each.params) for each in commands)


def completed(*words: str) -> set[str]:
    """The completions that a shell gets after these words, set up as in docs/how-to/completion.md."""
    environ = {
        **os.environ,
        "_HEADWAY_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("headway", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from headway.cli import main; main()"],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_shell_completes_commands_flags_values_and_files() -> None:
    assert completed("re") == {"plain,report", "plain,resume", "plain,retry", "plain,review"}
    assert completed("run", "--log-f") == {"plain,--log-file", "plain,--log-format"}
    assert completed("run", "--log-format", "j") == {"plain,json"}
    assert completed("run", "que") == {"file,que"}


def test_the_completion_script_of_a_shell_can_be_printed() -> None:
    for shell in ("zsh", "fish"):  # Not bash: it would be run to find its version, and may be missing.
        done = subprocess.run(
            [sys.executable, "-c", "from headway.cli import main; main()"],
            env={**os.environ, "_HEADWAY_COMPLETE": f"{shell}_source"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert f"_HEADWAY_COMPLETE={shell}_complete" in done.stdout
