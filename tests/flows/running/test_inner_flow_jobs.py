"""Flows inside flows: their nodes have routes and records of their own, and their files are part of the job."""

from __future__ import annotations

import json

import pytest
from tests.flows.running.conftest import FlowFolder

INNER = """
graph:
  nodes:
  - {id: label, kind: agent, prompt: ./label.md, reads: [title], writes: [label]}
  - {id: long, kind: tool, impl: "./inner.py:main", reads: [label], writes: [length]}
"""
OUTER = """
  - {id: issues, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}
  - id: sub
    kind: flow
    file: ./sub/flow.yaml
    for_each: {source: $.issues, concurrency: 2}
    args: {title: x}
    writes: [length]
"""


@pytest.fixture
def nested(folder: FlowFolder) -> FlowFolder:
    folder.write("sub/flow.yaml", INNER)
    folder.write("sub/label.md", "label {{state.title}}")
    folder.write("sub/inner.py", "def main(given): return len(given['state']['label'])\n")
    folder.flow(OUTER)
    return folder


def test_an_inner_flow_runs_for_each_item(nested: FlowFolder) -> None:
    done = nested.headway("run", "flow.yaml", "--name", "one")
    assert done.code == 0, done.err
    found = nested.results("flow.one")
    assert found["state"]["length"] == [len("echo: label x")] * 3
    assert (found["nodes"]["sub/label"]["units"], found["nodes"]["sub/long"]["succeeded"]) == (3, 3)
    shown = nested.headway("show", "one", "sub[1]/label").out
    assert "label x" in shown
    assert nested.sent() == 3


@pytest.mark.parametrize("name", ["sub/label.md", "sub/inner.py", "sub/flow.yaml"])
def test_a_changed_file_of_an_inner_flow_makes_a_new_job(nested: FlowFolder, name: str) -> None:
    nested.headway("run", "flow.yaml")
    text = (nested.root / name).read_text()
    nested.write(
        name,
        text.replace("label}", "label }")
        .replace("len(", "1 + len(")
        .replace("label {{", "name {{")
        .replace("id: long", "id: far"),
    )
    assert text != (nested.root / name).read_text()
    assert "was run before as job" in nested.headway("run", "flow.yaml").err


def test_an_error_of_an_inner_tool_names_its_file(nested: FlowFolder) -> None:
    nested.write("sub/inner.py", "def other(given): return 1\n")
    done = nested.headway("run", "flow.yaml")
    assert done.code == 2
    assert "flow.yaml:5: node 'long': inner.py has no function 'main'" in done.err


def test_a_failure_inside_is_the_failure_of_its_node(nested: FlowFolder) -> None:
    nested.write("sub/inner.py", "def main(given): raise ValueError('no')\n")
    done = nested.headway("run", "flow.yaml")
    assert done.code == 1
    found = nested.results()
    assert (found["nodes"]["sub"]["status"], found["nodes"]["sub/long"]["failed"]) == ("failed", 3)
    units = json.loads(nested.headway("export").out)
    assert units == found


def test_plan_validate_and_graph_count_the_same_nodes(nested: FlowFolder) -> None:
    for command in ("plan", "validate", "graph"):
        shown = nested.headway(command, "flow.yaml").out.splitlines()[0]
        assert "4 nodes" in shown, shown
