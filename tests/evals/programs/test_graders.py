"""`headway.eval`: own grader functions, in an eval and outside of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.evals.programs.running_code import Codes, code_workers, error, value

from headway.eval import Grade, assertion

GRADERS = """
from headway.eval import Grade, assertion

@assertion
def polite(output, context):
    return Grade(passed="hello" in output, reason=context["vars"]["why"], named_scores={"tone": 0.5})
"""


@assertion
def is_short(output: str) -> bool:
    """Few characters."""
    return len(output) < 5


async def test_a_grader_is_an_assertion_by_its_name_or_as_the_only_one(tmp_path: Path) -> None:
    async with code_workers("python", tmp_path) as adapter:
        python = Codes(adapter, "python", tmp_path)
        expected = {"pass": True, "score": 1.0, "reason": "so", "namedScores": {"tone": 0.5}}
        for function in ("polite", ""):
            assert value(await python.asserts_file("g.py", GRADERS, function, vars={"why": "so"})) == expected


async def test_a_grader_that_returns_something_else_is_an_error(tmp_path: Path) -> None:
    text = "from headway.eval import assertion\n@assertion\ndef bad(output, context):\n    return 'yes'\n"
    async with code_workers("python", tmp_path) as adapter:
        message = error(await Codes(adapter, "python", tmp_path).asserts_file("g.py", text, "bad"))
    assert "bad returned str; expected a Grade, True, False, or a score" in message


def test_outside_of_an_eval_it_is_a_function() -> None:
    assert is_short("abc") == Grade(True)
    assert is_short("abcdef", {"vars": {}}) == Grade(passed=False, score=0.0)
    assert is_short.__doc__ == "Few characters."


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (0.25, 0.25),
        (2, 2.0),
        ({"pass": True, "score": 0.5, "reason": "r"}, Grade(True, 0.5, "r")),
        ({"pass_": False, "named_scores": {"a": 1.0}}, Grade(False, 0.0, "", {"a": 1.0})),
    ],
)
def test_what_a_grader_may_return(returned: Any, expected: Any) -> None:
    assert assertion(lambda output, context: returned)("x") == expected


async def test_an_asynchronous_grader_stays_asynchronous() -> None:
    @assertion
    async def later(output: str) -> bool:
        return bool(output)

    assert await later("x") == Grade(True)


def test_a_grade_checks_its_fields() -> None:
    with pytest.raises(TypeError, match="must be True or False, not 'yes'"):
        Grade("yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be a number, not nan"):
        Grade(True, float("nan"))
    assert msgspec.json.encode(Grade(False)) == b'{"pass":false,"score":0.0}'


def test_the_module_loads_nothing_else_of_headway() -> None:
    code = (
        "import headway.eval, sys; print(sorted(name for name in sys.modules if name.startswith('headway')))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "['headway', 'headway.eval']"


def test_the_module_is_an_attribute_of_headway_that_no_star_import_brings() -> None:
    code = (
        "import headway; print(headway.eval.Grade(True).score)\nfrom headway import *\nprint(eval('1 + 1'))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["1.0", "2"]
