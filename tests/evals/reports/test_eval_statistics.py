"""The figures of an eval: counts, rates, costs, percentiles, repetitions, metrics."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import pytest
from tests.evals.reports.eval_views import T, cell, column, matrix, view

from headway.evals.records import AssertionResult, CellResult, EvalView, TokenUse
from headway.reports.evals.eval_statistics import eval_statistics
from headway.reports.evals.intervals import wilson
from headway.reports.evals.percentiles import percentile, percentiles
from headway.reports.evals.tally import RepeatedOutcome, tally_of


def test_an_error_is_neither_a_pass_nor_a_fail() -> None:
    figures = eval_statistics(matrix("ppffet..", "pppppppp"))
    first = figures.columns[0]
    assert first.pass_rate is not None
    assert first.pass_rate.rate == 0.5
    assert first.pass_rate.interval == wilson(0.5, 4)
    assert first.mean_score == 0.5
    counts = first.counts
    assert (counts.passed, counts.failed, counts.errors, counts.timeouts, counts.pending) == (2, 2, 1, 1, 2)
    assert figures.passed_share == 10 / 16, "for --fail-under an error has not passed"


def test_a_column_without_verdicts_has_no_rate() -> None:
    [only] = eval_statistics(matrix("ee.")).columns
    assert (only.pass_rate, only.mean_score, only.latency_ms, only.cost_usd) == (None, None, None, None)
    assert eval_statistics(view([], [column(0)])).passed_share == 1.0


def test_costs_and_tokens_of_answers_and_graders() -> None:
    grade = AssertionResult(
        number=0, type="llm-rubric", passed=True, score=1.0, cost_usd=0.5, tokens=TokenUse(100, 10, 0, 1)
    )
    plain = AssertionResult(number=1, type="equals", passed=False, score=0.0)
    both = AssertionResult(number=0, type="assert-set", passed=True, score=1.0, parts=(grade, plain))
    figures = eval_statistics(
        view(
            [
                cell(0, 0, cost_usd=0.25, tokens=TokenUse(10, 5, 0, 1), assertions=(both,)),
                cell(1, 0, cost_usd=None, tokens=TokenUse(20, 5, 20, 1), cached=True, latency_ms=1.0),
                cell(2, 0, "error", cost_usd=None),
            ]
        )
    )
    [one] = figures.columns
    assert (one.cost_usd, one.unpriced, one.cached) == (0.25, 1, 1)
    assert one.tokens == TokenUse(30, 10, 20, 2)
    assert (one.grading_cost_usd, one.grading_tokens) == (0.5, TokenUse(100, 10, 0, 1))
    assert (one.passed_assertions, one.failed_assertions) == (2, 1), (
        "a set and its parts, as promptfoo counts"
    )
    assert figures.cost_usd == 0.75


def test_latencies_are_those_of_the_provider() -> None:
    cells = [cell(row, 0, latency_ms=float(10 * row)) for row in range(1, 5)]
    cells += [cell(5, 0, cached=True, latency_ms=1.0), cell(6, 0, "timeout", latency_ms=9_000.0)]
    cells += [cell(1, 1, latency_ms=500.0)]
    figures = eval_statistics(view(cells, [column(0, "fast", "a"), column(1, "fast", "b")]))
    first = figures.columns[0].latency_ms
    assert first is not None
    assert (first.count, first.p50) == (4, 25.0)
    assert first.p99 == pytest.approx(39.7)
    [provider] = figures.providers
    assert provider.latency_ms is not None
    assert (provider.provider, provider.cells, provider.latency_ms.count) == ("fast", 7, 5)


#: Gauge measurements of the NIST/SEMATECH e-Handbook, section 7.2.6.2.
NIST = (
    95.1772, 95.1567, 95.1937, 95.1959, 95.1442, 95.0610, 95.1591, 95.1195, 95.1065, 95.0925, 95.1990, 95.1682,
)  # fmt: skip


def test_percentiles() -> None:
    """The handbook's alternative, R7: place 0.9·11 = 9.9, so between 95.1937 and 95.1959."""
    assert percentile(sorted(NIST), 0.9) == pytest.approx(95.19568)
    assert percentile([3.0], 0.99) == 3.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentiles([]) is None


