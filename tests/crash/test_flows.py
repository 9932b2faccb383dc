"""SIGKILL at the commit points of a flow, then the same command again: the state at the end is that of an uninterrupted run, and no
finished unit is called again.

The flow has every part: rows, tools with a tolerated failure, a model, a pipeline, a loop, an inner flow. Its tools write down every call
themselves. A test run kills one job many times, each time in a new process. `make crash` also kills a new job at each commit in turn.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.crash.sampling import EVERY_POINT, SIDES, share
from tests.crash.stage import Stage
from tests.crash.test_commit_points import kill

from headway.fake.process import FakeProcess

FLOW = """
runtime: {concurrency: 3}
state:
  schema:
    rows: array
    doubled: {type: array, merge: array_append}
    texts: {type: array, merge: array_append}
    pages: {type: array, merge: array_append}
    draft_of: integer
    tries: {type: integer, default: 0}
    inner: any
    total: integer
graph:
  nodes:
  - {id: rows, kind: dataset, file: ./rows.jsonl, writes: [rows]}
  - {id: double, kind: tool, impl: "./tools/work.py:double", for_each: {source: $.rows, concurrency: 3, max_failures: 1}, writes: [doubled]}
  - {id: say, kind: agent, prompt: ./say.md, for_each: {source: $.doubled, concurrency: 2}, writes: [texts]}
  - {id: draft, kind: tool, impl: "./tools/work.py:draft", writes: [draft_of]}
  - {id: page, kind: tool, impl: "./tools/work.py:page", reads: [draft_of], writes: [pages]}
  - {id: again, kind: tool, impl: "./tools/work.py:again", reads: [tries], writes: [tries]}
  - {id: sub, kind: flow, file: ./sub.yaml, reads: [doubled], writes: [inner]}
  - {id: total, kind: tool, impl: "./tools/work.py:total", reads: [doubled, texts, pages, tries, inner], writes: [total]}
  pipelines:
  - {id: book, items: [1, 2, 3], stages: [draft, page], concurrency: 2}
  loops:
  - {id: until_three, body: [again], until: $.tries >= 3, max_iters: 9}
"""
INNER = """
graph:
  nodes:
  - {id: first, kind: tool, impl: "./tools/work.py:first", reads: [doubled], writes: [sum]}
  - {id: second, kind: tool, impl: "./tools/work.py:second", reads: [sum], writes: [inner]}
"""
TOOLS = """
import os

def note(given):
    index = "" if given["index"] is None else given["index"]
    with open("calls.txt", "a") as file:
        file.write(f"{given['node']}{index}\\n")

def double(given):
    note(given)
    if given["item"] == 4:
        raise ValueError("four")
    return 2 * given["item"]

def draft(given):
    note(given)
    return given["item"]

def page(given):
    note(given)
    return f"page {given['state']['draft_of']}"

def again(given):
    note(given)
    return given["state"]["tries"] + 1

def first(given):
    note(given)
    return sum(given["state"]["doubled"])

def second(given):
    note(given)
    return {"inner": {"sum": given["state"]["sum"]}}

def total(given):
    note(given)
    state = given["state"]
    return sum(state["doubled"]) + len(state["texts"]) + len(state["pages"]) + state["tries"] + state["inner"]["sum"]
