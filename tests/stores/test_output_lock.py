"""The lock of an output file, between real processes."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.stores.processes import running, said, tell

from headway.errors import OutputBusy, UsageError
from headway.stores.job_lock import lock_patiently
from headway.stores.output_lock import OutputLock, lock_path, real_path

HOLD = """
import sys
from pathlib import Path
from headway.stores.output_lock import OutputLock
with OutputLock(Path(sys.argv[1]), "translate-1a2b3c"):
    print("held", flush=True)
    sys.stdin.readline()
print("free", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def test_a_second_writer_gets_an_error_that_names_the_first(path: Path) -> None:
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        with pytest.raises(OutputBusy) as caught, OutputLock(path, "other"):
            pass
        assert str(caught.value) == (
            f"{path} is being written by job 'translate-1a2b3c' (process {holder.pid}) — "
            "name another file with --out, or wait until that job ends"
        )
        assert caught.value.exit_code == 2


def test_a_writer_that_ends_leaves_nothing_behind(path: Path) -> None:
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        assert lock_path(path).stat().st_mode & 0o777 == 0o600
        tell(holder)
        assert said(holder) == "free"

        assert list(path.parent.iterdir()) == []
        with OutputLock(path, "other"):
            pass
        assert list(path.parent.iterdir()) == []


def test_the_lock_of_a_writer_that_was_killed_is_taken_over(path: Path) -> None:
    with running(HOLD, path) as holder:
        assert said(holder) == "held"
        holder.send_signal(signal.SIGKILL)
        holder.wait(20)
        assert lock_path(path).exists()
        with OutputLock(path, "other"):
            assert lock_path(path).read_text() == f"{os.getpid()}\nother\n"
        assert list(path.parent.iterdir()) == []


def test_other_files_of_the_directory_are_free(path: Path) -> None:
    with OutputLock(path, "one"), OutputLock(path.with_name("others.jsonl"), "two"):
        pass


def test_a_lock_file_that_is_removed_and_made_anew_between_open_and_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter opens the file of an owner who then leaves; its lock on a file without a name means nothing."""
    left = False

    def leave_then_lock(file: int) -> bool:
        nonlocal left
        if not left:
            left = True
            lock_path(path).unlink()
            lock_path(path).write_text("")
        return lock_patiently(file)

    monkeypatch.setattr("headway.stores.output_lock.lock_patiently", leave_then_lock)
    with OutputLock(path, "one"):
        assert lock_path(path).read_text() == f"{os.getpid()}\none\n"
        with pytest.raises(OutputBusy), OutputLock(path, "two"):
            pass


def test_the_lock_is_not_a_symbolic_link(path: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    lock_path(path).symlink_to(precious)

    with pytest.raises(UsageError, match="is a symbolic link"), OutputLock(path, "one"):
        pass
    assert precious.read_text() == "mine\n"


def test_a_link_is_locked_as_its_target(path: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "link.jsonl").symlink_to(path.name)

    assert real_path(tmp_path / "folder" / "link.jsonl") == path
    assert real_path(tmp_path / "folder" / ".." / tmp_path.name / path.name) == path


def test_two_names_of_one_file_share_a_lock(path: Path, tmp_path: Path) -> None:
    path.write_text("rows\n")
    other = tmp_path / "other.jsonl"
    other.hardlink_to(path)

    with OutputLock(path, "one"):
        with pytest.raises(OutputBusy, match=r"other\.jsonl is being written by another process"):
            OutputLock(other, "two").__enter__()
        assert not lock_path(other).exists()
    with OutputLock(other, "two"):
        pass


def test_a_file_in_a_directory_that_may_not_be_written_is_locked_itself(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_text("rows\n")
    really_open = os.open

    def refuse_locks(name: str | Path, flags: int, mode: int = 0o777, **where: Any) -> int:
        if str(name).endswith("-lock"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return really_open(name, flags, mode, **where)

    monkeypatch.setattr(os, "open", refuse_locks)
    with OutputLock(path, "one"), pytest.raises(OutputBusy), OutputLock(path, "two"):
        pass


def test_the_lock_of_another_user_is_explained(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock_path(path).write_text("")

    def refuse(name: str | Path, flags: int, mode: int = 0o777, **where: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match="is locked by another user"), OutputLock(path, "one"):
        pass


def test_a_file_system_without_locks_is_written_without_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(file: int) -> bool:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("headway.stores.output_lock.lock_patiently", no_locks)
    with OutputLock(path, "one"):
        assert list(path.parent.iterdir()) == []


def test_only_regular_files_have_a_lock(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null"), tmp_path):
        with OutputLock(path, "one"), OutputLock(path, "two"):
            pass
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_long_name_has_a_lock(tmp_path: Path) -> None:
    path = tmp_path / f"{'n' * 249}.jsonl"
    with OutputLock(path, "one"):
        assert lock_path(path).exists()
        with pytest.raises(OutputBusy, match="'one'"), OutputLock(path, "two"):
            pass
