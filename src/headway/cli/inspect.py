"""`headway jobs`, `status`, `show`, `export`, `lanes`: show what is on record, change nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from headway.cli.limits import ask_jobs, limit_options, limits_by_name
from headway.cli.options import json_option, must_be_sheet, output_name, safe_cells_option, where_options
from headway.display.terminal import echo, echo_json, echo_text

if TYPE_CHECKING:
    from headway.reports.lanes import LaneReport
    from headway.reports.units import UnitReport


@click.command("jobs", short_help="List the jobs.", epilog="Example: headway jobs --json")
@json_option
@where_options
def jobs(config: Path | None, db: str | None, as_json: bool) -> None:
    """List every job in the database, the newest first."""
    from headway.cli import python_jobs, session
    from headway.reports.jobs import job_report

    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        listed = [(job, session.state_of(settings, job)) for job in store.jobs()]
        if as_json:
            session.print_json([job_report(store, job, state) for job, state in listed])
            return
    if not listed:
        echo("there are no jobs yet — 'headway run FILE' starts one")
        return
    rows = [
        (job.name, state, f"{job.good:,}/{job.total:,}", f"{job.ended - job.good:,}", session.when(job.started_utc), python_jobs.made_by(job) if python_jobs.is_python_job(job) else _input(job.input))
        for job, state in listed
    ]  # fmt: skip
    _table(("job", "state", "succeeded", "failed", "started", "input"), rows)


@click.command(
    "status", short_help="How a job stands, lane by lane.", epilog="Example: headway status --json"
)
@click.argument("job", required=False)
@json_option
@where_options
def status(job: str | None, config: Path | None, db: str | None, as_json: bool) -> None:
    """Show how JOB (the latest where none is named) stands: totals, lanes, failures by kind, and what it waits for."""
    from headway.cli import python_jobs, session
    from headway.cli.resume_hint import next_step
    from headway.display.status_text import origin_lines, status_lines, stop_texts
    from headway.reports.lookup import find_job
    from headway.reports.progress import VERSION
    from headway.reports.status import status_report
    from headway.wiring.places import jobs_folder

    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        chosen = find_job(store, job)
        report = status_report(store, chosen, jobs_folder(settings))
        if as_json:
            progress = (
                None if report.progress is None else session.flat({"version": VERSION}, report.progress)
            )
            session.print_json(
                session.flat(
                    report.job,
                    {"live": report.live, "stopped": stop_texts(report), "per_lane": report.per_lane},
                    {"progress": progress, "unknown": report.unknown},
                )
            )
            return
        state, of_python, step = report.job.state, python_jobs.is_python_job(chosen), ""
        if state not in ("running", "paused", "complete"):
            step = (
                python_jobs.next_step(chosen, state)
                if of_python
                else next_step(settings, store, chosen, state)
            )
    origin = python_jobs.origin_lines(chosen) if of_python else origin_lines(report.job)
    for line in status_lines(report, origin, step):
        echo(line)


@click.command(
    "show", short_help="Everything about one unit.", epilog="Example: headway show requests-3fa2c1 row-17"
)
@click.argument("job")
@click.argument("unit")
@json_option
@where_options
def show(job: str, unit: str, config: Path | None, db: str | None, as_json: bool) -> None:
    """Show what UNIT (an id of the input, or an index) of JOB sent, what came back, and every attempt at it."""
    from headway.cli import python_jobs, session
    from headway.display.unit_text import unit_lines
    from headway.reports.lookup import find_job, find_unit
    from headway.reports.units import unit_report

    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        chosen = find_job(store, job)
        report = unit_report(store, chosen, find_unit(store, chosen, unit))
    result = msgspec.json.decode(report.result)
    of_python = python_jobs.is_python_job(chosen)
    if as_json:
        more = python_jobs.unit_fields(chosen, report.custom_id, result) if of_python else {}
        session.print_json(session.flat(report, more))
        return
    where = (
        f"lane {report.provider}" if of_python else f"{report.provider}/{report.model} {report.request.path}"
    )
    for line in unit_lines(report, result["headway"]["status"], where):
        echo(line)
    if of_python:
        body = bytes(report.request.body)
        python_jobs.show_unit(chosen, body, result, attempts_shown=bool(report.notes))
        return
    _show_exchange(report, result)


def _show_exchange(report: UnitReport, result: dict[str, Any]) -> None:
    """What was sent, and what came back."""
    from headway.batch.answer import answer_of

    if (source := report.answer_of) is not None:
        whose = "a job that is gone" if source.job is None else f"job {source.job}"
        echo(f"  answered without a call: it has the answer of {source.custom_id or source.index} in {whose}")
    echo("request:")
    echo_json(bytes(report.request.body), indent=True)
    for repair in report.repairs:
        echo(f"answer of attempt {repair.attempt}, which did not fit:")
        echo_text(answer_of(bytes(repair.answer)))
    answer = result["response"]["body"] if result["response"] else result["error"]
    echo("answer:" if result["response"] else "error:")
    echo_json(answer, indent=True)


@click.command(
    "export", short_help="Write a job's results from the store.", epilog="Example: headway export > out.jsonl"
)
@click.argument("job", required=False)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    callback=output_name,
    metavar="FILE",
    help="Instead of standard output: .jsonl, or a table as .csv, .tsv or .parquet.",
)
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
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
    """Write one row for each unit of JOB (the latest where none is named) as it stands, in input order: JSON lines,
    whether --json is given or not, or a table where --out names one (.csv, .tsv, .parquet).
    """
    from headway.batch.output import lines, must_be_writable_table
    from headway.batch.recipe import is_table
    from headway.batch.sheet import write_sheet
    from headway.cli import session
    from headway.errors import UsageError
    from headway.reports.lookup import find_job
    from headway.safe_text import escaped
    from headway.stores.files import Replacement
    from headway.stores.output_lock import OutputLock, real_path

    if safe_cells:
        must_be_sheet(out)
    settings = session.settings(config, db)
    with session.existing_store(settings) as store:
        chosen = find_job(store, job)
        if out is None:
            on_terminal = sys.stdout.isatty()
            for line in lines(store, chosen):
                sys.stdout.buffer.write(escaped(line.decode()).encode() if on_terminal else line)
            sys.stdout.buffer.flush()
            return
        if is_table(out):
            must_be_writable_table(out)
        target = real_path(out)
        with OutputLock(target, chosen.name, make=False):
            if out.exists() and not force:
                raise UsageError(f"{out} exists", hint="replace it with --force")
            try:
                with Replacement(target) as fresh:
                    if is_table(out):
                        write_sheet(fresh.file, target.name, store, chosen, safe=safe_cells)
                    else:
                        fresh.file.writelines(lines(store, chosen))
                    fresh.commit()
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise UsageError(f"--out {out} cannot be written: {why}", hint="name another file") from None
    session.say(f"wrote {out}")


@click.command(
    "lanes", short_help="What is known of every lane.", epilog="Example: headway lanes --rpm alpha/gpt-x=600"
)
@limit_options("Let the jobs that run now keep LANE to N {} from here on. 0: any number.".format, "LANE=N")
@click.option(
    "--reopen",
    multiple=True,
    metavar="LANE",
    help="Let them try LANE again now, whatever it waits for; where no job runs, clear the hold on record.",
)
@json_option
@where_options
def lanes(config: Path | None, db: str | None, as_json: bool, reopen: tuple[str, ...], **flags: Any) -> None:
    """Show every lane that was ever used: limits told, configured or found, how much was left, window, holds, and
    which limit binds. Rates are a minute's.

    With a limit or --reopen, tell the jobs that run now instead; LANE is a lane as it is shown here, or a provider.
    Limits for later runs are in headway.toml.
    """
    import time

    from headway.cli import session
    from headway.display.lane_text import lane_lines
    from headway.reports.lanes import lane_reports

    settings = session.settings(config, db)
    limits = limits_by_name(flags)
    if limits or reopen:
        session.existing_store(settings).close()
        requests = ask_jobs(settings, limits, reopen)
        if as_json:
            session.print_json(msgspec.to_builtins(requests))
        else:
            for request in requests:
                echo(request)
        return
    with session.existing_store(settings) as store:
        reports = lane_reports(store)
    if as_json:
        session.print_json([_lane_json(report) for report in reports])
        return
    if not reports:
        echo("no lane has been used yet")
    for report in reports:
        for line in lane_lines(report, time.time()):
            echo(line)


def _lane_json(report: LaneReport) -> dict[str, Any]:
    """A lane, with words for what it waits for."""
    from headway.cli import session
    from headway.reason_text import wait_text

    fields = session.flat(report)
    if report.seen is not None:
        wait = report.seen.wait
        words = None if wait is None else {"reason": wait_text(wait), "until": wait.until}
        fields["seen"] = session.flat(report.seen, {"wait": words})
    return fields


def _input(path: str) -> str:
    return "standard input" if path == "-" else Path(path).name


def _table(names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (names, *rows)) for column in range(len(names))]
    for row in (names, *rows):
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
