"""A run that is resumed has no more nodes and iterations in flight than the file says, whatever an earlier run has left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter

from tests.crash.stage import wait_for
from tests.flows.running.conftest import FlowFolder

#: Each call notes its start and its end, and fails until the file `works` exists.
TOOLS = """
import os, time

def call(given):
    with open("moments.txt", "a") as file:
        file.write(f"+{given['node']}\\n")
    while os.path.exists("hangs") and given["node"] == "b" and not os.path.exists("works"):
        time.sleep(0.02)
    time.sleep(0.02)
    with open("moments.txt", "a") as file:
        file.write(f"-{given['node']}\\n")
    if not os.path.exists("works"):
        raise ValueError("not yet")
    return given["index"]
"""
NODE = "  - {{id: {0}, kind: tool, impl: './tools/slow.py:call', for_each: {{source: [1, 2, 3, 4], concurrency: {1}}}, writes: [{0}s]}}\n"


def most_in_flight(folder: FlowFolder) -> tuple[int, int]:
    """The most calls of a node that ran at a time, and the most nodes."""
    running, calls, nodes = Counter[str](), 0, 0
    for line in (folder.root / "moments.txt").read_text().splitlines():
        running[line[1:]] += 1 if line[0] == "+" else -1
        calls = max(calls, *running.values())
        nodes = max(nodes, sum(count > 0 for count in running.values()))
    return calls, nodes


def prepared(folder: FlowFolder, concurrency: int) -> FlowFolder:
    folder.write("tools/slow.py", TOOLS)
    folder.flow(NODE.format("a", concurrency) + NODE.format("b", concurrency))
    return folder


def test_units_that_failed_run_again_as_many_at_a_time_as_the_file_says(folder: FlowFolder) -> None:
    prepared(folder, 1)
    assert folder.headway("run", "flow.yaml").code == 1
    (folder.root / "moments.txt").unlink()
    folder.write("works", "")
    assert folder.headway("resume").code == 0
    assert most_in_flight(folder) == (1, 1)
    assert folder.results()["state"] == {"as": [0, 1, 2, 3], "bs": [0, 1, 2, 3]}


def test_so_do_units_that_are_named(folder: FlowFolder) -> None:
    prepared(folder, 2)
    assert folder.headway("run", "flow.yaml").code == 1
    (folder.root / "moments.txt").unlink()
    folder.write("works", "")
    done = folder.headway("retry", "--failed")
    assert done.code == 0, done.err
    calls, nodes = most_in_flight(folder)
    assert (calls <= 2, nodes) == (True, 1)
    assert folder.results()["status"] == "success"


def test_so_do_units_that_a_dead_process_has_left_beside_failed_ones(folder: FlowFolder) -> None:
    """`a` has failed and two iterations of `b` hang when the process dies: `a` runs again, then `b`."""
    prepared(folder, 2).write("hangs", "")
    command = [sys.executable, "-m", "headway", "run", "flow.yaml"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ)
    moments = folder.root / "moments.txt"
    wait_for("two calls of b", lambda: moments.exists() and moments.read_text().count("+b") == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    moments.rename(folder.root / "earlier.txt")
    folder.write("works", "")
    done = folder.headway("resume")
    assert done.code == 0, done.err
    calls, nodes = most_in_flight(folder)
    assert (calls <= 2, nodes) == (True, 1)
    assert folder.results()["state"] == {"as": [0, 1, 2, 3], "bs": [0, 1, 2, 3]}