def repeated(*outcomes: str) -> EvalView:
    """One column: for each test its repetitions. As promptfoo numbers them: test, repetition, combination of variables."""
    cells: list[CellResult] = []
    for test, letters in enumerate(outcomes):
        for repetition, letter in enumerate(letters):
            row = len(cells)
            cells.append(cell(row, 0, "pass" if letter == "p" else "fail", test=test, repetition=repetition))
    return view(cells)


def test_repetitions_are_counted_by_test() -> None:
    source = repeated("pppp", "pppf", "ppff", "ffff")
    figures = eval_statistics(source)
    [one] = figures.columns
    assert (figures.tests, figures.repetitions, figures.rows) == (4, 4, 16)
    assert one.consistency is not None
    assert (one.consistency.always, one.consistency.sometimes, one.consistency.never) == (1, 2, 1)
    assert one.pass_rate is not None
    assert one.pass_rate.rate == 9 / 16
    assert one.pass_rate.effective == pytest.approx(5.4), "the hand-computed example of test_intervals"
    assert list(tally_of(source).outcomes())[1] == RepeatedOutcome(
        row=4, test=1, prompt_index=0, passed=3, judged=4
    )


def test_combinations_of_variables_are_tests_of_their_own() -> None:
    """A test with two combinations, repeated: rows are 0 a, 1 b, 2 a, 3 b."""
    cells = [
        cell(row, 0, "pass" if name == "a" else "fail", test=0, repetition=row // 2, vars={"x": name})
        for row, name in enumerate("abab")
    ]
    source = view(cells)
    assert eval_statistics(source).tests == 2
    assert [(one.row, one.passed, one.judged) for one in tally_of(source).outcomes()] == [
        (0, 2, 2),
        (1, 0, 2),
    ]


def test_metrics_and_what_is_computed_from_them() -> None:
    cells = [
        cell(0, 0, named_scores={"precision": 1.0, "recall": 0.5}),
        cell(1, 0, named_scores={"precision": 0.5}),
        cell(2, 0, "error", named_scores={"precision": 9.0}),
    ]
    expressions = {
        "f1": "2 * precision * recall / (precision + recall)",
        "mean f1": "f1 / __count",
    }
    [one] = eval_statistics(view(cells, derived_metrics=expressions)).columns
    precision = one.metrics["precision"]
    assert (precision.sum, precision.count, precision.mean) == (1.5, 2, 0.75)
    assert one.derived_metrics == {"f1": 0.75, "mean f1": 0.375}


def test_a_hundred_thousand_cells_in_seconds_and_flat_memory() -> None:
    """The cells themselves are made one at a time, as they are read from the store."""
    rows, width, text = 25_000, 4, "word " * 200

    def cells() -> Iterator[CellResult]:
        for row in range(rows):
            for index in range(width):
                yield CellResult(
                    index=row * width + index,
                    test_index=row,
                    prompt_index=index,
                    test=row // 5,
                    repetition=row % 5,
                    status="pass" if (row * 7 + index * 3) % 11 else "fail",
                    output=text + str(row),
                    latency_ms=float(row % 977),
                    cost_usd=0.001,
                )

    source = EvalView(
        job="big",
        state="finished",
        description="",
        config={},
        created_utc=T,
        finished_utc=T,
        columns=tuple(column(index) for index in range(width)),
        rows=rows,
        total=rows * width,
        cells=cells,
    )
    began = time.process_time()
    figures = eval_statistics(source)
    assert time.process_time() - began < 20, "two seconds on a machine with nothing else to do"
    assert figures.counts.total == 100_000
    assert len(figures.comparisons) == 6
    tracemalloc.start()
    tally_of(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12_000_000, (
        "about a hundred bytes a cell, whatever the answers are; the answers alone have 100 MB"
    )
