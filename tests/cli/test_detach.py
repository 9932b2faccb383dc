"""`--detach`, `headway attach` and `headway logs`, with real processes and a real terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.programs import alive, all_gone, program_stage
from tests.cli.test_live import Screen, screen
from tests.crash.stage import PATIENCE_S, Stage, wait_for

__all__ = ["screen"]  # The fixture.

WAIT = "until test -e go; do sleep 0.02; done; "


def pid_of(stage: Stage, name: str = "j") -> int:
    return int((stage.root / ".headway" / "jobs" / name / "lock").read_text())


def log_of(stage: Stage, name: str = "j") -> Path:
    return stage.root / ".headway" / "jobs" / name / "run.log"


@pytest.fixture
def detached(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[list[str]], Stage]:
    """A job `j` in the background, which ends with the test."""

    def start(scripts: list[str]) -> Stage:
        stage = program_stage(tmp_path, scripts)
        done = stage.run("run", "in.jsonl", "--name", "j", "--detach")
        assert done.returncode == 0, done.stderr
        pid = pid_of(stage)

        def end() -> None:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
            wait_for("the end of all programs", lambda: all_gone(stage))

        request.addfinalizer(end)
        return stage

    return start


def ended(stage: Stage) -> bool:
    return not alive(pid_of(stage))


def test_the_run_is_a_session_of_its_own_with_a_private_log_and_survives_sighup(
    detached: Callable[[list[str]], Stage],
) -> None:
    stage = detached([WAIT + "echo fine", "echo two"])
    pid = pid_of(stage)
    assert os.getsid(pid) == pid, "it has no terminal"
    assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
    assert os.readlink(f"/proc/{pid}/fd/2") == str(log_of(stage))
    assert stat.S_IMODE(log_of(stage).stat().st_mode) == 0o600
    for _ in range(2):
        os.kill(pid, signal.SIGHUP)
    (stage.root / "go").touch()
    wait_for("the end", lambda: ended(stage))
    assert stage.job()["state"] == "complete"
    lines = log_of(stage).read_text().splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z info job=j  ", line) for line in lines), lines
    assert any("done: 2 of 2 succeeded" in line for line in lines)
    assert not any("stopping" in line for line in lines)


def test_programs_of_a_detached_run_do_not_ignore_sighup(detached: Callable[[list[str]], Stage]) -> None:
    stage = detached(["grep SigIgn /proc/self/status"])
    wait_for("the end", lambda: ended(stage))
    [row] = stage.rows_of("j")
    ignored = int(row["headway"]["text"].split()[1], 16)
    assert not ignored & 1 << signal.SIGHUP - 1


def test_what_is_printed_names_the_job_and_the_next_commands(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["echo one"])
    done = stage.run("run", "in.jsonl", "--name", "j", "--detach", "--json")
    told = json.loads(done.stdout)
    assert told == {
        "job": "j", "pid": told["pid"], "log": ".headway/jobs/j/run.log", "attach": "headway attach j",
        "logs": "headway logs j --follow",
    }  # fmt: skip
    attached = stage.run("attach", "j")
    assert attached.returncode == 0
    assert "done: 1 of 1 succeeded" in attached.stderr
    again = stage.run("retry", "j", "u0", "--detach")
    assert again.stdout.splitlines()[1:] == [
        "  to watch it: headway attach j",
        "  what happened: headway logs j --follow",
    ]
    assert stage.run("attach", "j", "-q").returncode == 0
    resumed = stage.run("resume", "j", "--detach")
    assert "already complete" in resumed.stderr
    assert resumed.returncode == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("nothing.jsonl",), "nothing.jsonl: no such file"),
        (("in.jsonl", "--timeout", "soon"), "--timeout: expected a duration"),
        (("bad.jsonl",), "bad.jsonl:1"),
        (("in.jsonl", "--out", "-"), "results on standard output do not go with --detach"),
    ],
)
def test_errors_before_the_run_come_to_this_terminal_and_nothing_is_left(
    tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    stage = program_stage(tmp_path, ["echo one"])
    (tmp_path / "bad.jsonl").write_text('{"text": 1}\n')
    done = stage.run("run", *args, "--detach")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert not stage.db.exists() or stage.query("SELECT count(*) FROM jobs") == [(0,)]


def test_a_missing_program_is_an_error_here_and_not_in_the_log(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["echo one"])
    config = (tmp_path / "headway.toml").read_text().replace('["sh"', '["no-such-program"')
    (tmp_path / "headway.toml").write_text(config)
    here = stage.run("run", "in.jsonl", "--name", "j")
    detached = stage.run("run", "in.jsonl", "--name", "j", "--detach")
    assert (detached.returncode, detached.stdout) == (here.returncode, here.stdout)
    assert detached.returncode == 2
    assert "no-such-program" in detached.stderr


def test_attach_in_a_pipe_shows_events_and_the_summary_and_has_the_exit_code(
    detached: Callable[[list[str]], Stage],
) -> None:
    stage = detached([WAIT + "echo fine", WAIT + "sleep 1000"])
    with stage.process("attach", "j", "--progress", "plain") as attached:
        wait_for("running units", lambda: list(stage.statuses().values()) == ["running", "running"])
        assert stage.run("cancel", "j", "u1").returncode == 0
        (stage.root / "go").touch()
        out, err = attached.communicate(timeout=PATIENCE_S)
    assert (attached.returncode, out) == (1, "")
    assert "job j: 2 units" in err
    assert "command: cancel u1" in err
    summary = [line for line in log_of(stage).read_text().splitlines() if "1 of 2 succeeded" in line]
    assert summary[0].partition("  ")[2] in err
    assert "to retry the cancelled units: headway resume j" in err
    again = stage.run("attach", "j")
    assert again.returncode == 1
    assert "1 of 2 succeeded" in again.stderr
    assert json.loads(stage.run("attach", "j", "--json").stdout)["state"] == "failed"


def test_attach_to_a_run_whose_process_was_killed_shows_its_state(
    detached: Callable[[list[str]], Stage],
) -> None:
    stage = detached([WAIT])
    with stage.process("attach", "j") as attached:
        wait_for("a running unit", lambda: stage.statuses() == {0: "running"})
        os.kill(pid_of(stage), signal.SIGKILL)
        _, err = attached.communicate(timeout=PATIENCE_S)
    assert attached.returncode == 130
    assert "job j: interrupted" in err
    assert "1 unit may have been sent" in err or "unknown" in err


def test_ctrl_c_leaves_the_view_and_not_the_job(detached: Callable[[list[str]], Stage]) -> None:
    stage = detached([WAIT + "echo fine"])
    with stage.process("attach", "j") as attached:
        wait_for("a running unit", lambda: stage.statuses() == {0: "running"})
        wait_for("its first line", lambda: attached.stderr is not None and attached.stderr.readline())
        attached.send_signal(signal.SIGINT)
        _, err = attached.communicate(timeout=PATIENCE_S)
    assert attached.returncode == 130
    assert err == "detached from job j, which goes on (to see it again: headway attach j)\n"
    assert alive(pid_of(stage))
    (stage.root / "go").touch()
    wait_for("the end", lambda: ended(stage))
    assert stage.job()["state"] == "complete"


def test_the_live_view_is_the_same_from_another_terminal(screen: Screen) -> None:
    screen.run("run", "in.jsonl", "-q", "&")
    screen.until("$ ")
    wait_for("the job", lambda: list((screen.folder / ".headway" / "jobs").glob("*/progress.json")))
    screen.type("clear", "Enter")
    screen.run("attach")
    screen.until("in flight", "alpha/x", "waiting for", "/400")
    screen.type("C-c")
    screen.until("detached from job in-", "which goes on")
    assert not any("waiting for" in line for line in screen.lines()), "the view is gone"
    screen.run("cancel")
    screen.until("asked job")


# -- logs -------------------------------------------------------------------------------------------------------------


def _events(stage: Stage, *args: str) -> list[dict[str, object]]:
    done = stage.run("logs", "j", "--json", *args)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_logs_tell_what_happened_in_time_order(tmp_path: Path) -> None:
    stage = program_stage(tmp_path, ["echo one", "exit 1", "echo three"])
    assert stage.run("run", "in.jsonl", "--name", "j", "-q", "--max-attempts", "1").returncode == 1
    told = _events(stage)
    assert [event["at_utc"] for event in told] == sorted(str(event["at_utc"]) for event in told)
    assert told[0]["event"] == "began"
    assert told[-1] == {**told[-1], "event": "ended", "text": "failed: 2 of 3 succeeded, 1 failed"}
    by_unit = {unit: [event["event"] for event in told if event.get("unit") == unit] for unit in ("u0", "u1")}
    assert by_unit == {"u0": ["started", "succeeded"], "u1": ["started", "failed"]}
    lines = stage.run("logs", "j").stdout.splitlines()
    texts = [line.partition("  ")[2].partition(" — ")[0].partition(" within ")[0] for line in lines]
    assert texts[:2] == ["the run began: 3 units, 0 of them done", "sh/sh: 3 units started"]
    assert "sh/sh: 2 units succeeded" in texts[2:4]
    assert any(text.startswith("u1 failed") for text in texts[2:4])
    assert texts[4:] == ["the run ended: failed: 2 of 3 succeeded, 1 failed"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z  ", line) for line in lines)


def test_logs_of_a_unit_have_its_attempts_and_no_others(tmp_path: Path) -> None:
    script = "test -e seen && echo fine && exit 0; touch seen; exit 1"
    stage = program_stage(tmp_path, [script, "echo other"])
    config = tmp_path / "headway.toml"
    config.write_text(config.read_text() + "[providers.sh.retry]\nbase = '10ms'\n")
    assert stage.run("run", "in.jsonl", "--name", "j", "-q").returncode == 0
    told = [
        (event["event"], event.get("attempt")) for event in _events(stage, "--unit", "u0") if "unit" in event
    ]
    assert told == [("started", 1), ("retried", 1), ("started", 2), ("succeeded", 2)]
    text = stage.run("logs", "j", "--unit", "u0").stdout
    assert "u0 failed and tried again" in text
    assert "u0 (attempt 2) succeeded" in text
    assert "u1" not in text


def test_logs_follow_a_job_until_it_ends(detached: Callable[[list[str]], Stage]) -> None:
    stage = detached([WAIT + "echo fine"])
    with stage.process("logs", "j", "--follow") as logs:
        assert logs.stdout is not None
        first = [logs.stdout.readline() for _ in range(2)]
        assert "the run began" in first[0]
        assert "u0 started on sh/sh" in first[1]
        (stage.root / "go").touch()
        rest, _ = logs.communicate(timeout=PATIENCE_S)
    assert logs.returncode == 0
    assert [line.split("  ", 1)[1].split(" in ")[0] for line in rest.splitlines()] == [
        "u0 succeeded",
        "the run ended: complete: 1 of 1 succeeded",
    ]


def test_a_lost_run_and_the_next_one_are_in_the_log(detached: Callable[[list[str]], Stage]) -> None:
    stage = detached([WAIT + "echo fine"])
    wait_for("a running unit", lambda: stage.statuses() == {0: "running"})
    os.kill(pid_of(stage), signal.SIGKILL)
    wait_for("the end", lambda: ended(stage))
    (stage.root / "go").touch()
    done = stage.run("resume", "j", "--progress", "plain")
    assert done.returncode == 0
    assert (
        "1 unit was running when the last process ended, and may have done a part of the work: u0"
        in done.stderr
    )
    assert "tokens in" not in done.stderr.partition("done")[0]
    events = _events(stage)
    told = [event["event"] for event in events]
    [noticed] = {event["at_utc"] for event in events if event["event"] == "lost"}
    assert str(noticed) > str(events[1]["at_utc"]), "an attempt is lost after it has started"
    assert told[:2] == ["began", "started"]
    assert sorted(map(str, told[2:5])) == ["began", "lost", "lost"], (
        "the run, and the attempt that was in flight"
    )
    assert told[5:] == ["started", "succeeded", "ended"]
