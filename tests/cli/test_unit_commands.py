"""`headway cancel JOB UNIT`, `retry JOB UNIT`, `pause` and `cancel` with running programs, as a second terminal uses them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.cli.programs import alive, all_gone, pids_of, program_stage
from tests.crash.stage import PATIENCE_S, Stage, wait_for


def states(stage: Stage) -> list[str]:
    return list(stage.statuses().values())


def wait_running(stage: Stage, count: int) -> None:
    wait_for(f"{count} running units", lambda: states(stage).count("running") == count)
    wait_for("their processes", lambda: len(pids_of(stage)) >= 2 * count)


def test_a_running_unit_is_killed_with_what_it_started_and_the_job_goes_on(tmp_path: Path) -> None:
    stage = program_stage(
        tmp_path, ["sleep 1000", "until test -e go; do sleep 0.02; done; echo fine", "echo last"], at_once=2
    )
    with stage.process("run", "in.jsonl", "--name", "j", "-q") as run:
        wait_running(stage, 2)
        before = pids_of(stage)
        began = time.monotonic()
        done = stage.run("cancel", "j", "u0", "--json")
        assert (done.returncode, json.loads(done.stdout)) == (
            0,
            {"job": "j", "asked": "cancel", "units": ["u0"]},
        )
        wait_for("the state", lambda: stage.statuses()[0] == "cancelled")
        wait_for("its end", lambda: sum(map(alive, before)) == 2)
        assert time.monotonic() - began < 10.0
        wait_for("the last unit", lambda: stage.statuses()[2] == "succeeded")
        (tmp_path / "go").touch()
        run.communicate(timeout=PATIENCE_S)
    assert run.returncode == 1
    assert states(stage) == ["cancelled", "succeeded", "succeeded"]
    assert [row["headway"]["status"] for row in stage.rows_of("j")] == states(stage)
    assert all_gone(stage)


def test_a_unit_comes_back_while_the_job_runs_and_its_row_is_replaced(tmp_path: Path) -> None:
    wait = "until test -e go; do sleep 0.02; done; "
    stage = program_stage(tmp_path, ["cat answer", wait + "echo fine", "exit 3"])
    (tmp_path / "answer").write_text("old\n")
    with stage.process("run", "in.jsonl", "--name", "j", "-q", "--max-attempts", "1") as run:
        wait_for("ends", lambda: states(stage) == ["succeeded", "running", "failed"])
        wait_for("the first row", lambda: len(stage.rows_of("j")) == 1)
        (tmp_path / "answer").write_text("new\n")
        done = stage.run("retry", "j", "u0", "u1", "u2")
        assert done.stdout == "u1 waits or runs already in job j\nasked job j to retry u0, u2\n", done.stderr
        done = stage.run("retry", "j", "u1")
        assert (done.returncode, done.stdout) == (0, "u1 waits or runs already in job j\n")
        wait_for("new attempts", lambda: stage.query("SELECT count(*) FROM attempts")[0][0] == 4)
        (tmp_path / "go").touch()
        run.communicate(timeout=PATIENCE_S)
    texts = [row["headway"]["text"] for row in stage.rows_of("j")]
    assert texts[:2] == ["new\n", "fine\n"]
    assert [row["custom_id"] for row in stage.rows_of("j")] == ["u0", "u1", "u2"]
    events = stage.query("SELECT text FROM events WHERE what = 'command'")
    assert events == [("retry u0, u2",)]


def test_named_units_of_a_job_without_a_process_are_run_here_and_no_others(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["cat answer", "cat answer", "cat answer"])
    (tmp_path / "answer").write_text("old\n")
    assert stage.run("run", "in.jsonl", "--name", "j", "-q").returncode == 0
    (tmp_path / "answer").write_text("new\n")
    done = stage.run("retry", "j", "u1")
    assert done.returncode == 0, done.stderr
    assert "1 unit to run again, and no others" in done.stderr
    assert "3 of 3 succeeded, 1 of them in this run" in done.stderr
    assert [row["headway"]["text"] for row in stage.rows_of("j")] == ["old\n", "new\n", "old\n"]


def test_a_cancelled_unit_runs_again_by_retry(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["test -e go || sleep 1000; echo fine", "echo two"])
    with stage.process("run", "in.jsonl", "--name", "j", "-q") as run:
        wait_for("a running unit", lambda: states(stage) == ["running", "succeeded"])
        assert stage.run("cancel", "j", "u0").returncode == 0
        run.communicate(timeout=PATIENCE_S)
    status, log = stage.run("status", "j").stdout, stage.run("logs", "j").stdout
    assert "1 unit cancelled, for example u0" in status
    assert "interrupted" not in status
    assert any(" u0 cancelled in " in line and not line.endswith("cancelled") for line in log.splitlines())
    assert "HTTP" not in stage.run("show", "j", "u1").stdout
    (tmp_path / "go").touch()
    assert stage.run("retry", "j", "u0", "-q").returncode == 0
    assert states(stage) == ["succeeded", "succeeded"]


def test_the_exit_code_of_retry_is_that_of_the_named_units(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["test -e go", "test -e never"])
    first = stage.run("run", "in.jsonl", "--name", "j", "--max-attempts", "1")
    assert first.returncode == 1
    assert "no tokens or costs were reported" in first.stderr
    assert "429" not in first.stderr
    (tmp_path / "go").touch()
    assert stage.run("retry", "j", "u0", "-q", "--max-attempts", "1").returncode == 0
    assert states(stage) == ["succeeded", "failed"]
    assert "u1 failed and tried again" not in stage.run("logs", "j", "u1").stdout
    assert stage.run("retry", "j", "u1", "-q", "--max-attempts", "1").returncode == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("cancel", "j", "u0"), "job 'j' is not running"),
        (("retry", "j"), "--failed is required — run 'headway retry --failed', or name units: 'headway retry JOB UNIT'"),
        (("retry", "j", "u0", "--failed"), "--failed and named units do not go together"),
        (("retry", "j", "nothing"), "job 'j' has no unit 'nothing'"),
        (("show", "j", "u0", "--raw"), "unit 'u0' has no lines of an agent CLI — 'headway show j u0' shows what is recorded"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(tmp_path: Path, args: tuple[str, ...], message: str) -> None:
    stage = program_stage(tmp_path, ["echo one"])
    assert stage.run("run", "in.jsonl", "--name", "j", "-q").returncode == 0
    done = stage.run(*args)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_pause_lets_programs_finish_and_cancel_kills_them(tmp_path: Path) -> None:
    stage = program_stage(
        tmp_path, ["until test -e go; do sleep 0.02; done", "sleep 1000", "echo never"], at_once=1
    )
    with stage.process("run", "in.jsonl", "--name", "j", "--progress", "plain") as run:
        wait_running(stage, 1)
        done = stage.run("pause", "j")
        assert done.stdout == "asked job j to pause: units in flight finish, no more start\n"
        (tmp_path / "go").touch()
        wait_for("its end", lambda: stage.statuses()[0] == "succeeded")
        assert states(stage) == ["succeeded", "pending", "pending"]
        assert stage.job()["state"] == "paused"
        assert stage.run("resume", "j").stdout == "asked job j to resume\n"
        wait_for("the next unit", lambda: stage.statuses()[1] == "running" and len(pids_of(stage)) == 4)
        began = time.monotonic()
        assert stage.run("cancel", "j").returncode == 0
        _, err = run.communicate(timeout=PATIENCE_S)
        assert time.monotonic() - began < 10.0
    assert "command: pause: 1 in flight finishes, no more start" in err
    assert (run.returncode, stage.job()["state"]) == (130, "cancelled")
    assert states(stage) == ["succeeded", "pending", "pending"]
    assert all_gone(stage)
