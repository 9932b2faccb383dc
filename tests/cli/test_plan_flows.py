"""`headway plan flow.yaml`, and `run --dry-run` of a flow: node by node, before a run and after one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.fake.process import FakeProcess, fake_process

TOOL = """
import time

def issues(given):
    time.sleep(0.1)
    return [f"issue {n} about " + "x" * (9 * n) for n in range(given["args"]["n"])]

def is_done(given):
    return len(given["state"]["drafts"]) >= 3
"""
FLOW = """
runtime: {concurrency: auto}
graph:
  nodes:
  - {id: fetch, kind: tool, impl: "./work.py:issues", args: {n: 30}, writes: [issues]}
  - id: label
    kind: agent
    prompt: ./label.md
    for_each: {source: $.issues, concurrency: auto}
    reads: [issues]
    writes: [labels]
  - {id: summary, kind: agent, prompt: ./sum.md, reads: [labels], writes: [text]}
  - {id: draft, kind: agent, prompt: ./draft.md, writes: [drafts]}
  - {id: check, kind: tool, impl: "./work.py:is_done", reads: [drafts], writes: [done]}
  loops:
  - {id: improve, body: [draft, check], until: $.done == true, max_iters: 9}
state:
  schema:
    issues: {type: array}
    labels: {type: array, merge: array_append}
    text: {type: string}
    drafts: {type: array, merge: array_append}
    done: {type: boolean, default: false}
