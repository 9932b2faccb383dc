"""Which repository a directory belongs to, and the lock that serialises changes of its worktrees, across processes.

The lock is an operating-system lock on the repository's own folder: no file is made, and it ends with its process. A git process
that is started under the lock keeps it until it ends, even if Headway is killed meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from types import TracebackType
from typing import Final, Self

import msgspec

from headway.executors.worktrees.git_command import GitError, git

#: How long a change of worktrees by another process is waited for.
_PATIENCE_S: Final = 600.0
_STEP_S: Final = 0.01
#: Errors of file systems that cannot lock folders. Git's own locks and a second try remain.
_NO_LOCKS: Final = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK, errno.EBADF, errno.EINVAL})


class Repository(msgspec.Struct, frozen=True):
    """A repository, as seen from a directory in it. `common` is the folder of its data, which all worktrees share; `below` is the
    path from its top to the directory.
    """

    top: str
    common: str
    below: str = ""

    @property
    def place(self) -> str:
        """Where git is run. The top may be a worktree that is gone meanwhile."""
        return self.top if os.path.isdir(self.top) else self.common


def repository_of(directory: str) -> Repository:
    """The repository of a directory. Raises GitError."""
    found = ("--show-toplevel", "--git-common-dir")
    top, common, *_ = os.fsdecode(
        git(("rev-parse", "--path-format=absolute", *found), directory=directory)
    ).split("\n")
    return Repository(top, os.path.realpath(common), _below(top, directory))


def _below(top: str, directory: str) -> str:
    below = os.path.relpath(os.path.realpath(directory), os.path.realpath(top))
    return "" if below == "." else below


def head_of(repository: Repository) -> str:
    """The commit that is checked out. Raises GitError if there is none yet."""
    try:
        return (
            git(("rev-parse", "--verify", "--quiet", "HEAD^{commit}"), directory=repository.top)
            .decode()
            .strip()
        )
    except GitError:
        raise GitError(f"{repository.top} has no commit yet: a worktree starts from one") from None


def commit_of(repository: Repository, ref: str) -> str:
    """The commit of a ref; "" if there is no such ref."""
    try:
        return (
            git(("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"), directory=repository.place)
            .decode()
            .strip()
        )
    except GitError:
        return ""


def has_changes(repository: Repository) -> bool:
    """Whether files that git knows have changes that are not committed."""
    return bool(git(("status", "--porcelain", "--untracked-files=no"), directory=repository.top).strip())


class RepositoryLock:
    """Held from `__enter__` to `__exit__`. `descriptor` is for the git processes that run under it."""

    def __init__(self, common: str) -> None:
        self._common = common
        self.descriptor: int | None = None

    def __enter__(self) -> Self:
        try:
            folder = os.open(self._common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise GitError(f"{self._common}: {(error.strerror or str(error)).lower()}") from error
        give_up_at = time.monotonic() + _PATIENCE_S
        try:
            while not _locked(folder):
                if time.monotonic() > give_up_at:
                    raise GitError(
                        f"{self._common} is being changed by another process for {_PATIENCE_S:g} s"
                    )
                time.sleep(_STEP_S)
        except BaseException:
            os.close(folder)
            raise
        self.descriptor = folder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _locked(folder: int) -> bool:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True
