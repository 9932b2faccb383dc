"""Two columns on the same tests: which is better, and is that noise?"""

from __future__ import annotations

import pytest
from tests.evals.reports.eval_views import cell, matrix, view

from headway.reports.evals.comparisons import MOST_COLUMNS
from headway.reports.evals.eval_statistics import eval_statistics
from headway.reports.evals.significance import binomial_p


def test_a_clear_winner() -> None:
    """12 tests that only the first passes, 2 that only the second passes, 6 that both pass."""
    [pair] = eval_statistics(matrix("p" * 12 + "ff" + "p" * 6, "f" * 12 + "pp" + "p" * 6)).comparisons
    assert (pair.first_better, pair.second_better, pair.equal, pair.tests) == (12, 2, 6, 20)
    assert pair.p_value == pytest.approx(binomial_p(2, 14))
    assert pair.method == "mcnemar"
    assert pair.difference == pytest.approx(0.5)
    assert pair.interval.low > 0, "the interval agrees with the test"
    assert pair.winner == 0


def test_noise_has_no_winner() -> None:
    [pair] = eval_statistics(matrix("pppfp" * 4, "ppppf" * 4)).comparisons
    assert (pair.difference, pair.winner, pair.p_value) == (0.0, None, 1.0)
    assert pair.interval.low < 0 < pair.interval.high


def test_five_tests_prove_nothing() -> None:
    [pair] = eval_statistics(matrix("ppppp", "fffff")).comparisons
    assert pair.p_value == pytest.approx(2 / 32)
    assert pair.winner is None


def test_only_tests_with_both_verdicts_are_compared() -> None:
    [pair] = eval_statistics(matrix("ppe.p f", "pfppt f")).comparisons
    assert (pair.tests, pair.first_better, pair.second_better) == (3, 1, 0)
    assert pair.first_rate == pytest.approx(2 / 3)
    assert eval_statistics(matrix("pe", "ep")).comparisons == (), "no test in common"


def test_many_pairs_are_corrected() -> None:
    """Of six pairs, each p-value of the three that differ alike is corrected by the largest factor."""
    figures = eval_statistics(matrix("p" * 9 + "f", "f" * 10, "p" * 9 + "f", "p" * 9 + "f"))
    by_columns = {(pair.first, pair.second): pair for pair in figures.comparisons}
    assert len(by_columns) == 6
    best = by_columns[0, 1]
    assert best.p_value == pytest.approx(2 / 512)
    assert best.corrected_p == pytest.approx(6 * 2 / 512)
    assert best.winner == 0
    assert by_columns[0, 2].winner is None


def test_repetitions_of_a_test_are_not_independent_tests() -> None:
    """Four tests, ten repetitions each: the first column always passes, the second never. That is four tests, and may be noise."""
    cells = [
        cell(row, index, "fail" if index else "pass", test=row // 10, repetition=row % 10)
        for row in range(40)
        for index in (0, 1)
    ]
    [pair] = eval_statistics(view(cells)).comparisons
    assert (pair.tests, pair.first_better) == (4, 4)
    assert pair.p_value == pytest.approx(2 / 16)
    assert pair.winner is None


def test_partial_wins_are_weighed() -> None:
    """Passes of three repetitions: 3 to 0, 2 to 1, 1 to 2, 3 to 1, 2 to 0, 3 to 2: differences 3, 1, −1, 2, 2, 1."""
    cells = []
    for test, (one, other) in enumerate([(3, 0), (2, 1), (1, 2), (3, 1), (2, 0), (3, 2)]):
        for repetition in range(3):
            row = 3 * test + repetition
            for index, passes in enumerate((one, other)):
                passed = repetition < passes
                cells.append(cell(row, index, "pass" if passed else "fail", test=test, repetition=repetition))
    [pair] = eval_statistics(view(cells)).comparisons
    assert pair.method == "randomization"
    assert (pair.first_better, pair.second_better) == (5, 1)
    # Sums of ±3 ±1 ±1 ±2 ±2 ±1 that reach 8 or more: those where at most one 1 is negative, of 64 choices, and both signs.
    assert pair.p_value == pytest.approx(2 * 4 / 64)
    assert pair.difference == pytest.approx(8 / 18)


def test_of_many_columns_only_the_best_is_compared() -> None:
    number = MOST_COLUMNS + 3
    figures = eval_statistics(matrix(*("p" * (10 + index) + "f" * (30 - index) for index in range(number))))
    pairs = figures.comparisons
    assert len(pairs) == number - 1
    assert {pair.first for pair in pairs} == {number - 1}
    most = max(pairs, key=lambda pair: pair.difference)
    assert most.corrected_p == pytest.approx(most.p_value * number * (number - 1) / 2), (
        "corrected for all pairs"
    )