"""


@pytest.fixture
def fake() -> Iterator[FakeProcess]:
    flags = ("--rpm", "1200", "--burst", "1s", "--latency", "100ms-300ms", "--output-tokens", "40-120")
    with fake_process(*flags) as fake:
        yield fake


@pytest.fixture
def folder(stage: Stage, fake: FakeProcess, monkeypatch: pytest.MonkeyPatch) -> Path:
    tmp_path = stage.root
    (tmp_path / "headway.toml").write_text(
        f'[providers.x]\nkind = "openai"\nbase_url = "{fake.url}/v1"\nmodel = "m"\napi_key_env = "KEY_X"\n'
        "[providers.x.models.m.prices]\ninput = 2.0\noutput = 10.0\n"
    )
    (tmp_path / "work.py").write_text(TOOL)
    (tmp_path / "label.md").write_text("Label this issue: {{item}}. Say why.")
    (tmp_path / "sum.md").write_text("Summarise {{state.labels}}")
    (tmp_path / "draft.md").write_text("Write a draft.")
    (tmp_path / "flow.yaml").write_text(FLOW)
    monkeypatch.setenv("KEY_X", "some-key-that-is-long-enough")
    return tmp_path


def test_a_plan_before_any_run_says_what_it_assumes(
    folder: Path, headway: Headway, fake: FakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY_X")
    done = headway("plan", "flow.yaml")
    assert done.code == 0, done.err
    assert fake.stats()["total"]["received"] == 0
    assert "flow.yaml: 5 nodes" in done.out
    for said in (
        "label: 10 items assumed",
        "draft: 9 iterations assumed",
        "label, summary, draft: no earlier answers. Assumed: 4 characters per token",
        "fetch, check: did not run yet; 1 s for each unit is assumed",
        "* critical path: improve,",
    ):
        assert said in done.out
    assert not (folder / ".headway" / "headway.db").exists()


def test_a_plan_after_one_run_is_close_to_the_next_run(folder: Path, headway: Headway) -> None:
    assert headway("run", "flow.yaml", "-q").code == 0
    again = plan(headway, "flow.yaml")
    assert (again["units"], again["job"] is not None) == (0, True)
    planned = plan(headway, "flow.yaml", "--fresh")
    done = headway("run", "flow.yaml", "--no-cache", "--json", "-q")  # Otherwise the cache answers.
    assert done.code == 0, done.err
    ran = json.loads(done.out)
    usage = ran["lanes"]["x/m"]
    assert planned["units"] == 1 + 30 + 1 + 3 + 3
    assert planned["cost_usd"]["estimate"] == pytest.approx(ran["cost_usd"], rel=0.2)
    assert planned["input_tokens"]["estimate"] == pytest.approx(usage["input_tokens"], rel=0.2)
    assert planned["output_tokens"]["estimate"] == pytest.approx(usage["output_tokens"], rel=0.2)
    nodes = planned["nodes"]
    assert nodes["label"]["assumed"] == "30 items as in the last run"
    assert nodes["draft"]["assumed"] == "3 iterations as in the last run"
    assert nodes["fetch"]["input_tokens"] is None
    assert nodes["label"]["learned_from"] == 30
    assert (
        nodes["summary"]["start_s"] >= nodes["label"]["start_s"] + nodes["label"]["time_s"]["estimate"] - 1e-6
    )
    assert planned["critical_path"] == ["fetch", "label", "summary"]
    # The run is compared with its plan.
    assert ran["prediction"]["predicted"]["requests"] == planned["units"]
    low, high = planned["time_s"]["low"], planned["time_s"]["high"]
    assert low * 0.5 < ran["prediction"]["took_s"] < high * 2.0
    _check_that_a_changed_flow_keeps_its_answers(folder, headway)


def _check_that_a_changed_flow_keeps_its_answers(folder: Path, headway: Headway) -> None:
    (folder / "flow.yaml").write_text(f"name: renamed\n{FLOW}")
    planned = headway("plan", "flow.yaml").out
    assert "every unit keeps the answer of an earlier job; --fresh plans it as a new job" in planned


def test_what_if_limits_and_nodes_at_a_time(folder: Path, headway: Headway) -> None:
    wide = plan(headway, "flow.yaml")
    one = plan(headway, "flow.yaml", "--concurrency", "1")
    assert one["time_s"]["estimate"] > wide["time_s"]["estimate"]
    assert any("one node at a time runs (runtime.concurrency)" in note for note in one["notes"])
    slow = plan(headway, "flow.yaml", "--rpm", "6")
    assert slow["time_s"]["estimate"] > 60.0
    assert not any("max_cost" in note for note in wide["notes"])
    assert any("max_cost" in note for note in plan(headway, "flow.yaml", "--max-cost", "0.0001")["notes"])


def test_a_dry_run_shows_the_plan_and_the_results_file(folder: Path, headway: Headway) -> None:
    done = headway("run", "flow.yaml", "--dry-run")
    assert done.code == 0, done.err
    assert "flow.yaml: 5 nodes (dry run: nothing was sent)" in done.out
    assert f"results would go to {folder / 'flow.results.json'}" in done.out
    assert json.loads(headway("run", "flow.yaml", "--dry-run", "--json").out)["units"] > 20
    assert not (folder / ".headway" / "headway.db").exists()


@pytest.mark.parametrize(
    ("args", "change", "said"),
    [
        (("plan", "flow.yaml"), ("writes: [issues]", "writes: [issue]"), "node 'fetch' writes 'issue', which state.schema does not declare"),
        (("plan", "flow.yaml"), ("./label.md", "./lable.md"), "lable.md"),
        (("plan", "flow.yaml"), ("reads: [labels]", "reads: [labels, extra]"), "extra"),
        (("plan", "flow.yaml", "--serial"), ("", ""), "--serial is for rows, not for flows"),
        (("plan", "flow.yaml", "--rpm", "y=3"), ("", ""), "there is no provider 'y'"),
        (("plan", "rows.jsonl", "--arg", "a=1"), ("", ""), "--arg is for flows (.yaml), and rows.jsonl is none"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(
    folder: Path, headway: Headway, args: tuple[str, ...], change: tuple[str, str], said: str
) -> None:
    (folder / "flow.yaml").write_text(FLOW.replace(*change))
    (folder / "rows.jsonl").write_text('{"prompt": "x"}\n')
    done = headway(*args)
    assert done.code == 2
    assert said in done.err
    assert not done.out


def plan(headway: Headway, *args: str) -> dict[str, Any]:
    done = headway("plan", *args, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found
