"""The types of assertions: what is refused before anything runs, and the page that is generated from them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.evals.assertions.registry import KINDS, UNSUPPORTED, problem_of
from headway.evals.spec import AssertionSpec, Code

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": "contans"}, "did you mean 'contains'?"),
        ({"type": "answer-relevance"}, "use llm-rubric"),
        ({"type": "cost"}, "needs a 'threshold'"),
        ({"type": "contains"}, "needs a 'value'"),
        ({"type": "assert-set"}, "no assertions"),
        ({"type": "regex", "value": "("}, "no regular expression"),
        ({"type": "is-json", "value": {"type": "objct"}}, "schema is wrong"),
        ({"type": "is-json", "value": "{ type: ["}, "neither YAML nor JSON"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(fields: dict[str, Any], problem: str) -> None:
    assert problem in problem_of(AssertionSpec(**fields))


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "equals", "value": ""},
        {"type": "equals", "value": 0},
        {"type": "regex", "value": "{{ pattern }}("},
        {"type": "is-json"},
        {"type": "cost", "threshold": 0},
        {"type": "python", "code": Code("python", source="True")},
        {"type": "similar:dot", "value": ["a"]},
        {"type": "contains", "value": 0},
    ],
)
def test_what_is_right_has_no_problem(fields: dict[str, Any]) -> None:
    assert problem_of(AssertionSpec(**fields)) == ""


def test_a_type_is_supported_or_refused() -> None:
    assert not KINDS.keys() & UNSUPPORTED.keys()
    assert all(
        (kind.check is not None) == (kind.needs == "nothing")
        for name, kind in KINDS.items()
        if name != "assert-set"
    )


def test_the_page_of_assertions_is_current() -> None:
    done = subprocess.run([sys.executable, "tools/draw_eval_assertions.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0
