"""Every action of the page does what its command does, on real jobs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.programs import alive, all_gone
from tests.crash.stage import Stage, wait_for
from tests.dashboard.dashboard_process import DashboardProcess, dashboard, one_attempt_stage

from headway.dashboard.actions.command_process import ActionRefused, run_command
from headway.stores.job_lock import is_locked

WAIT = "until test -e go; do sleep 0.02; done; echo ended"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = one_attempt_stage(tmp_path, [WAIT, WAIT, WAIT, "exit 3"], at_once=2)
    yield made
    (tmp_path / "go").touch()
    lock = tmp_path / ".headway" / "jobs" / "j" / "lock"
    if lock.exists() and (pid := lock.read_text().strip()) and alive(int(pid)):
        os.kill(int(pid), signal.SIGKILL)
    wait_for("the end of all programs", lambda: all_gone(made))


def state_of(page: DashboardProcess) -> str:
    text: str = page.get("/api/jobs/j").json["state"]
    return text


def test_a_run_is_steered_to_its_end(stage: Stage) -> None:
    with dashboard(stage) as page:
        assert stage.run("run", "in.jsonl", "--name", "j", "--detach").returncode == 0
        _pause_and_resume(page)
        _new_limits(page)
        _a_new_budget(page)
        _cancel_one_unit_and_the_job(page)
        _resume_in_the_background(stage, page)
        _what_cannot_be_done(page)


def _pause_and_resume(page: DashboardProcess) -> None:
    done = page.post("/api/jobs/j/pause")
    assert (done.status, done.json["text"]) == (
        200,
        "asked job j to pause: units in flight finish, no more start",
    )
    wait_for("the pause", lambda: state_of(page) == "paused")
    [trouble] = [one for one in page.get("/api/jobs/j").json["trouble"] if "paused" in one["what"]]
    assert trouble["command"] == "headway resume j"
    action = trouble["action"]
    assert page.post(action["path"], action["body"]).json["text"] == "asked job j to resume"
    wait_for("the end of the pause", lambda: state_of(page) == "running")


def _new_limits(page: DashboardProcess) -> None:
    path = "/api/lanes/sh%2Fsh/limits"
    assert "keep sh/sh to 3 requests in flight" in page.post(path, {"max_concurrency": 3}).json["text"]
    wait_for("the limit", lambda: page.get("/api/jobs/j").json["lanes"][0]["window"] == 3)
    for body in ({}, {"rpm": "many"}, {"other": 1}, {"max_concurrency": 1.5}):
        assert page.post(path, body).status == 400
    assert page.post("/api/lanes/sh/limits", {"rpm": 1}).status == 400, "a provider is no lane"
    assert page.post("/api/lanes/sh%2Fsh/reopen").json["text"] == "asked job j to try sh/sh again"


def _a_new_budget(page: DashboardProcess) -> None:
    assert (
        "asked job j to keep to at most $5"
        in page.post("/api/jobs/j/budget", {"max_cost_usd": 5}).json["text"]
    )
    assert page.get("/api/jobs/j").json["budget_usd"] == 5
    assert page.post("/api/jobs/j/budget", {"max_cost_usd": -1}).status == 400
    assert page.post("/api/jobs/j/budget", {}).status == 400
    assert page.post("/api/jobs/j/budget", {"max_cost_usd": 0}).status == 200


def _cancel_one_unit_and_the_job(page: DashboardProcess) -> None:
    assert page.post("/api/jobs/j/cancel", {"units": [1]}).json["text"] == "asked job j to cancel u1"
    wait_for("the unit", lambda: page.get("/api/jobs/j").json["counts"]["cancelled"] == 1)
    assert page.post("/api/jobs/j/cancel").status == 200
    wait_for("the end", lambda: state_of(page) == "cancelled")


def _resume_in_the_background(stage: Stage, page: DashboardProcess) -> None:
    """Nobody runs the job: the page starts it, and it outlives the page's request."""
    answer = page.post("/api/jobs/j/resume")
    assert "job j runs in the background" in answer.json["text"], answer
    wait_for("the run", lambda: state_of(page) == "running")
    (stage.root / "go").touch()
    wait_for("the end", lambda: state_of(page) == "failed")
    assert page.get("/api/jobs/j").json["counts"]["failed"] == 1
    attempts, lock = "SELECT count(*) FROM attempts", stage.root / ".headway" / "jobs" / "j" / "lock"
    before = stage.query(attempts)
    assert "runs in the background" in page.post("/api/jobs/j/retry", {"failed": True}).json["text"]
    wait_for("another attempt", lambda: stage.query(attempts) > before)
    wait_for("the end of its process", lambda: not is_locked(lock))
    wait_for("the end", lambda: state_of(page) == "failed")


def _what_cannot_be_done(page: DashboardProcess) -> None:
    paused = page.post("/api/jobs/j/pause")
    assert (paused.status, "is not running" in paused.error) == (409, True)
    assert page.post("/api/jobs/none/pause").status == 404
    assert page.post("/api/jobs/j/cancel", {"units": [99]}).status == 400
    assert page.post("/api/jobs/j/retry", {}).status == 400
    assert page.post("/api/jobs/j/retry", {"failed": True, "units": [1]}).status == 400
    assert page.send("GET", "/api/jobs/j/pause", {"Cookie": page.cookie}).status == 405
    own = {"Cookie": page.cookie, "Origin": page.origin, "X-Headway-CSRF": page.csrf}
    assert page.send("POST", "/api/jobs/j/pause", own, b"{").status == 400
    assert page.send("POST", "/api/jobs/j/pause", own, b'{"a":1}').status == 400
    by_script = {"Authorization": f"Bearer {page.token}"}
    assert page.send("POST", "/api/jobs/j/pause", by_script, b"{}").status == 409, "it needs no page"


def test_a_human_step_is_answered(tmp_path: Path) -> None:
    stage = one_attempt_stage(tmp_path, ["true"])
    (tmp_path / "ask.md").write_text("Publish?")
    (tmp_path / "flow.yaml").write_text(
        "state: {schema: {when: any}}\ngraph:\n  nodes:\n  - {id: publish, kind: human, prompt: ./ask.md, writes: [when]}\n"
    )
    assert stage.run("run", "flow.yaml", "--name", "f").returncode == 4
    with dashboard(stage) as page:
        wrong = page.post("/api/jobs/f/approve", {"node": "--reject"})
        assert (wrong.status, "does not wait" in wrong.error) == (409, True)
        done = page.post("/api/jobs/f/approve", {"node": "publish", "answer": {"day": 3}, "note": "-- fine"})
        assert done.json["text"] == "approved publish of job f; to go on: headway resume f"
        assert page.post("/api/jobs/f/resume").status == 200
        wait_for("the end", lambda: page.get("/api/jobs/f").json["state"] == "complete")
    results = json.loads((tmp_path / "flow.f.results.json").read_text())
    assert results["state"]["when"] == {"day": 3}


def test_a_command_that_cannot_be_started_is_refused() -> None:
    with pytest.raises(ActionRefused, match="name fewer units"):
        run_command(["retry", "--", *["x" * 100_000] * 200])
