"""Assertions that a model judges: the questions to the grader, and what its answers mean. PURE.

The questions of an assertion are known before anything runs (`question_names`), so that each can be a unit of its own. g-eval asks
for steps first, and then for a score by these steps. A grader's answer that cannot be read raises CannotJudge, or is a
result with an error: it says nothing about the answer under test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml
from msgspec import structs

from headway.evals.assertions import grader_prompts
from headway.evals.assertions.graded_answer import (
    CannotJudge,
    CheckFinding,
    GradedAnswer,
    failed_result,
    rendered_value,
    result,
)
from headway.evals.assertions.grader_answers import (
    best_number,
    closed_qa_finding,
    factuality_finding,
    rubric_finding,
    score_of,
    steps_of,
)
from headway.evals.records import AssertionResult
from headway.evals.spec import AssertionSpec
from headway.evals.template_language.js_values import json_text
from headway.evals.templates import TemplateProblem, render_rubric

#: What g-eval needs to pass where no threshold is given, and its highest score.
DEFAULT_G_EVAL: Final = 0.7
HIGHEST: Final = 10

_PROMPTS: Final[Mapping[str, str]] = {
    "llm-rubric": grader_prompts.RUBRIC,
    "factuality": grader_prompts.FACTUALITY,
    "model-graded-factuality": grader_prompts.FACTUALITY,
    "model-graded-closedqa": grader_prompts.CLOSED_QA,
    "select-best": grader_prompts.BEST,
}


class QuestionName(msgspec.Struct, frozen=True):
    """A question of an assertion. `after` is the question whose answer it needs; None: it can be asked at once."""

    name: str
    after: str | None = None


class GraderQuestion(msgspec.Struct, frozen=True):
    """What a grader is asked: the messages of a chat. `schema` is what a JSON answer looks like, if that is known."""

    messages: list[dict[str, Any]]
    schema: dict[str, Any] | None = None


def question_names(assertion: AssertionSpec) -> tuple[QuestionName, ...]:
    """The questions of an assertion. Most have one, with the name ""."""
    if assertion.type != "g-eval":
        return (QuestionName(""),)
    marks = [str(i) if i else "" for i in range(len(_criteria_templates(assertion)))]
    return tuple(
        name
        for mark in marks
        for name in (QuestionName(f"steps{mark}"), QuestionName(f"score{mark}", f"steps{mark}"))
    )


def question(
    assertion: AssertionSpec, name: str, answer: GradedAnswer, earlier: Mapping[str, str]
) -> GraderQuestion:
    """The question of a name. `earlier` has the grader's answers to earlier questions. Raises CannotJudge."""
    if assertion.type == "g-eval":
        return _g_eval_question(assertion, name, answer, earlier)
    own = assertion.rubric_prompt
    template = own or _PROMPTS[assertion.type]
    schema = grader_prompts.VERDICT_SCHEMA if assertion.type == "llm-rubric" and not own else None
    return _asked(template, _variables(assertion, answer), schema)


def _variables(assertion: AssertionSpec, answer: GradedAnswer) -> dict[str, Any]:
    """The variables of a rubric prompt: those of the test, and those of the type."""
    value, output = rendered_value(assertion, answer), _decoded(answer.output)
    values = answer.template_values
    if assertion.type == "llm-rubric":
        return {**values, "output": output, "rubric": "" if value is None else value}
    if not isinstance(value, str):
        raise CannotJudge("its value is not a text", hint="write a text under 'value'")
    name = "criteria" if assertion.type == "model-graded-closedqa" else "ideal"
    return {**values, "input": answer.prompt, name: value, "completion": output}


def _g_eval_question(
    assertion: AssertionSpec, name: str, answer: GradedAnswer, earlier: Mapping[str, str]
) -> GraderQuestion:
    kind = name.rstrip("0123456789")
    mark = name.removeprefix(kind)
    criteria = _criteria(assertion, answer)[int(mark or 0)]
    own = _own_prompts(assertion.rubric_prompt)
    if kind == "steps":
        return _asked(own.get("steps") or grader_prompts.STEPS, {"criteria": criteria})
    values = {
        "criteria": criteria,
        "steps": "\n- ".join(steps_of(earlier.get(f"steps{mark}", ""))),
        "maxScore": str(HIGHEST),
        "input": answer.prompt,
        "output": _decoded(answer.output),
    }
    return _asked(own.get("evaluate") or grader_prompts.SCORE, values)


def _criteria_templates(assertion: AssertionSpec) -> list[Any]:
    return list(assertion.value) if isinstance(assertion.value, list | tuple) else [assertion.value]


