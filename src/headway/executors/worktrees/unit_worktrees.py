"""The worktrees of one job: a folder `worktrees/JOB/UNIT` and a branch `headway/JOB/UNIT` for each unit.

Each has a record outside of its folder: the unit, the branch, the start commit. It is written before the worktree is made, and says
afterwards that the worktree is complete. So a run that is killed in between leaves a record, and the next attempt at the unit
makes the worktree again. `git worktree prune` is not used: it would also forget worktrees of the user whose disk is not mounted.

All units of a job start from the same commit of a repository: the one that was checked out when its first unit began.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from headway.executors.worktrees.changes import Changes, WorktreeFolders, changes_in
from headway.executors.worktrees.git_command import GitError, git
from headway.executors.worktrees.repository import (
    Repository,
    RepositoryLock,
    commit_of,
    head_of,
    repository_of,
)
from headway.executors.worktrees.safe_names import hashed_name, safe_name
from headway.stores.files import FILE_MODE, Replacement, make_folder

#: Branches of all jobs.
PREFIX: Final = "headway"
_START: Final = "start-commits.json"
_RECORD: Final = ".json"


class WorktreeRecord(msgspec.Struct, frozen=True):
    """A worktree. `owner` is the unit in a form that no other unit of any job has. `is_ready`: it was made completely."""

    unit: str
    owner: str
    name: str
    directory: str
    branch: str
    start_commit: str
    repository: Repository
    git_dir: str = ""
    is_ready: bool = False
    #: The worktree was removed; its branch has commits, and is kept.
    is_removed: bool = False

    @property
    def folders(self) -> WorktreeFolders:
        """For reading its changes."""
        return WorktreeFolders(self.directory, self.git_dir, self.repository.common, self.start_commit)


class UnitWorktrees:
    """The worktrees of one job. `home` has their folders, `records` their records. Every method may block."""

    def __init__(self, home: Path, records: Path, job: str) -> None:
        self._home, self._records, self._job = home, records, safe_name(job)

    def open(self, owner: str, unit: str, directory: str) -> tuple[WorktreeRecord, str]:
        """The worktree of a unit, and the place in it that `directory` has in its repository. Raises GitError."""
        repository = repository_of(directory)
        with RepositoryLock(repository.common) as lock:
            record = self._record_of(owner, unit, repository)
            if not (record.is_ready and _is_there(record)):
                record = self._make(record, lock.descriptor)
            else:
                _remove_stale_locks(record)
        if not record.is_ready:
            at = (f"--git-dir={record.git_dir}", f"--work-tree={record.directory}")
            git((*at, "reset", "--hard", "--quiet"), directory=record.directory)
            record = msgspec.structs.replace(record, is_ready=True)
            self._write(record)
        place = os.path.join(record.directory, repository.below) if repository.below else record.directory
        os.makedirs(place, exist_ok=True)
        return record, place

    def changes(self, record: WorktreeRecord) -> Changes:
        """What the unit changed."""
        return changes_in(record.folders)

    def remove(self, record: WorktreeRecord) -> None:
        """Remove a worktree and its record. A branch with commits of its own is kept, and so is the record. Raises GitError."""
        branch = f"refs/heads/{record.branch}"
        with RepositoryLock(record.repository.common) as lock:
            self._keep_commits(record, lock.descriptor)
            with suppress(GitError):
                git(
                    ("worktree", "remove", "--force", "--force", "--", record.directory),
                    directory=record.repository.place,
                    holds=lock.descriptor,
                )
            _remove_folders(record)
            kept = commit_of(record.repository, branch)
            if kept == record.start_commit:
                git(
                    ("update-ref", "-d", "--", branch, record.start_commit),
                    directory=record.repository.place,
                    holds=lock.descriptor,
                )
            if kept and kept != record.start_commit:
                self._write(msgspec.structs.replace(record, is_ready=False, git_dir="", is_removed=True))
            else:
                self._path(record.name).unlink(missing_ok=True)
        self._remove_empty_folders()

    def _keep_commits(self, record: WorktreeRecord, lock: int | None) -> None:
        """Let the branch have commits that an agent made without a branch."""
        at, place = (f"--git-dir={record.git_dir}",), record.repository.place
        with suppress(GitError):
            head = git((*at, "rev-parse", "--verify", "HEAD"), directory=place).decode().strip()
            if head == record.start_commit:
                return
            branches = ("for-each-ref", "--count=1", f"--contains={head}", "refs/heads", "refs/tags")
            if not git(branches, directory=place).strip():
                git(("update-ref", f"refs/heads/{record.branch}", head), directory=place, holds=lock)

    def drop_branch(self, record: WorktreeRecord) -> None:
        """Delete the branch of a worktree that is removed, with its commits, and the record. Raises GitError."""
        branch = f"refs/heads/{record.branch}"
        with RepositoryLock(record.repository.common) as lock:
            if commit_of(record.repository, branch):
                git(
                    ("update-ref", "-d", "--", branch),
                    directory=record.repository.place,
                    holds=lock.descriptor,
                )
            self._path(record.name).unlink(missing_ok=True)
        self._remove_empty_folders()

    def has_branch(self, record: WorktreeRecord) -> bool:
        """Whether the branch of a worktree exists."""
        with suppress(GitError):
            return bool(commit_of(record.repository, f"refs/heads/{record.branch}"))
        return False

    def all(self) -> Iterator[WorktreeRecord]:
        """Every worktree, by name."""
        for path in sorted(self._records.glob(f"*{_RECORD}")):
            record = _read(path)
            if record is not None:
                yield record

    def check_names(self, repository: Repository) -> None:
        """Raise GitError if branches of units cannot be made: git has no branch `a/b` beside a branch `a`."""
        for name in (PREFIX, f"{PREFIX}/{self._job}"):
            if commit_of(repository, f"refs/heads/{name}"):
                raise GitError(
                    f"the branch '{name}' stands in the way of branches '{PREFIX}/{self._job}/UNIT': rename it"
                )

    def start_commit(self, repository: Repository) -> str:
        """The commit from which units of the job start in a repository. Raises GitError."""
        path = self._records.parent / _START
        commits: dict[str, str] = {}
        with suppress(OSError, msgspec.DecodeError):
            commits = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        known = commits.get(repository.common, "")
        if known and commit_of(repository, known):
            return known
        commits[repository.common] = head_of(repository)
        make_folder(path.parent)
        _replace(path, msgspec.json.encode(commits))
        return commits[repository.common]

    # -- making ---------------------------------------------------------------------------------------------------

    def _record_of(self, owner: str, unit: str, repository: Repository) -> WorktreeRecord:
        """The record of a unit, or a new one under a name that is free."""
        names = (safe_name(unit), hashed_name(unit), hashed_name(unit, owner))
        for name in names:
            found = _read(self._path(name))
            if found is not None and found.owner == owner:
                return found
        start = self.start_commit(repository)
        for name in names:
            folder, branch = str(self._home / self._job / name), f"{PREFIX}/{self._job}/{name}"
            record = WorktreeRecord(unit, owner, name, folder, branch, start, repository)
            if self._is_free(record):
                return record
        raise GitError(f"{folder} and the branch {branch} exist already")

    def _is_free(self, record: WorktreeRecord) -> bool:
        return (
            not self._path(record.name).exists()
            and not os.path.lexists(record.directory)
            and not commit_of(record.repository, f"refs/heads/{record.branch}")
        )

    def _make(self, record: WorktreeRecord, lock: int | None) -> WorktreeRecord:
        """Make a worktree without its files. What a killed run has left in its place is removed."""
        record = msgspec.structs.replace(record, is_ready=False, git_dir="", is_removed=False)
        make_folder(self._records)
        self._write(record)
        _remove_folders(record)
        make_folder(Path(record.directory).parent)
        branch = f"refs/heads/{record.branch}"
        _unlink(os.path.join(record.repository.common, f"{branch}.lock"))
        # Twice --force: also in the place of a worktree whose folder is missing and which is locked.
        add = ["worktree", "add", "--quiet", "--force", "--force", "--no-checkout"]
        if commit_of(record.repository, branch):
            add += ["--", record.directory, record.branch]
        else:
            add += ["--no-track", "-b", record.branch, "--", record.directory, record.start_commit]
        git(add, directory=record.repository.place, holds=lock)
        record = msgspec.structs.replace(record, git_dir=_git_dir(record))
        self._write(record)
        return record

    # -- records --------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> Path:
        return self._records / f"{name}{_RECORD}"

    def _write(self, record: WorktreeRecord) -> None:
        _replace(self._path(record.name), msgspec.json.encode(record))

    def _remove_empty_folders(self) -> None:
        for folder in (self._home / self._job, self._home, self._records):
            with suppress(OSError):
                folder.rmdir()


def _read(path: Path) -> WorktreeRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=WorktreeRecord)
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None


def _replace(path: Path, data: bytes) -> None:
    with Replacement(path, FILE_MODE) as new:
        new.file.write(data)
        new.commit(durable=False)


def _git_dir(record: WorktreeRecord) -> str:
    """The folder in which git keeps the state of a worktree that was just made."""
    text = os.fsdecode(Path(record.directory, ".git").read_bytes()).strip()
    return os.path.realpath(text.removeprefix("gitdir:").strip())


def _is_there(record: WorktreeRecord) -> bool:
    """Whether the folder of a worktree and its state in the repository both exist."""
    return os.path.isdir(record.directory) and os.path.isfile(os.path.join(record.git_dir, "HEAD"))


def _remove_stale_locks(record: WorktreeRecord) -> None:
    """Remove locks that a killed process of the unit has left. None of its processes is alive when its next attempt begins."""
    for name in ("index.lock", "HEAD.lock"):
        _unlink(os.path.join(record.git_dir, name))
    _unlink(os.path.join(record.repository.common, f"refs/heads/{record.branch}.lock"))


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _remove_folders(record: WorktreeRecord) -> None:
    """Remove the folder of a worktree, and its state in the repository, whatever is left of them."""
    if os.path.lexists(record.directory):
        _remove_tree(record.directory)
    folder = os.path.join(record.repository.common, "worktrees")
    with suppress(OSError):
        for name in os.listdir(folder):
            state = os.path.join(folder, name)
            if _state_is_of(state, record):
                _remove_tree(state)
        os.rmdir(folder)  # Only if it is empty, as git does.


def _state_is_of(state: str, record: WorktreeRecord) -> bool:
    """Whether a folder of git's has the state of this worktree: it names its path, or was begun for it and not written."""
    try:
        named = os.fsdecode(Path(state, "gitdir").read_bytes()).strip()
    except OSError:
        named = ""
    if named:
        return os.path.realpath(os.path.dirname(named)) == os.path.realpath(record.directory)
    # git names the folder like the last part of the path, with a number behind it if that is taken.
    return os.path.basename(state).rstrip("0123456789") == record.name.rstrip("0123456789") and bool(
        os.path.exists(os.path.join(state, "locked"))
    )


def _remove_tree(path: str) -> None:
    """Remove a folder, also where files in it may not be written (Go's module cache)."""
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, _, _ in os.walk(path):
            with suppress(OSError):
                os.chmod(folder, 0o700)
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        _unlink(path)
    if os.path.lexists(path):
        raise GitError(f"{path} cannot be removed")
