"""`headway jobs`, `status`, `show`, `export`: show the records and change nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from headway.cli.shared.click_options import json_option, output_name, safe_cells_option, where_options
from headway.display.terminal import echo, echo_json, echo_text


@click.command("jobs", short_help="List the jobs.", epilog="Example: headway jobs --json")
@json_option
@where_options
def jobs(config: Path | None, db: str | None, as_json: bool) -> None:
    """List all jobs in the database, newest first."""
    from headway.cli.shared import printing, workspace
    from headway.jobs.kinds import kind_of
    from headway.reports.jobs import job_report

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        listed = [(job, workspace.state_of(settings, job)) for job in store.jobs()]
        if as_json:
            printing.print_json([job_report(store, job, state) for job, state in listed])
            return
    if not listed:
        echo("there are no jobs yet — 'headway run FILE' starts one")
        return
    rows = [
        (job.name, state, f"{job.good:,}/{job.total:,}", f"{job.ended - job.good:,}", printing.time_text(job.started_utc), kind_of(job).input_name(job))
        for job, state in listed
    ]  # fmt: skip
    _table(("job", "state", "succeeded", "failed", "started", "input"), rows)


@click.command(
    "status", short_help="Show the state of a job, lane by lane.", epilog="Example: headway status --json"
)
@click.argument("job", required=False)
@json_option
@where_options
def status(job: str | None, config: Path | None, db: str | None, as_json: bool) -> None:
    """Show the state of JOB (default: the latest): totals, lanes, failures by kind, and what it waits for."""
    from headway.cli.shared import printing, workspace
    from headway.cli.shared.resume_hint import next_step
    from headway.display.status_text import status_lines, stop_texts, use_line
    from headway.jobs.kinds import kind_of
    from headway.reports.jobs import find_job
    from headway.reports.run_progress import VERSION
    from headway.reports.status import status_report
    from headway.wiring.store_access import jobs_folder

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = find_job(store, job)
        report = status_report(store, chosen, jobs_folder(settings))
        if as_json:
            progress = (
                None if report.progress is None else printing.flat({"version": VERSION}, report.progress)
            )
            printing.print_json(
                printing.flat(
                    report.job,
                    {"live": report.live, "stopped": stop_texts(report), "per_lane": report.per_lane},
                    {"progress": progress, "unknown": report.unknown},
                )
            )
            return
        state = report.job.state
        is_open = state not in ("running", "paused", "complete")
        step = next_step(settings, store, chosen, state) if is_open else ""
    kind = kind_of(chosen)
    origin = [kind.origin(chosen), use_line(report.job, sends_requests=kind.sends_requests)]
    for line in status_lines(report, origin, step):
        echo(line)


@click.command(
    "show",
    short_help="Show everything about one unit.",
    epilog="Example: headway show requests-3fa2c1 row-17",
)
@click.argument("job")
@click.argument("unit")
@json_option
@where_options
def show(job: str, unit: str, config: Path | None, db: str | None, as_json: bool) -> None:
    """Show the request, the answer and every attempt of UNIT (an id of the input, or an index) of JOB."""
    from headway.cli.shared import printing, workspace
    from headway.display.unit_text import unit_lines
    from headway.jobs.kinds import kind_of
    from headway.reports.jobs import find_job
    from headway.reports.units import find_unit, unit_report

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = find_job(store, job)
        report = unit_report(store, chosen, find_unit(store, chosen, unit))
    text = kind_of(chosen).describe(chosen, report)
    if as_json:
        printing.print_json(printing.flat(report, dict(text.fields)))
        return
    status = msgspec.json.decode(report.result)["headway"]["status"]
    for line in (*unit_lines(report, status, text.where), *(f"  {remark}" for remark in text.remarks)):
        echo(line)
    for section in text.sections:
        echo(f"{section.title}:")
        if isinstance(section.body, bytes):
            echo_json(section.body, indent=True)
        else:
            echo_text(section.body)


@click.command(
    "export", short_help="Write a job's results from the store.", epilog="Example: headway export > out.jsonl"
)
@click.argument("job", required=False)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    callback=output_name,
    metavar="FILE",
    help="Write to FILE instead of standard output: .jsonl, or a table (.csv, .tsv, .parquet).",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@safe_cells_option
@json_option
@where_options
def export(
    job: str | None,
    out: Path | None,
    force: bool,
    safe_cells: bool,
    config: Path | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Write the results of JOB (default: the latest) that are recorded so far, one row per unit in input order: as JSON
    lines, with or without --json, or as a table if --out names one (.csv, .tsv, .parquet).
    """
    from headway.batch.file_types import must_be_spreadsheet
    from headway.cli.shared import printing, workspace
    from headway.errors import UsageError
    from headway.jobs.kinds import kind_of
    from headway.reports.jobs import find_job
    from headway.safe_text import escaped
    from headway.stores.files import Replacement
    from headway.stores.output_lock import OutputLock, real_path

    if safe_cells:
        must_be_spreadsheet(out)
    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = find_job(store, job)
        kind = kind_of(chosen)
        if out is None:
            on_terminal = sys.stdout.isatty()
            for line in kind.rows(store, chosen, 0, chosen.total - 1):
                sys.stdout.buffer.write(escaped(line.decode()).encode() if on_terminal else line)
            sys.stdout.buffer.flush()
            return
        kind.check_export(out)
        target = real_path(out)
        with OutputLock(target, chosen.name, make=False):
            if out.exists() and not force:
                raise UsageError(f"{out} already exists", hint="replace it with --force")
            try:
                with Replacement(target) as fresh:
                    kind.export(fresh.file, target.name, store, chosen, safe_cells=safe_cells)
                    fresh.commit()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise UsageError(f"--out {out} cannot be written: {why}", hint="name another file") from None
    printing.say(f"wrote {out}")


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (names, *rows)) for column in range(len(names))]
    for row in (names, *rows):
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
