"""Flows as jobs: run by the command, with tools and the fake provider; killed and resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
CONFIG = "[providers.p]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\nmodel = 'm'\n"
TOOL = """
import os, sys, json

def issues(given):
    return ["a", "b", "c"]

def triage(given):
    with open("calls.txt", "a") as file:
        file.write(given["node"] + str(given["index"]) + "\\n")
    if given["item"] in given["state"].get("broken", []):
        raise ValueError("cannot triage " + given["item"])
    return {"label": given["item"].upper(), "of": given["index"]}

def count(given):
    return len(given["state"]["labels"])
"""


def headway(
    folder: Path, *args: str, faults: dict[str, Any] | None = None
) -> subprocess.CompletedProcess[str]:
    path = f"{REPOSITORY}:{REPOSITORY / 'src'}"
    env = {**os.environ, "PYTHONPATH": path, "HEADWAY_TEST_FAULTS": json.dumps(faults or {})}
    command = [sys.executable, "-m", "tests.flows.running.flow_main", *args]
    return subprocess.run(
        command, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "kind": "tool", "impl": "tools/work.py", "function": name, **more}


def spec(**triage: Any) -> dict[str, Any]:
    each = {"source": "$.issues", "concurrency": 2}
    nodes = {
        "issues": tool("issues", writes=["issues"]),
        "triage": tool(
            "triage", reads=["broken"], writes=["labels"],
            after=[{"id": "issues", "fields": ["issues"]}], **{"for_each": each, **triage},
        ),
        "count": tool("count", reads=["labels"], writes=["n"], after=[{"id": "triage", "fields": ["labels"]}]),
    }  # fmt: skip
    merges = {"issues": "last_wins", "labels": "array_append", "n": "last_wins"}
    fields = {name: {"name": name, "merge": merge} for name, merge in merges.items()}
    return {"fields": fields, "nodes": nodes, "step_order": list(nodes)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headway.toml").write_text(CONFIG)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "work.py").write_text(TOOL)
    (tmp_path / "flow.yaml").write_text(json.dumps(spec()))
    return tmp_path


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "flow.results.json").read_text())
    return found


LABELS = [{"label": "A", "of": 0}, {"label": "B", "of": 1}, {"label": "C", "of": 2}]


def test_a_flow_of_tools_runs_to_its_results_file(folder: Path) -> None:
    done = headway(folder, "run", "flow.yaml")
    assert done.returncode == 0, done.stderr
    found = results(folder)
    assert list(found) == ["job", "status", "state", "nodes"]
    assert found["status"] == "success"
    assert found["state"] == {"issues": ["a", "b", "c"], "labels": LABELS, "n": 3}
    assert found["nodes"]["triage"] == {
        "status": "success", "reason": "", "units": 3, "succeeded": 3, "failed": 0, "skipped": 0, "cost_usd": 0.0,
    }  # fmt: skip
    again = headway(folder, "run", "flow.yaml")
    assert again.returncode == 0, again.stderr
    assert len((folder / "tools" / "calls.txt").read_text().splitlines()) == 3
