"""Assertions of the configuration beside this file."""

from typing import Any


def get_assert(output: str, context: dict[str, Any]) -> Any:
    words = len(output.split())
    return {"pass": words >= context["config"]["least"], "score": 0.5, "reason": f"{words} words"}


def named_scores(output: str, context: dict[str, Any]) -> Any:
    return {
        "pass_": True,
        "score": 1.0,
        "reason": "two scores",
        "named_scores": {"first": 0.25, "second": 0.75},
    }
