"""What a flow's commands show of its nodes while it runs and afterwards; its events are written once, whatever kills it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
TOOL = """
def issues(given):
    return ["a", "b", "c", "d"]

def triage(given):
    if given["item"] in given["state"].get("broken", []):
        raise ValueError("cannot triage " + given["item"])
    return given["item"].upper()

def count(given):
    return len(given["state"]["labels"])
"""
FLOW = """
graph:
  nodes:
  - {id: issues, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}
  - id: triage
    kind: tool
    impl: ./tools/work.py:triage
    for_each: {source: $.issues, concurrency: 2}
    reads: [broken]
    writes: [labels]
  - {id: count, kind: tool, impl: "./tools/work.py:count", reads: [labels], writes: [n]}
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headway.toml").write_text(
        "[providers.p]\nkind = 'openai'\nbase_url = 'http://127.0.0.1:9/v1'\nmodel = 'm'\n"
    )
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "work.py").write_text(TOOL)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path


def events_in(folder: Path) -> list[dict[str, Any]]:
    text = (folder / "events.jsonl").read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def recorded(folder: Path) -> dict[str, int]:
    """How many starts, ends and events of nodes the records have. An attempt that was lost before it began has no event."""
    with sqlite3.connect(folder / ".headway" / "headway.db") as db:
        [(starts, ends)] = db.execute(
            "SELECT count(started_utc), count(*) FROM attempts WHERE outcome <> 'lost' OR started_utc IS NOT NULL"
        )
        [(nodes,)] = db.execute("SELECT count(*) FROM node_events")
    return {"starts": starts, "ends": ends, "nodes": nodes}


def must_be_whole(folder: Path) -> None:
    """Every event of the records is in the file, once."""
    found = events_in(folder)
    once = Counter(
        (one["type"], one["unit"], one["data"].get("attempt"), one["data"].get("id")) for one in found
    )
    assert set(once.values()) == {1}, [key for key, n in once.items() if n > 1]
    starts = sum(one["type"] == "unit.started" for one in found)
    nodes = sum(not one["type"].startswith("unit.") for one in found)
    ends = len(found) - starts - nodes
    assert {"starts": starts, "ends": ends, "nodes": nodes} == recorded(folder)


RUN = ("run", "flow.yaml", "--arg", "broken=[]", "--events", "events.jsonl", "-q")


@pytest.mark.parametrize("at", ["add_unit", "change_unit", "add_answer", "note_running"])
@pytest.mark.parametrize("n", [1, 3])
def test_each_event_is_written_once_though_the_run_is_killed(folder: Path, at: str, n: int) -> None:
    killed = headway(folder, *RUN, faults={"kill": {"at": at, "n": n}})
    assert killed.returncode in (0, -9), killed.stderr
    done = headway(folder, *RUN)
    assert done.returncode == 0, done.stderr
    must_be_whole(folder)


def of_nodes(events: list[dict[str, Any]]) -> list[tuple[str, str | None, Any]]:
    """The events of the run, its nodes and its state, in an order that does not depend on what ran side by side."""
    return sorted(
        (one["type"], one["node"] or "", one["data"].get("field", ""))
        for one in events
        if not one["type"].startswith("unit.")
    )


NODE_EVENTS = [
    *(("node.finished", node, "") for node in ("count", "issues", "triage")),
    *(("node.ready", node, "") for node in ("count", "issues", "triage")),
    *(("node.started", node, "") for node in ("count", "issues", "triage")),
    ("run.finished", "", ""),
    ("run.started", "", ""),
    *(
        ("state.write", node, field)
        for node, field in (("count", "n"), ("issues", "issues"), ("triage", "labels"))
    ),
]


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("at", ["add_node_event", "change_unit"])
def test_the_events_of_nodes_are_those_of_an_uninterrupted_run(folder: Path, at: str, n: int) -> None:
    headway(folder, *RUN, faults={"kill": {"at": at, "n": n}})
    done = headway(folder, *RUN)
    assert done.returncode == 0, done.stderr
    assert of_nodes(events_in(folder)) == NODE_EVENTS
    must_be_whole(folder)


def test_a_retry_adds_to_the_file_and_a_torn_line_is_repaired(folder: Path) -> None:
    run = headway(folder, "run", "flow.yaml", "--arg", 'broken=["b"]', "--events", "events.jsonl", "-q")
    assert run.returncode == 1, run.stderr
    before = events_in(folder)
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"utc":"2026-01-01T00:00')
    assert headway(folder, "resume", "--events", "events.jsonl", "-q").returncode == 1
    after = events_in(folder)
    assert after[: len(before)] == before
    must_be_whole(folder)
    failed = [one for one in after if one["type"] == "unit.failed"]
    assert [one["unit"] for one in failed] == ["triage[1]"] * 2
    assert failed[0]["node"] == "triage"
    assert "cannot triage b" in failed[0]["data"]["message"]


