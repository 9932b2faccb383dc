"""What holds for every command: it loads, it is documented, it shows an example."""

from __future__ import annotations

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
def test_every_command_around_jobs_speaks_json(name: str) -> None:
    command = LazyGroup().get_command(click.Context(click.Group()), name)
    assert command is not None
    assert any("--json" in param.opts for param in command.params)
