"""The flags of `headway run` that say what is asked: together with the input they are the job."""

from __future__ import annotations

from pathlib import Path

import click

from headway.cli.options import Command

_RECIPE = (
    click.option("--prompt", metavar="TEXT", help="For a table: what to ask about each row; {{column}} is its cell. @FILE reads it from a file."),
    click.option("--system", metavar="TEXT", help="The system prompt, for a table with {{column}} too. @FILE reads it from a file."),
    click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="The longest answer, where a row sets none."),
    click.option("--model", metavar="NAME", help="The model, where a row names none."),
    click.option("--schema", type=click.Path(path_type=Path), metavar="FILE.json", help="A JSON Schema that every answer must fit: checked, and asked for once more where it does not."),
    click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N rows: a job of its own. Another N later, or none, takes over its answers."),
)  # fmt: skip


def recipe_options(command: Command) -> Command:
    """What a command that makes a job takes."""
    for option in reversed(_RECIPE):
        command = option(command)
    return command
