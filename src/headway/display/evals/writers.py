"""The files of an eval's results, by the end of their names. A file is replaced as a whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from headway.display.evals.junit_xml import write_junit
from headway.display.evals.pull_request import write_markdown
from headway.display.evals.results_csv import write_csv
from headway.display.evals.results_json import write_json
from headway.display.html.eval_page import write_eval_page
from headway.errors import HeadwayError, UsageError
from headway.evals.records import EvalView
from headway.reports.evals.eval_statistics import eval_statistics
from headway.stores.files import Replacement


class WriteOptions(msgspec.Struct, frozen=True):
    """`safe_cells`: no cell of a .csv is a formula to a spreadsheet."""

    safe_cells: bool = False


#: Writes an eval to an open file.
ResultWriter = Callable[[BinaryIO, EvalView, WriteOptions], None]

WRITERS: Final[dict[str, ResultWriter]] = {
    ".json": lambda file, view, options: write_json(file, view),
    ".csv": lambda file, view, options: write_csv(file, view, safe=options.safe_cells),
    ".xml": lambda file, view, options: write_junit(file, view),
    ".html": lambda file, view, options: write_eval_page(file, view, eval_statistics(view)),
    ".md": lambda file, view, options: write_markdown(file, view),
}


def must_be_writable(path: Path) -> None:
    """Raise unless results can be written to this file. For before anything is sent."""
    _writer_of(path)
    if path.is_dir():
        raise UsageError(f"--out {path} is a folder", hint="name a file in it")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--out {path}: there is no folder {folder}", hint="make it, or name another file")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--out {path}: the folder {folder} cannot be written to", hint="name another file")


def write(path: Path, view: EvalView, *, safe_cells: bool = False) -> None:
    """Write an eval's results, in the form that the name of the file asks for."""
    writer = _writer_of(path)
    try:
        with Replacement(path) as fresh:
            writer(fresh.file, view, WriteOptions(safe_cells))
            fresh.commit()
    except OSError as error:
        raise HeadwayError(
            f"--out {path} cannot be written: {(error.strerror or str(error)).lower()}",
            hint=f"the results are safe in the store: headway export {view.job}",
        ) from None


def _writer_of(path: Path) -> ResultWriter:
    suffix = path.suffix.lower()
    if suffix not in WRITERS:
        raise UsageError(
            f"--out {path}: an eval cannot be written as {suffix or 'a file without a suffix'}",
            hint=f"end the name with one of {', '.join(WRITERS)}",
        )
    return WRITERS[suffix]