def _criteria(assertion: AssertionSpec, answer: GradedAnswer) -> list[str]:
    value = rendered_value(assertion, answer)
    criteria = list(value) if isinstance(value, list | tuple) else [value]
    if not criteria or not all(isinstance(each, str) for each in criteria):
        raise CannotJudge("its value is neither a text nor a list of texts")
    return criteria


def _own_prompts(rubric_prompt: str) -> dict[str, str]:
    """The prompts that replace those of g-eval: an object with `steps` and `evaluate`."""
    try:
        value = msgspec.json.decode(rubric_prompt) if rubric_prompt else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: each if isinstance(each, str) else json_text(each) for name, each in value.items()}


def _asked(template: str, values: Mapping[str, Any], schema: dict[str, Any] | None = None) -> GraderQuestion:
    try:
        return GraderQuestion(_messages(render_rubric(template, values)), schema)
    except TemplateProblem as problem:
        raise CannotJudge(f"its rubric prompt: {problem}") from None


def _messages(prompt: str) -> list[dict[str, Any]]:
    """A prompt that is a chat, in JSON or YAML, or one message of the user."""
    for read in (_from_json, _from_yaml):
        messages = read(prompt)
        if isinstance(messages, list) and messages and all(map(_is_message, messages)):
            return messages
    return [{"role": "user", "content": prompt}]


def _from_json(prompt: str) -> Any:
    try:
        return msgspec.json.decode(prompt)
    except (msgspec.DecodeError, RecursionError):
        return None


def _from_yaml(prompt: str) -> Any:
    if not prompt.lstrip().startswith("- role:"):
        return None
    try:
        return yaml.safe_load(prompt)
    except (yaml.YAMLError, RecursionError):
        return None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and "content" in value


def _decoded(output: Any) -> Any:
    """The answer, read as JSON if it is JSON: then it is printed as compact JSON."""
    decoded = _from_json(output) if isinstance(output, str) else output
    return output if decoded is None else decoded


def read_grade(
    assertion: AssertionSpec, number: int, answer: GradedAnswer, texts: Mapping[str, str]
) -> AssertionResult:
    """The result of an assertion out of the grader's answers by the names of the questions."""
    try:
        graded = result(assertion, number, answer, _finding(assertion, texts))
        score = min(1.0, max(0.0, graded.score)) if assertion.negated else graded.score
        return structs.replace(graded, score=score)
    except CannotJudge as problem:
        return failed_result(assertion, number, answer, f"{assertion.name}: {problem}")


def _finding(assertion: AssertionSpec, texts: Mapping[str, str]) -> CheckFinding:
    if assertion.type == "g-eval":
        return _g_eval_finding(assertion, texts)
    text = texts.get("", "")
    if assertion.type == "llm-rubric":
        return rubric_finding(text, assertion.threshold)
    if assertion.type == "model-graded-closedqa":
        return closed_qa_finding(text)
    return factuality_finding(text, assertion.config.get("factuality") or {})


def _g_eval_finding(assertion: AssertionSpec, texts: Mapping[str, str]) -> CheckFinding:
    """The mean of the criteria's scores."""
    names = [each.name for each in question_names(assertion) if each.after is not None]
    scores = [score_of(texts.get(name, ""), HIGHEST) for name in names]
    mean = sum(score for score, _ in scores) / len(scores)
    threshold = DEFAULT_G_EVAL if assertion.threshold is None else assertion.threshold
    return CheckFinding(mean >= threshold, "\n\n".join(reason for _, reason in scores), mean)


def best_question(assertion: AssertionSpec, answers: Sequence[GradedAnswer]) -> GraderQuestion:
    """The question of `select-best` about the answers of a row."""
    if len(answers) < 2:
        raise CannotJudge("there is only one answer in the row", hint="add a prompt or a provider")
    values = {
        **answers[0].template_values,
        "criteria": assertion.value,
        "outputs": [_decoded(answer.output) for answer in answers],
    }
    return _asked(assertion.rubric_prompt or grader_prompts.BEST, values)


def read_best(
    assertion: AssertionSpec, number: int, answers: Sequence[GradedAnswer], text: str
) -> tuple[AssertionResult, ...]:
    """The results of `select-best`, one for each answer of the row."""
    try:
        best = best_number(text, len(answers))
    except CannotJudge as problem:
        why = f"{assertion.name}: {problem}"
        return tuple(failed_result(assertion, number, answer, why) for answer in answers)
    return tuple(
        result(
            assertion, number, answer, CheckFinding(place == best, _choice(place == best, assertion.value))
        )
        for place, answer in enumerate(answers)
    )


def _choice(chosen: bool, criterion: Any) -> str:
    return f"{'it is' if chosen else 'it is not'} the best answer of its row: {criterion}"
