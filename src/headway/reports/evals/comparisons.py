"""Columns compared in pairs, on the tests that both have a verdict for: which is better, and is that noise?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import lcm
from typing import Final, NamedTuple

import msgspec

from headway.reports.evals.intervals import Interval, mean_share_rate, pair_correlation, paired_difference
from headway.reports.evals.significance import (
    LEVEL,
    Significance,
    SignificanceTest,
    holm,
    paired_significance,
)
from headway.reports.evals.tally import ColumnTally, ScoresByTest

#: With more columns only the best one is compared with each of the others: all pairs would be more than anyone reads.
MOST_COLUMNS: Final = 12


class PairComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two columns on the same tests. Each test counts the same, however often it was repeated.

    `corrected_p` is the p-value after Holm's correction for all pairs of the eval. `winner` is the better column, None if the
    difference may be noise.
    """

    first: int
    second: int
    tests: int
    #: Tests that pass more often in the first column, in the second, and equally often.
    first_better: int
    second_better: int
    equal: int
    first_rate: float
    second_rate: float
    difference: float
    interval: Interval
    score_difference: float
    p_value: float
    corrected_p: float
    method: SignificanceTest
    winner: int | None


class PairedTests(NamedTuple):
    """The tests of a pair: shares of passes, the cells behind them, differences as whole numbers, and the sum of score differences."""

    first: list[float]
    second: list[float]
    first_cells: int
    second_cells: int
    differences: list[int]
    scores: float


def compared(columns: Sequence[ColumnTally]) -> tuple[PairComparison, ...]:
    """All pairs, in the order of the columns. Pairs without a common test are left out."""
    number = len(columns)
    pairs = [(one, other) for one, other in _pairs(columns) if common_tests(one, other)]
    found = [(one, other, paired_tests(one, other)) for one, other in pairs]
    tests = [paired_significance(shares.differences) for *_, shares in found]
    corrected = holm([test.p_value for test in tests], number * (number - 1) // 2)
    return tuple(
        pair_comparison((one.column.prompt_index, other.column.prompt_index), shares, test, p)
        for (one, other, shares), test, p in zip(found, tests, corrected, strict=True)
    )


def _pairs(columns: Sequence[ColumnTally]) -> list[tuple[ColumnTally, ColumnTally]]:
    if len(columns) <= MOST_COLUMNS:
        return list(combinations(columns, 2))
    best = max(columns, key=lambda one: one.counts.passed / max(1, one.counts.judged))
    return [(best, other) for other in columns if other is not best]


def common_tests(one: ColumnTally, other: ColumnTally) -> bool:
    """Whether there is a test with a verdict in both columns."""
    return any(m and n for m, n in zip(one.tests.trials, other.tests.trials, strict=False))


def paired_tests(one: ColumnTally, other: ColumnTally) -> PairedTests:
    """The tests that two columns have in common; at least one."""
    return paired_scores(one.tests, other.tests)


def paired_scores(one: ScoresByTest, other: ScoresByTest) -> PairedTests:
    """The same of the scores of two columns, whose places are the same tests."""
    places = [place for place in range(min(len(one.trials), len(other.trials))) if one.trials[place] and other.trials[place]]  # fmt: skip
    scale = lcm(*{one.trials[place] for place in places}, *{other.trials[place] for place in places})
    first: list[float] = []
    second: list[float] = []
    differences: list[int] = []
    cells = other_cells = 0
    scores = 0.0
    for place in places:
        passed, count = one.passes[place], one.trials[place]
        other_passed, other_count = other.passes[place], other.trials[place]
        first.append(passed / count)
        second.append(other_passed / other_count)
        differences.append(passed * (scale // count) - other_passed * (scale // other_count))
        cells += count
        other_cells += other_count
        scores += one.scores[place] / count - other.scores[place] / other_count
    return PairedTests(first, second, cells, other_cells, differences, scores)


def pair_comparison(
    names: tuple[int, int], tests: PairedTests, test: Significance, corrected_p: float
) -> PairComparison:
    """The comparison of two columns with these numbers."""
    one = mean_share_rate(tests.first, tests.first_cells)
    other = mean_share_rate(tests.second, tests.second_cells)
    more = sum(1 for each in tests.differences if each > 0)
    fewer = sum(1 for each in tests.differences if each < 0)
    difference = one.rate - other.rate
    better = names[0] if difference > 0 else names[1]
    return PairComparison(
        first=names[0],
        second=names[1],
        tests=len(tests.first),
        first_better=more,
        second_better=fewer,
        equal=len(tests.first) - more - fewer,
        first_rate=one.rate,
        second_rate=other.rate,
        difference=difference,
        interval=paired_difference(one, other, pair_correlation(tests.first, tests.second)),
        score_difference=tests.scores / len(tests.first),
        p_value=test.p_value,
        corrected_p=corrected_p,
        method=test.method,
        winner=better if corrected_p < LEVEL else None,
    )
