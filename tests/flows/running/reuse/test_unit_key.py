"""Keys of units: every part matters, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headway.flows.flow_file import load_flow
from headway.flows.lazy_list import LazyList
from headway.flows.running.flow_form import FlowNode, nodes_of
from headway.flows.running.reuse.tool_files import tool_files
from headway.flows.running.reuse.unit_key import UnitKeys, node_parts, state_digest
from headway.flows.running.steps.node_run import NextUnit

FLOW = """
graph:
  nodes:
    - {id: ask, kind: agent, prompt: ./ask.md, model: m, args: {tone: dry}, reads: [a], writes: [b]}
    - {id: call, kind: tool, impl: ./call.py:main, reads: [a], writes: [c]}
    - {id: turn, kind: agent, prompt: ./ask.md, args: {tone: dry}, reads: [a], writes: [d]}
    - {id: sub, kind: flow, file: ./sub.yaml, reads: [a], writes: [e]}
  loops: [{id: rounds, body: [turn, sub], until: $.a == 1}]
"""
SUB = """
graph:
  nodes:
    - {id: inner, kind: agent, prompt: ./ask.md, args: {tone: dry}, reads: [a], writes: [e]}
"""
MODEL = ("openai", "http://localhost/v1", "m")
TOOL = {"call.py": "1"}


class Made:
    """Keys of the flow in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("ask.md", "Say {{state.a}} in a {{args.tone}} tone.")
        self.write("call.py", "def main(given): return 1\n")
        self.write("sub.yaml", SUB)
        self.write("flow.yaml", FLOW)

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)

    def key(
        self,
        unit: NextUnit,
        *,
        edit: Callable[[FlowNode], FlowNode] = lambda one: one,
        prompt: str | None = None,
        tool: dict[str, str] = TOOL,
        model: tuple[str, str, str] = MODEL,
        job: str = "job",
    ) -> bytes:
        nodes = [edit(one) for one in nodes_of(load_flow(self.root / "flow.yaml"))]
        text = prompt or (self.root / "ask.md").read_text()
        prompts = {one.path: text for one in nodes if one.node.kind == "agent"}
        parts = {
            one.path: node_parts(
                one,
                prompts.get(one.path),
                tool if one.node.kind == "tool" else None,
                model if one.path in prompts else None,
            )
            for one in nodes
        }
        return UnitKeys(nodes, prompts, parts, job).key(unit)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def unit(node: str = "ask", **more: Any) -> NextUnit:
    given: dict[str, Any] = {"id": node, "node": node, "state": {"a": 1}, "args": {}} | more
    return NextUnit(**given)


def changed(**fields: Any) -> Callable[[FlowNode], FlowNode]:
    return lambda one: one._replace(node=replace(one.node, **fields)) if one.path in ("ask", "call") else one


@pytest.mark.parametrize(
    "change",
    [
        {"prompt": "Say {{state.a}}."},
        {"model": ("openai", "http://localhost/v1", "m2")},
        {"model": ("openai", "http://elsewhere/v1", "m")},
        {"model": ("anthropic", "http://localhost/v1", "m")},
        {"edit": changed(args={"tone": "warm"})},
        {"edit": changed(writes=("x",))},
        {"edit": changed(reads=("a", "z"))},
        {"edit": changed(schema={"type": "string"})},
        {"edit": changed(json_answer=True)},
    ],
)
def test_every_part_of_a_node_matters(made: Made, change: dict[str, Any]) -> None:
    assert made.key(unit(), **change) != made.key(unit())


@pytest.mark.parametrize(
    "other",
    [
        unit(state={"a": 2}),
        unit(state={"a": 1, "b": 1}),
        unit(state={}),
        unit(item="x"),
        unit(item=None, state={"a": "1"}),
    ],
)
def test_what_a_unit_sees_matters(made: Made, other: NextUnit) -> None:
    assert made.key(other) != made.key(unit())


def test_a_tool_has_its_files_its_function_and_its_index(made: Made) -> None:
    keys = {
        made.key(unit("call")),
        made.key(unit("call"), tool={"call.py": "2"}),
        made.key(unit("call"), tool={"call.py": "1", "beside.py": "1"}),
        made.key(unit("call"), edit=changed(function="other")),
        made.key(unit("call", id="call[1]", index=1)),
    }
    assert len(keys) == 5


