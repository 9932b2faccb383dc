"""`headway report`: a job as one HTML file that can be sent to a colleague."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import click

from headway.cli.shared.click_options import json_option, where_options

if TYPE_CHECKING:
    from headway.config import Config
    from headway.reports.run_analysis.run_analysis import RunAnalysis
    from headway.stores.records import Job
    from headway.stores.store import Store

#: The kinds of job that have a page of their own.
_EVAL: Final = "eval"
_REVIEW: Final = "review"


@click.command(
    "report",
    short_help="Write a job as one HTML file.",
    epilog="Example: headway report reviews-3fa2c1 -o reviews.html",
)
@click.argument("job", required=False)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE (.html). Default: JOB.html in the working directory.",
)
@click.option("--force", is_flag=True, help="Replace FILE even if it is no report of this job.")
@json_option
@where_options
def command(
    job: str | None, out: Path | None, force: bool, as_json: bool, config: Path | None, db: str | None
) -> None:
    """Write a report of JOB (default: the latest) as one HTML file: its totals, lanes and failures, and its units with their status, attempts,
    cost and answer, with filters and a search. The report of an eval has its matrix, pass rates and answers side by side; that of a review its files with their findings. The file needs no other file and loads nothing, so it can be sent to a colleague. It has the
    answers of the job in it: send it to those who may read them.

    Each report says how the job ran: the rate of each lane against its limit over time, what its lanes waited for, what would have
    made it faster (the scheduler runs the job's own requests again in virtual time: with twice the limit, with one more key, with more
    in flight), and what each lane cost.

    A job that still runs is reported as it is now. --json prints the name of the job, the path of the file, and how the job ran.
    """
    from headway.cli.shared import workspace
    from headway.display.html.run.run_section import run_section
    from headway.display.terminal import echo, echo_json
    from headway.reports.run_analysis.cost_rows import cost_rows
    from headway.reports.run_analysis.run_analysis import run_analysis

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        chosen = workspace.choose_job(store, job, quiet=as_json)
        path = Path(f"{chosen.name}.html") if out is None else out
        _check_target(path, chosen.name, force=force)
        analysis, costs = run_analysis(store, chosen), cost_rows(store, chosen)
        _write(settings, store, chosen, path, run_section(analysis, costs))
    if as_json:
        echo_json({"job": chosen.name, "path": str(path), **_run_json(analysis), "costs": costs})
    else:
        echo(str(path))


def _run_json(analysis: RunAnalysis) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(analysis)


def _check_target(path: Path, job: str, *, force: bool) -> None:
    """Raise unless the file is new, or a report of the same job that this one replaces."""
    from headway.display.html.page_shell import START_BYTES, is_page_of
    from headway.errors import UsageError

    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--out {path}: a report is an .html file", hint="name a file that ends in .html")
    if not path.parent.is_dir():
        raise UsageError(f"--out {path}: there is no directory {path.parent}", hint="create it first")
    if path.is_dir():
        raise UsageError(f"--out {path} is a directory", hint="name a file")
    if force or not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(START_BYTES)
    if not is_page_of(start, job):
        raise UsageError(f"{path} exists and is no report of {job}", hint="replace it with --force")


def _write(settings: Config, store: Store, job: Job, path: Path, run: str) -> None:
    from headway.batch.output_file import unwritable
    from headway.stores.files import Replacement

    write_page_of = {_EVAL: _write_eval, _REVIEW: _write_review}.get(job.kind, _write_job)
    try:
        with Replacement(path) as fresh:
            write_page_of(fresh.file, settings, store, job, run)
            fresh.commit()
    except OSError as error:
        raise unwritable(path, error) from error


def _write_eval(file: BinaryIO, _settings: Config, store: Store, job: Job, run: str) -> None:
    from headway.display.html.eval_page import write_eval_page
    from headway.evals.running.view import eval_view
    from headway.reports.evals.eval_statistics import eval_statistics

    view = eval_view(store, job)
    write_eval_page(file, view, eval_statistics(view), run)


def _write_review(file: BinaryIO, _settings: Config, store: Store, job: Job, run: str) -> None:
    from headway.display.html.review_page import write_review_page
    from headway.reviews.running.view import review_view

    write_review_page(file, review_view(store, job), run)


def _write_job(file: BinaryIO, settings: Config, store: Store, job: Job, run: str) -> None:
    from headway.cli.shared import workspace
    from headway.display.html.job_page import MOST_UNITS, ReportedJob, write_job_page
    from headway.jobs.kinds import kind_of
    from headway.reports.jobs import job_report
    from headway.reports.unit_rows import reported_units

    report = job_report(store, job, workspace.state_of(settings, job))
    shown = ReportedJob(report, job.kind, kind_of(job).input_name(job))
    write_job_page(file, shown, reported_units(store, job, MOST_UNITS), run)
