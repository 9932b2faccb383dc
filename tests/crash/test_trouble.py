"""Other problems of a process: a full disk, an unwritable path, a clock that jumps, a second engine, a restart under a tight
limit, a hold that was reported just before the process ended.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.crash.conftest import Reference
from tests.crash.stage import Stage, Witness, of_sqlite, plain, wait_for

from headway.errors import JobBusy
from headway.fake.process import FakeProcess, fake_process
from headway.stores.job_lock import JobLock

_CAPBSET_DROP = 24
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1, 2


def as_everybody() -> None:
    """Root obeys file permissions from the next exec on; for other users this does nothing."""
    libc = ctypes.CDLL(None)
    for capability in (_DAC_OVERRIDE, _DAC_READ_SEARCH):
        libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0)


# -- a full disk --------------------------------------------------------------------------------------------------


@of_sqlite
def test_a_disk_that_fills_up_loses_no_results(stage: Stage, reference: Reference) -> None:
    """A limit on the file size has the same effect as a full disk, on every machine."""
    stage.units = 600
    stage.write_input()
    full = stage.run("run", "in.jsonl", faults={"file_size": 1_200_000})
    assert full.returncode == 1, full.stderr
    check_full_disk_message(full.stderr)
    shown = stage.run("status").stdout
    assert "the latest run ended with an error: " in shown, shown
    assert "no space" in shown or "I/O error" in shown, shown
    assert "ended unexpectedly" not in shown, "the reason is known"
    witness = Witness(stage)
    unknown = witness.note_crash()
    assert 0 < len(stage.committed()) < stage.units, "it filled up in the middle"
    done = stage.run("resume", "--progress", "json")
    assert done.returncode == 0, done.stderr
    witness.check_named(done.stderr, unknown)
    witness.check_result(reference(stage.units))
    assert "error" not in stage.run("status").stdout, "the next run forgets it"


def check_full_disk_message(stderr: str) -> None:
    *_, last, step = stderr.splitlines()
    assert step.startswith("  to resume: headway resume in-"), stderr
    assert last.startswith("headway: "), stderr
    assert "Traceback" not in stderr
    assert "no space" in last or "I/O error" in last, stderr
    assert "safe" in last, "and that nothing is lost"


@contextmanager
def small_disk(where: Path, size: str) -> Iterator[bool]:
    """A small file system, if mounting is allowed."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "headway-test", str(where)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


@of_sqlite
def test_a_small_file_system_that_is_full(stage: Stage, reference: Reference) -> None:
    """A real full file system, if one may be mounted; elsewhere the test above covers it."""
    stage.units = 150
    with small_disk(stage.root, "700k") as mounted:
        stage.configure()
        stage.write_input()
        full = stage.run("run", "in.jsonl", faults={} if mounted else {"file_size": 400_000})
        assert full.returncode == 1, full.stderr
        check_full_disk_message(full.stderr)
        assert "the latest run ended with an error: " in stage.run("status").stdout
        witness = Witness(stage)
        unknown = witness.note_crash()
        assert len(stage.committed()) < stage.units
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=50m", str(stage.root)], check=True)
        done = stage.run("run", "in.jsonl", "--progress", "json")
        assert done.returncode == 0, done.stderr
        witness.check_named(done.stderr, unknown)
        witness.check_result(reference(stage.units))


@of_sqlite
def test_a_disk_that_is_full_from_the_start(stage: Stage, reference: Reference) -> None:
    full = stage.run("run", "in.jsonl", faults={"file_size": 20_000})
    assert full.returncode == 1, full.stderr
    assert full.stderr.startswith("headway: ")
    assert len(full.stderr.splitlines()) == 1
    assert stage.sent(0) == 0
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    assert plain(stage.rows()) == reference(stage.units)


