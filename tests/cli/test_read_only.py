"""Read-only commands leave the database and its folder unchanged, whatever its schema."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage

from headway.stores.sqlite.schema import migrations

READ_ONLY = (
    ("jobs",),
    ("jobs", "--json"),
    ("status",),
    ("status", "--json"),
    ("show", "in", "u0"),
    ("show", "in", "0", "--json"),
    ("export",),
    ("lanes",),
    ("lanes", "--json"),
    ("cache", "stats"),
    ("run", "in.jsonl", "--dry-run"),
)


def make_older(db: Path) -> None:
    """Undo the newest migration (20: claimants)."""
    assert len(migrations()) == 20, "undo the newest migration here"
    with closing(sqlite3.connect(db, isolation_level=None)) as connection:
        for table in ("claims", "claimants"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute(
            "CREATE TABLE claims (lane INTEGER NOT NULL, job INTEGER NOT NULL, claim TEXT NOT NULL, seen_utc REAL NOT NULL,"
            " PRIMARY KEY (lane, job)) WITHOUT ROWID"
        )
        connection.execute(f"PRAGMA user_version = {len(migrations()) - 1}")


def folder_of(stage: Stage) -> dict[str, bytes]:
    folder = stage.root / ".headway"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("older", [False, True])
def test_read_only_commands_change_nothing(stage: Stage, headway: Headway, older: bool) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    if older:
        make_older(stage.db)
    before = folder_of(stage)
    assert "headway.db-wal" not in before
    for command in READ_ONLY:
        done = headway(*command)
        assert (done.code, done.err) == (0, ""), command
        assert folder_of(stage) == before, command
    doctor = headway("doctor", "--offline")
    schema = f"schema {len(migrations()) - 1} (the next run upgrades it to {len(migrations())})"
    assert (schema in doctor.out) is older
    assert folder_of(stage) == before

    assert headway("run", "in.jsonl", "-q").code == 0
    assert stage.query("PRAGMA user_version") == [(len(migrations()),)]


def test_a_newer_schema_is_one_line_in_every_command(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    with closing(sqlite3.connect(stage.db, isolation_level=None)) as connection:
        connection.execute("PRAGMA user_version = 99")
    commands = (
        *READ_ONLY,
        ("run", "in.jsonl"),
        ("resume",),
        ("cache", "clear", "-y"),
        ("pause",),
        ("plan", "in.jsonl"),
    )
    for command in commands:
        done = headway(*command)
        assert (done.code, done.out) == (2, ""), command
        assert done.err.endswith(
            "was written by a newer Headway (schema 99, this one knows 9) — upgrade headway\n".replace(
                "9)", f"{len(migrations())})"
            )
        )
        assert done.err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_with_read_permission_can_use_them(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    with TemporaryDirectory() as name:
        shutil.copytree(stage.root / ".headway", name, dirs_exist_ok=True)
        for path in (Path(name), *Path(name).rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        before = sorted(os.listdir(name))
        script = f"""
import os, sys
from contextlib import redirect_stdout
from headway.cli import main

def look():
    return main(["status", "--json", "--db", "headway.db"]) or main(["export", "--db", "headway.db"])

os.chdir({name!r})
with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
    look()  # Another user may not be able to import what is loaded here.
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(look())
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout[: done.stdout.index("\n}\n") + 2])["succeeded"] == stage.units
        assert done.stdout.count('"status":"succeeded"') == stage.units
        assert sorted(os.listdir(name)) == before


def test_doctor_warns_of_a_database_that_others_can_read(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    assert "database mode" not in headway("doctor", "--offline").out
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        db = Path(name) / "h.db"
        shutil.copyfile(stage.db, db)
        db.chmod(0o644)
        report = headway("doctor", "--offline", "--db", str(db)).out
        line = (
            f"database mode: other users can read {db}, with every prompt and answer in it — chmod 600 {db}"
        )
        assert line in report
        db.chmod(0o600)
        assert "database mode" not in headway("doctor", "--offline", "--db", str(db)).out
