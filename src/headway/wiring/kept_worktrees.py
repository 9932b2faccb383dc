"""The worktrees that units of jobs have left: found, read and removed, for `headway worktrees`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from headway.config import Config
from headway.errors import UsageError
from headway.executors.worktrees.changes import Changes
from headway.executors.worktrees.git_command import GitError
from headway.executors.worktrees.unit_directory import diff_of
from headway.executors.worktrees.unit_worktrees import WorktreeRecord
from headway.reports.jobs import find_job
from headway.stores.job_lock import is_locked
from headway.stores.store import Store
from headway.wiring.agent_work import worktrees_of
from headway.wiring.store_access import jobs_folder


class KeptWorktree(msgspec.Struct, frozen=True):
    """A worktree with what is in it. `problem`: why that cannot be read. `in_use`: its job is running."""

    job: str
    record: WorktreeRecord
    changes: Changes
    problem: str = ""
    in_use: bool = False

    @property
    def has_uncommitted(self) -> bool:
        """Whether a removal would lose files, or might: what cannot be read may have changes."""
        unknown = bool(self.problem) and self.record.is_ready and os.path.lexists(self.record.directory)
        return bool(self.changes.status or self.changes.modules) or unknown

    def fields(self) -> dict[str, object]:
        """For JSON."""
        record = self.record
        return {
            "job": self.job,
            "unit": record.unit,
            "directory": record.directory,
            "branch": record.branch,
            "start_commit": record.start_commit,
            "commits": self.changes.commits,
            "git_status": self.changes.status.splitlines(),
            "problem": self.problem,
            "in_use": self.in_use,
        }


def kept_worktrees(config: Config, job: str = "", unit: str = "") -> Iterator[KeptWorktree]:
    """The worktrees of all jobs, of one job, or of one unit."""
    folder = jobs_folder(config)
    for place in sorted(folder.glob("*/worktrees")):
        name = place.parent.name
        if job and name != job:
            continue
        in_use = is_locked(place.parent / "lock")
        worktrees = worktrees_of(config, name)
        for record in worktrees.all():
            if unit and record.unit != unit:
                continue
            if not record.is_removed or worktrees.has_branch(record):  # The user may have deleted the branch.
                yield _kept(config, name, record, in_use=in_use)


def _kept(config: Config, job: str, record: WorktreeRecord, *, in_use: bool) -> KeptWorktree:
    if record.is_removed:
        return KeptWorktree(job, record, Changes(), "removed, its commits are on its branch", in_use)
    if not record.is_ready:
        return KeptWorktree(job, record, Changes(), "it was not made completely", in_use)
    try:
        return KeptWorktree(job, record, worktrees_of(config, job).changes(record), in_use=in_use)
    except GitError as error:
        return KeptWorktree(job, record, Changes(), str(error), in_use)


def remove_kept(config: Config, kept: KeptWorktree, *, force: bool) -> bool:
    """Remove a worktree. Its commits stay on its branch, unless `force`. Returns whether the branch stays. Raises GitError."""
    worktrees = worktrees_of(config, kept.job)
    worktrees.remove(kept.record)
    if force:
        worktrees.drop_branch(kept.record)
    return worktrees.has_branch(kept.record)


def job_name(config: Config, store: Store | None, name: str) -> str:
    """The job that a command names: a job with worktrees, or one of the store."""
    if (jobs_folder(config) / name / "worktrees").is_dir() or store is None:
        return name
    return find_job(store, name).job.name


def recorded_diff(store: Store, job: str, unit: str) -> bytes:
    """The diff of a unit's last attempt, as it was recorded. Raises UsageError if there is none."""
    found = store.job(job)
    index = None if found is None else store.index_of(found.id, unit)
    if found is None or index is None:
        raise UsageError(f"job '{job}' has no unit '{unit}'", hint="'headway worktrees' lists what is there")
    notes = store.notes_of(found.id, index)
    return diff_of(notes[max(notes)]) if notes else b""
