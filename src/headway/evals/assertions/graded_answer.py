"""The answer that assertions judge, and the outcome of judging it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headway.errors import HeadwayError
from headway.evals.records import AssertionResult
from headway.evals.spec import AssertionSpec
from headway.evals.template_language.js_values import json_text
from headway.evals.templates import TemplateProblem, render, render_value


class CannotJudge(HeadwayError):
    """An assertion that cannot be judged: neither a pass nor a fail."""


class GradedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer after transforms, with what is known of its request."""

    output: Any
    vars: dict[str, Any] = {}
    #: The prompt as it was sent.
    prompt: str = ""
    #: Variables of templates: `{{env.NAME}}`.
    env: dict[str, str] = {}
    latency_ms: float | None = None
    cost_usd: float | None = None
    #: As the provider says it: stop, length, tool_calls, ….
    finish_reason: str = ""
    #: The definitions of the tools that the request offered.
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def text(self) -> str:
        """The output as text; an object is JSON. Raises CannotJudge if it is nested too deeply for that."""
        if isinstance(self.output, str):
            return self.output
        try:
            return json_text(self.output)
        except RecursionError:
            raise CannotJudge("the answer is nested too deeply") from None

    @property
    def template_values(self) -> dict[str, Any]:
        """What templates in an assertion can read."""
        return {"env": self.env, **self.vars}


class CheckFinding(msgspec.Struct, frozen=True):
    """What a check found, before `not-` is applied. Without a score, a pass is 1 and a fail 0."""

    passed: bool
    #: What was found, for people: a sentence that is true whether the assertion passes or fails.
    what: str
    score: float | None = None


class Demand(msgspec.Struct, frozen=True):
    """What an assertion demands: its value with the variables filled in."""

    value: Any
    threshold: float | None
    config: dict[str, Any] = {}

    def text(self) -> str:
        """The value, which must be a text with something in it."""
        if isinstance(self.value, str) and self.value:
            return self.value
        raise CannotJudge("its value is not a text", hint="write a text under 'value'")


def rendered_value(assertion: AssertionSpec, answer: GradedAnswer) -> Any:
    """The value of an assertion with the variables of the cell. As in promptfoo, objects have no templates."""
    value = assertion.value
    if not isinstance(value, str | list | tuple):
        return value
    try:
        if isinstance(value, str):
            return render(value, answer.template_values)
        return [render_value(v, answer.template_values) if isinstance(v, str) else v for v in value]
    except TemplateProblem as problem:
        raise CannotJudge(f"its value: {problem}") from None


def result(
    assertion: AssertionSpec, number: int, answer: GradedAnswer, finding: CheckFinding
) -> AssertionResult:
    """The result of a check, with `not-`, weight and metric applied. A weight of 0 never fails."""
    passed = finding.passed != assertion.negated
    score = float(passed) if finding.score is None else finding.score
    if assertion.negated and finding.score is not None:
        score = 1 - score
    return AssertionResult(
        number=number,
        type=assertion.name,
        passed=passed or assertion.weight == 0,
        score=score,
        reason=finding.what,
        weight=assertion.weight,
        metric=metric_name(assertion.metric, answer.template_values),
        value=assertion.value,
    )


def failed_result(assertion: AssertionSpec, number: int, answer: GradedAnswer, error: str) -> AssertionResult:
    """The result of an assertion that could not be judged."""
    return AssertionResult(
        number=number,
        type=assertion.name,
        passed=False,
        score=0.0,
        error=error,
        weight=assertion.weight,
        metric=metric_name(assertion.metric, answer.template_values),
        value=assertion.value,
    )


def metric_name(metric: str, values: Mapping[str, Any]) -> str:
    """The name of a metric, which may have variables; as it is written if they cannot be filled in."""
    try:
        return render(metric, values)
    except TemplateProblem:
        return metric
