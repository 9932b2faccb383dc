"""Runs that are killed, crash or are stopped leave no program behind, and no unit that seems to run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.programs import all_gone, pids_of, program_stage
from tests.crash.stage import PATIENCE_S, Stage, wait_for

UNITS = 10
#: Each unit is a shell with a shell below it, which has a child of its own, and one that left the process group.
GROWN = "test -e go && echo fine && exit 0; sleep 1000 & echo $! >> pids/all; setsid sleep 1000 & echo $! >> pids/all; wait"
#: Processes of one such unit: two shells and two sleeps.
EACH = 4
#: How long a guardian may take on a busy machine.
GONE_S = 10.0


def running(stage: Stage) -> None:
    wait_for("all programs", lambda: len(pids_of(stage)) == EACH * UNITS)
    wait_for("their records", lambda: list(stage.statuses().values()) == ["running"] * UNITS)


def finish(stage: Stage) -> None:
    """The job goes on where it was, and every unit succeeds."""
    (stage.root / "go").touch()
    done = stage.run("resume", "j", "-q")
    assert done.returncode == 0, done.stderr
    assert list(stage.statuses().values()) == ["succeeded"] * UNITS
    assert [row["headway"]["text"] for row in stage.rows_of("j")] == ["fine\n"] * UNITS
    workers = stage.query("SELECT status FROM workers")
    assert {status for (status,) in workers} <= {"failed", "terminated"}, "no worker seems to run"


@pytest.mark.parametrize("detach", [False, True])
def test_a_killed_engine_leaves_nothing_behind_and_the_job_goes_on(tmp_path: Path, detach: bool) -> None:
    stage = program_stage(tmp_path, [GROWN] * UNITS, at_once=UNITS)
    with stage.process("run", "in.jsonl", "--name", "j", "-q", *(["--detach"] if detach else [])) as run:
        running(stage)
        pid = int((tmp_path / ".headway" / "jobs" / "j" / "lock").read_text())
        assert (pid == run.pid) is not detach
        os.kill(pid, signal.SIGKILL)
        wait_for("the end of all programs", lambda: all_gone(stage), GONE_S)
        run.wait(PATIENCE_S)
    status = json.loads(stage.run("status", "j", "--json").stdout)
    assert (status["state"], status["live"]) == ("interrupted", False)
    assert status["per_lane"] == {"sh/sh": {"unknown": UNITS}}
    assert len(status["unknown"]) == UNITS
    finish(stage)
    outcomes = stage.query("SELECT outcome, count(*) FROM attempts GROUP BY outcome ORDER BY outcome")
    assert outcomes == [("lost", UNITS), ("succeeded", UNITS)]


def test_the_second_ctrl_c_cancels_programs_at_once(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, [GROWN] * UNITS, at_once=UNITS)
    with stage.process("run", "in.jsonl", "--name", "j", "--progress", "plain") as run:
        running(stage)
        run.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(0.7)  # What is in flight goes on.
        assert not all_gone(stage)
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - began < GONE_S
    assert run.returncode == 130
    assert "units in flight finish" in err
    assert "cancelling the units in flight" in err
    assert all_gone(stage)
    assert list(stage.statuses().values()) == ["pending"] * UNITS
    finish(stage)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_run_lets_programs_finish(tmp_path: Path, number: signal.Signals) -> None:
    stage = program_stage(tmp_path, [GROWN] * UNITS, at_once=UNITS)
    with stage.process("run", "in.jsonl", "--name", "j", "-q") as run:
        running(stage)
        run.send_signal(number)
        wait_for("the stop", lambda: stage.run("status", "j", "--json").returncode == 0)
        assert not all_gone(stage)
        run.send_signal(signal.SIGTERM)
        if number == signal.SIGHUP:  # It counts only once.
            run.send_signal(number)
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    assert all_gone(stage)
    finish(stage)


def test_the_third_ctrl_c_exits_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, [GROWN] * UNITS, at_once=UNITS)
    with stage.process("run", "in.jsonl", "--name", "j", "--progress", "plain") as run:
        running(stage)
        assert run.stderr is not None
        for word in ("stopping", "cancelling"):  # One at a time: signals of the same number are not counted.
            run.send_signal(signal.SIGINT)
            while word not in run.stderr.readline():
                assert run.poll() is None
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 130
    wait_for("the end of all programs", lambda: all_gone(stage), GONE_S)
    finish(stage)


def test_a_cancelled_background_job_leaves_nothing_behind(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, [GROWN] * UNITS, at_once=UNITS)
    assert stage.run("run", "in.jsonl", "--name", "j", "--detach", "-q").returncode == 0
    running(stage)
    assert stage.run("cancel", "j").returncode == 0
    assert stage.run("attach", "j", "-q").returncode == 130
    assert all_gone(stage)
    assert list(stage.statuses().values()) == ["pending"] * UNITS
    finish(stage)
