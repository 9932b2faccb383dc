"""One process writes an output file at a time. The lock is found from the path of the file alone, so that it also works between
jobs of different databases. `--force` does not override it.

The lock is on a file beside the output, `.NAME.headway-lock`, which names the writer. The file is made when a run begins and
removed when the run ends. The output itself cannot carry the lock: a table, and rows in order of completion, replace it by
a rename, and a lock stays with the file that was replaced. A process that is killed leaves its lock file behind, but no
lock: the next process that writes to the output uses the file and removes it.

Two names may be hard links to one file, and a directory may not be writable while the output in it is. In these cases the
output itself is locked, too. Only regular files have a lock: not standard output, a device or a pipe.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headway.errors import OutputBusy, UsageError
from headway.stores.files import ForeignFile, beside, open_own
from headway.stores.job_lock import NO_LOCKS, lock_patiently

#: The errors of a directory that may not be written.
_NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def real_path(path: Path) -> Path:
    """The real file of `path`. Links are followed here, once, so that the file that is locked is the file that is written."""
    absolute = path.absolute()
    return Path(os.path.realpath(absolute)) if _is_file(absolute) else absolute


def lock_path(path: Path) -> Path:
    """The lock file of an output file. `path` is a real path."""
    return path.with_name(beside(path.name, "headway-lock"))


class OutputLock:
    """Held from `__enter__` to `__exit__`, or to the end of the process. `path` is a real path. `make`: make its directory."""

    def __init__(self, path: Path, job: str, *, make: bool = True) -> None:
        self._path, self._job, self._make = path, job, make
        self._place = lock_path(path)
        self._beside: int | None = None
        self._itself: int | None = None

    def __enter__(self) -> Self:
        if not _is_file(self._path):
            return self
        try:
            self._beside = self._lock_beside()
            if self._beside is None or _has_links(self._path):
                self._itself = self._lock_itself()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _lock_beside(self) -> int | None:
        """Lock the lock file; None if there cannot be one."""
        while (file := self._open_beside()) is not None:
            try:
                has_lock = self._has_lock(file)
                if has_lock and _is_at(self._place, file):
                    os.ftruncate(file, 0)
                    os.pwrite(file, f"{os.getpid()}\n{self._job}\n".encode(), 0)
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)
            if not has_lock:
                self._place.unlink(missing_ok=True)
                return None
            # Its owner removed it between our opening and locking: there may be a new file.
        return None

    def _open_beside(self) -> int | None:
        try:
            if self._make:
                self._place.parent.mkdir(parents=True, exist_ok=True)
            return open_own(self._place, 0, os.O_RDWR | os.O_CREAT)
        except ForeignFile as error:
            raise UsageError(
                f"{self._place} {error.strerror}: it cannot be the lock of --out", hint="remove it"
            ) from error
        except OSError as error:
            if error.errno in _NOT_WRITABLE and os.path.lexists(self._place):
                raise UsageError(
                    f"{self._path} is locked by another user, who owns {self._place}",
                    hint="name another file with --out, or remove the lock if nothing writes the file",
                ) from error
            return None  # `claim` reports what is wrong with the directory.

    def _has_lock(self, file: int) -> bool:
        """Whether we have the lock now; False if locks are not supported."""
        try:
            if lock_patiently(file):
                return True
        except OSError as error:
            if error.errno in NO_LOCKS:
                return False
            raise
        raise self._busy(os.pread(file, 1_000, 0))

    def _lock_itself(self) -> int | None:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if not lock_patiently(file):
                raise self._busy(b"")
        except OSError as error:
            os.close(file)
            if error.errno in NO_LOCKS:
                return None
            raise
        except BaseException:
            os.close(file)
            raise
        return file

    def _busy(self, owner: bytes) -> OutputBusy:
        pid, _, job = owner.decode(errors="replace").strip().partition("\n")
        who = f"job '{job}' (process {pid})" if job else "another process"
        return OutputBusy(
            f"{self._path} is being written by {who}",
            hint="name another file with --out, or wait until that job ends",
        )

    def _release(self) -> None:
        if self._beside is not None:
            if _is_at(self._place, self._beside):
                self._place.unlink(missing_ok=True)
            os.close(self._beside)
        if self._itself is not None:
            os.close(self._itself)
        self._beside = self._itself = None


def _is_file(path: Path) -> bool:
    """Whether writing to `path` changes or makes a regular file."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return True  # It does not exist yet, or it cannot be examined.


def _has_links(path: Path) -> bool:
    try:
        return path.stat().st_nlink > 1
    except OSError:
        return False


def _is_at(path: Path, file: int) -> bool:
    """Whether an open file is still the file at `path`."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file))
    except OSError:
        return False
