"""The job's lock, between real processes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headway.errors import JobBusy, StoreError
from headway.stores.job_lock import PATIENCE_S, JobLock, is_locked

from .processes import running, said, tell

HOLD = """
import sys
from pathlib import Path
from headway.stores.job_lock import JobLock
with JobLock(Path(sys.argv[1]), "translate"):
    print("held", flush=True)
    sys.stdin.readline()
print("free", flush=True)
sys.stdin.readline()
"""

#: As an agent's process does: it lives on when its parent is killed.
HOLD_WITH_CHILD = """
import subprocess, sys
from pathlib import Path
from headway.stores.job_lock import JobLock
with JobLock(Path(sys.argv[1]), "translate"):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "translate" / "lock"


def test_a_second_holder_is_refused_soon_with_the_first_ones_pid(path: Path) -> None:
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        assert is_locked(path)

        waits = []
        for _ in range(3):
            asked_at = time.monotonic()
            with pytest.raises(JobBusy) as caught, JobLock(path, "translate"):
                pass
            waits.append(time.monotonic() - asked_at)

        # Never sooner; and not much later, but for a machine that is busy with other tests.
        assert PATIENCE_S <= min(waits) < PATIENCE_S + 0.4
        assert str(caught.value) == (
            f"job 'translate' is already running, in process {holder.pid} — watch it with 'headway status translate'"
        )
        assert caught.value.exit_code == 2
        assert is_locked(path)


def take_over(path: Path) -> float:
    """How long it takes from a holder's death to the next one's start."""
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        killed_at = time.monotonic()
        holder.send_signal(signal.SIGKILL)
        try:
            with JobLock(path, "translate"):
                assert path.read_text() == f"{os.getpid()}\n"
                return time.monotonic() - killed_at
        except JobBusy:
            return float("inf")


def test_a_holder_that_is_killed_frees_it_at_once(path: Path) -> None:
    # A machine that is busy with other tests may be slow to end a process, but not each time.
    assert any(take_over(path) < 0.1 for _ in range(5))


def test_a_child_that_outlives_a_killed_holder_does_not_hold_it(path: Path) -> None:
    with running(HOLD_WITH_CHILD, path) as holder:
        child = int(said(holder))
        try:
            holder.send_signal(signal.SIGKILL)
            holder.wait(
                20
            )  # How soon a process is gone is the kernel's business; the lock's is that nothing is left.
            with JobLock(path, "translate"):
                os.kill(child, 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_holder_that_leaves_frees_it(path: Path) -> None:
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        tell(holder)
        assert said(holder) == "free"

        assert not is_locked(path)
        with JobLock(path, "translate"):
            assert is_locked(path)
        assert not is_locked(path)


def test_one_process_cannot_hold_it_twice(path: Path) -> None:
    with (
        JobLock(path, "translate"),
        pytest.raises(JobBusy, match=f"in process {os.getpid()}"),
        JobLock(path, "t"),
    ):
        pass
    assert not is_locked(path)


def test_a_missing_lock_file_is_not_locked(path: Path) -> None:
    assert not is_locked(path)
    assert not path.exists()


def test_a_refused_holder_may_try_again(path: Path) -> None:
    lock = JobLock(path, "translate")
    with JobLock(path, "translate"), pytest.raises(JobBusy), lock:
        pass
    with lock:
        assert is_locked(path)


def test_a_lock_that_cannot_be_made_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match="cannot be opened") as caught,
        JobLock(tmp_path / "file" / "lock", "t"),
    ):
        pass
    assert str(tmp_path / "file" / "lock") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_lock_is_private_to_its_owner_and_not_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    with JobLock(path, "translate"):
        assert path.stat().st_mode & 0o777 == 0o600
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    path.unlink()
    path.symlink_to(precious)

    with pytest.raises(StoreError, match="is a symbolic link"), JobLock(path, "translate"):
        pass
    assert precious.read_text() == "mine\n"


def test_a_file_system_without_locks_does_not_stop_a_job(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store notices a second run there."""

    def no_locks(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with JobLock(path, "translate"), JobLock(path, "translate"):
        assert not is_locked(path)


def test_a_temporary_lock_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "j" / "lock"
    with JobLock(path, "j", temporary=True):
        assert path.exists()
        assert is_locked(path)
    assert list(tmp_path.iterdir()) == []
    other = tmp_path / "jobs" / "other"
    other.mkdir(parents=True)
    with JobLock(path, "j", temporary=True):
        pass
    assert list((tmp_path / "jobs").iterdir()) == [other]


def test_processes_that_share_a_temporary_lock_never_hold_it_together(tmp_path: Path) -> None:
    """Each removes the file at its end, while others open it."""
    path, held, most = tmp_path / "jobs" / "j" / "lock", 0, []

    def take(_: int) -> int:
        nonlocal held
        taken = 0
        for _ in range(30):
            try:
                with JobLock(path, "j", temporary=True):
                    held += 1
                    most.append(held)
                    taken += 1
                    held -= 1
            except (JobBusy, StoreError):
                continue
        return taken

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(take, range(4))) > 0
    assert max(most) == 1
