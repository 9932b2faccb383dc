"""What tools get on standard input, how Python functions are called, and how prompts are filled."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.flows.running.node_run import NextUnit
from headway.flows.running.prompt_text import prompt_of
from headway.flows.running.tool_programs import command_line, tool_input, tool_row
from headway.flows.spec import NodeSpec

UNIT = NextUnit(
    id="review[2]", node="review", state={"diff": "+1", "files": ["a.py"]}, args={"tone": "dry"}, item={"name": "style"}, index=2
)  # fmt: skip


def test_a_tool_gets_exactly_these_keys_on_standard_input() -> None:
    wanted = {
        "state": {"diff": "+1", "files": ["a.py"]},
        "args": {"tone": "dry"},
        "item": {"name": "style"},
        "index": 2,
        "node": "review",
        "job": "flow-1",
    }
    assert list(json.loads(tool_input(UNIT, "flow-1")).items()) == list(wanted.items())
    assert json.loads(json.loads(tool_row(UNIT, "flow-1"))["prompt"]) == wanted


@pytest.mark.parametrize("start", ["def main(given):", "async def main(given):"])
def test_a_python_function_gets_one_argument_and_may_print(tmp_path: Path, start: str) -> None:
    tool = tmp_path / "fetch.py"
    tool.write_text(
        f"import beside\n\n{start}\n    print('hello')\n    return [given['index'], beside.VALUE]\n"
    )
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    argv = command_line(NodeSpec(id="review", kind="tool", impl=tool, function="main"))
    done = subprocess.run(argv, input=tool_input(UNIT, "j"), capture_output=True, check=True)
    assert (json.loads(done.stdout), done.stderr) == ([2, 7], b"hello\n")


def test_a_function_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "fetch.py").write_text("")
    argv = command_line(NodeSpec(id="a", kind="tool", impl=tmp_path / "fetch.py", function="main"))
    done = subprocess.run(argv, input=b"{}", capture_output=True, check=False)
    assert done.returncode == 1
    assert b"has no function 'main'" in done.stderr


def test_programs_are_executables_and_mjs_runs_by_node(tmp_path: Path) -> None:
    (tmp_path / "a.mjs").touch()
    (tmp_path / "b.sh").touch(0o755)
    (tmp_path / "c.sh").touch(0o644)
    nodes = {
        name: NodeSpec(id="t", kind="tool", impl=tmp_path / name, line=7)
        for name in ("a.mjs", "b.sh", "c.sh", "d")
    }
    assert command_line(nodes["a.mjs"]) == ("node", str(tmp_path / "a.mjs"))
    assert command_line(nodes["b.sh"]) == (str(tmp_path / "b.sh"),)
    with pytest.raises(UsageError, match=r"line 7: t\.impl: .*c\.sh is not executable"):
        command_line(nodes["c.sh"])
    with pytest.raises(UsageError, match=r"line 7: t\.impl: there is no file"):
        command_line(nodes["d"])


def test_a_prompt_has_paths_and_nothing_else() -> None:
    text = "{{ item.name }} {{index}} {{state.diff}} {{state.files[0]}} {{state.files}} {{args.tone}} {{{{x}}"
    assert prompt_of(text, UNIT) == 'style 2 +1 a.py ["a.py"] dry {{x}}'
    assert (
        prompt_of("{{item}}", NextUnit(id="a", node="a", state={}, args={}, item="{{state.diff}}"))
        == "{{state.diff}}"
    )
    for bad, why in (
        ("{{state.secret}}", "has no value"),
        ("{{__class__}}", "is not a name"),
        ("{{item.name.x}}", "has no value"),
    ):
        with pytest.raises(UsageError, match=why):
            prompt_of(bad, UNIT)
