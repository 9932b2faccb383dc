"""Every worker process is a row in `workers`, and every attempt names the process that ran it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from tests.crash.stage import Stage, wait_for
from tests.executors.test_transcripts import RESULT, agent, say

import headway
from headway.fake.process import FakeProcess

WORK = """
import os, pathlib, time
def work(row):
    if row["n"] == 3 and not os.path.exists("died"):
        pathlib.Path("died").touch()
        os._exit(9)
    if row.get("hang"):
        pathlib.Path("hangs").touch()
        time.sleep(1000)
    return {"pid": os.getpid()}
"""
ROWS = "SELECT name, pid, status, ended_utc IS NOT NULL, run IS NOT NULL FROM workers ORDER BY id"


def python_stage(tmp_path: Path, rows: list[dict[str, object]]) -> Stage:
    (tmp_path / "deeds.py").write_text(WORK)
    (tmp_path / "headway.toml").write_text(
        '[providers.w]\nkind = "python"\ntarget = "deeds:work"\nworkers = 2\npreflight = "none"\n'
        '[providers.w.retry]\nbase = "10ms"\n'
    )
    stage = Stage(tmp_path, FakeProcess("", 0, 0), "work", len(rows))
    stage.write_input([{"id": f"u{n}", "n": n, **row} for n, row in enumerate(rows)])
    return stage


def test_every_program_is_a_worker_of_its_attempt(tmp_path: Path) -> None:
    script = f"[ -e seen ] || {{ touch seen; echo $$ > pid; kill -9 $$; }}\n{say(RESULT)}"
    stage = agent(tmp_path, script, more='[providers.a.retry]\nbase = "10ms"\n')
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    run, first, second = stage.query(ROWS)
    assert run[2:] == ("terminated", 1, 0)
    assert first == ("claude", int((tmp_path / "pid").read_text()), "failed", 1, 1)
    assert (second[0], *second[2:]) == ("claude", "terminated", 1, 1)
    named = stage.query(
        "SELECT number, pid FROM attempts JOIN workers ON workers.id = worker ORDER BY number"
    )
    assert named == [(1, first[1]), (2, second[1])]
    shown = json.loads(stage.run("show", "in", "u0", "--json").stdout)
    assert [one["worker"] for one in shown["attempts"]] == [2, 3]


def test_python_workers_are_rows_and_attempts_name_them(tmp_path: Path) -> None:
    stage = python_stage(tmp_path, [{} for _ in range(12)])
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    rows = stage.query(ROWS)[1:]
    assert {(row[0], *row[3:]) for row in rows} == {("python", 1, 1)}
    assert sorted(row[2] for row in rows)[0] == "failed", "the one that died"
    assert {row[2] for row in rows} == {"failed", "terminated"}
    pids = {row["custom_id"]: row["response"]["body"]["pid"] for row in stage.rows()}
    named = stage.query(
        "SELECT custom_id, pid FROM attempts JOIN units USING (uid) JOIN workers ON workers.id = attempts.worker "
        "WHERE outcome = 'succeeded'"
    )
    assert dict(named) == pids


@pytest.mark.parametrize("kind", ["python", "claude"])
def test_after_a_crash_no_worker_stays_busy_and_the_lost_attempt_names_its_worker(
    tmp_path: Path, kind: str
) -> None:
    if kind == "python":
        stage = python_stage(tmp_path, [{"hang": True}])
    else:
        stage = agent(
            tmp_path, f'touch hangs\ncase "$*" in *--resume*) ;; *) exec sleep 1000;; esac\n{say(RESULT)}'
        )
    with stage.process("run", "in.jsonl", "-q") as process:
        wait_for("the worker", (tmp_path / "hangs").exists)
        wait_for(
            "its row", lambda: stage.query("SELECT 1 FROM workers WHERE uid IS NOT NULL AND status = 'busy'")
        )
        process.send_signal(signal.SIGKILL)
        process.wait()
    if kind == "python":
        stage.write_input([{"id": "u0", "n": 0}])
        (tmp_path / "deeds.py").write_text(WORK.replace("time.sleep(1000)", "pass"))
    assert stage.run("resume", "-q").returncode == 0
    assert stage.query("SELECT count(*) FROM workers WHERE status IN ('idle', 'busy')") == [(0,)]
    [(name, status)] = stage.query(
        "SELECT name, status FROM attempts JOIN workers ON workers.id = worker WHERE outcome = 'lost'"
    )
    assert (name, status) == (kind, "failed")


def pid_of(item: int) -> int:
    return os.getpid()


def test_processes_of_map_are_rows(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FakeProcess("", 0, 0), "map", 0)
    db = tmp_path / ".headway" / "headway.db"
    pids = set(headway.map(pid_of, range(6), isolation="process", workers=2, db=db, key=str, name="pids"))
    named = stage.query(
        "SELECT DISTINCT pid FROM attempts JOIN workers ON workers.id = worker WHERE run IS NOT NULL"
    )
    assert {pid for (pid,) in named} == pids
    assert stage.query("SELECT count(*) FROM workers WHERE status IN ('idle', 'busy')") == [(0,)]
