"""`human` nodes and `headway approve`: parked and running jobs, answers, rejections, and what is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.crash.stage import wait_for
from tests.flows.running.conftest import FlowFolder

import headway
from headway.cli.shared import workspace
from headway.flows.running.job_kind import FlowKind
from headway.wiring.steering import control_requests
from headway.wiring.store_access import open_store

FLOW = """
  - {id: draft, kind: tool, impl: "./tools/work.py:issues", writes: [draft]}
  - {id: publish, kind: human, prompt: ./ask.md, reads: [draft], writes: [when]}
  - {id: done, kind: tool, impl: "./tools/work.py:whole", reads: [when], writes: [done]}
"""


@pytest.fixture
def parked(folder: FlowFolder) -> FlowFolder:
    """A job `one` that waits for `publish`."""
    folder.write("ask.md", "Publish {{state.draft}} of {{job}}?")
    folder.flow(FLOW, state="  schema: {draft: array, when: any, done: any}\n")
    done = folder.headway("run", "flow.yaml", "--name", "one")
    assert done.code == 4, done.err
    assert "parked: " in done.err
    assert "publish waits for an approval: headway approve one publish; then: headway resume one" in done.err
    return folder


def test_a_flow_that_waits_for_people_parks_with_its_results(parked: FlowFolder) -> None:
    found = parked.results("flow.one")
    assert (found["status"], found["nodes"]["publish"]["status"]) == ("waiting", "waiting")
    assert found["state"] == {"draft": ["a", "b", "c"]}
    assert "parked" in parked.headway("jobs").out
    assert "headway approve one publish" in parked.headway("status").out


def test_what_waits_is_listed_with_its_question(parked: FlowFolder) -> None:
    out = parked.headway("approve").out
    assert out.splitlines() == [
        "job one waits for:",
        "  publish → when",
        '    Publish ["a","b","c"] of one?',
        "to answer: headway approve one publish",
    ]
    listed = json.loads(parked.headway("approve", "one", "--json").out)
    assert listed["waiting"][0]["unit"] == "publish"


@pytest.mark.parametrize(
    ("flags", "value"),
    [([], True), (["--answer", '{"day": 3}'], {"day": 3}), (["--answer", "next week"], "next week")],
)
def test_an_approval_goes_on_with_resume(parked: FlowFolder, flags: list[str], value: object) -> None:
    done = parked.headway("approve", "publish", *flags, "--note", "fine")
    assert done.out.splitlines() == ["approved publish of job one; to go on: headway resume one"]
    assert parked.headway("approve").out == "nothing in job one waits for an approval\n"
    assert "waits for you" not in parked.headway("graph", "flow.yaml").out
    resumed = parked.headway("resume")
    assert resumed.code == 0, resumed.err
    found = parked.results("flow.one")
    assert (found["status"], found["state"]["when"]) == ("success", value)
    shown = parked.headway("show", "one", "publish").out
    assert 'Publish ["a","b","c"] of one?' in shown
    assert f"answer: {json.dumps(value, separators=(',', ':'))}" in shown
    assert parked.calls() == ["done", "draft"]


def test_a_rejection_fails_the_node_with_its_note(parked: FlowFolder) -> None:
    done = parked.headway("approve", "one", "publish", "--reject", "--note", "too long")
    assert done.out.splitlines() == ["rejected publish of job one; to go on: headway resume one"]
    resumed = parked.headway("resume")
    assert resumed.code == 1
    nodes = parked.results("flow.one")["nodes"]
    assert (nodes["publish"]["status"], nodes["publish"]["reason"]) == ("failed", "too long")
    assert (nodes["done"]["status"], nodes["done"]["reason"]) == ("skipped", "publish failed")


def test_a_rejection_can_be_replaced_by_an_approval(parked: FlowFolder) -> None:
    parked.headway("approve", "one", "publish", "--reject", "--note", "too long")
    resumed = parked.headway("resume")
    step = "publish was rejected: too long; to change that: headway approve one publish; then: headway resume one"
    assert (resumed.code, step in resumed.err) == (1, True), resumed.err
    assert step in parked.headway("status").out
    assert step in parked.headway("retry", "--failed").err
    assert parked.headway("approve").out == f"{step}\n"
    done = parked.headway("approve", "publish", "--answer", "now")
    assert done.out.splitlines() == ["approved publish of job one; to go on: headway resume one"]
    assert "cancelled" not in parked.headway("status").out
    resumed = parked.headway("resume")
    assert resumed.code == 0, resumed.err
    found = parked.results("flow.one")
    assert (found["status"], found["state"]["when"]) == ("success", "now")
    assert parked.calls() == ["done", "draft"]
    assert "rejected" not in parked.headway("graph", "flow.yaml").out


def test_an_approval_at_the_very_end_of_a_run_is_told(parked: FlowFolder) -> None:
    """The run has looked for the last time when it comes: it says neither that the node waits nor that the flow failed."""
    parked.headway("approve", "publish")
    with open_store(workspace.settings(None, None)) as store:
        job = store.job("one")
        assert job is not None
        assert FlowKind().end_state(store, job, "complete") == "parked"
    step = "nothing waits for an approval any more; to go on: headway resume one"
    assert step in parked.headway("status").out


def test_a_node_that_failed_without_units_is_named_with_what_to_do(folder: FlowFolder) -> None:
    folder.flow(
        "  - {id: whole, kind: tool, impl: './tools/work.py:whole', writes: [x]}\n"
        "  - {id: each, kind: tool, impl: './tools/work.py:triage', for_each: {source: $.x.y}, writes: [out]}\n"
    )
    done = folder.headway("run", "flow.yaml")
    assert (done.code, "cancelled" in done.err) == (1, False)
    assert "each failed: for_each.source $.x.y is missing; fix it and run the flow again" in done.err


def test_the_first_answer_counts(parked: FlowFolder) -> None:
    parked.headway("approve", "publish", "--answer", "1")
    again = parked.headway("approve", "publish", "--answer", "2")
    assert (again.code, "nothing in job one waits for an approval" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (["wrong"], "'wrong' does not wait for an approval in job one — publish waits"),
        (["one", "draft"], "'draft' does not wait for an approval in job one — publish waits"),
        (["two", "publish"], "there is no job 'two'"),
        (["a", "b", "c"], "too many names — headway approve JOB NODE"),
        (["publish", "--reject", "--answer", "x"], "--answer and --reject do not go together"),
    ],
)
def test_errors_name_what_waits(parked: FlowFolder, args: list[str], error: str) -> None:
    done = parked.headway("approve", *args)
    assert (done.code, error in done.err, len(done.err.splitlines())) == (2, True, 1), done.err


def test_without_a_flow_there_is_nothing_to_approve(folder: FlowFolder) -> None:
    folder.write("in.jsonl", '{"id": "a", "prompt": "hello"}\n')
    folder.headway("run", "in.jsonl", "--name", "rows", "-q")
    assert "there is no flow yet" in folder.headway("approve", "publish").err
    assert "job rows is no flow" in folder.headway("approve", "rows", "publish").err


def test_an_answer_must_fit_the_field(folder: FlowFolder) -> None:
    folder.flow("  - {id: ok, kind: human, writes: [pages]}\n", state="  schema: {pages: integer}\n")
    assert folder.headway("run", "flow.yaml").code == 4
    assert "approve ok: 'pages' must be of type integer, not boolean" in folder.headway("approve", "ok").err
    assert (
        "--answer many: 'pages' must be of type integer"
        in folder.headway("approve", "ok", "--answer", "many").err
    )
    assert folder.headway("approve", "ok", "--answer", "7").code == 0
    assert folder.headway("resume").code == 0
    assert folder.results()["state"] == {"pages": 7}


def test_everything_else_runs_before_the_flow_parks(folder: FlowFolder) -> None:
    folder.flow(
        "  - {id: ok, kind: human, writes: [fine]}\n"
        "  - {id: issues, kind: tool, impl: './tools/work.py:issues', writes: [issues]}\n"
    )
    assert folder.headway("run", "flow.yaml").code == 4
    assert (folder.calls(), folder.results()["state"]) == (["issues"], {"issues": ["a", "b", "c"]})


def test_several_units_of_a_node_are_answered_together_or_one_by_one(folder: FlowFolder) -> None:
    folder.flow(
        "  - {id: ok, kind: human, writes: [fine]}\n",
        pipelines="  - {id: each, items: [x, y, z], stages: [ok], concurrency: auto}\n",
    )
    done = folder.headway("run", "flow.yaml", "--name", "one")
    assert "ok#0, ok#1, ok#2 wait for an approval: headway approve one NODE" in done.err
    assert "approved ok#1 of job one" in folder.headway("approve", "ok#1", "--answer", "2").out
    assert "approved ok#0, ok#2 of job one" in folder.headway("approve", "ok", "--answer", "1").out
    assert folder.headway("resume").code == 0


def test_a_running_job_notices_an_approval_from_another_terminal(folder: FlowFolder) -> None:
    """The other tool ends only when the approved one has run: the run never parks."""
    folder.write(
        "tools/pair.py",
        "import os, time\n"
        "def wait(given):\n"
        "    while not os.path.exists('told'): time.sleep(0.01)\n"
        "    return 1\n"
        "def tell(given):\n"
        "    open('told', 'w').close()\n"
        "    return given['state']['fine']\n",
    )
    folder.flow(
        "  - {id: wait, kind: tool, impl: './tools/pair.py:wait', writes: [waited]}\n"
        "  - {id: ok, kind: human, writes: [fine]}\n"
        "  - {id: tell, kind: tool, impl: './tools/pair.py:tell', reads: [fine], writes: [told]}\n",
        runtime="  concurrency: 3\n",
    )
    command = [sys.executable, "-m", "headway", "run", "flow.yaml", "--name", "one"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        wait_for("the run", lambda: "ok" in folder.headway("approve", "one").out)
        done = folder.headway("approve", "one", "ok", "--answer", "yes")
        assert done.out.splitlines() == ["approved ok of job one; it goes on"], done.err
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert folder.results("flow.one")["state"]["told"] == "yes"


def test_a_run_that_took_an_approval_and_ended_before_the_command_came_went_on(
    folder: FlowFolder,
) -> None:
    """The other process reads the approval at once, and is over before it looks for commands."""
    folder.flow("  - {id: ok, kind: human, writes: [fine]}\n")
    assert folder.headway("run", "flow.yaml", "--name", "one").code == 4

    with pytest.MonkeyPatch.context() as patch:

        def run_to_its_end(*_: object) -> bool:
            patch.undo()
            assert folder.headway("resume", "one").code == 0
            return False

        patch.setattr(control_requests, "is_live", lambda *_: True)
        patch.setattr(control_requests, "wait", run_to_its_end)
        done = folder.headway("approve", "one", "ok")
    assert done.out.splitlines() == ["approved ok of job one; it goes on"]


def test_the_flow_of_a_python_program_goes_on_with_the_commands(folder: FlowFolder) -> None:
    """Its results are then in a file that names the job."""
    flow = headway.Flow("big", folder=folder.root)
    flow.add("ok", "human", writes="fine")
    found = flow.run(db="flows.db")
    assert found.status == "waiting"
    assert folder.headway("approve", found.job, "ok", "--db", "flows.db").code == 0
    done = folder.headway("resume", found.job, "--db", "flows.db")
    assert done.code == 0, done.err
    assert folder.results(f"big.{found.job}")["state"] == {"fine": True}
    assert flow.run(db="flows.db").state == {"fine": True}
