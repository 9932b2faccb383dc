"""Commands over PostgreSQL, with a password in the address: all of them work, and none shows it. `HEADWAY_TEST_STORE=postgres pytest tests/cli`
runs all command tests over it; those that look into the file itself fail.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.crash.stage import Stage, wait_for
from tests.postgres_server import PASSWORD, PostgresServer

from .conftest import Headway


@pytest.fixture
def address(stage: Stage, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> str:
    stage.address = postgres_server.address_with_password()
    monkeypatch.setenv("HEADWAY_DB", stage.address)
    return stage.address


def test_commands_work_and_keep_the_password(stage: Stage, address: str, headway: Headway) -> None:
    empty = headway("jobs")
    assert (empty.code, "there is no store" in empty.err) == (2, True)
    said = [empty, headway("doctor"), headway("plan", "in.jsonl")]
    assert headway("run", "in.jsonl", "--cache").code == 0
    assert len(stage.rows()) == 10
    [job] = json.loads(headway("jobs", "--json").out)
    name = job["job"]
    commands = (
        ("status",), ("show", name, "u1"), ("export", name, "--out", "again.jsonl"), ("lanes",), ("cache", "stats"), ("logs",), ("attach", name),
        ("report", name), ("doctor",), ("retry", "--failed"), ("plan", "in.jsonl"), ("resume",), ("status", "--json"), ("run", "in.jsonl"),
        ("run", "in.jsonl", "--fresh", "--cache"), ("diff", name, name), ("cache", "clear"), ("jobs",),
    )  # fmt: skip
    for command in commands:
        done = headway(*command)
        assert done.code in (0, 2), (command, done)
        assert "Traceback" not in done.err, (command, done)
        said.append(done)
    assert json.loads((stage.root / "again.jsonl").read_text().splitlines()[0])["custom_id"] == "u0"
    assert [done for done in said if PASSWORD in done.out + done.err] == []
    assert "PostgreSQL" in "".join(done.out for done in said)
    files = [path for path in stage.root.rglob("*") if path.is_file()]
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []


def test_a_job_in_the_background_is_controlled(stage: Stage, address: str, headway: Headway) -> None:
    """The address is in the environment: no argument of the process has it."""
    stage.units = 200
    stage.env["ALPHA_KEY"] = "sk-slow-account"
    stage.configure("max_concurrency = 4")
    stage.write_input()
    detached = stage.run("run", "in.jsonl", "--detach")
    assert detached.returncode == 0, detached.stderr
    assert PASSWORD not in detached.stdout + detached.stderr
    pid = int(Path(next(stage.root.glob(".headway/jobs/*/lock"))).read_text())
    assert PASSWORD.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    try:
        busy = stage.run("run", "in.jsonl")
        assert (busy.returncode, "already running" in busy.stderr) == (2, True), busy.stderr
        assert stage.run("pause").returncode == 0
        assert json.loads(stage.run("status", "--json").stdout)["state"] in ("paused", "running")
        assert stage.run("cancel").returncode == 0
    finally:
        wait_for("the process ends", lambda: not _lives(pid))
    assert stage.job()["state"] == "cancelled"


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
