"""Files and folders of Headway's own: their modes, links in their place, and how a file is replaced."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headway.errors import StoreError
from headway.stores.files import (
    ForeignFile,
    Replacement,
    make_folder,
    open_own,
    read_own,
    readable_by_others,
    write_own,
)
from headway.stores.job_lock import JobLock, is_locked
from headway.stores.sqlite.file import SqliteFile
from headway.stores.store import Store

from .processes import run, running, said

UMASKS = (0o000, 0o022, 0o077)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that every user can go through; pytest's own are not."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# -- modes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", UMASKS)
def test_a_new_store_and_its_folders_are_private_to_their_owner(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "a" / ".headway" / "h.db"
    with umask(mask), Store(SqliteFile(path)) as store, JobLock(path.parent / "jobs" / "j" / "lock", "j"):
        store.salt()
        files = [path, Path(f"{path}-wal"), Path(f"{path}-shm"), path.parent / "jobs" / "j" / "lock"]
        folders = [path.parent.parent, path.parent, path.parent / "jobs", path.parent / "jobs" / "j"]
        assert [mode(file) for file in files] == [0o600] * 4
        assert [mode(folder) for folder in folders] == [0o700] * 4


def test_existing_folders_and_stores_keep_their_modes(tmp_path: Path) -> None:
    path = tmp_path / "shared" / "h.db"
    path.parent.mkdir()
    Store(SqliteFile(path)).close()
    path.parent.chmod(0o755)
    path.chmod(0o640)
    with Store(SqliteFile(path)) as store:
        store.salt()
        assert [mode(each) for each in (path.parent, path, Path(f"{path}-wal"))] == [0o755, 0o640, 0o640]


AS_NOBODY = """
import os, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDONLY))
        print("read", path)
    except PermissionError:
        pass
"""


@as_root
def test_another_user_cannot_read_what_headway_keeps(public: Path) -> None:
    path = public / "h.db"
    with umask(0), Store(SqliteFile(path)) as store:
        store.salt()
        control = public / "control"
        control.touch()
        done = run(AS_NOBODY, control, path, f"{path}-wal", f"{path}-shm")
    assert (done.stdout, done.stderr) == (f"read {control}\n", "")


def test_who_can_read_a_file_depends_on_the_folders_above_it(public: Path) -> None:
    path = public / "inner" / "file"
    path.parent.mkdir()
    path.touch()
    for folder, file, expected in (
        (0o755, 0o644, True),
        (0o755, 0o600, False),
        (0o700, 0o644, False),
        (0o750, 0o640, True),
        (0o755, 0o620, False),
    ):
        path.parent.chmod(folder)
        path.chmod(file)
        assert readable_by_others(path) is expected, (oct(folder), oct(file))


# -- links ---------------------------------------------------------------------------------------------------


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file elsewhere, which nothing may change."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    file = folder / "lock"
    file.write_text("mine\n")
    (folder / "progress.json").write_text("mine\n")
    return file


@pytest.mark.parametrize("link", ["jobs", "jobs/j", "jobs/j/lock"])
def test_no_part_of_a_locks_own_path_may_be_a_link(tmp_path: Path, precious: Path, link: str) -> None:
    place = tmp_path / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(precious if link.endswith("lock") else precious.parent)
    lock = tmp_path / "jobs" / "j" / "lock"

    with pytest.raises(StoreError) as caught, JobLock(lock, "j"):
        pass
    assert str(caught.value) == f"{place} is a symbolic link, which Headway does not follow — remove it"
    assert not is_locked(lock)
    if link != "jobs/j/lock":
        with pytest.raises(ForeignFile):
            write_own(lock.with_name("progress.json"), 2, b"{}", make=True)
    assert precious.read_text() == "mine\n"
    assert left(precious.parent) == ["lock", "progress.json"]
    assert precious.with_name("progress.json").read_text() == "mine\n"


def test_a_lock_that_is_a_hard_link_is_refused(tmp_path: Path, precious: Path) -> None:
    lock = tmp_path / "jobs" / "j" / "lock"
    lock.parent.mkdir(parents=True)
    lock.hardlink_to(precious)
    with pytest.raises(StoreError, match="is a hard link to another file"), JobLock(lock, "j"):
        pass
    assert precious.read_text() == "mine\n"


def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ForeignFile, match="is not a regular file"):
        read_own(tmp_path / "pipe", 0)


def test_links_above_headways_own_folders_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write_own(tmp_path / "link" / "jobs" / "j" / "progress.json", 2, b"{}", make=True)
    assert read_own(tmp_path / "real" / "jobs" / "j" / "progress.json", 2) == b"{}"


def test_a_database_with_two_names_is_not_written(tmp_path: Path) -> None:
    Store(SqliteFile(tmp_path / "one.db")).close()
    (tmp_path / "two.db").hardlink_to(tmp_path / "one.db")
    for name in ("one.db", "two.db"):
        with pytest.raises(StoreError, match=r"has 2 names \(hard links\)"):
            Store(SqliteFile(tmp_path / name))
        with Store(SqliteFile(tmp_path / name, read_only=True)) as store:
            assert store.jobs() == []
    (tmp_path / "two.db").unlink()
    Store(SqliteFile(tmp_path / "one.db")).close()


def test_a_database_may_be_a_link_to_one_that_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "h.db").symlink_to("real/r.db")
    with umask(0), Store(SqliteFile(tmp_path / "h.db")) as store:
        store.salt()
        assert mode(tmp_path / "real" / "r.db") == 0o600
        assert Path(tmp_path / "real" / "r.db-wal").exists()
    assert left(tmp_path) == ["h.db", "real"]


# -- replacing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", UMASKS)
def test_a_new_output_file_gets_the_usual_mode(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "answers.csv"
    with umask(mask):
        with Replacement(path) as fresh:
            fresh.file.write(b"a")
            assert not path.exists()
            fresh.commit()
        write_own(tmp_path / "own", 0, b"")
    assert (path.read_bytes(), mode(path)) == (b"a", 0o666 & ~mask)
    assert mode(tmp_path / "own") == 0o600
    assert left(tmp_path) == ["answers.csv", "own"]


@pytest.mark.parametrize("kept", [0o600, 0o640, 0o664, 0o444])
def test_a_replaced_file_keeps_its_mode(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("before")
    path.chmod(kept)
    with umask(0o022), Replacement(path) as fresh:
        assert mode(fresh.path) == 0o600, "other users cannot read it before the commit"
        fresh.file.write(b"after")
        fresh.commit()
    assert (path.read_bytes(), mode(path)) == (b"after", kept)


@as_root
def test_a_replaced_file_keeps_its_owner_if_allowed(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("before")
    os.chown(path, 65534, 65534)
    with Replacement(path) as fresh:
        fresh.commit()
    assert (path.stat().st_uid, path.stat().st_gid) == (65534, 65534)


@as_root
def test_group_rights_are_dropped_if_the_group_cannot_be_kept(public: Path) -> None:
    public.chmod(0o777)
    path = public / "answers.csv"
    path.write_text("before")
    path.chmod(0o660)
    os.chown(path, 65534, 0)
    script = """
