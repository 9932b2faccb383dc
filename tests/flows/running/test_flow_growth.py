"""The growth of a flow's job over a store, without an engine: what ends, approvals and restarts add."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headway.flows.flow_file import load_flow
from headway.flows.running.flow_form import FlowForm, encode_form, nodes_of
from headway.flows.running.growth import FlowGrowth
from headway.flows.running.outputs.results import results_json
from headway.flows.running.recorded_run import rebuilt_run, tolerated_failures
from headway.flows.running.requests.tool_programs import target_of
from headway.flows.running.state.stored_values import APPROVALS
from headway.stores.records import Job, NewJob, StoredRoute, UnitChange
from headway.stores.sqlite.memory import SqliteMemory
from headway.stores.store import Store
from headway.stores.write_batch import WriteBatch

FILES = {"work.py": "def main(given): return 1\n", "rows.jsonl": "{}\n", "ask.md": "{{item.name}}"}
TOOL = "kind: tool, impl: './work.py:main'"


class Played:
    """A job of a flow; the test plays the engine."""

    def __init__(
        self, folder: Path, flow: str, inputs: dict[str, Any], rows: Mapping[str, list[Any]]
    ) -> None:
        for name, text in FILES.items():
            (folder / name).write_text(text)
        (folder / "flow.yaml").write_text(flow)
        spec = load_flow(folder / "flow.yaml")
        self.store = Store(SqliteMemory())
        prompts = {one.path: FILES["ask.md"] for one in nodes_of(spec) if one.node.prompt}
        form = FlowForm(spec=spec, inputs=inputs, prompts=prompts)
        self.number = self.store.add_job(
            NewJob("book", "flow", "f", "d", "", 0.0, {"flow": encode_form(form)})
        )
        for path, _, node in nodes_of(spec):
            if node.kind == "tool":
                target = target_of(node, folder)
                self.store.add_route(
                    self.number, StoredRoute(target.provider, "python", target.model, label=path)
                )
            elif node.kind == "agent":
                self.store.add_route(self.number, StoredRoute("p", "openai", "m", label=path))
        for path, values in rows.items():
            self.store.add_values(
                self.number, f"rows:{path}", 0, [msgspec.json.encode(one) for one in values]
            )
        self.store.seal(self.number, 0, {}, "d")
        self.restart()

    def restart(self) -> list[str]:
        """Begin a run as a new process; returns the ids of the units that are added."""
        stay = tolerated_failures(self.store, self.job)
        self.worker = self.store.begin(self.number, {}, "", 0.0, stay=stay)
        self.growth = FlowGrowth(self.job)
        return [unit.custom_id for _, unit in self.store.grow(self.number, self.growth).added]

    @property
    def job(self) -> Job:
        job = self.store.job("book")
        assert job is not None
        return job

    def ended(self, answers: Mapping[str, Any], *failed: str) -> list[str]:
        """These units end in one transaction; returns the ids of those that are added."""
        batch = WriteBatch(self.number, self.worker, grow=self.growth)
        for unit, answer in answers.items():
            index = self.index(unit)
            batch.change(index, UnitChange("succeeded", tries=1, finished_utc=1.0, cost_usd=0.5))
            batch.answers.append((index, None, None, msgspec.json.encode(answer)))
        for unit in failed:
            batch.change(
                self.index(unit), UnitChange("failed", tries=1, message="it broke", finished_utc=1.0)
            )
        self.store.commit(batch)
        return [unit.custom_id for _, unit in batch.grown]

    def look(self) -> list[str]:
        """Another terminal has written a value."""
        batch = WriteBatch(self.number, self.worker, grow=self.growth)
        batch.look = True
        self.store.commit(batch)
        return [unit.custom_id for _, unit in batch.grown]

    def approve(self, unit: str, **said: Any) -> None:
        value = msgspec.json.encode({"unit": unit, "approved": True, "utc": 1.0, **said})
        self.store.add_values(
            self.number, APPROVALS, self.store.count_values(self.number, APPROVALS), [value]
        )

    def index(self, unit: str) -> int:
        index = self.store.index_of(self.number, unit)
        assert index is not None, unit
        return index

    def request(self, unit: str) -> dict[str, Any]:
        [(_, _, body)] = self.store.requests(self.number, [self.index(unit)])
        found: dict[str, Any] = json.loads(body)
        return found

    def units(self) -> list[str]:
        return [one.custom_id for one in self.store.results(self.number, -1, 10_000)]

    def results(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(b"".join(results_json(self.store, self.job)))
        return found

    def events(self) -> list[tuple[str, str]]:
        return [(one.type, one.unit or one.node) for one in self.store.node_events(self.number)]


@pytest.fixture
def play(tmp_path: Path) -> Any:
    def played(
        nodes: str, *, inputs: dict[str, Any] | None = None, rows: Mapping[str, list[Any]] = {}
    ) -> Played:
        return Played(tmp_path, f"graph:\n  nodes:\n{nodes}", inputs or {}, rows)

    return played


CHAIN = f"""
  - {{id: one, {TOOL}, writes: [a]}}
  - {{id: two, {TOOL}, reads: [a], writes: [b]}}
