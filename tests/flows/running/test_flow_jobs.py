"""Flows as jobs: run by the command, with tools and the fake provider; killed and resumed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headway.testing import fake_provider

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
    command = [sys.executable, "-m", "tests.crash.launcher", *args]
    return subprocess.run(
        command, check=False, cwd=folder, env=env, capture_output=True, text=True, timeout=60
    )


FLOW = """
graph:
  nodes:
  - {id: issues, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}
  - id: triage
    kind: tool
    impl: ./tools/work.py:triage
    for_each: {source: $.issues, concurrency: 2, max_failures: TOLERANCE}
    reads: [broken]
    writes: [labels]
  - {id: count, kind: tool, impl: "./tools/work.py:count", reads: [labels], writes: [n]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headway.toml").write_text(CONFIG)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "work.py").write_text(TOOL)
    (tmp_path / "flow.yaml").write_text(FLOW.replace("TOLERANCE", "0"))
    return tmp_path


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "flow.results.json").read_text())
    return found


LABELS = [{"label": "A", "of": 0}, {"label": "B", "of": 1}, {"label": "C", "of": 2}]


def test_a_flow_of_tools_runs_to_its_results_file(folder: Path) -> None:
    done = headway(folder, "run", "flow.yaml", "--arg", "broken=[]")
    assert done.returncode == 0, done.stderr
    found = results(folder)
    assert list(found) == ["job", "status", "state", "nodes"]
    assert found["status"] == "success"
    assert found["state"] == {"broken": [], "issues": ["a", "b", "c"], "labels": LABELS, "n": 3}
    assert found["nodes"]["triage"] == {
        "status": "success", "reason": "", "units": 3, "succeeded": 3, "failed": 0, "skipped": 0, "cost_usd": 0.0,
    }  # fmt: skip
    again = headway(folder, "run", "flow.yaml", "--arg", "broken=[]")
    assert again.returncode == 0, again.stderr
    assert len((folder / "tools" / "calls.txt").read_text().splitlines()) == 3


def test_a_failure_outside_the_tolerance_is_partial_and_a_resume_needs_no_arguments(folder: Path) -> None:
    done = headway(folder, "run", "flow.yaml", "--arg", 'broken=["b"]', "--max-attempts", "1")
    assert done.returncode == 1
    found = results(folder)
    assert (found["status"], found["nodes"]["triage"]["failed"]) == ("partial", 1)
    assert (found["nodes"]["count"]["status"], found["nodes"]["count"]["reason"]) == (
        "skipped",
        "triage failed",
    )
    assert "labels" not in found["state"]
    assert headway(folder, "resume", "--max-attempts", "1").returncode == 1
    calls = (folder / "tools" / "calls.txt").read_text().split()
    assert sorted(calls) == ["triage0", "triage1", "triage1", "triage2"]


def test_a_tolerated_failure_is_success(folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW.replace("TOLERANCE", "1"))
    done = headway(folder, "run", "flow.yaml", "--arg", 'broken=["b"]', "--max-attempts", "1")
    assert (done.returncode, results(folder)["state"]["n"]) == (0, 2)


@pytest.mark.parametrize("at", ["add_unit", "change_unit", "add_answer", "set_total"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_killed_flow_ends_in_the_state_of_an_uninterrupted_one(folder: Path, at: str, n: int) -> None:
    killed = headway(folder, "run", "flow.yaml", "--arg", "broken=[]", faults={"kill": {"at": at, "n": n}})
    assert killed.returncode in (0, -9)
    done = headway(folder, "run", "flow.yaml", "--arg", "broken=[]")
    assert done.returncode == 0, done.stderr
    assert results(folder)["state"] == {"broken": [], "issues": ["a", "b", "c"], "labels": LABELS, "n": 3}


def test_the_snippet_of_the_seed_reviews_in_dimensions(folder: Path) -> None:
    (folder / "prompts").mkdir()
    (folder / "prompts" / "review.md").write_text("{{item}} {{index}}: {{state.diff}}")
    (folder / "flow.yaml").write_text(
        """
runtime:
  concurrency: 4
graph:
  nodes:
  - id: review
    kind: agent
    prompt: ./prompts/review.md
    for_each:
      source: $.dimensions
      concurrency: 3
    reads: [diff, dimensions]
    writes: [findings]
"""
    )
    (folder / "in.json").write_text('{"diff": "+1", "dimensions": ["style", "bugs"]}')
    with fake_provider() as provider:
        (folder / "headway.toml").write_text(CONFIG.replace("http://127.0.0.1:9/v1", f"{provider.url}/v1"))
        done = headway(folder, "run", "flow.yaml", "--state", "in.json")
    assert done.returncode == 0, done.stderr
    first, second = results(folder)["state"]["findings"]
    assert ("style 0: +1" in first, "bugs 1: +1" in second) == (True, True)


def test_what_is_not_built_is_refused_with_its_line(folder: Path) -> None:
    (folder / "flow.yaml").write_text("graph:\n  nodes:\n  - {id: ok, kind: human}\n")
    done = headway(folder, "run", "flow.yaml")
    assert done.returncode == 2
    assert "flow.yaml, line 3: ok: kind: human is not supported yet" in done.stderr
