"""A job that runs, one whose process was killed, and one that has ended, as the real `headway ui` shows them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.programs import alive, all_gone
from tests.crash.stage import Stage, wait_for
from tests.dashboard.dashboard_process import DashboardProcess, EventReader, dashboard, one_attempt_stage

WAIT = "until test -e go; do sleep 0.02; done; echo ended"
#: What a model or an input could send to a page: all of it is text.
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[2J\u202e\"'"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = one_attempt_stage(tmp_path, [WAIT, "echo two", "exit 3"])
    yield made
    (tmp_path / "go").touch()
    wait_for("the end of all programs", lambda: all_gone(made))


def pid_of(stage: Stage) -> int:
    return int((stage.root / ".headway" / "jobs" / "j" / "lock").read_text())


def test_a_job_from_its_start_to_the_kill_of_its_process_and_its_end(stage: Stage) -> None:
    """One dashboard sees it all: an empty database, a run, `kill -9`, the resumed run and its end."""
    with dashboard(stage) as page:
        assert page.get("/api/jobs").json["jobs"] == []
        everything = EventReader(page, "/api/events")
        assert stage.run("run", "in.jsonl", "--name", "j", "--detach").returncode == 0
        watched = EventReader(page, "/api/events?job=j")
        try:
            _check_running(page, watched, everything)
            _check_killed(stage, page, watched)
            _check_ended(stage, page, watched, everything)
        finally:
            watched.close()
            everything.close()


def _check_running(page: DashboardProcess, watched: EventReader, everything: EventReader) -> None:
    def settled() -> bool:
        states = watched.of("progress")
        return (
            bool(states) and states[-1]["counts"]["running"] == 1 and states[-1]["counts"]["succeeded"] == 1
        )

    wait_for("one unit in flight", settled)
    [row] = page.get("/api/jobs").json["jobs"]
    assert (row["job"], row["state"], row["live"], row["total"], row["finished_utc"]) == (
        "j",
        "running",
        True,
        3,
        None,
    )
    details = page.get("/api/jobs/j").json
    assert details["counts"] == watched.of("progress")[-1]["counts"]
    [lane] = details["lanes"]
    assert (lane["lane"], lane["in_flight"], lane["window"], lane["stopped"]) == ("sh/sh", 1, 4, None)
    assert details["parts"] == {"flow": False, "eval": False, "review": False, "agents": True}
    numbers = page.send("GET", "/metrics", {"Authorization": f"Bearer {page.token}"}).body.decode()
    assert re.search(r'headway_units\{job="j",status="succeeded"\} 1\b', numbers), numbers
    [known] = page.get("/api/lanes").json["lanes"]
    assert known["jobs"][0]["job"] == "j"
    wait_for(
        "the job in the list",
        lambda: any(one["job"] == "j" for rows in everything.of("jobs") for one in rows),
    )
    assert page.get("/api/jobs/j/flow").status == 409
    assert page.get("/api/jobs/j/agents").json["agents"] == []
    assert page.get("/api/jobs?after=x").status == 400
    assert page.get("/api/events?job=none").status == 404


def _check_killed(stage: Stage, page: DashboardProcess, watched: EventReader) -> None:
    pid = pid_of(stage)
    os.kill(pid, signal.SIGKILL)
    wait_for("the end of the process", lambda: not alive(pid))
    wait_for("the end", lambda: watched.of("ended"))
    details = page.get("/api/jobs/j").json
    assert (details["state"], details["live"]) == ("interrupted", False)
    [trouble] = [one for one in details["trouble"] if "process" in one["what"]]
    assert (trouble["level"], trouble["command"]) == ("error", "headway resume j")
    assert trouble["action"]["path"] == "/api/jobs/j/resume"
    assert details["elapsed_s"] > 0.0


def _check_ended(stage: Stage, page: DashboardProcess, watched: EventReader, everything: EventReader) -> None:
    (stage.root / "go").touch()
    done = stage.run("resume", "j")
    assert done.returncode == 1, done.stderr
    wait_for("the second end", lambda: len(watched.of("ended")) == 2)
    last = watched.of("ended")[-1]
    assert (last["state"], last["counts"]["succeeded"], last["counts"]["failed"]) == ("failed", 2, 1)
    details = page.get("/api/jobs/j").json
    [failure] = details["failures"]
    assert failure["units"] == 1
    assert failure["do"]
    [trouble] = [one for one in details["trouble"] if one["action"] and one["action"]["body"]]
    assert trouble["command"] == "headway retry j --failed"
    assert trouble["action"]["body"] == {"failed": True}
    [lane] = details["lanes"]
    assert (lane["succeeded"], lane["failed"], lane["in_flight"]) == (2, 1, 0)
    wait_for("the end in the list", lambda: everything.of("jobs")[-1][-1]["state"] == "failed")


def test_ctrl_c_ends_it_at_once_with_streams_open_and_leaves_nothing(stage: Stage) -> None:
    (stage.root / "go").touch()
    assert stage.run("run", "in.jsonl", "--name", "j").returncode == 1
    before = sorted(path.name for path in (stage.root / ".headway").iterdir())
    with dashboard(stage) as page:
        watched = EventReader(page, "/api/events?job=j")
        wait_for("the state", lambda: watched.of("progress"))
        page.process.send_signal(signal.SIGINT)
        assert page.process.wait(5.0) == 0
        wait_for("the end of the stream", watched.is_over)
        watched.close()
        assert page.process.stderr is not None
        assert page.process.stderr.read() == ""
    assert sorted(path.name for path in (stage.root / ".headway").iterdir()) == before


def test_hostile_text_is_json_text(tmp_path: Path) -> None:
    stage = one_attempt_stage(tmp_path, ["echo one"])
    stage.write_input([{"id": f"u{HOSTILE}", "prompt": f"echo '{HOSTILE}' >&2; exit 3"}])
    done = stage.run("run", "in.jsonl", "--name", "j")
    assert done.returncode == 1, done.stderr
    with dashboard(stage) as page:
        for path in ("/api/jobs", "/api/jobs/j", "/api/lanes"):
            answer = page.get(path)
            assert answer.headers["content-type"] == "application/json"
            assert not set("\x1b\u202e") & set(_texts(answer.json)), path
        texts = _texts(page.get("/api/jobs/j").json)
        assert "<script>alert(1)</script>" in texts
        assert "\\x1b[2J" in texts


def _texts(value: object) -> str:
    """All texts of an answer, joined."""
    if isinstance(value, dict):
        return "".join(_texts(name) + _texts(each) for name, each in value.items())
    if isinstance(value, list):
        return "".join(map(_texts, value))
    return value if isinstance(value, str) else ""