"""


def test_the_first_look_adds_the_first_units_and_ends_add_others(play: Any) -> None:
    job = play(CHAIN)
    assert job.units() == ["one"]
    assert job.ended({"one": "A"}) == ["two"]
    assert '"a":"A"' in json.dumps(job.request("two"), separators=(",", ":")).replace("\\", "")
    assert job.ended({"two": "B"}) == []
    found = job.results()
    assert (found["job"], found["status"], found["state"]) == ("book", "success", {"a": "A", "b": "B"})
    assert found["nodes"]["two"] == {
        "status": "success", "reason": "", "units": 1, "succeeded": 1, "failed": 0, "skipped": 0, "cost_usd": 0.5,
    }  # fmt: skip


def test_a_process_that_follows_goes_on_and_repeats_no_event(play: Any) -> None:
    job = play(CHAIN)
    job.ended({"one": "A"})
    before = job.events()
    assert job.restart() == []  # Its unit is there already.
    assert job.events() == before
    job.ended({"two": "B"})
    assert [name for name, _ in job.events()].count("run.finished") == 1
    assert job.events()[:3] == [("run.started", ""), ("node.ready", "one"), ("node.started", "one")]


def test_a_unit_whose_request_cannot_be_made_fails_for_good_and_others_follow(play: Any) -> None:
    job = play(
        "  - {id: ask, kind: agent, prompt: ./ask.md, for_each: {source: [1, 2], max_failures: 2}, writes: [x]}\n"
        f"  - {{id: after, {TOOL}, reads: [x]}}\n"
    )
    assert job.units() == ["after"]
    job.restart()
    report = job.results()["nodes"]["ask"]
    assert (report["status"], report["failed"]) == ("success", 2)


def test_an_approval_of_another_terminal_is_taken_in_by_a_look(play: Any) -> None:
    job = play(f"  - {{id: ok, kind: human, writes: [said]}}\n  - {{id: go, {TOOL}, reads: [said]}}\n")
    assert job.units() == []
    assert job.results()["status"] == "waiting"
    assert job.growth.parts()[0].waiting == ("ok",)
    job.approve("ok", answer="fine")
    assert job.look() == ["go"]
    assert job.results()["state"] == {"said": "fine"}
    assert job.look() == []


def test_an_approval_that_nobody_looked_at_is_taken_in_by_the_next_process(play: Any) -> None:
    job = play(f"  - {{id: ok, kind: human, writes: [said]}}\n  - {{id: go, {TOOL}, reads: [said]}}\n")
    job.approve("ok")
    assert job.restart() == ["go"]
    assert job.results()["state"] == {"said": True}
    assert ("node.finished", "ok") in job.events()
    again = job.events()
    job.restart()
    assert [one for one in job.events() if one[0].startswith("node.")] == [
        one for one in again if one[0].startswith("node.")
    ]


def test_a_rejection_fails_the_node_until_an_approval_follows(play: Any) -> None:
    """What the run has taken in stays for this run. The next one knows that the user has changed his mind."""
    job = play(f"  - {{id: ok, kind: human, writes: [said]}}\n  - {{id: go, {TOOL}, reads: [said]}}\n")
    job.approve("ok", approved=False, note="too long")
    assert job.look() == []
    assert job.results()["nodes"]["ok"]["reason"] == "too long"
    assert job.restart() == []
    job.approve("ok", answer="fine")
    assert job.look() == []
    assert job.restart() == ["go"]
    job.approve("ok", approved=False)
    assert job.results()["state"] == {"said": "fine"}


def test_failures_within_a_tolerance_stay_ended_and_others_run_again(play: Any) -> None:
    job = play(
        f"  - {{id: some, {TOOL}, for_each: {{source: [1, 2], concurrency: 2, max_failures: 1}}, writes: [x]}}\n"
        f"  - {{id: all, {TOOL}, for_each: {{source: [1, 2], concurrency: 2}}, writes: [y]}}\n"
    )
    job.ended({"some[1]": 1}, "some[0]")
    job.ended({"all[1]": 1}, "all[0]")
    assert job.results()["status"] == "partial"
    job.restart()
    states = {one.custom_id: one.status for one in job.store.results(job.number, -1, 99)}
    assert states == {"some[0]": "failed", "some[1]": "succeeded", "all[0]": "pending", "all[1]": "succeeded"}
    assert ("node.retrying", "all") in job.events()
    job.ended({"all[0]": 0})
    assert job.results()["status"] == "success"
    assert job.results()["state"] == {"x": [1], "y": [0, 1]}


def test_rows_are_items_and_lists_are_written_in_pages(play: Any) -> None:
    job = play(
        "  - {id: data, kind: dataset, file: ./rows.jsonl, writes: [rows]}\n"
        f"  - {{id: each, {TOOL}, for_each: {{source: $.rows, concurrency: auto}}, writes: [x]}}\n",
        rows={"data": [{"n": n} for n in range(600)]},
    )
    assert len(job.units()) == 600
    job.ended({f"each[{n}]": {"m": n} for n in reversed(range(600))})
    text = b"".join(results_json(job.store, job.job))
    assert json.loads(text)["state"] == {
        "rows": [{"n": n} for n in range(600)],
        "x": [{"m": n} for n in range(600)],
    }
    assert text.startswith(
        b'{\n  "job": "book",\n  "status": "success",\n  "state": {\n    "rows": [\n      {"n":0},\n'
    )


def test_an_empty_state_is_written_too(play: Any) -> None:
    job = play(f"  - {{id: one, {TOOL}}}\n")
    assert b'"state": {},' in b"".join(results_json(job.store, job.job))


def test_parts_have_every_node_and_unchanged_ones_are_the_same_objects(play: Any) -> None:
    job = play(CHAIN + f"  - {{id: each, {TOOL}, for_each: {{source: [1, 2, 3]}}}}\n")
    first = {part.name: part for part in job.growth.parts()}
    assert {name: part.status for name, part in first.items()} == {
        "one": "running",
        "two": "pending",
        "each": "ready",
    }
    job.ended({"one": "A"})
    then = {part.name: part for part in job.growth.parts()}
    assert then["one"].status == "success"
    assert {name: part.status for name, part in then.items()} == {
        "one": "success",
        "two": "ready",
        "each": "running",
    }
    assert (then["each"].total, then["each"].running, then["each"].kind) == (3, 1, "tool")
    before = then["one"]
    job.ended({"each[0]": 1})
    assert {part.name: part for part in job.growth.parts()}["one"] is before


def test_fail_run_is_told_to_the_engine_and_a_resume_goes_on(play: Any) -> None:
    job = play(
        f"  - {{id: a, {TOOL}, on_error: fail_run}}\n"
        f"  - {{id: b, {TOOL}, writes: [x]}}\n  - {{id: c, {TOOL}, reads: [x]}}\n"
    )
    assert job.growth.stops() == ""
    job.ended({}, "a")
    assert job.growth.stops() == "a failed: it broke"
    assert job.results()["status"] == "failed"
    assert rebuilt_run(job.store, job.job).stopped
    job.restart()
    assert job.growth.stops() == ""
    assert job.ended({"a": 1}) == ["b"]


def test_a_flow_inside_a_flow(play: Any, tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text(
        f"graph:\n  nodes:\n  - {{id: fetch, {TOOL}, reads: [topic], writes: [facts]}}\n  - {{id: write, {TOOL}, reads: [facts], writes: [text]}}\n"
    )
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    job = play(
        "  - {id: sub, kind: flow, file: ./inner.yaml, for_each: {source: [1, 2], concurrency: 2}, args: {topic: trains}, writes: [text]}\n"
    )
    assert job.units() == ["sub[0]/fetch", "sub[1]/fetch"]
    assert job.ended({"sub[1]/fetch": "F"}) == ["sub[1]/write"]
    job.restart()
    job.ended({"sub[1]/write": "second", "sub[0]/fetch": "F"})
    job.ended({"sub[0]/write": "first"})
    found = job.results()
    assert (found["status"], found["state"]) == ("success", {"text": ["first", "second"]})
    assert list(found["nodes"]) == ["sub", "sub/fetch", "sub/write"]
