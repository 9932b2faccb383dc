"""Two evals on the same tests: which cells got better, worse or changed, and whether the rates differ by more than noise.

The first eval is read into an index of digests (some hundred bytes a cell), the second is compared with it while it is read. Answers are kept for the
cells that are shown; those of the first eval are read in a second pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from headway.evals.records import CellResult, CellStatus, Column, EvalView
from headway.reports.evals.comparisons import PairComparison, pair_comparison, paired_scores
from headway.reports.evals.eval_statistics import EvalStatistics, statistics_of
from headway.reports.evals.eval_summary import reason_of
from headway.reports.evals.matching import answer_digest, cells_with_tests, matched_columns
from headway.reports.evals.significance import holm, paired_significance
from headway.reports.evals.tally import EvalTally, ScoresByTest

#: `changed`: another answer with the same verdict. `unjudged`: a side has no verdict (an error, or not finished).
ChangeKind = Literal["better", "worse", "changed", "same", "unjudged", "new", "gone"]
#: What is listed, in this order.
LISTED: Final[tuple[ChangeKind, ...]] = ("worse", "better", "changed")


class ShownCell(msgspec.Struct, frozen=True):
    """A cell on one side of a difference."""

    row: int
    status: CellStatus
    score: float
    reason: str
    output: Any


class CellDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that is not the same in both evals."""

    kind: ChangeKind
    description: str
    vars: dict[str, Any]
    repetition: int
    first_column: Column
    second_column: Column
    first: ShownCell
    second: ShownCell


class ColumnDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A column in both evals. In `comparison`, 1 is the first eval and 2 the second; None without a common test that has verdicts."""

    first: Column
    second: Column
    changes: dict[ChangeKind, int]
    comparison: PairComparison | None


class EvalDifferences(msgspec.Struct, frozen=True, kw_only=True):
    """Two evals. `cells` has the first ones of each kind that is listed."""

    first: EvalStatistics
    second: EvalStatistics
    changes: dict[ChangeKind, int]
    columns: tuple[ColumnDifference, ...]
    only_first: tuple[Column, ...]
    only_second: tuple[Column, ...]
    cells: tuple[CellDifference, ...]


class CellKey(NamedTuple):
    """A cell in both evals: the digest of its test, its repetition, and its column in the first eval."""

    test: bytes
    repetition: int
    column: int


class IndexedCell(NamedTuple):
    """What is kept of a cell of the first eval."""

    status: CellStatus
    answer: bytes


class NumberedTests:
    """Numbers of tests, and the scores of a column by them."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.scores: dict[tuple[int, int], ScoresByTest] = {}

    def add(self, side: int, key: CellKey, cell: CellResult) -> None:
        number = self.numbers.setdefault(key.test, len(self.numbers))
        if cell.status in ("pass", "fail"):
            scores = self.scores.setdefault((side, key.column), ScoresByTest())
            scores.add(number, cell.status == "pass", cell.score)

    def of(self, side: int, column: int) -> ScoresByTest:
        scores = self.scores.get((side, column)) or ScoresByTest()
        scores.reach(len(self.numbers))
        return scores


