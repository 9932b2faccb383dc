"""Puts the results of assertions together: scores of sets and of cells. PURE.

A score is the mean of the scores of assertions, by weight. Without a threshold a cell passes if every assertion passes; with one it
passes if the score is at least the threshold, and single failures do not matter. A weight of 0 takes an assertion out of the
score, and it cannot fail. An answer that is not the best of its row (`select-best`) fails with the score 0. An error of any assertion is an error of the cell: its score says nothing about the answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headway.evals.assertions.graded_answer import metric_name
from headway.evals.records import AssertionResult, CellVerdict, TokenUse
from headway.evals.spec import AssertionSpec, TestSpec


class Total(msgspec.Struct, frozen=True):
    """What some results say together."""

    passed: bool
    score: float
    reason: str
    error: str
    named: dict[str, float]
    weights: dict[str, float]


def verdict(test: TestSpec, results: Sequence[AssertionResult]) -> CellVerdict:
    """What the results of a cell say together, in the order of its assertions."""
    if not results:
        return CellVerdict(passed=True, score=1.0, reason="no assertions")
    total = _total(results, test.threshold)
    return CellVerdict(
        passed=total.passed,
        score=total.score,
        reason=total.reason,
        error=total.error,
        named_scores=total.named,
        named_weights=total.weights,
    )


def set_result(
    assertion: AssertionSpec, number: int, parts: tuple[AssertionResult, ...], values: Mapping[str, Any]
) -> AssertionResult:
    """The result of an `assert-set` out of the results of its parts. `values` are those of templates, for its metric."""
    total = _total(parts, assertion.threshold)
    passed, score = total.passed, total.score
    if assertion.negated:
        passed, score = not passed, 1 - score
    return AssertionResult(
        number=number,
        type=assertion.name,
        passed=not total.error and passed,
        score=0.0 if total.error else score,
        reason=total.reason,
        weight=assertion.weight,
        metric=metric_name(assertion.metric, values),
        error=total.error,
        named_scores=total.named,
        parts=parts,
        cost_usd=_cost(parts),
        tokens=_tokens(parts),
    )


def _total(results: Sequence[AssertionResult], threshold: float | None) -> Total:
    error = next((each.error for each in results if each.error), "")
    counted = [each for each in results if _counts_in_mean(each)]
    weight = sum(each.weight for each in counted)
    score = sum(each.score * each.weight for each in counted) / weight if weight > 0 else 0.0
    failed = [each for each in results if not each.passed]
    passed, reason = not failed, _reason(failed[-1:])
    if threshold is not None:
        passed = score >= threshold
        reason = f"the score {score:.2f} is {'at least' if passed else 'below'} the threshold {threshold:g}"
    worse = [each for each in failed if not _counts_in_mean(each)]
    if worse:
        passed, score, reason = False, 0.0, _reason(worse)
    named, weights = _named(results)
    if error:
        passed, score, reason = False, 0.0, error
    return Total(passed, score, reason, error, named, weights)


def _counts_in_mean(each: AssertionResult) -> bool:
    """Whether it is part of the mean. `select-best` is not: it decides when everything else is known."""
    return each.type.removeprefix("not-") != "select-best"


def _reason(failed: Sequence[AssertionResult]) -> str:
    return f"{failed[0].type}: {failed[0].reason}" if failed else "all assertions passed"


def _named(results: Sequence[AssertionResult]) -> tuple[dict[str, float], dict[str, float]]:
    """The mean of each metric by weight, and the sum of its weights."""
    sums: dict[str, float] = defaultdict(float)
    weights: dict[str, float] = defaultdict(float)
    for each in results:
        if each.error or not _counts_in_mean(each):
            continue
        for name, (score, weight) in _metrics_of(each).items():
            sums[name] += score * weight
            weights[name] += weight
    means = {name: total / weights[name] if weights[name] > 0 else 0.0 for name, total in sums.items()}
    return means, dict(weights)


def _metrics_of(each: AssertionResult) -> dict[str, tuple[float, float]]:
    """The metrics of one result with their weights. A set passes on those of its parts."""
    inner = _named(each.parts)[1] if each.type.endswith("assert-set") else {}
    found = {name: (score, each.weight * inner.get(name, 1.0)) for name, score in each.named_scores.items()}
    return found | ({each.metric: (each.score, each.weight)} if each.metric else {})


def _cost(parts: Sequence[AssertionResult]) -> float | None:
    known = [each.cost_usd for each in parts if each.cost_usd is not None]
    return sum(known) if known else None


def _tokens(parts: Sequence[AssertionResult]) -> TokenUse:
    uses = [each.tokens for each in parts]
    return TokenUse(
        input=sum(use.input for use in uses),
        output=sum(use.output for use in uses),
        cached=sum(use.cached for use in uses),
        requests=sum(use.requests for use in uses),
    )
