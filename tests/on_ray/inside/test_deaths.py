"""A job of 1,000 units on two nodes. Processes and a whole node are killed, and a node joins."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

from tests.crash.stage import wait_for
from tests.on_ray import nodes
from tests.on_ray.inside import unit_work
from tests.on_ray.inside.conftest import JobFolder

UNITS = 1_000
WORKER = (b"headway.executors.worker_main",)


def test_killed_workers_a_killed_host_and_a_killed_node_cost_only_what_ran_there(job: JobFolder) -> None:
    shutil.copy(unit_work.__file__, job.path)
    job.configure(
        f={
            "kind": "python",
            "target": "unit_work:leave",
            "workers": 8,
            "retry": {"base": "100ms", "cap": "1s"},
        }
    )
    row = {"s": 0.02, "effects": str(job.effects)}
    job.rows("in.jsonl", [{"id": f"u{n}", "n": n, **row} for n in range(UNITS)])
    run = job.start("run", "in.jsonl", "--out", "out.jsonl", "--progress", "none")

    def done(least: int) -> bool:
        assert run.poll() is None or len(os.listdir(job.effects)) >= least, run.communicate()[1]
        return len(os.listdir(job.effects)) >= least

    killed = 0
    second = nodes.cluster.second
    wait_for(
        "hosts on both nodes", lambda: nodes.hosts_of(second) and nodes.other_hosts(second) and done(50), 90
    )
    for least in (100, 150, 200):
        wait_for("units", partial(done, least))
        killed += _kill_one(nodes.processes(*WORKER))
    killed += _kill_one(nodes.other_hosts(second))
    wait_for("units", lambda: done(400) and nodes.hosts_of(second))
    killed += nodes.kill_node(second)
    _, errors = run.communicate(timeout=120)

    assert run.returncode == 0, errors
    results = job.results("out.jsonl")
    assert [result["response"]["body"]["n"] for result in results] == list(range(UNITS))
    assert killed >= 5  # Three workers, a host, and at least one host of the node.
    times = Counter(name.partition(".")[0] for name in os.listdir(job.effects))
    assert len(times) == UNITS
    # What a killed process had just finished, and had not told yet, runs again: a few of these short units. Recorded ones do not.
    assert sum(times.values()) - UNITS <= 3 * killed
    wait_for("no worker is left", lambda: not nodes.processes(*WORKER))
    wait_for("no host is left", lambda: not nodes.processes(b"ray::UnitHost"))


def _kill_one(pids: list[int]) -> int:
    """SIGKILL one of these processes; how many there were to kill."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return 1
    return 0


def test_a_killed_owner_leaves_no_process_on_any_node(job: JobFolder, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    script = f"touch {marks}/$$; setsid sleep 987654 & sleep 987655"
    job.configure(p={"kind": "command", "command": ["sh", "-c", script], "resources": {"num_cpus": 0.5}})
    job.rows("in.jsonl", [{"id": f"u{n}", "prompt": "x"} for n in range(4)])
    run = job.start("run", "in.jsonl", "--out", "out.jsonl", "--progress", "none")
    wait_for("the programs", lambda: len(os.listdir(marks)) == 4 or run.poll() is not None)
    wait_for("their children", lambda: len(nodes.processes(b"sleep 98765")) >= 8)
    run.send_signal(signal.SIGKILL)
    wait_for("none is left", lambda: not nodes.processes(b"sleep 98765"))

    again = job.start("resume", "--progress", "none")
    wait_for("the programs", lambda: len(os.listdir(marks)) == 8)
    wait_for("their children", lambda: len(nodes.processes(b"sleep 98765")) >= 8)
    again.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):  # The second signal must not fall together with the first.
        again.wait(timeout=1.0)
    assert nodes.processes(b"sleep 98765")
    again.send_signal(signal.SIGINT)
    assert again.wait(timeout=60) == 130
    assert not nodes.processes(b"sleep 98765")
