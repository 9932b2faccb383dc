"""The language of expressions: what they mean, what is refused, and that every text is one or the other."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.flows.expressions import MISSING, ExpressionError, parse_expression

STATE: dict[str, Any] = {
    "score": 8,
    "name": "ada",
    "done": False,
    "items": [{"id": 1}, {"id": 2}],
    "deep": {"a": {"b-c": [10, 20]}},
    "nothing": None,
    "flag": True,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$.score", 8),
        ("$.items[1].id", 2),
        ("$.items[-1].id", 2),
        ("$.deep.a['b-c'][0]", 10),
        ("$.deep.a.b-c[1]", 20),
        ("length($.items)", 2),
        ("length('four')", 4),
        ("length($.deep)", 1),
        ("$.score >= 8 && $.name == 'ada'", True),
        ("$.score < 8 || !$.done", True),
        ("!($.score == 8)", False),
        ("!$.done == true", True),
        ("true || false && false", True),
        ("$.nothing == null", True),
        ("$.flag == 1", False),
        ("$.score == 8.0", True),
        ("$.score < 'ada'", False),
        ("$.flag < 2", False),
        ("$.missing == null", False),
        ("$.missing != 3", True),
        ("$.missing > 3", False),
        ("!$.missing", True),
        ("length($.missing) == 0", False),
        ("$.items == $.items", True),
        ("-1.5e2", -150.0),
        (r'"a\"b\n"', 'a"b\n'),
        (r"'it\'s \"x\"'", 'it\'s "x"'),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert parse_expression(text).value(STATE) == value


@pytest.mark.parametrize("text", ["$.items[9]", "$.score.x", "$.name[0]", "length($.score)", "$.items['id']"])
def test_a_path_that_leads_nowhere_is_missing(text: str) -> None:
    assert parse_expression(text).value(STATE) is MISSING


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "expected a value, not the end"),
        ("$", 2, "expected a field"),
        ("$[0]", 5, "expected a field"),
        ("$.a = 3", 5, "equality is '=='"),
        ("$.a and $.b", 5, "write '&&'"),
        ("not $.a", 1, "write '!'"),
        ("score > 3", 1, "a field is '$.score'"),
        ("len($.a) > 3", 1, "write 'length'"),
        ("($.a", 5, "expected ')'"),
        ("$.a < 1 < 2", 9, "expected an operator"),
        ("'open", 1, "not closed"),
        ("$.a[1.5]", 5, "whole number"),
        ("__import__('os')", 1, "is not a value"),
        ("$.a; $.b", 4, "unexpected ';'"),
        ("(" * 60 + "1" + ")" * 60, 51, "nested more than"),
        ("1" * 40, 1, "at most 30 digits"),
        ("1 && " * 1000 + "1", 4000, "at most 4,000"),
    ],
)
def test_errors_have_a_column(text: str, column: int, says: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    assert says in str(caught.value)
    assert caught.value.column == column


def test_the_fields_that_are_read() -> None:
    assert parse_expression("length($.b) > 0 && !$.a.x || $['c d'] == 1").fields == ("a", "b", "c d")
    assert parse_expression("$.a.b[0]").is_path
    assert not parse_expression("length($.a)").is_path


PIECES = [
    "$",
    ".",
    "a",
    "items",
    "[",
    "]",
    "0",
    "-1",
    "(",
    ")",
    "!",
    "&&",
    "||",
    "==",
    "<",
    "length",
    "'x'",
    "null",
    " ",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=60).map("".join), VALUES, VALUES)
def test_any_text_is_an_expression_or_an_error(text: str, one: Any, other: Any) -> None:
    try:
        expression = parse_expression(text)
    except ExpressionError:
        return
    assert expression.is_true({"a": one, "items": other}) in (True, False)


@given(st.integers(0, 2000), st.sampled_from("(![$"))
def test_deep_nesting_is_refused_and_does_not_crash(depth: int, mark: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse_expression(mark * depth + "1")


@given(VALUES, VALUES)
def test_equality_is_the_opposite_of_inequality(one: Any, other: Any) -> None:
    state = {"a": one, "b": other}
    assert parse_expression("$.a == $.b").is_true(state) is not parse_expression("$.a != $.b").is_true(state)
