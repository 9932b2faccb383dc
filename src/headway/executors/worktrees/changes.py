"""What a unit changed in its worktree: the diff against the commit that it started from, the commits, and git's status.

The diff has files that git does not know yet, except ignored ones, and binary content: `git apply` brings it to the start commit. It is
made with an index and an object folder of its own, which are removed afterwards. So neither the agent's index nor the
repository is touched. The `.git` file of the worktree is not read: an agent in a sandbox could point it elsewhere. Nor does git look
into submodules that the agent has filled: their settings name programs (filters), which git would run outside of the sandbox.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from headway.executors.worktrees.git_command import GitError, git

#: The largest diff that is recorded. A larger one stays in the worktree.
LARGEST_DIFF: Final = 32 * 1024 * 1024
#: The most commits and lines of status that are recorded.
MOST_COMMITS: Final = 1_000
MOST_STATUS: Final = 1_000
_DIFF: Final = (
    "diff",
    "--cached",
    "--binary",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


class WorktreeFolders(msgspec.Struct, frozen=True):
    """Where a worktree is, where git keeps its state, and the commit that it started from."""

    directory: str
    git_dir: str
    common: str
    start_commit: str


class Changes(msgspec.Struct, frozen=True):
    """What changed. `commits`: the newest first, `HASH subject`. `remark` says what could not be recorded."""

    diff: bytes = b""
    commits: list[str] = []
    status: str = ""
    head: str = ""
    remark: str = ""
    #: Submodules that have files, which git was not asked about.
    modules: list[str] = []

    def is_clean(self, start_commit: str) -> bool:
        """Whether nothing is there that a removal would lose."""
        return not self.status and self.head == start_commit and not self.remark and not self.modules


def changes_in(folders: WorktreeFolders) -> Changes:
    """What changed in a worktree. Raises GitError."""
    at = (f"--git-dir={folders.git_dir}", f"--work-tree={folders.directory}")
    directory = folders.directory
    head = git((*at, "rev-parse", "--verify", "HEAD"), directory=directory).decode().strip()
    status = git(
        (*at, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty"),
        directory=directory,
    )
    modules = _filled_modules(at, directory)
    commits = git(
        (
            *at,
            "log",
            f"--max-count={MOST_COMMITS}",
            "--no-color",
            "--format=%H %s",
            f"{folders.start_commit}..HEAD",
            "--",
        ),
        directory=directory,
    )
    diff, remark = b"", f"files inside of the submodule {modules[0]} are not recorded" if modules else ""
    if status or head != folders.start_commit:
        try:
            diff = _diff(at, folders, modules)
        except GitError as error:
            remark = f"the diff could not be made: {error}"
        if len(diff) > LARGEST_DIFF:
            remark = f"the diff has {len(diff):,} bytes, more than {LARGEST_DIFF:,}: it is not recorded, the worktree has it"
            diff = b""
    return Changes(
        diff,
        commits.decode(errors="replace").splitlines(),
        _status(status.decode(errors="replace")),
        head,
        remark,
        modules,
    )


def _status(text: str) -> str:
    lines = text.splitlines()
    if len(lines) <= MOST_STATUS:
        return "\n".join(lines)
    return "\n".join([*lines[:MOST_STATUS], f"… and {len(lines) - MOST_STATUS:,} more"])


def _filled_modules(at: tuple[str, ...], directory: str) -> list[str]:
    """The submodules that have files. Headway checks out none."""
    entries = git((*at, "ls-files", "--stage", "-z"), directory=directory).split(b"\0")
    paths = [os.fsdecode(entry.partition(b"\t")[2]) for entry in entries if entry.startswith(b"160000 ")]
    return [path for path in paths if _has_files(os.path.join(directory, path))]


def _has_files(folder: str) -> bool:
    with suppress(OSError):
        return not os.path.islink(folder) and bool(os.listdir(folder))
    return False


def _diff(at: tuple[str, ...], folders: WorktreeFolders, modules: Sequence[str]) -> bytes:
    aside = tempfile.mkdtemp(prefix="headway-diff-")
    try:
        index = os.path.join(aside, "index")
        own = os.path.join(folders.git_dir, "index")
        if os.path.exists(own):
            shutil.copy2(own, index)  # With its time: git compares files that changed at that moment.
        objects = os.path.join(aside, "objects")
        os.mkdir(objects)
        environ = {
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(os.path.join(folders.common, "objects")),
        }
        if modules:  # Their commits are taken over; then git passes by.
            for mode in ((), ("--skip-worktree",)):
                git(
                    (*at, "update-index", *mode, "--", *modules), directory=folders.directory, environ=environ
                )
        git((*at, "add", "--all"), directory=folders.directory, environ=environ)
        return git((*at, *_DIFF, folders.start_commit, "--"), directory=folders.directory, environ=environ)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _quoted(path: str) -> str:
    """A path in a list with colons between its paths."""
    if ":" not in path and not path.startswith('"'):
        return path
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'
