"""A job is run by one process at a time: an operating-system lock on a file, which dies with its process.

The file is `jobs/JOB/lock` beside the file that the database really is, so that all names of a database lead to one lock. A file
system may have no working locks, and a lock file may be deleted: the store checks at every commit, too, whose run it is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headway.errors import JobBusy, StoreError
from headway.stores.files import ForeignFile, open_own

#: The folders above a job's files that are Headway's own: `jobs` and the job's.
JOB_LEVELS: Final = 2
#: How a file system says that it has no locks.
NO_LOCKS: Final = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK})
#: How long a new owner waits for one that is just going.
PATIENCE_S: Final = 0.1
STEP_S: Final = 0.005


class JobLock:
    """Held from `__enter__` to `__exit__`, or to the end of the process, however that comes about."""

    def __init__(self, path: Path, job: str) -> None:
        self.path = path
        self.job = job
        self._file: int | None = None

    def __enter__(self) -> Self:
        try:
            self._file = open_own(self.path, JOB_LEVELS, os.O_RDWR | os.O_CREAT, make=True)
        except ForeignFile as error:
            raise StoreError(f"{error.filename} {error.strerror}", hint="remove it") from error
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be opened: {(error.strerror or str(error)).lower()}"
            ) from error
        try:
            is_free = lock_patiently(self._file)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                self._close()
                raise
            is_free = True  # The store still notices a second run.
        if not is_free:
            raise JobBusy(self._who(), hint=f"watch it with 'headway status {self.job}'")
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        return self

    def _who(self) -> str:
        assert self._file is not None
        pid = os.pread(self._file, 20, 0).decode(errors="replace").strip()
        self._close()
        return f"the job '{self.job}' is being run by process {pid or 'of somebody else'}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock right now."""
    try:
        file = _open_to_look(path)
    except OSError:
        return False
    try:
        return not _try_lock(file)
    except OSError:
        return False
    finally:
        os.close(file)


def _open_to_look(path: Path) -> int:
    """For writing where that is allowed: network file systems lock no other files."""
    try:
        return open_own(path, JOB_LEVELS, os.O_RDWR)
    except PermissionError:
        return open_own(path, JOB_LEVELS, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return open_own(path, JOB_LEVELS, os.O_RDONLY)


def lock_patiently(file: int) -> bool:
    """Lock an open file, and wait a moment for an owner that is just going. False: another process keeps it locked."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not _try_lock(file):
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(STEP_S)
    return True


def _try_lock(file: int) -> bool:
    """Take the lock, if nobody has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
