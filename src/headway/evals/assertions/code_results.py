"""Reads what the code of an assertion returned: a truth value, a score, or an object with `pass`, `score` and `reason`. PURE."""

from __future__ import annotations

import math
import re
from typing import Any, Final

import msgspec
from msgspec import structs

from headway.evals.assertions.graded_answer import (
    CannotJudge,
    CheckFinding,
    GradedAnswer,
    failed_result,
    result,
)
from headway.evals.records import AssertionResult
from headway.evals.spec import AssertionSpec
from headway.evals.template_language.js_values import is_number

#: Names of fields in Python's style, and promptfoo's.
_OTHER_NAMES: Final = {
    "pass_": "pass",
    "passed": "pass",
    "named_scores": "namedScores",
    "component_results": "componentResults",
}
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def result_of_code(
    assertion: AssertionSpec, number: int, answer: GradedAnswer, returned: Any
) -> AssertionResult:
    """The result of an assertion in code. What is no verdict is an error."""
    try:
        return _result(assertion, number, answer, _decoded(returned))
    except CannotJudge as problem:
        return failed_result(assertion, number, answer, f"{assertion.name}: {problem}")


def _decoded(returned: Any) -> Any:
    """Code may print its verdict: `true`, `0.7`, or an object as JSON."""
    if not isinstance(returned, str):
        return returned
    text = returned.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise _no_verdict(returned) from None
    match = _NUMBER.match(text)
    if match is None:
        raise _no_verdict(returned)
    return float(match[0])


def _result(assertion: AssertionSpec, number: int, answer: GradedAnswer, returned: Any) -> AssertionResult:
    if isinstance(returned, bool):
        return result(
            assertion, number, answer, CheckFinding(returned, f"the code returned {str(returned).lower()}")
        )
    if is_number(returned):
        return _of_number(assertion, number, answer, float(returned))
    if isinstance(returned, dict):
        return _of_object(assertion, number, answer, returned)
    raise _no_verdict(returned)


def _of_number(assertion: AssertionSpec, number: int, answer: GradedAnswer, score: float) -> AssertionResult:
    """A score passes if it reaches the threshold; without one, if it is above 0. `not-` leaves the score."""
    if not math.isfinite(score):
        raise _no_verdict(score)
    passed = score > 0 if assertion.threshold is None else score >= assertion.threshold
    graded = result(assertion, number, answer, CheckFinding(passed, f"the code returned {score:g}"))
    return structs.replace(graded, score=score)


def _of_object(
    assertion: AssertionSpec, number: int, answer: GradedAnswer, returned: dict[Any, Any]
) -> AssertionResult:
    """An object says whether it passed. Only Python's is also held to the threshold, as in promptfoo."""
    fields = {_OTHER_NAMES.get(key, key): value for key, value in returned.items()}
    passed, score = _verdict_of(fields)
    reason = str(fields.get("reason") or "the code gave no reason")
    if assertion.type == "python" and assertion.threshold is not None and score < assertion.threshold:
        passed, reason = (
            False,
            f"the score {score:g} is below the threshold {assertion.threshold:g}: {reason}",
        )
    graded = result(assertion, number, answer, CheckFinding(passed, reason))
    return structs.replace(
        graded,
        score=score,
        named_scores=_named_scores(fields.get("namedScores")),
        parts=tuple(_parts(fields.get("componentResults"))),
    )


def _named_scores(value: Any) -> dict[str, float]:
    if value is None:
        return {}
    if isinstance(value, dict) and all(map(_is_score, value.values())):
        return {str(name): float(score) for name, score in value.items()}
    raise CannotJudge("the code returned 'namedScores' that are not numbers by name")


def _parts(value: Any) -> list[AssertionResult]:
    if value is None:
        return []
    if not isinstance(value, list | tuple) or not all(isinstance(part, dict) for part in value):
        raise CannotJudge("the code returned 'componentResults' that are not a list of objects")
    return [_part(number, part) for number, part in enumerate(value)]


def _part(number: int, part: dict[Any, Any]) -> AssertionResult:
    fields = {_OTHER_NAMES.get(key, key): value for key, value in part.items()}
    passed, score = _verdict_of(fields)
    return AssertionResult(
        number=number, type="code", passed=passed, score=score, reason=str(fields.get("reason") or "")
    )


def _verdict_of(fields: dict[Any, Any]) -> tuple[bool, float]:
    passed, score = fields.get("pass"), fields.get("score")
    if not isinstance(passed, bool) or score is None or not _is_score(score):
        raise _no_verdict(fields)
    return passed, float(score)


def _is_score(value: Any) -> bool:
    return is_number(value) and math.isfinite(value)


def _no_verdict(returned: Any) -> CannotJudge:
    line = " ".join(repr(returned)[:200].split())
    return CannotJudge(
        f"the code returned {line}", hint="return a truth value, a number, or {pass, score, reason}"
    )
