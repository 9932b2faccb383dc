"""A store of another user where Headway looks for its own is refused unless it is named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage
from tests.ownership import STRANGER, give_away

import headway as library
from headway.config import trust

LOOKING = (("jobs",), ("status",), ("lanes",), ("export",), ("cache", "stats"))
SENDING = (("run", "in.jsonl"), ("resume",), ("retry", "--failed"), ("cancel",), ("cache", "clear", "--yes"))
PLANNING = (("plan", "in.jsonl"), ("run", "in.jsonl", "--dry-run"))


def sent(stage: Stage) -> int:
    return sum(stage.sent(index) for index in range(stage.units))


@pytest.mark.parametrize("planted", [".headway", ".headway/headway.db"])
def test_every_command_refuses_records_of_another_user(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, planted: str
) -> None:
    assert headway("run", "in.jsonl", "-q", "--limit", "2").code == 0
    before = sent(stage)
    path = stage.root / planted
    give_away(path, monkeypatch)
    for args in (*LOOKING, *SENDING, *PLANNING):
        done = headway(*args)
        assert done.code == 2, (args, done.err)
        [line] = done.err.splitlines()
        assert f"{path} belongs to another user ({trust.user_name(STRANGER)})" in line
        assert f"--db {stage.db}" in line
        assert "chown" in line
    assert sent(stage) == before


def test_a_folder_with_prices_alone_is_refused_before_they_are_read(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stage.root / ".headway"
    folder.mkdir()
    give_away(folder, monkeypatch)
    done = headway("plan", "in.jsonl")
    assert done.code == 2
    assert f"{folder} belongs to another user" in done.err


@pytest.mark.parametrize("how", ["flag", "environment", "file"])
def test_a_store_that_is_named_is_used(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    give_away(stage.db, monkeypatch)
    flags = ("--db", str(stage.db)) if how == "flag" else ()
    if how == "environment":
        monkeypatch.setenv("HEADWAY_DB", str(stage.db))
    if how == "file":
        config = stage.root / "headway.toml"
        config.write_text('db = ".headway/headway.db"\n' + config.read_text())
    assert headway("run", "in.jsonl", *flags).code == 0
    assert headway("jobs", *flags).code == 0


def test_the_resume_hint_names_the_store(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q", "--max-duration", "1ms").code == 3
    give_away(stage.db, monkeypatch)
    done = headway("status", "--db", str(stage.db))
    assert done.code == 0
    assert f"--db {stage.db.relative_to(stage.root)}" in done.out + done.err


def test_python_programs_name_their_records(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    path = stage.root / "work.db"
    assert library.map(str, [1], db=path, key=str, name="first", progress=False) == ["1"]
    give_away(path, monkeypatch)
    assert library.map(str, [1, 2], db=path, key=str, name="first", progress=False) == ["1", "2"]


def test_a_store_of_root_is_used_unless_every_user_may_write_it(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    for path in (stage.db.parent, stage.db):
        give_away(path, monkeypatch, user=0)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    assert headway("jobs").code == 0
    stage.db.chmod(0o666)
    done = headway("jobs")
    assert done.code == 2
    assert f"{stage.db} belongs to root, and every user may write it" in done.err


def test_our_own_store_is_used_even_if_every_user_may_write_it(stage: Stage, headway: Headway) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    stage.db.chmod(0o666)
    assert headway("jobs").code == 0


def test_a_link_that_another_user_made_is_refused(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    elsewhere = stage.root / "elsewhere"
    (stage.root / ".headway").rename(elsewhere)
    link = stage.root / ".headway"
    link.symlink_to(elsewhere)
    assert headway("jobs").code == 0
    give_away(link, monkeypatch)
    done = headway("jobs")
    assert done.code == 2
    assert f"{link} belongs to another user" in done.err


def test_doctor_reports_a_foreign_store(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    give_away(stage.db, monkeypatch)
    report = json.loads(headway("doctor", "--offline", "--json").out)
    [found] = [check for check in report["checks"] if check["name"] == "database"]
    assert found["state"] == "problem"
    assert f"{stage.db} belongs to another user" in found["text"]
    report = json.loads(headway("doctor", "--offline", "--json", "--db", str(stage.db)).out)
    [found] = [check for check in report["checks"] if check["name"] == "database owner"]
    assert found["state"] == "warning"
    assert "belongs to another user" in found["text"]


# -- root ------------------------------------------------------------------------------------------------------------

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be root")


@only_root
@pytest.mark.parametrize("how", ["the directory's owner", "sudo"])
def test_root_uses_stores_of_the_checkouts_owner_and_of_the_sudo_user(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    assert headway("run", "in.jsonl", "-q").code == 0
    for path in (stage.db.parent, stage.db, stage.root / "headway.toml"):
        give_away(path, monkeypatch)
    assert headway("jobs").code == 2
    if how == "sudo":
        monkeypatch.setenv("SUDO_UID", str(STRANGER))
    else:
        give_away(stage.root, monkeypatch)
    assert headway("jobs").code == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory like /tmp: every user may create files in it."""
    folder = Path(tempfile.mkdtemp(prefix="headway-shared-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


@only_root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_a_user_refuses_the_store_that_another_user_planted_in_a_shared_directory(shared: Path) -> None:
    """With two users that are not root, for real."""
    other = STRANGER - 1

    def as_user(user: int, *args: str) -> subprocess.CompletedProcess[str]:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *args]
        return subprocess.run(
            command, cwd=shared, env={"HOME": str(shared)}, capture_output=True, text=True, check=False, timeout=60
        )  # fmt: skip

    if as_user(STRANGER, sys.executable, "-P", "-c", "import headway").returncode:
        pytest.skip("other users cannot read this Python or this checkout")
    made = "import sys, pathlib; from headway.stores.sqlite.file import SqliteFile; SqliteFile(pathlib.Path(sys.argv[1])).close()"
    db = shared / ".headway" / "headway.db"
    planted = as_user(other, sys.executable, "-P", "-c", made, str(db))
    assert planted.returncode == 0, planted.stderr
    db.parent.chmod(0o777)
    db.chmod(0o666)
    refused = as_user(STRANGER, sys.executable, "-P", "-m", "headway", "jobs")
    assert refused.returncode == 2, refused.stderr
    assert f"{db.parent} belongs to another user (number {other})" in refused.stderr
    named = as_user(STRANGER, sys.executable, "-P", "-m", "headway", "jobs", "--db", str(db))
    assert named.returncode == 0, named.stderr
