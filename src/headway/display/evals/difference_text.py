"""The text of `headway diff` of two evals: what changed, column by column, and the first cells that did, word by word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headway.display.diff_text import Part, word_diff
from headway.display.evals.figures_text import (
    column_name,
    cost_text,
    counts_text,
    p_text,
    percent,
    points,
    points_interval,
    row_title,
)
from headway.display.evals.results_json import encoded
from headway.display.formatting import count, short
from headway.evals.records import Column
from headway.reports.evals.comparisons import PairComparison
from headway.reports.evals.differences import (
    LISTED,
    CellDifference,
    ChangeKind,
    ColumnDifference,
    EvalDifferences,
)
from headway.reports.evals.intervals import Interval

_WORDS: Final[Mapping[ChangeKind, str]] = {
    "better": "better",
    "worse": "worse",
    "changed": "with another answer and the same verdict",
    "same": "the same",
    "unjudged": "without a verdict on one side or both",
    "new": "only in the second",
    "gone": "only in the first",
}
_NAME: Final = 60
_VALUE: Final = 30


def difference_lines(report: EvalDifferences) -> Iterator[str]:
    """Both evals, the counts, and a line for each column."""
    for title, one in (("first ", report.first), ("second", report.second)):
        cost = f"; {cost_text(one.cost_usd)}" if one.cost_usd is not None else ""
        yield f"{title}  {one.job}: {counts_text(one.counts)}{cost}"
    yield changes_text(report.changes)
    for column in report.columns:
        yield _column_line(column)
    for only, which in ((report.only_first, "first"), (report.only_second, "second")):
        for one_sided in only:
            yield f"{_name(one_sided)}: only in the {which}"


def changes_text(changes: Mapping[ChangeKind, int]) -> str:
    """ "3 better, 1 worse, 40 the same"."""
    parts = [f"{changes[kind]:,} {words}" for kind, words in _WORDS.items() if changes.get(kind)]
    return ", ".join(parts) or "no cell is in both"


def _column_line(column: ColumnDifference) -> str:
    name = _name(column.first)
    if _name(column.second) != name:
        name = f"{name} → {_name(column.second)}"
    if column.comparison is None:
        return f"{name}: no test has a verdict in both"
    return f"{name}: {_verdict(column.comparison)}"


def _verdict(pair: PairComparison) -> str:
    """ "80 % → 90 %, +10 points (+1.2 to +18) on 100 tests, p = 0.021: better"."""
    interval = Interval(-pair.interval.high, -pair.interval.low)
    word = {None: "this may be noise", 1: "worse", 2: "better"}[pair.winner]
    figures = f"{points(-pair.difference)} points ({points_interval(interval)}) on {count(pair.tests, 'test')}, {p_text(pair.corrected_p)}"
    return f"{percent(pair.first_rate)} → {percent(pair.second_rate)}, {figures}: {word}"


def cell_title(cell: CellDifference) -> str:
    """ "worse: row 3 (greeting), [provider] prompt: 1 → 0"."""
    about = cell.description or ", ".join(
        f"{name}={short(_text(value), _VALUE)}" for name, value in cell.vars.items()
    )
    again = f", repetition {cell.repetition + 1}" if cell.repetition else ""
    row = row_title(cell.second.row, short(about, _NAME))
    scores = f"{cell.first.score:.2f} → {cell.second.score:.2f}"
    reason = (
        cell.second.reason if cell.kind == "worse" else cell.first.reason if cell.kind == "better" else ""
    )
    why = f": {short(reason)}" if reason else ""
    return f"{cell.kind}: {row}{again}, {_name(cell.second_column)}, score {scores}{why}"


def cell_parts(cell: CellDifference) -> Iterator[Part]:
    """Both answers of a cell, word by word."""
    return word_diff(_text(cell.first.output), _text(cell.second.output))


def left_out(report: EvalDifferences) -> int:
    """How many cells that got better, worse or changed are not shown."""
    return sum(report.changes.get(kind, 0) for kind in LISTED) - len(report.cells)


def _name(column: Column) -> str:
    return short(column_name(column), _NAME)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else encoded(value).decode()
