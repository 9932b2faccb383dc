"""Derived metrics are computed, never executed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.derived_metrics import derived, problem_of_expression

METRICS = {"precision": 0.5, "recall": 1.0, "zero": 0.0, "per-cell": 3.0}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * precision * recall / (precision + recall)", 2 / 3),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("-2 ^ 2", -4),
        ("2 ^ -1", 0.5),
        ("2 ^ 3 ^ 2", 512),
        ("7 % 4", 3),
        ("(precision - -1) * 2e1", 30),
        ("recall / __count", 0.25),
        ("max(precision, recall, zero) + min(1, 2)", 2),
        ("sqrt(abs(-9)) + round(2.456, 2)", 5.46),
        ("mean(1, 2, 3)", 2),
        ("per-cell", 3),
        ("1 / zero", 0),
        ("unknown + 1", 0),
        ("log(0)", 0),
        ("10 ^ 10 ^ 10", 0),
    ],
)
def test_values(expression: str, value: float) -> None:
    assert problem_of_expression(expression) == ""
    assert derived({"x": expression}, METRICS, 4) == {"x": pytest.approx(value)}


def test_a_metric_may_use_the_ones_before_it() -> None:
    assert derived({"a": "recall + 1", "b": "a * 2", "c": "later", "later": "1"}, METRICS, 1) == {
        "a": 2,
        "b": 4,
        "c": 0,
        "later": 1,
    }


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 +",
        "(1",
        "1)",
        "f(1)",
        "__import__('os')",
        "a b",
        "1 ** ",
        "$x",
        "max()",
        "(" * 99 + "1" + ")" * 99,
        "1+" * 4000 + "1",
    ],
)
def test_what_cannot_be_read_is_named(expression: str) -> None:
    assert (
        "express" in problem_of_expression(expression)
        or "paren" in problem_of_expression(expression)
        or "function" in problem_of_expression(expression)
    )
    assert derived({"x": expression}, METRICS, 1) == {"x": 0.0}


@given(st.text(alphabet="0123456789.+-*/%^(), abcmax_e", max_size=40))
def test_every_expression_ends(expression: str) -> None:
    value = derived({"x": expression}, {"a": 2.0}, 1)["x"]
    assert value == value
