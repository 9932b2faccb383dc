"""The state of a job as `headway status` shows it: once, or again and again until the job ends (`--watch`)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from headway.cli import INTERRUPTED
from headway.cli.shared import printing
from headway.cli.shared.resume_hint import next_step
from headway.config import Config
from headway.display.diff_text import model_line
from headway.display.status_text import status_lines, stop_texts, use_line
from headway.display.terminal import echo, echo_json, in_place
from headway.jobs.kinds import kind_of
from headway.reports.models import compared_models
from headway.reports.run_progress import VERSION
from headway.reports.status import StatusReport, status_report
from headway.stores.records import Job
from headway.stores.store import Store
from headway.wiring.store_access import job_places

#: Seconds between two looks of `--watch`. A running job writes its progress about once a second.
WATCH_S: Final = 1.0


def report_of(config: Config, store: Store, job: Job) -> StatusReport:
    """The present state of a job."""
    return status_report(store, job, job_places(config))


def as_data(store: Store, job: Job, report: StatusReport) -> dict[str, Any]:
    """The state as one JSON object."""
    models = compared_models(store, job)
    progress = None if report.progress is None else printing.flat({"version": VERSION}, report.progress)
    return printing.flat(
        report.job,
        {"live": report.live, "stopped": stop_texts(report), "per_lane": report.per_lane},
        {"progress": progress, "unknown": report.unknown, "error": report.error or None},
        {"nodes": report.nodes, "node_counts": report.node_counts} if report.nodes else {},
        {"per_model": {name: model.fields() for name, model in models.items()}} if models else {},
    )


def lines_of(config: Config, store: Store, job: Job, report: StatusReport) -> list[str]:
    """The state as text."""
    state = report.job.state
    is_open = state not in ("running", "paused", "complete")
    step = next_step(config, store, job, state) if is_open else ""
    kind = kind_of(job)
    models = compared_models(store, job)
    origin = [
        kind.origin(job),
        use_line(report.job, sends_requests=kind.sends_requests),
        *(model_line(name, figures) for name, figures in models.items()),
    ]
    return status_lines(report, origin, step, compares=bool(models))


def watch(config: Config, store: Store, job: Job, *, as_json: bool) -> int:
    """Show the state until no process runs the job. Returns the exit code."""
    shown: object = None
    draw = _printer()
    try:
        while True:
            job = store.job(job.name) or job
            report = report_of(config, store, job)
            lines = [] if as_json else lines_of(config, store, job, report)
            state: object = as_data(store, job, report) if as_json else lines
            if state != shown:
                shown = state
                if as_json:
                    echo_json(state)
                    sys.stdout.flush()
                else:
                    draw(lines)
            if not report.live:
                return 0
            store.wait_for_change(job.id, WATCH_S)
    except KeyboardInterrupt:
        return INTERRUPTED


def _printer() -> Callable[[list[str]], None]:
    """Prints a state over the one before on a terminal, and below it elsewhere."""
    if sys.stdout.isatty():
        return in_place()

    def below(lines: list[str]) -> None:
        for line in lines:
            echo(line)
        sys.stdout.flush()

    return below