def test_an_index_counts_for_agents_whose_prompt_names_it(made: Made) -> None:
    moved = unit(id="ask[1]", index=1)
    assert made.key(moved) == made.key(unit())
    assert made.key(moved, prompt="{{index}}") != made.key(unit(), prompt="{{index}}")


def test_the_name_of_the_job_counts_for_prompts_that_name_it(made: Made) -> None:
    assert made.key(unit(), job="other") == made.key(unit())
    assert made.key(unit(), job="other", prompt="{{ job }}") != made.key(unit(), prompt="{{ job }}")
    assert made.key(unit("call"), job="other") == made.key(unit("call"))


def test_iterations_of_a_loop_have_keys_of_their_own_also_inside_inner_flows(made: Made) -> None:
    assert made.key(unit("turn", id="turn#0", index=0)) != made.key(unit("turn", id="turn#1", index=1))
    inner = [unit("sub/inner", id=f"sub#{n}/inner") for n in range(2)]
    assert made.key(inner[0]) != made.key(inner[1])


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: "# a comment\n\n" + text,
        lambda text: text.replace(
            "writes: [b]}", "writes: [b], timeout: 9s, description: d, when: $.a == 1}"
        ),
        lambda text: text.replace(
            "writes: [b]}", "writes: [b], on_error: {policy: retry, attempts: 2}, cache: false}"
        ),
        lambda text: text.replace("    - {id: ask", "    - {id: ask", 1).replace(
            "graph:\n  nodes:\n", "graph:\n  nodes:\n    - {id: first, kind: human, writes: [z]}\n"
        ),
    ],
)
def test_what_decides_whether_and_when_it_runs_does_not_matter(
    made: Made, edit: Callable[[str], str]
) -> None:
    before = made.key(unit()), made.key(unit("call"))
    made.write("flow.yaml", edit(FLOW))
    assert (made.key(unit()), made.key(unit("call"))) == before


def test_a_moved_node_and_another_folder_do_not_matter(made: Made, tmp_path: Path) -> None:
    before = made.key(unit()), made.key(unit("call"))
    lines = FLOW.splitlines(keepends=True)
    lines.insert(6, lines.pop(3))
    made.write("flow.yaml", "".join(lines))
    assert (made.key(unit()), made.key(unit("call"))) == before
    (tmp_path / "elsewhere").mkdir()
    assert Made(tmp_path / "elsewhere").key(unit()) == before[0]


class Numbers(LazyList):
    def __len__(self) -> int:
        return 600

    def read(self, first: int, limit: int) -> list[int]:
        return list(range(first, min(600, first + limit)))


def test_a_lazy_list_has_the_digest_of_its_elements(made: Made) -> None:
    assert state_digest({"a": Numbers()}) == state_digest({"a": list(range(600))})
    assert state_digest({"a": Numbers()}) != state_digest({"a": list(range(599))})
    assert made.key(unit(item=Numbers())) == made.key(unit(item=list(range(600))))


# -- the files of a tool --------------------------------------------------------------------------------------------------


def test_a_python_tool_is_its_file_and_the_modules_beside_it_that_it_imports(tmp_path: Path) -> None:
    for name, text in {
        "tool.py": "import json, near\nfrom pack.deep import thing\n\ndef main(given):\n    from . import late\n",
        "near.py": "import far\n",
        "far.py": "import tool\n",
        "late.py": "",
        "unused.py": "",
        "json.py": "",
        "pack/__init__.py": "",
        "pack/deep.py": "from .sibling import x\n",
        "pack/sibling.py": "",
        "pack/unused.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(tool_files(tmp_path / "tool.py")) == [
        "far.py", "json.py", "late.py", "near.py", "pack/__init__.py", "pack/deep.py", "pack/sibling.py", "tool.py",
    ]  # fmt: skip


def test_a_script_is_its_file_and_what_it_imports_by_a_relative_path(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "tool.mjs").write_text(
        "import x from './lib/x.mjs'\nimport 'left-pad'\nconst y = require(\"./y\")\n"
    )
    (tmp_path / "lib" / "x.mjs").write_text("import './z.mjs'")
    (tmp_path / "y.js").write_text("")
    (tmp_path / "lib" / "z.mjs").write_text("")
    assert list(tool_files(tmp_path / "tool.mjs")) == ["lib/x.mjs", "lib/z.mjs", "tool.mjs", "y.js"]
    (tmp_path / "tool.sh").write_text("#!/bin/sh\n. ./other.sh\n")
    assert list(tool_files(tmp_path / "tool.sh")) == ["tool.sh"]
