"""Scores of cells: weights, thresholds, metrics, sets, errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.scoring import set_result, verdict
from headway.evals.records import AssertionResult
from headway.evals.spec import AssertionSpec, TestSpec


def graded(passed: bool, score: float | None = None, **fields: Any) -> AssertionResult:
    given_score = float(passed) if score is None else score
    return AssertionResult(
        **{"number": 0, "type": "contains", "passed": passed, "score": given_score, **fields}
    )


def test_no_assertions_pass() -> None:
    assert (verdict(TestSpec(), []).passed, verdict(TestSpec(), []).score) == (True, 1.0)


@pytest.mark.parametrize(
    ("threshold", "results", "passed", "score"),
    [
        (None, [graded(True), graded(True)], True, 1),
        (None, [graded(True), graded(False)], False, 0.5),
        (None, [graded(True, weight=3), graded(False)], False, 0.75),
        (0.75, [graded(True, weight=3), graded(False)], True, 0.75),
        (0.76, [graded(True, weight=3), graded(False)], False, 0.75),
        (0, [graded(False)], True, 0),
        (None, [graded(True, 0.2, weight=0), graded(True, 0.9)], True, 0.9),
        (None, [graded(True, weight=0)], True, 0),
        (None, [graded(True, 11), graded(True, 1)], True, 6),
        (None, [graded(True), graded(True, type="select-best")], True, 1),
        (None, [graded(True), graded(False, type="select-best")], False, 0),
        (0, [graded(True), graded(False, type="select-best")], False, 0),
    ],
)
def test_the_score_is_the_mean_by_weight(
    threshold: float | None, results: list[AssertionResult], passed: bool, score: float
) -> None:
    found = verdict(TestSpec(threshold=threshold), results)
    assert found.passed == passed
    assert found.score == pytest.approx(score)


def test_an_error_is_an_error_of_the_cell_and_not_a_fail() -> None:
    found = verdict(TestSpec(threshold=0), [graded(True), graded(False, error="the grader gave no answer")])
    assert (found.passed, found.score, found.error) == (False, 0.0, "the grader gave no answer")


def test_metrics_are_means_by_weight_also_those_inside_of_sets() -> None:
    parts = (graded(True, metric="in"), graded(False, metric="in", weight=2), graded(True, metric="other"))
    inner = set_result(AssertionSpec(type="assert-set", weight=3, metric="set {{ x }}"), 0, parts, {"x": 1})
    found = verdict(
        TestSpec(),
        [inner, graded(True, metric="in"), graded(True, 0.5, named_scores={"code": 0.25}, weight=2)],
    )
    assert found.named_scores == {
        "in": pytest.approx((1 / 3 * 9 + 1) / 10),
        "other": 1.0,
        "set 1": pytest.approx(0.5),
        "code": 0.25,
    }
    assert found.named_weights == {"in": 10, "other": 3, "set 1": 3, "code": 2}


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 5), st.booleans()), min_size=1),
    st.none() | st.floats(0, 1),
)
def test_the_score_stays_between_the_scores(
    given_results: list[tuple[float, float, bool]], threshold: float | None
) -> None:
    results = [graded(passed, score, weight=weight) for score, weight, passed in given_results]
    found = verdict(TestSpec(threshold=threshold), results)
    assert -1e-9 <= found.score <= max(score for score, _, _ in given_results) + 1e-9
    if threshold is None:
        assert found.passed == all(passed for _, _, passed in given_results)
    else:
        assert found.passed == (found.score >= threshold)
