"""Reads the answers of graders. PURE. Models wrap JSON in prose and code fences; what cannot be read raises CannotJudge."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from headway.evals.assertions.graded_answer import CannotJudge, CheckFinding
from headway.evals.assertions.json_checks import objects_in
from headway.evals.template_language.js_values import is_number, text_of_value, to_number

_YES: Final = re.compile(r"true|yes|pass|y", re.IGNORECASE)
_OLD_CATEGORY: Final = re.compile(r"\(?([A-Ea-e])\)\s*(.*)", re.DOTALL)
#: The categories of factuality: the name of each one's score in a configuration, its score, and what it means.
_CATEGORIES: Final[Mapping[str, tuple[str, float, str]]] = {
    "A": ("subset", 1.0, "the answer states a part of the expected facts"),
    "B": ("superset", 1.0, "the answer states the expected facts and more"),
    "C": ("agree", 1.0, "the answer states the same facts"),
    "D": ("disagree", 0.0, "the answer contradicts the expected facts"),
    "E": ("differButFactual", 1.0, "the answer differs in nothing that matters"),
}
_QUOTED: Final = 200
#: Characters that are read as YAML, which is slow.
LONGEST_YAML: Final = 20_000
#: An anchor or an alias of YAML: a short text with them can mean a huge value.
_ANCHOR: Final = re.compile(r"(?<![\w\"'])[&*]\w|<<")


def rubric_finding(text: str, threshold: float | None) -> CheckFinding:
    """Of llm-rubric. Without `pass` it has passed, and without `score` a pass is 1."""
    verdict = _object(text)
    passed, score = _passed(verdict.get("pass")), _score(verdict.get("score"))
    if verdict.keys().isdisjoint({"pass", "score"}):
        raise _unreadable(text, "has neither 'pass' nor 'score'")
    score = float(passed) if score is None else score
    if threshold is not None:
        passed = passed and score >= threshold
    reason = verdict.get("reason")
    return CheckFinding(
        passed, text_of_value(reason) if reason else f"the grader's score is {score:g}", score
    )


def _passed(value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return value is not False
    return _YES.fullmatch(text_of_value(value)) is not None


def _score(value: Any) -> float | None:
    """A number, also as a text; None if there is none."""
    if value is None or isinstance(value, bool | dict | list) or value == "":
        return None
    number = float(to_number(value))
    return number if math.isfinite(number) else None


def factuality_finding(text: str, scores: Mapping[str, Any]) -> CheckFinding:
    """Of factuality: a category as JSON, or as `(A) because …`. `scores` has other scores of categories."""
    category, reason = _category(text)
    name, score, meaning = _CATEGORIES[category]
    own = scores.get(name)
    score = float(own) if own is not None and is_number(own) else score
    return CheckFinding(score > 0, reason or meaning, score)


def _category(text: str) -> tuple[str, str]:
    for verdict in (objects_in(text) or _almost_json(text))[:1]:
        category = verdict.get("category")
        if isinstance(category, str) and category.strip().upper() in _CATEGORIES:
            reason = verdict.get("reason")
            return category.strip().upper(), reason.strip() if isinstance(reason, str) else ""
        if category:
            raise _unreadable(text, "has a category that is none of A to E")
    match = _OLD_CATEGORY.search(text)
    if match is None:
        raise _unreadable(text, "names no category")
    return match[1].upper(), match[2].strip()


def closed_qa_finding(text: str) -> CheckFinding:
    """Of model-graded-closedqa: Y or N at the end."""
    end = text.rstrip().rstrip(".*`\"'")
    if end.endswith("Y"):
        return CheckFinding(True, f"the answer meets the criterion: {text.strip()}")
    if end.endswith("N"):
        return CheckFinding(False, f"the answer does not meet the criterion: {text.strip()}")
    raise _unreadable(text, "ends with neither Y nor N")


def steps_of(text: str) -> list[str]:
    """The steps of g-eval."""
    steps = _object(text).get("steps")
    if not isinstance(steps, list) or not steps:
        raise _unreadable(text, "has no steps")
    if not all(isinstance(step, str) and step.strip() for step in steps):
        raise _unreadable(text, "has steps that are not texts")
    return steps


def score_of(text: str, highest: int) -> tuple[float, str]:
    """The score of g-eval from 0 to 1, and the reason."""
    verdict = _object(text)
    score, reason = _score(verdict.get("score")), verdict.get("reason")
    if score is None or not 0 <= score <= highest:
        raise _unreadable(text, f"has no score from 0 to {highest}")
    if not isinstance(reason, str) or not reason.strip():
        raise _unreadable(text, "has no reason")
    return score / highest, reason


def best_number(text: str, count: int) -> int:
    """The number of the best answer: the first integer in the text."""
    match = re.search(r"\d{1,9}", text)
    number = int(match[0]) if match else count
    if number >= count:
        raise _unreadable(text, f"names no answer from 0 to {count - 1}")
    return number


def _object(text: str) -> dict[str, Any]:
    """The first JSON object in the text."""
    objects = objects_in(text) or _almost_json(text)
    if not objects or not isinstance(objects[0], dict):
        raise _unreadable(text, "has no JSON object")
    first: dict[str, Any] = objects[0]
    return first


def _almost_json(text: str) -> list[Any]:
    """The text between the first brace and the last, if it is an object in YAML: single quotes, names without quotes, a comma too many."""
    start, end = text.find("{"), text.rfind("}") + 1
    if not 0 <= start < end <= start + LONGEST_YAML or _ANCHOR.search(text, start, end):
        return []
    try:
        value = yaml.safe_load(text[start:end])
    except (yaml.YAMLError, ValueError, RecursionError):
        return []
    return [value] if isinstance(value, dict) else []


def _unreadable(text: str, why: str) -> CannotJudge:
    line = " ".join(text[: 2 * _QUOTED].split())
    return CannotJudge(f"the grader's answer {why}: '{line[:_QUOTED]}{'…' if len(line) > _QUOTED else ''}'")
