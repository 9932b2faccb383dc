"""The report as JSON: one object with the files, the findings and what was left out.

A finding is one line, and so is a file: two reports can be compared line by line. Both are written while the files are read. The folder's own path is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, BinaryIO, Final

import msgspec

from headway import __version__
from headway.display.evals.results_json import encoded
from headway.display.formatting import iso
from headway.reviews.findings.counts import finding_counts
from headway.reviews.records import FileReview, ReviewView

VERSION: Final = 1


def write_review_json(file: BinaryIO, view: ReviewView) -> None:
    """Write the report to an open file."""
    file.write(encoded({"version": VERSION, "headway": __version__, **_head(view)})[:-1])
    file.write(b',\n"files":{')
    _write_lines(file, (encoded(each.path) + b":" + encoded(_file(each)) for each in view.files()))
    file.write(b'},\n"findings":[')
    _write_lines(
        file, (encoded(msgspec.to_builtins(finding)) for each in view.files() for finding in each.findings)
    )
    file.write(b'],\n"left_out":' + encoded(dict(view.left_out)) + b"}\n")


def _write_lines(file: BinaryIO, lines: Iterable[bytes]) -> None:
    separator = b"\n"
    for line in lines:
        file.write(separator + line)
        separator = b",\n"


def _head(view: ReviewView) -> dict[str, Any]:
    counts = finding_counts(view.files())
    return {
        "job": view.job,
        "state": view.state,
        "created": iso(view.created_utc),
        "finished": None if view.finished_utc is None else iso(view.finished_utc),
        "model": view.model,
        "axes": list(view.axes),
        "settings": view.settings,
        "totals": msgspec.to_builtins(view.totals),
        "severities": counts.severities,
        "marked": counts.marks,
    }


def _file(review: FileReview) -> dict[str, Any]:
    return {
        "status": review.status,
        "hash": review.hash,
        "updated_utc": review.updated_utc,
        "error": review.error,
        "axes": review.axes,
        "findings": len(review.findings),
        "cost_usd": review.cost_usd,
        "tokens": review.tokens,
    }
