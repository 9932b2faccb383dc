"""The page of a job of any kind: totals, lanes, failures, and its first units with their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Final

import msgspec

from headway.display.html.page_shell import (
    DataBlock,
    HtmlPage,
    bounded_text,
    page_number,
    shortened,
    write_page,
)
from headway.reports.jobs import JobReport
from headway.reports.unit_rows import ReportedUnit

#: The most units of a page, and the most characters of an answer and of an error. `headway export` writes all of them.
MOST_UNITS: Final = 20_000
MOST_ANSWER: Final = 4_000
MOST_ERROR: Final = 1_000
#: Units that the browser parses at once.
BLOCK_UNITS: Final = 64

_JOB_STYLES: Final = ("base.css", "job.css", "run.css")
_JOB_SCRIPTS: Final = ("base.js", "rows.js", "job.js")


class ReportedJob(msgspec.Struct, frozen=True):
    """A job for its page: its figures, its kind, and the name of its input without the folder, which is of no use to a colleague."""

    report: JobReport
    kind: str
    source: str


def write_job_page(file: BinaryIO, job: ReportedJob, units: Iterable[ReportedUnit], run: str = "") -> None:
    """Write the page of a job, unit by unit. `run`: the section about how it ran."""
    report = job.report
    page = HtmlPage(f"Job {report.job}", report.job, _JOB_STYLES, _JOB_SCRIPTS, run)
    write_page(file, page, _job_blocks(job, units))


def _job_blocks(job: ReportedJob, units: Iterable[ReportedUnit]) -> Iterator[DataBlock]:
    statuses: list[str] = []
    rows: list[list[Any]] = []
    for unit in units:
        statuses.append(unit.status)
        rows.append(_unit_row(unit))
        if len(rows) == BLOCK_UNITS:
            yield DataBlock(f"rows-{len(statuses) // BLOCK_UNITS - 1}", rows)
            rows = []
    if rows:
        yield DataBlock(f"rows-{len(statuses) // BLOCK_UNITS}", rows)
    yield DataBlock("job", _job_value(job, statuses))


def _unit_row(unit: ReportedUnit) -> list[Any]:
    """A unit, without trailing empty values. `job.js` reads it in this order."""
    return shortened(
        [
            unit.id,
            unit.status,
            unit.attempts,
            unit.lane,
            None if unit.took_s is None else page_number(1000.0 * unit.took_s, 0),
            page_number(unit.cost_usd, 9),
            [unit.input_tokens, unit.output_tokens],
            bounded_text(unit.error, MOST_ERROR),
            bounded_text(unit.answer, MOST_ANSWER),
        ]
    )


def _job_value(job: ReportedJob, statuses: list[str]) -> dict[str, Any]:
    report = job.report
    return {
        "job": report.job,
        "kind": job.kind,
        "state": report.state,
        "input": bounded_text(job.source, MOST_ERROR),
        "models": list(report.models),
        "started": report.started_utc,
        "finished": report.finished_utc,
        "total": report.total,
        "good": report.good,
        "bad": report.failed + report.timed_out,
        "attempts": report.attempts,
        "refused": report.refused,
        "tokens": [report.input_tokens, report.output_tokens],
        "cost": page_number(report.cost_usd, 9),
        "lanes": [
            [name, use.attempts, use.refused, use.input_tokens + use.output_tokens, page_number(use.cost_usd, 9)]
            for name, use in report.lanes.items()
        ],
        "failures": [[one.code, one.units, bounded_text(one.message, MOST_ERROR)] for one in report.failures],
        "statuses": statuses,
        "blockRows": BLOCK_UNITS,
        "mostAnswer": MOST_ANSWER,
    }  # fmt: skip
