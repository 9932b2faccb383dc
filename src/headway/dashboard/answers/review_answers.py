"""A review: its files with their findings by severity, and one file with its findings beside its code."""

from __future__ import annotations

from typing import Any, Final

from headway.dashboard.answers.query import BadRequest, Page, cursor_number
from headway.dashboard.records.job_reading import JobReading
from headway.display.html.page_shell import bounded_text
from headway.errors import UsageError
from headway.reviews.findings.source_text import lines_of
from headway.reviews.records import SEVERITIES, FileReview, Finding
from headway.reviews.running.file_results import FileResults
from headway.reviews.running.review_form import form_of, kept_text
from headway.stores.records import Job
from headway.stores.store import Store

#: Lines of code in one answer, and characters of a line and of another text.
_MOST_LINES: Final = 5_000
_LINE: Final = 2_000
_TEXT: Final = 8_000


def review_answer(store: Store, reading: JobReading, page: Page) -> dict[str, Any]:
    """A page of the files, in the order of their paths. The cursor is the number of the next file."""
    results = _results(store, reading.job)
    first = 0 if page.after is None else cursor_number(page.after)
    numbers = range(first, min(first + page.limit, len(results.files)))
    return {
        "axes": form_of(reading.job).axes,
        "severities": SEVERITIES,
        "total_files": len(results.files),
        "files": [_file(review) for review in results.of(numbers)],
        "next": str(numbers.stop) if numbers.stop < len(results.files) else None,
    }


def review_file_answer(store: Store, reading: JobReading, path: str, first_line: int) -> dict[str, Any]:
    """One file as it was reviewed. It is read from the records: the path only names it."""
    job = reading.job
    results = _results(store, job)
    number = next((place for place, file in enumerate(results.files) if file.path == path), None)
    if number is None:
        raise BadRequest("'path' is not a file of this review")
    [review] = results.of([number])
    lines = lines_of(kept_text(store, job.id, number))
    shown = lines[first_line - 1 : first_line - 1 + _MOST_LINES]
    return {
        **_file(review),
        "findings": [_finding(one) for one in review.findings],
        "code": [bounded_text(line, _LINE) for line in shown],
        "first_line": first_line,
        "lines": len(lines),
    }


def _results(store: Store, job: Job) -> FileResults:
    if job.kind != "review":
        raise UsageError(f"job {job.name} is no review", hint=f"'headway status {job.name}' shows it")
    return FileResults(store, job)


def _file(review: FileReview) -> dict[str, Any]:
    counts = dict.fromkeys(SEVERITIES, 0)
    for one in review.findings:
        counts[one.severity] += not one.mark
    return {
        "path": review.path,
        "status": review.status,
        "axes": review.axes,
        "findings": counts,
        "error": review.error,
        "cost_usd": review.cost_usd,
        "tokens": review.tokens,
        "updated_utc": review.updated_utc,
    }


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "axis": one.axis,
        "axes": one.axes,
        "rule": one.rule,
        "severity": one.severity,
        "confidence": one.confidence,
        "start_line": one.start_line,
        "end_line": one.end_line,
        "quote": bounded_text(one.quote, _TEXT),
        "message": bounded_text(one.message, _TEXT),
        "suggestion": bounded_text(one.suggestion, _TEXT),
        "fingerprint": one.fingerprint,
        "mark": one.mark,
        "mark_reason": bounded_text(one.mark_reason, _TEXT),
    }
