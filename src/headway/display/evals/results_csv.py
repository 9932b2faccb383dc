"""results.csv: a record for each row of the matrix, with the columns that promptfoo's file has.

The variables come first, then for each provider and prompt the answer, its status, its score and the reason. The file is read twice from the
store, because the names of the variables are the first line. Cells are written unchanged, unless they are escaped for spreadsheets.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, BinaryIO, Final

import msgspec

from headway.batch.tables.cell_text import without_formula
from headway.display.evals.figures_text import column_name
from headway.display.evals.results_json import encoded
from headway.evals.records import CellResult, Column, EvalView
from headway.reports.evals.eval_summary import reason_of
from headway.safe_text import escape_lone_surrogates

_STATUS: Final = {"pass": "PASS", "fail": "FAIL", "error": "ERROR", "timeout": "ERROR", "pending": ""}
#: Beside the answer. promptfoo's `Comment` is what people write in its viewer.
_BESIDE: Final = ("Status", "Score", "Named Scores", "Grader Reason", "Comment")


class CsvLayout(msgspec.Struct, frozen=True):
    """The variables of all rows, and whether any row has a description."""

    variables: list[str]
    described: bool


def write_csv(file: BinaryIO, view: EvalView, *, safe: bool = False) -> None:
    """Write all rows to an open file. `safe`: no cell is a formula to a spreadsheet."""
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        # Line ends of RFC 4180. With both characters, csv quotes cells that contain either of them.
        out = csv.writer(text, lineterminator="\r\n")
        for record in _records(view, _layout(view)):
            cells = map(escape_lone_surrogates, record)
            out.writerow(map(without_formula, cells) if safe else cells)
    finally:
        text.detach()  # Flushes it, and leaves the file open.


def _layout(view: EvalView) -> CsvLayout:
    names: dict[str, None] = {}
    described = False
    for cell in view.cells():
        described = described or bool(cell.description)
        if not names.keys() >= cell.vars.keys():
            names.update(dict.fromkeys(cell.vars))
    return CsvLayout(list(names), described)


def _records(view: EvalView, layout: CsvLayout) -> Iterator[list[str]]:
    head = ["Description"] if layout.described else []
    head += layout.variables
    for column in view.columns:
        head += [column_name(column), *_BESIDE]
    yield head
    for _, cells in groupby(view.cells(), key=attrgetter("test_index")):
        yield _record(list(cells), layout, view.columns)


def _record(cells: Sequence[CellResult], layout: CsvLayout, columns: Sequence[Column]) -> list[str]:
    first = cells[0]
    record = [first.description] if layout.described else []
    values = {name: value for cell in reversed(cells) for name, value in cell.vars.items()}
    record += [_text(values.get(name)) for name in layout.variables]
    by_column = {cell.prompt_index: cell for cell in cells}
    for column in columns:
        cell = by_column.get(column.prompt_index)
        record += [""] * (1 + len(_BESIDE)) if cell is None else _answer(cell)
    return record


def _answer(cell: CellResult) -> list[str]:
    if cell.status == "pending":
        return [""] * (1 + len(_BESIDE))
    named = {name: round(score, 2) for name, score in cell.named_scores.items()}
    reason = cell.reason if cell.status == "pass" else reason_of(cell)
    return [
        _text(cell.output),
        _STATUS[cell.status],
        f"{cell.score:.2f}",
        _text(named) if named else "",
        reason,
        "",
    ]


def _text(value: Any) -> str:
    """Texts unchanged, nothing as an empty text, everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else encoded(value).decode()
