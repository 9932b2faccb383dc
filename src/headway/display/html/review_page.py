"""The page of a review: its findings with their code, its files, and filters over both.

Findings are in blocks of `BLOCK_FINDINGS`, which the browser parses when they come into view, and an index with four numbers for each, which filters read.
Names of fields are left out, because there are as many of them as findings: a finding is a list, read by `review.js` in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from headway.display.html.page_shell import (
    DataBlock,
    HtmlPage,
    bounded_text,
    page_number,
    shortened,
    write_page,
)
from headway.display.reviews.change_summary import change_lines, change_title
from headway.reviews.records import SEVERITIES, FileReview, Finding, ReviewView

#: Findings that the browser parses at once.
BLOCK_FINDINGS: Final = 64
#: Characters of a quote, of a message or a suggestion, and of all other texts.
MOST_QUOTE: Final = 8_000
MOST_MESSAGE: Final = 4_000
MOST_NAME: Final = 1_000
#: Files that were left out, or are part of the change, and are listed. The report as .json has all of them.
MOST_LEFT_OUT: Final = 2_000

_REVIEW_STYLES: Final = ("base.css", "review.css", "run.css")
_REVIEW_SCRIPTS: Final = ("base.js", "rows.js", "review_parts.js", "review_files.js", "review.js")
_MARKS: Final = ("", "no_such_line", "no_such_quote", "refuted", "ignored")


def write_review_page(file: BinaryIO, view: ReviewView, run: str = "") -> None:
    """Write the page of a review. Reads its files once, and keeps none of their texts."""
    page = HtmlPage(f"Review {view.job}", view.job, _REVIEW_STYLES, _REVIEW_SCRIPTS, run)
    write_page(file, page, _review_blocks(view))


class _FindingIndex:
    """What filters and the list of files read: of every finding its severity, axis, mark and file; of every file a row."""

    def __init__(self, axes: tuple[str, ...]) -> None:
        self.axes = {name: place for place, name in enumerate(axes)}
        self.findings: list[list[int]] = []
        self.files: list[list[Any]] = []

    def add_file(self, review: FileReview) -> None:
        numbers = [0] * len(SEVERITIES)
        for finding in review.findings:
            severity = SEVERITIES.index(finding.severity)
            numbers[severity] += not finding.mark
            axis = self.axes.setdefault(finding.axis, len(self.axes))
            self.findings.append([severity, axis, _MARKS.index(finding.mark), len(self.files)])
        self.files.append(_file_row(review, numbers))


def _review_blocks(view: ReviewView) -> Iterator[DataBlock]:
    index = _FindingIndex(view.axes)
    rows: list[list[Any]] = []
    number = 0
    for review in view.files():
        index.add_file(review)
        for finding in review.findings:
            rows.append(_finding_row(finding))
            if len(rows) == BLOCK_FINDINGS:
                yield DataBlock(f"rows-{number}", rows)
                number, rows = number + 1, []
    if rows:
        yield DataBlock(f"rows-{number}", rows)
    yield DataBlock("findings", index.findings)
    yield DataBlock("files", index.files)
    yield DataBlock("review", _review_value(view, list(index.axes)))


def _finding_row(finding: Finding) -> list[Any]:
    """A finding, without trailing empty values."""
    return shortened(
        [
            bounded_text(finding.file, MOST_NAME),
            finding.rule,
            finding.start_line,
            finding.end_line,
            page_number(finding.confidence, 2),
            bounded_text(finding.message, MOST_MESSAGE),
            bounded_text(finding.quote, MOST_QUOTE),
            finding.fingerprint,
            bounded_text(finding.suggestion, MOST_MESSAGE),
            list(finding.axes) if len(finding.axes) > 1 else [],
            bounded_text(finding.mark_reason, MOST_MESSAGE),
        ]
    )


def _file_row(review: FileReview, numbers: list[int]) -> list[Any]:
    """A file: its path, its status, its findings by severity, why it was not reviewed, the axes that are open, and its cost; -1: not known."""
    open_axes = [name for name, status in review.axes.items() if status not in ("DONE", "CACHED")]
    return shortened(
        [
            bounded_text(review.path, MOST_NAME),
            review.status,
            numbers,
            bounded_text(review.error, MOST_NAME),
            open_axes,
            -1 if review.cost_usd is None else page_number(review.cost_usd, 9),
        ]
    )


def _review_value(view: ReviewView, axes: list[str]) -> dict[str, Any]:
    totals = view.totals
    left_out = list(view.left_out.items())
    return {
        "job": view.job,
        "state": view.state,
        "created": view.created_utc,
        "finished": view.finished_utc,
        "model": bounded_text(view.model, MOST_NAME),
        "axes": axes,
        "severities": list(SEVERITIES),
        "marks": list(_MARKS),
        "totals": [totals.files, totals.reviewed, totals.cached, totals.failed, totals.skipped],
        "cost": page_number(totals.cost_usd, 9),
        "tokens": totals.tokens,
        "leftOut": [
            [bounded_text(path, MOST_NAME), bounded_text(why, MOST_NAME)]
            for path, why in left_out[:MOST_LEFT_OUT]
        ],
        "leftOutCount": len(left_out),
        "change": [bounded_text(line, MOST_NAME) for line in change_lines(view)[:MOST_LEFT_OUT]],
        "changeTitle": bounded_text(change_title(view), MOST_NAME),
        "blockRows": BLOCK_FINDINGS,
        "mostQuote": MOST_QUOTE,
    }
