"""Flows that are interrupted, cancelled, paused or in the background; agents that are programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from tests.crash.stage import wait_for
from tests.flows.running.conftest import FlowFolder

#: The second tool works until the file `go` is there.
SLOW = """
import os, time
def main(given):
    open("began", "a").write("x")
    while not os.path.exists("go"): time.sleep(0.01)
    return "slow"
"""
FLOW = """
  - {id: quick, kind: tool, impl: "./tools/work.py:issues", writes: [issues]}
  - {id: slow, kind: tool, impl: "./tools/slow.py:main", reads: [issues], writes: [slow]}
  - {id: last, kind: tool, impl: "./tools/work.py:whole", reads: [slow], writes: [last]}
"""


@pytest.fixture
def slow(folder: FlowFolder) -> FlowFolder:
    folder.write("tools/slow.py", SLOW)
    folder.flow(FLOW)
    return folder


def started(folder: FlowFolder) -> subprocess.Popen[str]:
    """A run in another process, whose slow tool has begun."""
    command = [sys.executable, "-m", "headway", "run", "flow.yaml", "--name", "one"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    wait_for("the slow tool", (folder.root / "began").exists)
    return process


def ends(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=30)
    return process.returncode, err


def test_the_first_ctrl_c_lets_what_runs_finish_and_writes_the_results(slow: FlowFolder) -> None:
    process = started(slow)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("stopping" in line for line in process.stderr)
    slow.write("go", "")
    code, err = ends(process)
    assert (code, "headway resume one" in err) == (130, True), err
    found = slow.results("flow.one")
    assert (found["state"]["slow"], found["nodes"]["last"]["succeeded"]) == ("slow", 0)
    assert found["status"] == "running"
    assert slow.headway("resume").code == 0
    assert slow.results("flow.one")["status"] == "success"
    assert (slow.root / "began").read_text() == "x"


def test_cancel_stops_a_tool_and_resume_runs_it_again(slow: FlowFolder) -> None:
    process = started(slow)
    assert "asked job one to cancel" in slow.headway("cancel", "one").out
    code, err = ends(process)
    assert code == 130, err
    assert slow.results("flow.one")["state"] == {"issues": ["a", "b", "c"]}
    slow.write("go", "")
    assert slow.headway("resume", "one").code == 0
    assert (slow.root / "began").read_text() == "xx"


def test_a_cancelled_unit_is_a_failure_that_retry_brings_back(slow: FlowFolder) -> None:
    process = started(slow)
    assert slow.headway("cancel", "one", "slow").code == 0
    code, err = ends(process)
    assert code == 1, err
    nodes = slow.results("flow.one")["nodes"]
    assert (nodes["slow"]["status"], nodes["last"]["status"]) == ("failed", "skipped")
    slow.write("go", "")
    assert slow.headway("resume", "one").code == 0


def test_a_flow_runs_in_the_background(slow: FlowFolder) -> None:
    slow.write("go", "")
    command = [sys.executable, "-m", "headway", "run", "flow.yaml", "--name", "one", "--detach"]
    assert subprocess.run(command, check=False, capture_output=True, timeout=30).returncode == 0
    wait_for("the results", (slow.root / "flow.one.results.json").exists)
    assert slow.results("flow.one")["status"] == "success"


def test_an_agent_may_be_a_program_which_is_told_the_schema(folder: FlowFolder) -> None:
    """The program echoes the question, and answers JSON only if it is asked for it."""
    program = (
        "import sys\ntext = sys.stdin.read()\n"
        "print('{\"mood\": \"good\"}' if 'JSON Schema' in text and '\"mood\"' in text else 'heard: ' + text)\n"
    )
    folder.write("agent.py", program)
    config = (folder.root / "headway.toml").read_text()
    folder.write(
        "headway.toml",
        f"{config}[providers.prog]\nkind = 'command'\ncommand = ['{sys.executable}', 'agent.py']\npreflight = 'none'\n[run]\nprovider = 'p'\n",
    )
    folder.write("ask.md", "How is it?\n")
    folder.flow(
        "  - {id: ask, kind: agent, provider: prog, model: agent, prompt: ./ask.md, writes: [said]}\n"
        "  - {id: mood, kind: agent, provider: prog, model: agent, prompt: ./ask.md, writes: [mood], schema: {type: object, required: [mood]}}\n"
        "  - {id: plain, kind: agent, prompt: ./ask.md, writes: [plain]}\n"
    )
    done = folder.headway("run", "flow.yaml")
    assert done.code == 0, done.err
    assert folder.results()["state"] == {
        "said": "heard: How is it?\n",
        "mood": "good",
        "plain": "echo: How is it?",
    }