"""


#: The commits of a flow are shared by so many tests.
PARTS = 8


class FlowStage(Stage):
    """A folder with the flow."""

    def prepare(self) -> FlowStage:
        self.root.mkdir(exist_ok=True)
        self.configure()
        (self.root / "tools").mkdir()
        (self.root / "tools" / "work.py").write_text(TOOLS)
        (self.root / "flow.yaml").write_text(FLOW)
        (self.root / "sub.yaml").write_text(INNER)
        (self.root / "say.md").write_text("number {{item}}")
        (self.root / "rows.jsonl").write_text("".join(f"{n}\n" for n in range(8)))
        return self

    def results(self) -> dict[str, Any]:
        """What does not depend on the run: the state, and the nodes without what they cost."""
        found = json.loads((self.root / "flow.results.json").read_text())
        nodes = {name: {**node, "cost_usd": 0.0} for name, node in found["nodes"].items()}
        return {"status": found["status"], "state": found["state"], "nodes": nodes}

    def calls(self) -> Counter[str]:
        path = self.root / "calls.txt"
        return Counter(path.read_text().split() if path.exists() else ())

    def finished(self) -> dict[str, int]:
        """The attempts at each unit that has succeeded, by its id."""
        if not self.statuses():
            return {}
        sql = "SELECT custom_id, (SELECT count(*) FROM attempts WHERE attempts.uid = units.uid) FROM units WHERE status = 'succeeded'"
        return dict(self.query(sql))


def call_of(unit: str) -> str:
    """The line that a tool writes for a unit: `double[3]` → double3, `page#1` → page1."""
    return unit.replace("[", "").replace("]", "").replace("#", "")


class FlowWitness:
    """What had finished at each crash must stay as it was."""

    def __init__(self, stage: FlowStage) -> None:
        self.stage = stage
        self._attempts: dict[str, int] = {}
        self._calls: dict[str, int] = {}

    def note_crash(self) -> None:
        calls = self.stage.calls()
        for unit, attempts in self.stage.finished().items():
            self._attempts.setdefault(unit, attempts)
            self._calls.setdefault(unit, calls[call_of(unit)])

    def check(self, wanted: dict[str, Any]) -> None:
        assert self.stage.results() == wanted
        calls, finished = self.stage.calls(), self.stage.finished()
        for unit, attempts in self._attempts.items():
            assert finished[unit] == attempts, f"{unit} was run again after it had finished"
            assert calls[call_of(unit)] == self._calls[unit], f"{unit} was called again after it had finished"
        with self.stage.records() as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            doubles = "SELECT uid FROM attempts WHERE outcome = 'succeeded' GROUP BY uid HAVING count(*) > 1"
            assert db.execute(doubles).fetchall() == []


@pytest.fixture(scope="module")
def wanted(quick_fake: FakeProcess, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of an uninterrupted run."""
    stage = FlowStage(tmp_path_factory.mktemp("flow"), quick_fake, "reference").prepare()
    done = stage.run("run", "flow.yaml", "-q")
    assert done.returncode == 0, done.stderr
    found = stage.results()
    assert found["status"] == "success"
    assert found["state"]["doubled"] == [0, 2, 4, 6, 10, 12, 14]
    assert found["state"]["total"] == 48 + 7 + 3 + 3 + 48
    assert max(stage.calls().values()) == 1
    return found


@pytest.fixture
def flow_stage(tmp_path: Path, quick_fake: FakeProcess) -> FlowStage:
    return FlowStage(tmp_path / "killed", quick_fake, "flow").prepare()


def go_through(stage: FlowStage, points: Sequence[dict[str, Any]], wanted: dict[str, Any]) -> None:
    """Kill at each point in turn, let the flow finish, and compare."""
    witness = FlowWitness(stage)
    for point in points:
        stage.ends_by_kill("run", "flow.yaml", faults=point)
        witness.note_crash()
    done = stage.run("run", "flow.yaml")
    assert done.returncode == 0, done.stderr
    witness.check(wanted)


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_flow_is_taken_in(flow_stage: FlowStage, wanted: dict[str, Any], side: str) -> None:
    points = [kill(name, side) for name in ("add_job", "add_route", "set_value", "seal_job")]
    go_through(flow_stage, points, wanted)


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_units_are_added_and_answered(
    flow_stage: FlowStage, wanted: dict[str, Any], side: str
) -> None:
    names = (
        "add_unit",
        "set_total",
        "intend",
        "note_running",
        "add_attempt",
        "change_unit",
        "add_answer",
        "add_node_event",
    )
    go_through(
        flow_stage, share([kill(name, side, 1 + n % 2) for n, name in enumerate(names, 1)], side), wanted
    )


@pytest.mark.parametrize("side", SIDES)
def test_killed_while_a_flow_ends(flow_stage: FlowStage, wanted: dict[str, Any], side: str) -> None:
    go_through(flow_stage, [kill("put_back", side), kill("end_run", side), kill("end_workers", side)], wanted)


@pytest.mark.parametrize("side", SIDES)
def test_killed_around_commits_one_after_the_other(
    flow_stage: FlowStage, wanted: dict[str, Any], side: str
) -> None:
    go_through(flow_stage, share([kill("COMMIT", side, n) for n in range(3, 11)], side), wanted)


if EVERY_POINT:  # Some minutes: only in `make crash`.

    @pytest.mark.timeout(1200)
    @pytest.mark.parametrize("side", SIDES)
    @pytest.mark.parametrize("part", range(PARTS))
    def test_killed_at_every_commit_of_a_flow(
        tmp_path: Path, quick_fake: FakeProcess, wanted: dict[str, Any], part: int, side: str
    ) -> None:
        """A new job is killed at its first commit, another at its second, and so on, until a run ends before its kill."""
        for n in range(1 + part, 500, PARTS):
            stage = FlowStage(tmp_path / "one", quick_fake, f"commit-{n}").prepare()
            killed = stage.run("run", "flow.yaml", faults=kill("COMMIT", side, n))
            if killed.returncode == 0:
                assert n > 30, "a flow of this size has more commits"
                return
            assert killed.returncode == -9, killed.stderr
            witness = FlowWitness(stage)
            witness.note_crash()
            done = stage.run("run", "flow.yaml")
            assert done.returncode == 0, done.stderr
            witness.check(wanted)
            shutil.rmtree(stage.root)
        raise AssertionError("it never ends")
