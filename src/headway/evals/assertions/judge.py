"""Judges the assertions that are functions of the answer alone. PURE. It never raises for what a file or a model wrote."""

from __future__ import annotations

from headway.evals.assertions.graded_answer import (
    CannotJudge,
    Demand,
    GradedAnswer,
    failed_result,
    rendered_value,
    result,
)
from headway.evals.assertions.registry import KINDS
from headway.evals.assertions.scoring import set_result
from headway.evals.records import AssertionResult
from headway.evals.spec import AssertionSpec

__all__ = ["failed", "judge"]


def judge(assertion: AssertionSpec, number: int, answer: GradedAnswer) -> AssertionResult:
    """How the answer does on an assertion that needs nothing else."""
    if assertion.type == "assert-set":
        parts = tuple(judge(child, i, answer) for i, child in enumerate(assertion.children))
        return set_result(assertion, number, parts, answer.template_values)
    kind = KINDS.get(assertion.type)
    if kind is None or kind.check is None:
        return failed(assertion, number, answer, f"'{assertion.type}' is not judged here")
    try:
        demand = Demand(rendered_value(assertion, answer), assertion.threshold, assertion.config)
        return result(assertion, number, answer, kind.check(demand, answer))
    except CannotJudge as problem:
        return failed(assertion, number, answer, str(problem))


def failed(assertion: AssertionSpec, number: int, answer: GradedAnswer, why: str) -> AssertionResult:
    """The result of an assertion that could not be judged, which is neither a pass nor a fail."""
    return failed_result(assertion, number, answer, f"{assertion.name}: {why}")