def test_a_complete_job_fills_a_new_file(folder: Path) -> None:
    assert headway(folder, "run", "flow.yaml", "--arg", "broken=[]", "-q").returncode == 0
    assert headway(folder, *RUN).returncode == 0
    must_be_whole(folder)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("flow.yaml", "has other contents"),
        ("flow.results.json", "is another file of the run"),
        (".", "is a directory"),
        ("nowhere/e.jsonl", "there is no directory"),
    ],
)
def test_a_file_of_something_else_is_refused(folder: Path, name: str, says: str) -> None:
    refused = headway(folder, "run", "flow.yaml", "--arg", "broken=[]", "--events", name)
    assert refused.returncode == 2
    assert says in refused.stderr
    assert len(refused.stderr.splitlines()) <= 2


def test_a_batch_has_no_events(folder: Path) -> None:
    (folder / "in.jsonl").write_text('{"id": "a", "prompt": "x"}\n')
    refused = headway(folder, "run", "in.jsonl", "--events", "events.jsonl")
    assert refused.returncode == 2
    assert "--events is for flows" in refused.stderr


def test_what_the_commands_show_after_a_run(folder: Path) -> None:
    run = headway(folder, "run", "flow.yaml", "--arg", 'broken=["b"]', "--progress", "plain")
    assert run.returncode == 1
    graph = headway(folder, "graph", "flow.yaml").stdout
    assert "✓ issues  (tool) *  — done, 1/1" in graph
    assert "failed, 4/4, 1 failed" in graph
    assert "critical path (" in graph
    assert "— done" not in headway(folder, "graph", "flow.yaml", "--no-run").stdout
    job = json.loads((folder / "flow.results.json").read_text())["job"]
    of_job = json.loads(headway(folder, "graph", "--job", job, "--json").stdout)
    assert [step["step"] for step in of_job["run"]["critical_path"]] == ["issues", "triage"]
    assert "<svg" in headway(folder, "graph", "flow.yaml", "--format", "html").stdout
    status = headway(folder, "status").stdout
    assert "✗ triage: failed, 4/4, 1 failed" in status
    assert json.loads(headway(folder, "status", "--json").stdout)["nodes"]["issues"]["succeeded"] == 1
    node = headway(folder, "show", job, "triage").stdout.splitlines()
    assert node[0].startswith("triage (tool, for each of $.issues, 2 at a time, node of flow")
    assert any(line.startswith("  triage[1]: failed") and "cannot triage b" in line for line in node)
    assert (
        json.loads(headway(folder, "show", job, "triage", "--json").stdout)["units"][0]["custom_id"]
        == "triage[1]"
    )
    assert "cannot triage b" in headway(folder, "show", job, "triage[1]").stdout
    assert "no unit and no node 'none'" in headway(folder, "show", job, "none").stderr


def test_lines_of_json_have_the_nodes_while_it_runs(folder: Path) -> None:
    run = headway(folder, "run", "flow.yaml", "--arg", "broken=[]", "--progress", "json")
    lines = [json.loads(line) for line in run.stderr.splitlines() if line.startswith("{")]
    progress = [line for line in lines if line["event"] == "progress"]
    assert progress[-1]["node_counts"] == {"success": 3}
    nodes = {name: node for line in progress for name, node in line.get("nodes", {}).items()}
    assert (nodes["triage"]["total"], nodes["triage"]["succeeded"], nodes["triage"]["kind"]) == (4, 4, "tool")


def test_a_node_that_waits_for_the_user_says_what_to_type(folder: Path) -> None:
    (folder / "flow.yaml").write_text(FLOW + "  - {id: gate, kind: human, reads: [n]}\n")
    run = headway(folder, "run", "flow.yaml", "--arg", "broken=[]", "--progress", "plain")
    assert run.returncode == 4
    job = json.loads((folder / "flow.results.json").read_text())["job"]
    assert f"node gate: waits for you, 0/1 — headway approve {job} gate" in run.stderr
    assert "4 nodes: 1 waits for you, 3 done" in run.stderr
    assert f"? gate: waits for you — headway approve {job} gate" in headway(folder, "status").stdout
    assert f"waits for you: headway approve {job} gate" in headway(folder, "graph", "flow.yaml").stdout


def test_a_graph_of_a_changed_file_says_so(folder: Path) -> None:
    assert headway(folder, "run", "flow.yaml", "--arg", "broken=[]", "-q").returncode == 0
    (folder / "flow.yaml").write_text(FLOW.replace("id: count", "id: counted"))
    done = headway(folder, "graph", "flow.yaml")
    assert "flow.yaml is not what job flow" in done.stderr
    assert "✓ issues" in done.stdout
    assert "  counted  (tool)" in done.stdout


def test_the_graph_of_a_file_without_a_database_or_with_a_bad_config(folder: Path) -> None:
    assert headway(folder, "graph", "flow.yaml").returncode == 0
    assert not (folder / ".headway").exists()
    (folder / "headway.toml").write_text("nonsense = 1\n")
    done = headway(folder, "graph", "flow.yaml")
    assert done.returncode == 0
    assert "drawn without its last run" in done.stderr
    assert headway(folder, "graph", "--job", "x").returncode == 2
    assert headway(folder, "graph").returncode == 2
