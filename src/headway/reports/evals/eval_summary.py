"""An eval in short: its figures, and the first cells that did not pass."""

from __future__ import annotations

import msgspec

from headway.evals.records import AssertionResult, CellResult, CellStatus, Column, EvalView
from headway.reports.evals.eval_statistics import EvalStatistics, statistics_of
from headway.reports.evals.tally import EvalTally

#: Of an answer, so many characters are kept.
MOST_CHARACTERS = 2_000


class CellFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that did not pass. `reason` is that of its first failed assertion, or its error."""

    row: int
    column: Column
    status: CellStatus
    description: str
    vars: dict[str, object]
    reason: str
    output: object


class EvalSummary(msgspec.Struct, frozen=True):
    """`more` counts further cells that did not pass."""

    statistics: EvalStatistics
    failures: tuple[CellFailure, ...]
    more: int


def eval_summary(view: EvalView, most: int = 10) -> EvalSummary:
    """Reads all cells once, and keeps at most so many that did not pass."""
    tally = EvalTally(view)
    failures: list[CellFailure] = []
    bad = 0
    for cell in view.cells():
        tally.add(cell)
        if cell.status in ("pass", "pending"):
            continue
        bad += 1
        if len(failures) < most:
            failures.append(_failure(cell, tally.columns[cell.prompt_index].column))
    return EvalSummary(statistics_of(view, tally), tuple(failures), bad - len(failures))


def _failure(cell: CellResult, column: Column) -> CellFailure:
    output = cell.output
    return CellFailure(
        row=cell.test_index,
        column=column,
        status=cell.status,
        description=cell.description,
        vars=cell.vars,
        reason=reason_of(cell),
        output=output[:MOST_CHARACTERS] if isinstance(output, str) else output,
    )


def reason_of(cell: CellResult) -> str:
    """Why a cell did not pass: its error, or the reason of its first failed assertion."""
    failed = first_failed(cell.assertions)
    return cell.error or (failed.error or failed.reason if failed else "") or cell.reason


def first_failed(assertions: tuple[AssertionResult, ...]) -> AssertionResult | None:
    """The first assertion that failed or could not be judged; of a set, its first part that did."""
    for result in assertions:
        if result.error or not result.passed:
            return first_failed(result.parts) or result
    return None