import os, sys
from pathlib import Path
from headway.stores.files import Replacement
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with Replacement(Path(sys.argv[1])) as fresh:
    fresh.commit()
"""
    assert run(script, path).stderr == ""
    assert (path.stat().st_gid, mode(path)) == (65534, 0o600)


def test_a_replacement_that_is_not_committed_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), Replacement(path) as fresh:
        fresh.file.write(b"%d" % (1 // 0))
    with Replacement(path) as fresh:
        fresh.file.write(b"half")
    assert (left(tmp_path), path.read_text()) == (["answers.csv"], "before")


def test_files_of_the_user_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    others = (
        "mine.csv.new",
        ".mine.csv",
        ".mine.csv.0123.headway-tmp",
        ".mine.csv.headway-tmp",
        "mine.csv.tmp",
    )
    for name in others:
        (tmp_path / name).write_text("mine")
    with Replacement(path) as fresh:
        fresh.commit()
    assert left(tmp_path) == sorted((*others, "mine.csv"))
    assert {(tmp_path / name).read_text() for name in others} == {"mine"}


WRITING = """
import sys
from pathlib import Path
from headway.stores.files import Replacement
with Replacement(Path(sys.argv[1])) as fresh:
    print(fresh.path.name, flush=True)
    sys.stdin.readline()
"""


def test_temporary_files_of_dead_processes_are_removed_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    with running(WRITING, path) as dead:
        assert said(dead)
        dead.send_signal(signal.SIGKILL)
        dead.wait(20)
    with running(WRITING, path) as live:
        name = said(live)
        assert left(tmp_path) == [name]
        with Replacement(path) as fresh:
            fresh.commit()
        assert left(tmp_path) == [name, "answers.csv"]
        other = tmp_path / "others.csv"
        with Replacement(other) as fresh:
            fresh.commit()
        assert left(tmp_path) == [name, "answers.csv", "others.csv"]


def test_a_link_with_the_name_of_a_temporary_file_is_left_alone(tmp_path: Path, precious: Path) -> None:
    link = tmp_path / ".answers.csv.0123456789abcdef.headway-tmp"
    link.symlink_to(precious)
    with Replacement(tmp_path / "answers.csv") as fresh:
        fresh.commit()
    assert link.is_symlink()
    assert precious.read_text() == "mine\n"


def test_a_temporary_file_is_made_exclusively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precious: Path
) -> None:
    monkeypatch.setattr(os, "urandom", lambda n: b"\1" * n)
    (tmp_path / ".answers.csv.0101010101010101.headway-tmp").symlink_to(precious)
    with pytest.raises(FileExistsError), Replacement(tmp_path / "answers.csv"):
        pass
    assert precious.read_text() == "mine\n"


def test_the_longest_names_can_be_replaced_and_swept(tmp_path: Path) -> None:
    path = tmp_path / ("é" * 120 + ".csv")
    with running(WRITING, path) as dead:
        assert said(dead)
        dead.send_signal(signal.SIGKILL)
        dead.wait(20)
    with Replacement(path) as fresh:
        fresh.commit()
    assert left(tmp_path) == [path.name]


def test_new_folders_are_synced_from_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    real = os.fsync

    def fsync(file: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{file}")))
        real(file)

    if not Path("/proc/self/fd").exists():
        pytest.skip("no /proc")
    monkeypatch.setattr(os, "fsync", fsync)
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    synced.clear()
    Store(SqliteFile(tmp_path / "c" / "h.db")).close()
    assert synced == [tmp_path, tmp_path / "c"], "the folder's name, then the database's"
    synced.clear()
    Store(SqliteFile(tmp_path / "c" / "h.db")).close()
    assert synced == []


def test_a_private_file_can_be_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "j" / "lock"
    with pytest.raises(FileNotFoundError):
        open_own(path, 2, os.O_RDONLY)
    assert not path.parent.parent.exists()
    os.close(open_own(path, 2, os.O_RDWR | os.O_CREAT, make=True))
    os.close(open_own(path, 2, os.O_RDONLY))
