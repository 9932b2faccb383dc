"""`headway validate` and `headway graph`, and the JSON Schema for editors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from headway.cli import main
from headway.flows.flow_file import check_flow
from headway.flows.json_schema import SCHEMA_FILE, flow_schema, schema_text

FlowFile = Callable[[str], Path]
ROOT = Path(__file__).parents[2]
GOOD = """
name: <b>book</b>
graph:
  nodes:
    - {id: split, kind: tool, impl: './tools/step.py:main', writes: [chapters]}
    - {id: translate, kind: tool, impl: './tools/step.py:main', reads: [glossary], writes: [pages]}
    - {id: terms, kind: tool, impl: './tools/step.py:main', reads: [pages], writes: [glossary]}
    - {id: bind, kind: tool, impl: './tools/step.py:main', reads: [pages], when: '"<x>" != $.title'}
  pipelines: [{id: book, items: $.chapters, stages: [translate, terms]}]
"""


def test_a_valid_flow(flow_file: FlowFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(flow_file(GOOD))]) == 0
    assert "valid, 4 nodes; inputs: title" in capsys.readouterr().out


def test_an_invalid_flow(flow_file: FlowFile, capsys: pytest.CaptureFixture[str]) -> None:
    path = flow_file(GOOD.replace("kind: tool", "kind: tol"))
    assert main(["validate", str(path)]) == 2
    shown = capsys.readouterr().err
    assert f"{path}:5: node 'split'.kind: 'tol' is not possible — did you mean 'tool'?" in shown
    assert f"{path}: 4 errors" in shown
    assert main(["validate", str(path), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert (report["valid"], len(report["problems"]), report["problems"][0]["line"]) == (False, 4, 5)


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "none.yaml"]) == 2
    assert "none.yaml: no such file" in capsys.readouterr().err


def test_the_graph_as_text(flow_file: FlowFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(flow_file(GOOD))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == [
        "split  (tool)",
        "book  (pipeline over $.chapters, 1 at a time)  ← split [chapters]",
        "  translate  (tool)",
    ]


def test_the_graph_as_mermaid_and_html_escapes_names(
    flow_file: FlowFile, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["graph", str(flow_file(GOOD)), "--format", "mermaid"]) == 0
    diagram = capsys.readouterr().out
    assert diagram.startswith("flowchart LR\n")
    assert "<x>" not in diagram
    assert main(["graph", str(flow_file(GOOD)), "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert "<b>book</b>" not in page
    assert "&lt;b&gt;book&lt;/b&gt;" in page
    assert "<svg" in page
    assert "<script" not in page


def test_the_graph_as_json(flow_file: FlowFile, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["graph", str(flow_file(GOOD)), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [step["id"] for step in report["steps"]] == ["split", "book", "bind"]
    assert [step["id"] for step in report["steps"][1]["members"]] == ["translate", "terms"]


def test_the_schema_is_current_and_accepts_a_flow() -> None:
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text()
    validator = jsonschema_rs.validator_for(flow_schema())
    assert validator.is_valid(yaml.safe_load(GOOD))
    assert not validator.is_valid({"graph": {"nodes": [{"id": "a", "kind": "agnt"}]}})
    done = subprocess.run([sys.executable, "tools/draw_flow_schema.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


def test_the_schema_refuses_a_list_for_a_for_each_as_the_reader_does(flow_file: FlowFile) -> None:
    text = "graph: {nodes: [{id: a, kind: tool, impl: './tools/step.py:main', for_each: [1]}]}\n"
    checked = check_flow(flow_file(text))
    assert "expected a mapping, not a list" in checked.problems[0].message
    node = {"id": "a", "kind": "tool", "impl": "./tools/step.py:main", "for_each": [1]}
    validator = jsonschema_rs.validator_for(flow_schema())
    assert not validator.is_valid({"graph": {"nodes": [node]}})
    assert validator.is_valid({"graph": {"nodes": [{**node, "for_each": {"source": [1]}}]}})


def test_the_page_of_keys_is_current() -> None:
    done = subprocess.run([sys.executable, "tools/draw_flow_keys.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0
