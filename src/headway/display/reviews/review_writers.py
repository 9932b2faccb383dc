"""The files of a review's results, by the end of their names. A file is replaced as a whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from headway.display.html.review_page import write_review_page
from headway.display.reviews.review_json import write_review_json
from headway.display.reviews.review_markdown import write_review_markdown
from headway.display.reviews.sarif_files import write_sarif
from headway.errors import HeadwayError, UsageError
from headway.reviews.records import ReviewView
from headway.stores.files import Replacement

#: Writes a review to a path, and returns the paths of its files: SARIF may take several.
ReportWriter = Callable[[Path, ReviewView], list[Path]]


def _one_file(write: Callable[[BinaryIO, ReviewView], None]) -> ReportWriter:
    def written(path: Path, view: ReviewView) -> list[Path]:
        with Replacement(path) as fresh:
            write(fresh.file, view)
            fresh.commit()
        return [path]

    return written


REVIEW_WRITERS: Final[dict[str, ReportWriter]] = {
    ".md": _one_file(write_review_markdown),
    ".json": _one_file(write_review_json),
    ".sarif": write_sarif,
    ".html": _one_file(write_review_page),
}


def must_be_report(path: Path) -> None:
    """Raise unless a report can be written to this file. For before anything is sent."""
    _writer_for(path)
    if path.is_dir():
        raise UsageError(f"--out {path} is a folder", hint="name a file in it")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--out {path}: there is no folder {folder}", hint="make it, or name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--out {path}: the folder {folder} cannot be written to", hint="name another file")


def write_report(path: Path, view: ReviewView) -> list[Path]:
    """Write a review in the form that the name of the file asks for. Returns the files that were written."""
    writer = _writer_for(path)
    try:
        return writer(path, view)
    except OSError as error:
        raise HeadwayError(
            f"--out {path} cannot be written: {(error.strerror or str(error)).lower()}",
            hint=f"the results are safe in the store: headway report {view.job} --out FILE",
        ) from None


def _writer_for(path: Path) -> ReportWriter:
    suffix = path.suffix.lower()
    if suffix not in REVIEW_WRITERS:
        raise UsageError(
            f"--out {path}: a review cannot be written as {suffix or 'a file without a suffix'}",
            hint=f"end the name with one of {', '.join(REVIEW_WRITERS)}",
        )
    return REVIEW_WRITERS[suffix]
