"""Two processes run one job because its lock has failed: the later one takes the job over, the earlier one stops.

Locks can fail: a network file system may have none, and a lock file can be deleted. The provider's counts show how much was
sent twice: at most the requests of the first process that were in flight, or that it started before it noticed.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.crash.stage import PATIENCE_S, Stage, contents, echoes, of_sqlite, started, wait_for

from headway.fake.process import FakeProcess, fake_process

#: Nine seconds of work: the second process has started long before the first is done.
UNITS = 90
AT_ONCE = 3

#: The lock of a server ends with its connection: tests/postgres has its own tests of locks and owners.
pytestmark = [of_sqlite, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def slow_fake() -> Iterator[FakeProcess]:
    with fake_process("--latency", "250ms-350ms") as fake:
        yield fake


@pytest.fixture
def slow(tmp_path: Path, slow_fake: FakeProcess) -> Stage:
    made = Stage(tmp_path, slow_fake, f"take-over-{tmp_path.name}", units=UNITS)
    made.configure(f"max_concurrency = {AT_ONCE}")
    made.write_input()
    return made


def remove_lock(stage: Stage) -> None:
    [lock] = (stage.root / ".headway" / "jobs").glob("*/lock")
    lock.unlink()


def sent_in_all(stage: Stage) -> int:
    return sum(stage.sent(index) for index in range(UNITS))


def test_a_run_that_lost_its_lock_file_stops_when_another_begins(slow: Stage) -> None:
    with slow.process("run", "in.jsonl", "-q", "--out", "first.jsonl") as first:
        wait_for("some answers", lambda: len(slow.committed()) >= 1)
        remove_lock(slow)
        second = slow.run("run", "in.jsonl", "-q", "--out", "in.results.jsonl")
        _, err = first.communicate(timeout=PATIENCE_S)

    assert (second.returncode, second.stderr) == (0, "")
    assert first.returncode == 1
    assert err.startswith("headway: another process has taken over this job: 'in-"), err
    assert err.count("\n") == 1
    assert contents(slow.rows()) == echoes(UNITS)
    assert len(slow.committed()) == UNITS
    job = slow.job()
    assert (job["state"], job["succeeded"], job["attempts"]) == ("complete", UNITS, UNITS)
    # Those in flight at the takeover, and as many that replaced the first answers.
    assert UNITS <= sent_in_all(slow) <= UNITS + 2 * AT_ONCE
    # The first process neither finishes its output nor marks rows of the second as interrupted.
    rows = [json.loads(line) for line in (slow.root / "first.jsonl").read_text().splitlines()]
    assert len(rows) < UNITS
    assert {row["headway"]["status"] for row in rows} == {"succeeded"}


@pytest.mark.parametrize("link", ["file", "folder", "relative"])
def test_every_name_of_a_database_leads_to_the_same_lock(slow: Stage, link: str) -> None:
    (slow.root / "l").mkdir()
    (slow.root / ".headway").mkdir()
    (slow.root / "l" / "h.db").symlink_to(slow.db)
    (slow.root / "l" / "folder").symlink_to(slow.db.parent)
    name = {"file": "l/h.db", "folder": "l/folder/headway.db", "relative": "./l/../.headway/headway.db"}[link]
    slow.configure("max_concurrency = 1")  # It is still at work when the others have been refused.
    with slow.process("run", "in.jsonl", "-q") as first:
        wait_for("some answers", lambda: len(slow.committed()) >= 1)
        for how in (["--db", name], []):
            slow.env = {} if how else {"HEADWAY_DB": name}
            refused = slow.run("run", "in.jsonl", "-q", "--out", "other.jsonl", *how)
            assert refused.returncode == 2
            assert "is already running, in process" in refused.stderr
        first.send_signal(signal.SIGINT)
        assert first.communicate(timeout=PATIENCE_S) == ("", "")
    assert first.returncode == 130
    assert sent_in_all(slow) == len(slow.committed())


MAP = """
import os, sys, time, headway
db, log, gate = sys.argv[1:]
log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

def call(number):
    os.write(log, b"%d\\n" % number)
    give_up_at = time.monotonic() + 60
    while not os.path.exists(gate) and time.monotonic() < give_up_at:
        time.sleep(0.01)
    return number

limits = headway.Limits(max_concurrency=4)
print(sum(headway.map(call, range(40), db=db, key=str, name="numbers", limits=limits)))
"""


def calls(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


@contextmanager
def mapping(tmp_path: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
    """A program that calls `headway.map`: (database, log of calls, file that lets calls return)."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path}
    with started("-c", MAP, *args, **pipes) as process:
        yield process


def test_a_map_that_lost_its_lock_file_stops_when_another_begins(tmp_path: Path) -> None:
    with mapping(tmp_path, "h.db", "first.log", "gate") as first:
        wait_for("four calls", lambda: len(calls(tmp_path / "first.log")) == 4)
        (tmp_path / "jobs" / "numbers" / "lock").unlink()
        with mapping(tmp_path, "h.db", "second.log", ".") as second:
            out, _ = second.communicate(timeout=PATIENCE_S)
        (tmp_path / "gate").touch()
        _, err = first.communicate(timeout=PATIENCE_S)
    assert (second.returncode, out) == (0, f"{sum(range(40))}\n")
    assert first.returncode == 1
    assert "JobTaken: another process has taken over this job: 'numbers'" in err
    assert sorted(calls(tmp_path / "second.log")) == list(range(40))
    # Those in flight, and at most as many that replaced them.
    assert 4 <= len(calls(tmp_path / "first.log")) <= 8


def test_a_map_through_a_linked_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to("h.db")
    with mapping(tmp_path, "h.db", "first.log", "gate") as first:
        wait_for("a call", lambda: calls(tmp_path / "first.log"))
        with mapping(tmp_path, "link.db", "second.log", "gate") as second:
            _, err = second.communicate(timeout=PATIENCE_S)
        assert "JobBusy: job 'numbers' is already running, in process" in err
        (tmp_path / "gate").touch()
        assert first.communicate(timeout=PATIENCE_S)[0] == f"{sum(range(40))}\n"
    assert sorted(calls(tmp_path / "first.log")) == list(range(40))
    assert calls(tmp_path / "second.log") == []
