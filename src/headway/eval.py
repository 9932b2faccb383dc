"""Own grader functions for `headway eval`.

>>> from headway.eval import Grade, assertion
>>> @assertion
... def polite(output, context):
...     return Grade(passed="please" in output, reason="it says please")

In the eval file: `type: python`, `value: file://graders.py:polite`. The decorated function checks what it returns, in an eval and wherever
else it is called. This module imports nothing of Headway: a grader's process loads it in no time.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

__all__ = ["Grade", "assertion"]


class Grade(
    msgspec.Struct, frozen=True, omit_defaults=True, rename={"passed": "pass", "named_scores": "namedScores"}
):
    """How an output did. Without a `score` it is 1 or 0. `named_scores` are further metrics."""

    passed: bool
    score: float | None = None
    reason: str = ""
    named_scores: dict[str, float] = {}

    def __post_init__(self) -> None:
        passed: Any = self.passed
        score: Any = self.score
        if not isinstance(passed, bool):
            raise TypeError(f"Grade(passed=…) must be True or False, not {passed!r}")
        if score is None:
            msgspec.structs.force_setattr(self, "score", float(passed))
        elif isinstance(score, bool) or not isinstance(score, int | float) or score != score:
            raise TypeError(f"Grade(score=…) must be a number, not {score!r}")


def assertion(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function as a grader. It takes the output, and the context if it wants it, and returns a `Grade`, True, False, or a score.

    A dictionary as promptfoo has it (`{"pass": …, "score": …, "reason": …}`) is a `Grade`, too. Anything else raises TypeError.
    """
    takes_context = _takes_context(function)
    name = getattr(function, "__qualname__", repr(function))

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def grade(output: Any, context: Mapping[str, Any] | None = None) -> Grade | float:
            arguments = (output, context or {}) if takes_context else (output,)
            return _checked(name, await function(*arguments))

    else:

        @functools.wraps(function)
        def grade(output: Any, context: Mapping[str, Any] | None = None) -> Grade | float:
            arguments = (output, context or {}) if takes_context else (output,)
            return _checked(name, function(*arguments))

    grade.__headway_assertion__ = True  # type: ignore[attr-defined]
    return grade


def _takes_context(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 1 or any(one.kind is one.VAR_POSITIONAL for one in parameters)


def _checked(name: str, value: Any) -> Grade | float:
    if isinstance(value, Grade):
        return value
    if isinstance(value, bool):
        return Grade(value)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, dict) and isinstance(value.get("pass", value.get("pass_")), bool):
        passed = value["pass"] if "pass" in value else value["pass_"]
        scores = value.get("namedScores") or value.get("named_scores") or {}
        return Grade(passed, value.get("score"), str(value.get("reason", "")), scores)
    raise TypeError(f"{name} returned {type(value).__name__}; expected a Grade, True, False, or a score")
