"""What the code of an assertion may return."""

from __future__ import annotations

import math
from typing import Any

import pytest

from headway.evals.assertions.code_results import result_of_code
from headway.evals.assertions.graded_answer import GradedAnswer
from headway.evals.spec import AssertionSpec

ANSWER = GradedAnswer(output="x")


def result_of(returned: Any, name: str = "python", **fields: Any) -> Any:
    return result_of_code(AssertionSpec(type=name, value="code", **fields), 5, ANSWER, returned)


@pytest.mark.parametrize(
    ("returned", "fields", "passed", "score"),
    [
        (True, {}, True, 1),
        (False, {}, False, 0),
        (True, {"negated": True}, False, 0),
        (0.3, {}, True, 0.3),
        (0, {}, False, 0),
        (0.3, {"threshold": 0.5}, False, 0.3),
        (0.3, {"threshold": 0.5, "negated": True}, True, 0.3),
        (11, {}, True, 11),
        ("true", {}, True, 1),
        ("False", {}, False, 0),
        ("0.25 points", {}, True, 0.25),
        ({"pass": True, "score": 0.4, "reason": "r"}, {}, True, 0.4),
        ({"pass": True, "score": 0.4, "reason": "r"}, {"threshold": 0.5}, False, 0.4),
        ({"pass": True, "score": 0.4, "reason": "r"}, {"negated": True}, False, 0.4),
        ({"pass_": False, "score": 0, "reason": "r"}, {}, False, 0),
        ('{"pass": true, "score": 1, "reason": "r"}', {}, True, 1),
    ],
)
def test_verdicts(returned: Any, fields: dict[str, Any], passed: bool, score: float) -> None:
    graded = result_of(returned, **fields)
    assert (graded.error, graded.passed, graded.score, graded.number) == ("", passed, pytest.approx(score), 5)


def test_only_objects_of_python_are_held_to_the_threshold() -> None:
    assert result_of({"pass": True, "score": 0.4, "reason": "r"}, "javascript", threshold=0.5).passed


def test_metrics_and_parts_of_an_object() -> None:
    graded = result_of(
        {
            "pass": False,
            "score": 0.5,
            "reason": "half",
            "named_scores": {"a": 1, "b": 0},
            "component_results": [{"pass": True, "score": 1, "reason": "one"}, {"pass": False, "score": 0}],
        }
    )
    assert (graded.reason, graded.named_scores) == ("half", {"a": 1.0, "b": 0.0})
    assert [(part.number, part.passed, part.reason) for part in graded.parts] == [
        (0, True, "one"),
        (1, False, ""),
    ]


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "yes",
        "",
        [],
        math.nan,
        math.inf,
        {},
        {"pass": "yes", "score": 1},
        {"pass": True},
        {"pass": True, "score": "1"},
        {"pass": True, "score": math.nan},
        {"pass": True, "score": 1, "namedScores": [1]},
        {"pass": True, "score": 1, "componentResults": [1]},
        {"pass": True, "score": 1, "componentResults": [{}]},
        '{"pass": true',
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_anything_else_is_an_error(returned: Any, negated: bool) -> None:
    graded = result_of(returned, negated=negated)
    assert graded.error.startswith("not-python: " if negated else "python: ")
    assert (graded.passed, graded.score) == (False, 0.0)
