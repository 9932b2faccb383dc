"""Each assertion that needs nothing but the answer: what passes, what fails, and what cannot be judged."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.graded_answer import GradedAnswer
from headway.evals.assertions.judge import failed, judge
from headway.evals.assertions.registry import KINDS
from headway.evals.spec import AssertionSpec

PURE = [name for name, kind in KINDS.items() if kind.check is not None]
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
TOOLS = ({"type": "function", "function": {"name": "add", "parameters": SCHEMA}},)
CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def assertion(name: str, value: Any = None, **fields: Any) -> AssertionSpec:
    return AssertionSpec(type=name, value=value, **fields)


def answer(output: Any, **fields: Any) -> GradedAnswer:
    return GradedAnswer(output=output, **fields)


@pytest.mark.parametrize(
    ("name", "value", "output", "passes"),
    [
        ("equals", "yes", "yes", True),
        ("equals", "yes", "yes ", False),
        ("equals", 1.0, "1", True),
        ("equals", True, "true", True),
        ("equals", {"a": [1, 2.0]}, '{"a": [1.0, 2]}', True),
        ("equals", {"a": 1}, '{"a": true}', False),
        ("equals", {"a": 1}, "no JSON", False),
        ("equals", [1], '{"a": 1}', False),
        ("equals", '{"a":1}', {"a": 1}, True),
        ("contains", "b", "abc", True),
        ("contains", 4, "2 + 2 = 4", True),
        ("contains", "B", "abc", False),
        ("contains", "é", "caf\u00e9", True),
        ("icontains", "ÉT", "l'été", True),
        ("contains-any", ["x", "b"], "abc", True),
        ("contains-any", 'x, "b, c"', "a b, c", True),
        ("contains-any", 'x, "say \\"hi\\"", "it""s"', 'it"s', True),
        ("contains-any", ["x", "y"], "abc", False),
        ("contains-any", [], "abc", False),
        ("contains-all", ["a", "c"], "abc", True),
        ("contains-all", "a, x", "abc", False),
        ("contains-all", [], "abc", True),
        ("icontains-any", ["X", "B"], "abc", True),
        ("icontains-all", ["A", "B"], "abc", True),
        ("starts-with", "ab", "abc", True),
        ("starts-with", "b", "abc", False),
        ("regex", r"\d{4}", "in 2026", True),
        ("regex", r"^\d+$", "12\n", False),
        ("word-count", 3, " one two\nthree ", True),
        ("word-count", "3", "one two three", True),
        ("word-count", {"min": 2, "max": 3}, "one", False),
        ("word-count", {"max": 3}, "", True),
        ("levenshtein", "kitten", "sitting", True),
        ("levenshtein", "kitten", "a dog in the yard", False),
        ("is-json", None, '{"a": 1}', True),
        ("is-json", None, "1", True),
        ("is-json", None, '{"a": 1', False),
        ("is-json", SCHEMA, '{"a": 1}', True),
        ("is-json", SCHEMA, '{"a": "x"}', False),
        ("is-json", "type: array", "[1]", True),
        ("is-json", {"items": [{"type": "integer"}], "additionalItems": False}, "[1, 2]", False),
        ("is-json", {"prefixItems": [{"type": "integer"}]}, '["a"]', False),
        ("is-json", {"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "1", True),
        ("is-json", {"properties": {"d": {"format": "date"}}}, '{"d": "soon"}', False),
        ("contains-json", None, 'so: ```json\n{"a": 1}\n```', True),
        ("contains-json", None, "no {json} here", False),
        ("contains-json", SCHEMA, 'first {"b": 1}, then {"a": 2}', True),
        ("contains-json", SCHEMA, '{"b": {"a": 2}}', False),
        ("is-valid-openai-tools-call", None, [CALL], True),
        ("is-valid-openai-tools-call", None, {"tool_calls": [CALL]}, True),
        ("is-valid-openai-tools-call", None, [{"function": {"name": "add", "arguments": '{"a": "x"}'}}], False),
        ("is-valid-openai-tools-call", None, [{"function": {"name": "sub", "arguments": "{}"}}], False),
        ("is-valid-openai-tools-call", None, [{"function": {"name": "add", "arguments": "{"}}], False),
        ("is-valid-openai-tools-call", None, "a text", False),
        ("is-valid-function-call", None, CALL["function"], True),
        ("is-valid-openai-function-call", None, {"function_call": CALL["function"]}, True),
        ("is-valid-function-call", None, [CALL], False),
        ("finish-reason", "STOP", "x", True),
        ("finish-reason", "length", "x", False),
    ],
)  # fmt: skip
def test_an_assertion_and_its_negation(name: str, value: Any, output: Any, passes: bool) -> None:
    given_answer = answer(output, tools=TOOLS, finish_reason="stop")
    plain = judge(assertion(name, value), 3, given_answer)
    assert (plain.error, plain.passed, plain.score, plain.number) == ("", passes, float(passes), 3)
    negated = judge(assertion(name, value, negated=True), 3, given_answer)
    assert (negated.error, negated.passed, negated.score) == ("", not passes, float(not passes))
    assert negated.type == f"not-{name}"


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (assertion("contains", ""), "its value is empty"),
        (assertion("contains", "{{ missing }}"), "check the names of its variables"),
        (assertion("contains", "{{ x | nope }}"), "no filter 'nope'"),
        (assertion("contains-any", '"open'), "does not end"),
        (assertion("regex", "("), "no regular expression"),
        (assertion("regex", None), "not a text"),
        (assertion("cost"), "no threshold"),
        (assertion("cost", threshold=1), "cost of the answer is not known"),
        (assertion("latency", threshold=1), "latency of the answer is not known"),
        (assertion("levenshtein", 5), "not a text"),
        (assertion("levenshtein", "x" * 200_000), "up to 100,000"),
        (assertion("word-count", "many"), "neither a number"),
        (assertion("word-count", {"min": 3, "max": 2}), "neither a number"),
        (assertion("rouge-n", ["x"]), "not a text"),
        (assertion("bleu", []), "neither a text nor"),
        (assertion("is-json", {"type": "objct"}), "schema is wrong"),
        (assertion("is-json", {"$ref": "https://127.0.0.1/x"}), "schema is wrong"),
        (assertion("is-json", "a: [b"), "neither YAML nor JSON"),
        (assertion("is-valid-function-call"), "offered no tools"),
        (assertion("finish-reason"), "not a text"),
        (assertion("llm-rubric", "x"), "not judged here"),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_what_cannot_be_judged_is_an_error(spec: AssertionSpec, error: str, negated: bool) -> None:
    fields = {name: getattr(spec, name) for name in spec.__struct_fields__} | {"negated": negated}
    graded = judge(AssertionSpec(**fields), 0, answer('{"a": 1}'))
    assert not graded.passed
    assert error in graded.error
    assert "\n" not in graded.error


VALUES = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["a", "(", "a|b", "{{x}}", 3, 0.5, {"min": 1}, {"type": "object"}, ["a", "b"], []]),
)
OUTPUTS = st.one_of(st.text(max_size=40), st.sampled_from(['{"a": 1}', "a b", [CALL], {"a": 1}, None, 3]))


@given(st.sampled_from(PURE), VALUES, OUTPUTS, st.none() | st.floats(0, 1))
def test_not_passes_exactly_when_the_assertion_fails(
    name: str, value: Any, output: Any, threshold: float | None
) -> None:
    given_answer = answer(output, tools=TOOLS, vars={"x": "a"}, cost_usd=0.5, latency_ms=0.5)
    plain = judge(assertion(name, value, threshold=threshold), 0, given_answer)
    negated = judge(assertion(name, value, threshold=threshold, negated=True), 0, given_answer)
    assert bool(plain.error) == bool(negated.error)
    if not plain.error:
        assert plain.passed != negated.passed
        assert plain.score + negated.score == pytest.approx(1)


def test_values_are_filled_with_the_variables_of_the_cell() -> None:
    spec = assertion("contains-all", ["{{ city }}", "{{ env.UNIT }}"], metric="about {{ city }}")
    graded = judge(spec, 0, answer("Paris has 2 km", vars={"city": "Paris"}, env={"UNIT": "km"}))
    assert graded.passed
    assert graded.metric == "about Paris"


def test_thresholds_of_cost_and_latency_are_inclusive() -> None:
    given_answer = answer("x", cost_usd=0.01, latency_ms=100)
    assert judge(assertion("cost", threshold=0.01), 0, given_answer).passed
    assert not judge(assertion("latency", threshold=99.9), 0, given_answer).passed


def test_a_weight_of_zero_never_fails() -> None:
    graded = judge(assertion("contains", "zzz", weight=0), 0, answer("abc"))
    assert (graded.passed, graded.score, graded.weight) == (True, 0.0, 0)


def test_a_set_has_the_results_of_its_parts() -> None:
    parts = (assertion("contains", "a", metric="m"), assertion("contains", "z", weight=3))
    graded = judge(assertion("assert-set", children=parts, threshold=0.25), 1, answer("abc"))
    assert (graded.passed, graded.score, [part.passed for part in graded.parts]) == (
        True,
        0.25,
        [True, False],
    )
    assert graded.named_scores == {"m": 1.0}
    assert not judge(assertion("assert-set", children=parts), 1, answer("abc")).passed


def test_a_failed_unit_is_an_error_of_its_assertion() -> None:
    graded = failed(assertion("llm-rubric", "x", weight=2), 4, answer("abc"), "the grader gave no answer")
    assert (graded.passed, graded.weight, graded.error) == (False, 2, "llm-rubric: the grader gave no answer")


@pytest.mark.parametrize("name", PURE)
def test_strange_answers_are_judged_or_refused(name: str) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    for output in (
        deep,
        "[" * 5000,
        '{"a":' * 5000,
        "\ud800",
        '{"a": 1e999}',
        '{"a": 123456789012345678901234567890}',
        "\0",
    ):
        for value in ("a", SCHEMA, ["a"], {"min": 1}):
            graded = judge(assertion(name, value, threshold=1), 0, answer(output, tools=TOOLS))
            assert not (graded.error and graded.passed)
