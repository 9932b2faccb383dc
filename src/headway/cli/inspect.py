"""`headway jobs` and `status`: show the records and change nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import Final

import click

from headway.cli.shared.click_options import json_option, where_options
from headway.display.terminal import echo

#: The most characters of models and prompts in the list of jobs.
MODEL_WIDTH: Final = 30
PROMPT_WIDTH: Final = 40


@click.command("jobs", short_help="List the jobs.", epilog="Example: headway jobs --json")
@click.option("--all", "everything", is_flag=True, help="List the questions of 'headway ask', too.")
@json_option
@where_options
def jobs(everything: bool, config: Path | None, db: str | None, as_json: bool) -> None:
    """List the jobs in the database, newest first. Questions of 'headway ask' are counted in one line; --all and --json list
    them, too.
    """
    from headway.cli.shared import printing, workspace
    from headway.display.formatting import count, short
    from headway.jobs.kinds import kind_of
    from headway.questions.job_kinds import ASK
    from headway.reports.jobs import job_report, models_text, prompt_of

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        listed = [(job, workspace.state_of(settings, job)) for job in store.jobs()]
        if as_json:
            printing.print_json([job_report(store, job, state) for job, state in listed])
            return
    if not listed:
        echo("there are no jobs yet — 'headway run FILE' starts one")
        return
    questions = 0 if everything else sum(job.kind == ASK for job, _ in listed)
    if questions:
        listed = [(job, state) for job, state in listed if job.kind != ASK]
    rows = [
        (
            job.name, state, f"{job.good:,}/{job.total:,}", f"{job.counts['failed'] + job.counts['timed_out']:,}",
            printing.time_text(job.started_utc), kind_of(job).input_name(job),
            short(", ".join(models_text(job)), MODEL_WIDTH), short(prompt_of(job) or "", PROMPT_WIDTH),
        )
        for job, state in listed
    ]  # fmt: skip
    if rows:
        _table(("job", "state", "succeeded", "failed", "started", "input", "model", "prompt"), rows)
    if questions:
        echo(f"{'and ' if rows else ''}{count(questions, 'question')} of 'headway ask' (--all lists them)")


@click.command(
    "status", short_help="Show the state of a job, lane by lane.", epilog="Example: headway status --watch"
)
@click.argument("job", required=False)
@click.option("--watch", is_flag=True, help="Show the state again every second until the job ends.")
@json_option
@where_options
def status(job: str | None, watch: bool, config: Path | None, db: str | None, as_json: bool) -> int:
    """Show the state of JOB (default: the latest): totals, lanes, failures by kind, and what it waits for.

    With --watch, the view is updated in place until the job ends; Ctrl-C ends the view, not the job. In a pipe, and with
    --json, each state that differs from the one before is printed.
    """
    from headway.cli import status_view
    from headway.cli.shared import printing, workspace

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=as_json)
        if watch:
            return status_view.watch(settings, store, chosen, as_json=as_json)
        report = status_view.report_of(settings, store, chosen)
        if as_json:
            printing.print_json(status_view.as_data(store, chosen, report))
            return 0
        lines = status_view.lines_of(settings, store, chosen, report)
    for line in lines:
        echo(line)
    return 0


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table with aligned columns. A terminal gets each record on one line, cut at its edge."""
    widths = [max(len(row[column]) for row in (names, *rows)) for column in range(len(names))]
    room = get_terminal_size().columns if sys.stdout.isatty() else None
    for row in (names, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        echo(line if room is None or len(line) <= room else f"{line[: room - 1]}…")
