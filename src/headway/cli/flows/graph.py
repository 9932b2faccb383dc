"""`headway graph`: draws a flow, and what became of its nodes in its last run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from headway.cli.shared.click_options import json_option, where_options

if TYPE_CHECKING:
    from headway.config import Config
    from headway.flows.spec import FlowSpec
    from headway.reports.flows.flow_report import FlowReport
    from headway.stores.records import Job
    from headway.stores.store import Store


class _Drawn(NamedTuple):
    flow: FlowSpec
    report: FlowReport | None


@click.command(
    "graph",
    short_help="Draw a flow, and what became of it.",
    epilog="Example: headway graph review.yaml --format html > review.html",
)
@click.argument("file", metavar="[FLOW]", type=click.Path(path_type=Path), required=False)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "html"]),
    default="text",
    show_default=True,
    help="How to draw it. HTML is one page that needs no other files.",
)
@click.option("--job", metavar="JOB", help="Show the outcome of this job. Default: the last job of FLOW.")
@click.option("--no-run", is_flag=True, help="Draw only the file, even if it was run.")
@json_option
@where_options
def command(
    file: Path | None,
    form: str,
    job: str | None,
    no_run: bool,
    as_json: bool,
    config: Path | None,
    db: str | None,
) -> None:
    """Draw a flow: its steps in an order in which they may run, and what each one waits for. If it was run, each node has its
    outcome, its items, its time and its cost, and the critical path is marked: the chain of steps that took as long as the run.
    Nothing is run.
    """
    from headway.cli.shared.printing import flat, print_json
    from headway.display.flows.graph_html import flow_html
    from headway.display.flows.graph_mermaid import flow_mermaid
    from headway.display.flows.graph_text import flow_text
    from headway.display.terminal import echo_text
    from headway.errors import UsageError
    from headway.flows.graph_json import graph_json

    if job is not None and no_run:
        raise UsageError("--job and --no-run do not go together", hint="leave one of them out")
    if file is None and job is None:
        raise UsageError(
            "name a flow file, or a job with --job",
            hint="a flow of a Python program has no file: 'headway jobs' lists its jobs",
        )
    drawn = _of_job(job or "", config, db) if file is None else _of_file(file, job, config, db, no_run=no_run)
    if as_json:
        run = {} if drawn.report is None else {"run": flat(drawn.report)}
        print_json({**graph_json(drawn.flow), **run})
        return
    draw = {"text": flow_text, "mermaid": flow_mermaid, "html": flow_html}[form]
    echo_text(draw(drawn.flow, drawn.report).rstrip("\n"))


def _of_file(file: Path, job: str | None, config: Path | None, db: str | None, *, no_run: bool) -> _Drawn:
    """The flow of a file, with the outcome of a job: its last one, if none is named."""
    from headway.cli.shared.printing import say
    from headway.errors import HeadwayError
    from headway.flows.flow_file import check_flow, or_raise

    flow = or_raise(check_flow(file.absolute()), str(file))
    if no_run:
        return _Drawn(flow, None)
    try:
        ran = _last_run(file, config, db) if job is None else _of_job(job, config, db)
    except HeadwayError as error:
        if job is not None:
            raise
        say(f"drawn without its last run: {error.message}")
        return _Drawn(flow, None)
    if ran is None or ran.report is None:
        return _Drawn(flow, None)
    if ran.flow != flow:
        say(f"{file} is not what job {ran.report.job} ran: nodes have the outcome of those with their name")
    return _Drawn(flow, ran.report)


def _last_run(file: Path, config: Path | None, db: str | None) -> _Drawn | None:
    from headway.cli.shared import workspace
    from headway.reports.flows.flow_report import last_job_of
    from headway.wiring.store_access import open_store_or_empty

    settings = workspace.settings(config, db)
    with open_store_or_empty(settings) as store:
        job = last_job_of(store, str(file.absolute()))
        return None if job is None else _report_of(settings, store, job)


def _of_job(name: str, config: Path | None, db: str | None) -> _Drawn:
    """The flow of a job as it was run."""
    from headway.cli.shared import workspace
    from headway.errors import UsageError

    settings = workspace.settings(config, db)
    with workspace.open_read_only(settings) as store:
        job = workspace.choose_job(store, name, quiet=True)
        if job.kind != "flow":
            raise UsageError(f"job {job.name} is no flow", hint=f"'headway status {job.name}' shows it")
        return _report_of(settings, store, job)


def _report_of(settings: Config, store: Store, job: Job) -> _Drawn:
    from headway.cli.shared import workspace
    from headway.flows.running.flow_form import form_of
    from headway.reports.flows.flow_report import flow_report

    return _Drawn(form_of(job).spec, flow_report(store, job, workspace.state_of(settings, job)))
