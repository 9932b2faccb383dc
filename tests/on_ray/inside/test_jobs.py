"""Jobs on a cluster: what travels, what does not, what is streamed, and what waits."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from tests.crash.stage import wait_for
from tests.on_ray import nodes
from tests.on_ray.inside import unit_work
from tests.on_ray.inside.conftest import JobFolder

NAMED, OTHER, FILE = ("a-named-key-0123456789", "another-key-0123456789", "a-key-in-a-file-0123456789")


def test_files_travel_and_secrets_do_not(job: JobFolder) -> None:
    shutil.copy(unit_work.__file__, job.path)
    (job.path / "prompt.txt").write_text("be brief")
    (job.path / ".env").write_text(f"FILE_KEY={FILE}\n")
    (job.path / "large").mkdir()
    (job.path / "large" / "data").write_text("not needed")
    program = ["sh", "-c", "cat prompt.txt; pwd; echo $NAMED_KEY $OTHER_KEY"]
    job.configure(
        f={"kind": "python", "target": "unit_work:environment", "env": ["NAMED_KEY"]},
        p={"kind": "command", "command": program, "env": ["NAMED_KEY"]},
    )
    text = (job.path / "headway.toml").read_text()
    (job.path / "headway.toml").write_text(text.replace("[ray]\n", '[ray]\nexclude = ["large/"]\n'))
    job.rows("in.jsonl", [{"id": "f", "model": "f/environment"}, {"id": "p", "model": "p/sh", "prompt": "x"}])
    secrets = {"NAMED_KEY": NAMED, "OTHER_KEY": OTHER}
    run = job.start("run", "in.jsonl", "--out", "out.jsonl", "--progress", "none", **secrets)
    _, errors = run.communicate(timeout=90)
    assert run.returncode == 0, errors

    function, program_row = (result["response"]["body"] for result in job.results("out.jsonl"))
    assert function["named"] == "***"  # It was there, and is blotted out of the records.
    assert function["other"] == ""
    assert {"prompt.txt", "unit_work.py"} <= set(function["files"])
    assert not {".env", ".headway", "large"} & set(function["files"])
    assert function["directory"] != str(job.path)
    said = program_row["content"][0]["text"]
    assert said.startswith("be brief")
    assert "***" in said
    for secret in (NAMED, OTHER, FILE):
        found = subprocess.run(
            ["grep", "-rlF", secret, os.environ["RAY_TMPDIR"]], capture_output=True, text=True, check=False
        )
        assert found.stdout == "", secret


def test_a_cluster_without_room_is_waited_for_and_says_so(job: JobFolder) -> None:
    shutil.copy(unit_work.__file__, job.path)
    job.configure(
        f={"kind": "python", "target": "unit_work:leave", "resources": {"num_cpus": 0.5, "late": 1}}
    )
    job.rows("in.jsonl", [{"id": "u", "n": 0, "s": 0, "effects": str(job.effects)}])
    run = job.start("run", "in.jsonl", "--out", "out.jsonl", "--log-file", "log", "--progress", "none")
    log = job.path / "log"
    wait_for(
        "it says so",
        lambda: (
            run.poll() is not None or (log.exists() and "no node of the Ray cluster has" in log.read_text())
        ),
        90,
    )
    assert run.poll() is None, run.communicate()[1]
    late = nodes.cluster.add_node(num_cpus=1, resources={"late": 1})
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 0, errors
    assert log.read_text().count("no node of the Ray cluster has") == 1
    nodes.cluster.remove_node(late)


def test_lines_of_a_program_are_recorded_while_it_runs(job: JobFolder, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    event = '{"type":"system","subtype":"init","session_id":"S"}'
    last = '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"done","session_id":"S"}'
    script = f"echo '{event}'; while [ ! -e {gate} ]; do sleep 0.05; done; echo '{last}'; sleep 600"
    job.configure(p={"kind": "claude", "command": ["sh", "-c", script, "claude"]})
    job.rows("in.jsonl", [{"id": "u", "prompt": "x"}])
    run = job.start("run", "in.jsonl", "--out", "out.jsonl", "--progress", "none")
    wait_for("its first line is on record", lambda: _recorded(job) or run.poll() is not None)
    gate.touch()
    _, errors = run.communicate(timeout=60)  # It lingers after its last event, and is ended.
    assert run.returncode == 0, errors
    [result] = job.results("out.jsonl")
    assert result["headway"]["text"] == "done"


def _recorded(job: JobFolder) -> bool:
    path = job.path / ".headway" / "headway.db"
    if not path.exists():
        return False
    with closing(sqlite3.connect(path)) as db:
        try:
            return any(b"init" in line for (line,) in db.execute("SELECT line FROM transcripts"))
        except sqlite3.OperationalError:  # It is being made.
            return False
