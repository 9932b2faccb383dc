"""Graders: what they are asked, and what their answers mean. An answer that cannot be read is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.graded_answer import CannotJudge, GradedAnswer
from headway.evals.assertions.grading import (
    QuestionName,
    best_question,
    question,
    question_names,
    read_best,
    read_grade,
)
from headway.evals.spec import AssertionSpec

ANSWER = GradedAnswer(output="Paris </answer> {{ not.a.template }}", prompt="Where?", vars={"x": "y"})


def assertion(name: str, value: Any = "names {{ x }}", **fields: Any) -> AssertionSpec:
    return AssertionSpec(type=name, value=value, **fields)


def asked(spec: AssertionSpec, name: str = "", **earlier: str) -> str:
    """The text of all messages of a question."""
    return "\n".join(message["content"] for message in question(spec, name, ANSWER, earlier).messages)


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("llm-rubric", ["Paris </answer> {{ not.a.template }}", "names y"]),
        ("factuality", ["Where?", "names y", "Paris"]),
        ("model-graded-factuality", ["Where?", "names y", "Paris"]),
        ("model-graded-closedqa", ["Where?", "names y", "Paris"]),
    ],
)
def test_a_grader_is_asked_with_the_answer_and_the_value(name: str, contents: list[str]) -> None:
    assert question_names(assertion(name)) == (QuestionName(""),)
    found = question(assertion(name), "", ANSWER, {})
    assert [message["role"] for message in found.messages] == ["system", "user"]
    for content in contents:
        assert content in found.messages[1]["content"]


@pytest.mark.parametrize(
    ("prompt", "messages"),
    [
        ("{{ output }} / {{ rubric }} / {{ x }}", [{"role": "user", "content": 'He said "1" / names y / y'}]),
        (
            '[{"role": "user", "content": "{{ output }}"}]',
            [{"role": "user", "content": 'He said "1"'}],
        ),
        ("- role: user\n  content: Judge {{ rubric }}", [{"role": "user", "content": "Judge names y"}]),
        ("[1, 2]", [{"role": "user", "content": "[1,2]"}]),
    ],
)
def test_own_rubric_prompts_are_texts_or_chats(prompt: str, messages: list[dict[str, str]]) -> None:
    given_answer = GradedAnswer(output='He said "1"', vars={"x": "y"})
    spec = assertion("llm-rubric", rubric_prompt=prompt)
    assert question(spec, "", given_answer, {}).messages == messages


def test_json_answers_are_shown_as_json() -> None:
    given_answer = GradedAnswer(output='{"a": [1.0, true]}', vars={})
    spec = assertion("llm-rubric", {"min": 1}, rubric_prompt="{{ output }} {{ rubric }}")
    found = question(spec, "", given_answer, {})
    assert found.messages[0]["content"] == '{"a":[1,true]} {"min":1}'


def test_g_eval_asks_for_steps_and_then_for_a_score() -> None:
    spec = assertion("g-eval", ["is short", "is true"])
    assert question_names(spec) == (
        QuestionName("steps"),
        QuestionName("score", "steps"),
        QuestionName("steps1"),
        QuestionName("score1", "steps1"),
    )
    assert "is true" in asked(spec, "steps1")
    second = asked(spec, "score1", steps1='Sure: {"steps": ["read", "count"]}')
    for part in ("is true", "- read\n- count", "Where?", "Paris", "10"):
        assert part in second
    with pytest.raises(CannotJudge, match="no JSON object"):
        asked(spec, "score", steps="I cannot")


def test_g_eval_takes_own_prompts() -> None:
    own = json.dumps(
        {"steps": "plan {{ criteria }}", "evaluate": [{"role": "user", "content": "{{ steps }}"}]}
    )
    spec = assertion("g-eval", "is short", rubric_prompt=own)
    assert asked(spec, "steps") == "plan is short"
    assert asked(spec, "score", steps='{"steps": ["a", "b"]}') == "a\n- b"


@pytest.mark.parametrize(
    ("name", "text", "fields", "passed", "score"),
    [
        ("llm-rubric", '{"pass": true, "score": 0.8, "reason": "r"}', {}, True, 0.8),
        ("llm-rubric", 'Well:\n```json\n{"pass": false, "reason": "r"}\n```', {}, False, 0),
        ("llm-rubric", '{"pass": "yes"}', {}, True, 1),
        ("llm-rubric", '{"pass": true, "reason": "one\nline\tmore"}', {}, True, 1),
        ("llm-rubric", "Here: {'pass': False, 'score': 0.1, 'reason': 'R&D',}", {}, False, 0.1),
        ("factuality", "{category: C, reason: same}", {}, True, 1),
        ("llm-rubric", '{"pass": "no", "score": "0.4"}', {}, False, 0.4),
        ("llm-rubric", '{"score": 0.3}', {}, True, 0.3),
        ("llm-rubric", '{"score": 0.3}', {"threshold": 0.5}, False, 0.3),
        ("llm-rubric", '{"pass": true, "score": 0.5}', {"threshold": 0.5}, True, 0.5),
        ("llm-rubric", '{"pass": true, "score": 0.8}', {"negated": True}, False, 0.2),
        ("llm-rubric", '{"pass": true, "score": 8}', {"negated": True}, False, 0),
        ("factuality", '{"category": "b", "reason": "more"}', {}, True, 1),
        ("factuality", '{"category": "D"}', {}, False, 0),
        ("factuality", "(A) It is a part.", {}, True, 1),
        ("factuality", '{"category": "A"}', {"config": {"factuality": {"subset": 0}}}, False, 0),
        ("factuality", '{"category": "E"}', {"config": {"factuality": {"differButFactual": 0.5}}}, True, 0.5),
        ("factuality", '{"category": "D"}', {"negated": True}, True, 1),
        ("model-graded-closedqa", "It does.\nY\n", {}, True, 1),
        ("model-graded-closedqa", "It does not.\n**N**", {}, False, 0),
    ],
)
def test_what_graders_say(name: str, text: str, fields: dict[str, Any], passed: bool, score: float) -> None:
    graded = read_grade(assertion(name, **fields), 2, ANSWER, {"": text})
    assert (graded.error, graded.passed) == ("", passed)
    assert graded.score == pytest.approx(score)
    assert graded.reason


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llm-rubric", ""),
        ("llm-rubric", "I refuse to grade this."),
        ("llm-rubric", '{"pass": true'),
        ("llm-rubric", '{"verdict": "good"}'),
        ("llm-rubric", "[1, 2]"),
        ("llm-rubric", "{a: &a [1, 1], pass: *a}"),
        ("factuality", "It is fine."),
        ("factuality", '{"category": "Z"}'),
        ("model-graded-closedqa", "Perhaps"),
        ("model-graded-closedqa", ""),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_an_answer_that_cannot_be_read_is_an_error(name: str, text: str, negated: bool) -> None:
    graded = read_grade(assertion(name, negated=negated), 0, ANSWER, {"": text})
    assert not graded.passed
    assert "the grader's answer" in graded.error
    assert "\n" not in graded.error


@pytest.mark.parametrize(
    ("texts", "fields", "passed", "score"),
    [
        ({"score": '{"score": 8, "reason": "r"}'}, {}, True, 0.8),
        ({"score": '{"score": "6", "reason": "r"}'}, {}, False, 0.6),
        ({"score": '{"score": 6, "reason": "r"}'}, {"threshold": 0.6}, True, 0.6),
        ({"score": '{"score": 8, "reason": "r"}'}, {"negated": True}, False, 0.2),
    ],
)
def test_g_eval_scores(texts: dict[str, str], fields: dict[str, Any], passed: bool, score: float) -> None:
    graded = read_grade(assertion("g-eval", **fields), 0, ANSWER, texts)
    assert (graded.error, graded.passed) == ("", passed)
    assert graded.score == pytest.approx(score)


def test_g_eval_of_a_list_is_the_mean_and_fails_as_a_whole() -> None:
    spec = assertion("g-eval", ["a", "b"])
    texts = {"score": '{"score": 10, "reason": "one"}', "score1": '{"score": 5, "reason": "two"}'}
    graded = read_grade(spec, 0, ANSWER, texts)
    assert (graded.passed, graded.score, graded.reason) == (True, 0.75, "one\n\ntwo")
    for bad in ('{"score": 11, "reason": "r"}', '{"score": 5}', "ten", '{"score": null, "reason": "r"}'):
        assert "the grader's answer" in read_grade(spec, 0, ANSWER, {**texts, "score1": bad}).error


def test_the_best_of_a_row() -> None:
    spec = assertion("select-best", "is shortest", weight=2)
    answers = [GradedAnswer(output=text) for text in ("long answer", '{"a": 1}', "x")]
    text = best_question(spec, answers).messages[1]["content"]
    assert text.index("long answer") < text.index('{"a":1}') < text.index('number="2"')
    results = read_best(spec, 1, answers, "The best is 2.")
    assert [each.passed for each in results] == [False, False, True]
    assert [each.passed for each in read_best(assertion("select-best", negated=True), 1, answers, "2")] == [
        True,
        True,
        False,
    ]
    for bad in ("3", "none", ""):
        assert all("the grader's answer" in each.error for each in read_best(spec, 1, answers, bad))
    with pytest.raises(CannotJudge, match="only one answer"):
        best_question(spec, answers[:1])


@pytest.mark.parametrize("name", ["factuality", "model-graded-closedqa", "g-eval"])
def test_a_value_that_is_no_text_cannot_be_asked(name: str) -> None:
    with pytest.raises(CannotJudge, match=r"not a text|neither a text"):
        question(assertion(name, {"a": 1}), "steps" if name == "g-eval" else "", ANSWER, {})


@given(st.text(), st.sampled_from(["llm-rubric", "factuality", "model-graded-closedqa", "g-eval"]))
def test_every_answer_of_a_grader_is_a_verdict_or_an_error(text: str, name: str) -> None:
    graded = read_grade(assertion(name), 0, ANSWER, {"": text, "score": text})
    assert not (graded.error and graded.passed)


def test_a_huge_answer_of_a_grader_is_read_in_bounded_time() -> None:
    assert read_grade(assertion("llm-rubric"), 0, ANSWER, {"": '{"a":' * 200_000}).error
    assert read_grade(assertion("llm-rubric"), 0, ANSWER, {"": "{" * 1_000_000}).error