# -- paths that are not writable -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        ("--db", "closed/headway.db"),
        ("--out", "closed/out.jsonl"),
        ("--out", "closed/there.jsonl", "--force"),
        ("--out", "closed/deeper/out.jsonl"),
    ],
)
def test_an_unwritable_path_is_reported_before_anything_is_sent(stage: Stage, args: tuple[str, ...]) -> None:
    closed = stage.root / "closed"
    closed.mkdir()
    (closed / "there.jsonl").touch()
    (closed / "there.jsonl").chmod(0o444)
    closed.chmod(0o555)
    try:
        done = stage.run("run", "in.jsonl", *args, preexec=as_everybody)
    finally:
        closed.chmod(0o755)
    assert done.returncode in (1, 2), done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("headway: ")
    assert "closed" in last
    assert "Traceback" not in done.stderr
    assert {stage.sent(index) for index in range(stage.units)} == {0}


@of_sqlite
def test_an_unwritable_store_is_reported_in_one_line(stage: Stage) -> None:
    assert stage.run("run", "in.jsonl", "-q").returncode == 0
    folder = stage.db.parent
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(0o444)
    folder.chmod(0o555)
    try:
        done = stage.run("run", "in.jsonl", "--fresh", preexec=as_everybody)
        assert done.returncode == 1
        assert done.stderr.startswith(f"headway: {stage.db}")
        assert len(done.stderr.splitlines()) == 1
    finally:
        folder.chmod(0o755)


# -- a clock that jumps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jumps", [[[0.6, 7200.0]], [[0.6, -7200.0]], [[0.5, 3600.0], [0.9, -9000.0]]])
def test_a_clock_jump_changes_no_pacing(stage: Stage, reference: Reference, jumps: list[list[float]]) -> None:
    """Forty units at twenty a second take two seconds, even if the wall clock jumps."""
    stage.configure('rpm = 1200\nburst = "50ms"')
    began = time.monotonic()
    done = stage.run("run", "in.jsonl", faults={"clock": jumps})
    took_s = time.monotonic() - began
    assert done.returncode == 0, done.stderr
    assert 1.9 < took_s < 10.0
    assert plain(stage.rows()) == reference(stage.units)
    attempts = stage.query("SELECT started_utc, finished_utc FROM attempts WHERE outcome = 'succeeded'")
    assert len(attempts) == stage.units
    assert all(0.0 <= finished - started < 5.0 for started, finished in attempts)


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_clock_set_between_two_runs_blocks_no_lane(stage: Stage, reference: Reference, by: float) -> None:
    stage.units = 120
    stage.write_input()
    stage.configure('rpm = 3000\nburst = "1s"')
    first = stage.run("run", "in.jsonl", "--max-duration", "400ms", faults={"clock": [[0.0, -by]]})
    assert first.returncode == 3, first.stderr
    began = time.monotonic()
    done = stage.run("run", "in.jsonl", "-q")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 10.0
    assert plain(stage.rows()) == reference(stage.units)


@pytest.fixture
def holding_fake() -> Iterator[FakeProcess]:
    """A provider that accepts two requests, then reports a hold of some minutes."""
    with fake_process("--rpm", "0.5", "--burst", "240s", "--latency", "10ms", "--headers", "none") as fake:
        yield fake


def until_held(stage: Stage, process: subprocess.Popen[str]) -> None:
    stderr = process.stderr
    assert stderr is not None
    wait_for("the hold", lambda: '"held"' in stderr.readline())
    wait_for("its record", lambda: stage.query("SELECT 1 FROM events WHERE what = 'held'"))


def check_the_hold_is_kept(stage: Stage, clock: list[list[float]]) -> None:
    """The next process knows the hold and sends nothing."""
    before = stage.fake.stats()["total"]
    assert before["admitted"] == 2
    again = stage.run("resume", "--max-hold", "10s", faults={"clock": clock})
    assert again.returncode == 4, again.stderr
    after = stage.fake.stats()["total"]
    assert after["received"] == before["received"], "nothing was sent into the hold"
    assert {row["error"]["code"] for row in stage.rows() if row["error"]} == {"hold"}


@pytest.mark.parametrize("set_back_by", [0.0, 86_400.0])
def test_a_hold_survives_its_process(stage: Stage, holding_fake: FakeProcess, set_back_by: float) -> None:
    """The process is killed right after the hold, and the clock may be set back before the next one starts."""
    stage.fake = holding_fake
    stage.configure("max_concurrency = 1")
    with stage.process("run", "in.jsonl", "--progress", "json") as process:
        until_held(stage, process)
        process.kill()
        process.wait()
    check_the_hold_is_kept(stage, [[0.0, -set_back_by]])