class Comparer:
    """Compares the cells of the second eval with those of the first."""

    def __init__(self, first: EvalView, second: EvalView, limit: int) -> None:
        self.views = first, second
        self.limit = limit
        self.pairs, self.only_first, self.only_second = matched_columns(first.columns, second.columns)
        self.tests = NumberedTests()
        self.changes: dict[int, Counter[ChangeKind]] = {one.prompt_index: Counter() for one, _ in self.pairs}
        self._index: dict[CellKey, IndexedCell] = {}
        self._shown: dict[CellKey, tuple[ChangeKind, CellResult]] = {}
        self._kept: Counter[ChangeKind] = Counter()

    def read_first(self) -> EvalStatistics:
        view = self.views[0]
        tally = EvalTally(view)
        for cell, test in cells_with_tests(view):
            tally.add(cell)
            if cell.prompt_index in self.changes:
                key = CellKey(test, cell.repetition, cell.prompt_index)
                self._index[key] = IndexedCell(cell.status, answer_digest(cell.output))
                self.tests.add(0, key, cell)
        return statistics_of(view, tally)

    def read_second(self) -> EvalStatistics:
        view = self.views[1]
        tally = EvalTally(view)
        columns = {other.prompt_index: one.prompt_index for one, other in self.pairs}
        for cell, test in cells_with_tests(view):
            tally.add(cell)
            if cell.prompt_index in columns:
                key = CellKey(test, cell.repetition, columns[cell.prompt_index])
                self.tests.add(1, key, cell)
                self._compare(key, cell)
        for key in self._index:
            self.changes[key.column]["gone"] += 1
        return statistics_of(view, tally)

    def _compare(self, key: CellKey, cell: CellResult) -> None:
        kind = _kind(self._index.pop(key, None), cell)
        self.changes[key.column][kind] += 1
        if kind in LISTED and (not self.limit or self._kept[kind] < self.limit):
            self._kept[kind] += 1
            self._shown[key] = kind, cell

    def differences(self) -> tuple[CellDifference, ...]:
        """The cells that are shown, with both answers."""
        columns = {one.prompt_index: (one, other) for one, other in self.pairs}
        found: list[CellDifference] = []
        for cell, test in cells_with_tests(self.views[0]) if self._shown else ():
            key = CellKey(test, cell.repetition, cell.prompt_index)
            if key in self._shown:
                kind, other = self._shown[key]
                found.append(_difference(kind, columns[key.column], cell, other))
        return tuple(sorted(found, key=lambda one: LISTED.index(one.kind)))


def eval_differences(first: EvalView, second: EvalView, limit: int = 10) -> EvalDifferences:
    """Compare all cells. `limit`: at most so many cells of each kind are kept; 0: all of them."""
    comparer = Comparer(first, second, limit)
    one, other = comparer.read_first(), comparer.read_second()
    total: Counter[ChangeKind] = Counter()
    for changes in comparer.changes.values():
        total.update(changes)
    comparisons = _comparisons(comparer)
    return EvalDifferences(
        first=one,
        second=other,
        changes=dict(total),
        columns=tuple(
            ColumnDifference(
                first=column,
                second=match,
                changes=dict(comparer.changes[column.prompt_index]),
                comparison=comparisons.get(column.prompt_index),
            )
            for column, match in comparer.pairs
        ),
        only_first=tuple(comparer.only_first),
        only_second=tuple(comparer.only_second),
        cells=comparer.differences(),
    )


def _comparisons(comparer: Comparer) -> Mapping[int, PairComparison]:
    """By the column in the first eval. The p-values are corrected for the number of columns."""
    paired = {}
    for one, _ in comparer.pairs:
        tests = paired_scores(comparer.tests.of(0, one.prompt_index), comparer.tests.of(1, one.prompt_index))
        if tests.first:
            paired[one.prompt_index] = tests
    found = [paired_significance(tests.differences) for tests in paired.values()]
    corrected = holm([one.p_value for one in found])
    return {
        column: pair_comparison((1, 2), tests, significance, p)
        for (column, tests), significance, p in zip(paired.items(), found, corrected, strict=True)
    }


def _kind(before: IndexedCell | None, cell: CellResult) -> ChangeKind:
    if before is None:
        return "new"
    verdicts = before.status, cell.status
    if not {*verdicts} <= {"pass", "fail"}:
        return "unjudged"
    if verdicts[0] != verdicts[1]:
        return "better" if cell.status == "pass" else "worse"
    return "same" if before.answer == answer_digest(cell.output) else "changed"


def _difference(
    kind: ChangeKind, columns: tuple[Column, Column], cell: CellResult, other: CellResult
) -> CellDifference:
    return CellDifference(
        kind=kind,
        description=cell.description,
        vars=cell.vars,
        repetition=cell.repetition,
        first_column=columns[0],
        second_column=columns[1],
        first=_shown(cell),
        second=_shown(other),
    )


def _shown(cell: CellResult) -> ShownCell:
    return ShownCell(cell.test_index, cell.status, cell.score, reason_of(cell) or cell.reason, cell.output)
