"""`headway cache stats`, `headway cache clear`: answers that jobs share. `headway cache why`: why a unit of a flow was called."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli import verbose_option
from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo

if TYPE_CHECKING:
    from headway.stores.answer_cache import CachedModel


@click.group(
    "cache",
    short_help="Show or clear the cache of answers; why a node ran.",
    epilog="Example: headway cache stats",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@verbose_option
def command() -> None:
    """Show or clear the answers that 'headway run --cache' and flows keep in the store. Only identical requests share an answer."""


@command.command(
    "stats", short_help="Show its size and what it saved.", epilog="Example: headway cache stats --json"
)
@json_option
@where_options
def stats(config: Path | None, db: str | None, as_json: bool) -> None:
    """Show how many answers the cache has for each model, and what they saved over all jobs."""
    from headway.cli.shared import printing, workspace
    from headway.display.formatting import units
    from headway.display.usage_text import savings_text

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        models, saved = store.cache.entries_by_model(), store.cache.saved()
    if as_json:
        printing.print_json(
            {
                "entries": sum(entry.entries for entry in models),
                "bytes": sum(entry.bytes for entry in models),
                "models": models,
                "hits": saved.units,
                "saved": {
                    "input_tokens": saved.input_tokens,
                    "output_tokens": saved.output_tokens,
                    "cost_usd": saved.cost_usd,
                },
            }
        )
        return
    if not models:
        echo("the cache is empty — 'headway run FILE --cache' fills it")
    for entry in models:
        age = f"{printing.time_text(entry.oldest_utc)} to {printing.time_text(entry.newest_utc)}"
        echo(f"{entry.provider}/{entry.model}: {_answers(entry.entries)}, {_size(entry.bytes)}, {age}")
    if saved.units:
        were = "was" if saved.units == 1 else "were"
        echo(f"{units(saved.units)} {were} answered without a call, saving {savings_text(saved)}")


@command.command(
    "clear", short_help="Delete cached answers.", epilog="Example: headway cache clear --older-than 30d"
)
@click.option("--older-than", metavar="TIME", help="Only answers older than this, such as 12h or 30d.")
@click.option("--model", metavar="NAME", help="Only answers of one model: gpt-x, or alpha/gpt-x.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
@where_options
def clear(
    older_than: str | None, model: str | None, yes: bool, config: Path | None, db: str | None, as_json: bool
) -> None:
    """Delete cached answers, all or some. Jobs keep their results; later requests are sent again."""
    from headway.cli.shared import printing, workspace
    from headway.wiring.store_access import open_store

    before = None if older_than is None else time.time() - _seconds(older_than)
    settings = workspace.settings(config, db)
    workspace.open_read_only(settings).close()
    with open_store(settings) as store:
        models = store.cache.entries_by_model(before, model)
        if models and not yes:
            _confirm(models)
        cleared = store.cache.clear(before, model) if models else 0
    text = f"removed {_answers(cleared)}" if cleared else "no cached answers match"
    if as_json:
        printing.print_json({"cleared": cleared})
    else:
        echo(text)


@command.command(
    "why",
    short_help="Say why a node of a flow ran again, or did not.",
    epilog="Example: headway cache why review-3fa2c1 summary",
)
@click.argument("job")
@click.argument("node", metavar="NODE")
@json_option
@where_options
def why(job: str, node: str, config: Path | None, db: str | None, as_json: bool) -> None:
    """Say what changed since NODE of the flow JOB had its last answer in an earlier job: its prompt, its tool, its args, its model, what it
    reads, its item. NODE can also be one unit of it, such as review[3].
    """
    from headway.cli.shared import printing, workspace
    from headway.display.flows.key_text import key_lines
    from headway.errors import UsageError
    from headway.flows.running.intake.flow_source import FLOW
    from headway.flows.running.reuse.key_report import key_report

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=as_json)
        if chosen.kind != FLOW:
            raise UsageError(f"job {chosen.name} is no flow", hint="'headway cache stats' shows the cache")
        report = key_report(store, chosen, node)
    if as_json:
        printing.print_json(report)
        return
    for line in key_lines(report):
        echo(line)


def _seconds(text: str) -> float:
    from headway.config import parse_duration
    from headway.errors import UsageError

    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from None


def _confirm(models: list[CachedModel]) -> None:
    """Ask for confirmation. Without a terminal, -y is required."""
    from headway.cli.shared.printing import agreed
    from headway.errors import UsageError

    what = f"remove {_answers(sum(entry.entries for entry in models))}"
    if not sys.stdin.isatty():
        raise UsageError(f"this would {what}", hint="confirm with -y")
    if not agreed(f"{what}?"):
        raise click.Abort


def _answers(n: int) -> str:
    from headway.display.formatting import count

    return count(n, "answer")


def _size(n: int) -> str:
    size: Any = n
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} GB"