@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_a_clock_jump_does_not_end_a_hold(stage: Stage, holding_fake: FakeProcess, jump: float) -> None:
    """The clock jumps while the lane is held: the hold lasts as long as reported, in this process and the next."""
    stage.fake = holding_fake
    stage.configure("max_concurrency = 1")
    faults = {"clock_file": ["jump", jump]}
    with stage.process("run", "in.jsonl", "--progress", "json", faults=faults) as process:
        until_held(stage, process)
        received = holding_fake.stats()["total"]["received"]
        (stage.root / "jump").touch()
        time.sleep(0.5)  # Long enough to send something, if it wanted to.
        assert holding_fake.stats()["total"]["received"] == received
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 130
    check_the_hold_is_kept(stage, [[0.0, jump]])


# -- two engines --------------------------------------------------------------------------------------------------------


def test_a_second_engine_is_refused_and_takes_over_when_the_first_dies(stage: Stage) -> None:
    stage.units = 400
    stage.write_input()
    stage.configure("max_concurrency = 1")
    with stage.process("run", "in.jsonl") as first:
        wait_for("the first answer", stage.committed)
        second = stage.run("run", "in.jsonl")
        assert second.returncode == 2, second.stderr
        assert f"process {first.pid}" in second.stderr
        assert first.poll() is None
        stage.configure("max_concurrency = 32")
        with stage.process("run", "in.jsonl") as waiting:
            # It waits a tenth of a second for a lock: one that is freed meanwhile is taken over.
            first.kill()
            first.wait()
            _, err = waiting.communicate(timeout=30)
    assert waiting.returncode == 0, err
    assert len(stage.committed()) == stage.units


def test_the_lock_is_taken_over_within_a_tenth_of_a_second(stage: Stage) -> None:
    """Measured from the death of the holder until another process has the lock; the best of three, since this machine may be
    busy.
    """
    stage.units = 400
    stage.write_input()
    stage.configure("max_concurrency = 1")
    assert any(takes_over(stage) for _ in range(3))


def takes_over(stage: Stage) -> bool:
    done = len(stage.committed())
    with stage.process("run", "in.jsonl") as first:
        wait_for("an answer", lambda: len(stage.committed()) > done)
        lock = JobLock(stage.root / ".headway" / "jobs" / stage.job()["name"] / "lock", "job")
        with pytest.raises(JobBusy, match=str(first.pid)), lock:
            pass
        first.send_signal(signal.SIGKILL)
        try:
            with lock:  # It waits a tenth of a second and no longer.
                return True
        except JobBusy:
            return False


# -- limits after a restart -----------------------------------------------------------------------------------------------


def test_a_restart_does_not_exceed_the_limit(stage: Stage) -> None:
    """One request a second with a bucket of six, no headers: a process that forgets its starts would send six at once."""
    with fake_process("--rpm", "60", "--burst", "6500ms", "--latency", "10ms", "--headers", "none") as fake:
        stage.fake = fake
        stage.configure('rpm = 60\nburst = "6s"')
        began = time.monotonic()
        for more in (7, 8, 9):
            with stage.process("run", "in.jsonl") as process:
                wait_for(
                    f"request {more}",
                    lambda more=more: fake.stats()["total"]["received"] >= more,  # type: ignore[misc]
                )
                process.kill()
                process.wait()
        total = fake.stats()["total"]
        assert total["refused"] == {}, "nothing was refused"
        assert (
            total["received"] <= 7 + time.monotonic() - began
        )  # A slow start of a process refills the bucket.


def test_killed_while_a_large_input_is_ingested(stage: Stage, reference: Reference) -> None:
    """Killed while many rows are read: the next process removes everything that is left."""
    stage.units = 30_000
    stage.write_input()
    with stage.process("run", "in.jsonl") as process:
        wait_for("the first rows", stage.statuses)
        process.kill()
        process.wait()
    states = [state for (state,) in stage.query("SELECT state FROM jobs")]
    assert states in (["ingesting"], ["ready"], ["running"])
    stage.units = 40
    stage.write_input()
    assert stage.run("run", "in.jsonl", "-q", "--force").returncode == 0
    assert plain(stage.rows()) == reference(40)
