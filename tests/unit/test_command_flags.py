"""Commands in texts get the flags that lead to the same records, once and where they belong."""

from __future__ import annotations

import importlib

import click
import pytest

from headway.cli import COMMANDS
from headway.command_flags import WITH_FLAGS, with_flags

FLAGS = ("--config", "my settings.toml", "--db", "x.db")
ADDED = "--config 'my settings.toml' --db x.db"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("continue with 'headway resume'", f"continue with 'headway resume {ADDED}'"),
        ("headway show j 'a unit'; headway jobs", f"headway show {ADDED} j 'a unit'; headway jobs {ADDED}"),
        ("headway cache why j n, headway worktrees show j u", f"headway cache why {ADDED} j n, headway worktrees show {ADDED} j u"),
        ("'headway worktrees' lists them", f"'headway worktrees {ADDED}' lists them"),
        ("to resume: headway resume j --db y.db", "to resume: headway resume --config 'my settings.toml' j --db y.db"),
        (f"headway approve j n {ADDED}; then: headway resume j", f"headway approve j n {ADDED}; then: headway resume {ADDED} j"),
        ("'headway run FILE' makes them; --db names another", f"'headway run {ADDED} FILE' makes them; --db names another"),
        ("run 'headway init', 'headway fake' or 'headway --help'", "run 'headway init', 'headway fake' or 'headway --help'"),
        ("headway runs, headway-status, headway resume-later", "headway runs, headway-status, headway resume-later"),
    ],
)  # fmt: skip
def test_flags_follow_the_name_of_a_command(text: str, expected: str) -> None:
    assert with_flags(text, FLAGS) == expected
    assert with_flags(text, ()) == text


def test_the_commands_are_those_that_take_the_flags() -> None:
    taking = {
        name for name, command in _commands() if {"config", "db"} <= {one.name for one in command.params}
    }
    inner = {"worktrees show", "worktrees remove"}  # Found by their first word.
    assert taking - inner - {"top"} == set(WITH_FLAGS)


def _commands() -> list[tuple[str, click.Command]]:
    found: list[tuple[str, click.Command]] = []
    for name, (where, _) in COMMANDS.items():
        module, _, attribute = where.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        found.append((name, command))
        found += [(f"{name} {inner}", one) for inner, one in getattr(command, "commands", {}).items()]
    return found
