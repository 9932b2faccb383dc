"""A job is run by one process at a time: an operating-system lock on a file, which dies with its process."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headway.errors import JobBusy, StoreError

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
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be opened: {(error.strerror or str(error)).lower()}"
            ) from error
        if not lock_soon(self._file):
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


def held(path: Path) -> bool:
    """Whether some process holds the lock right now."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _locked(file)
    finally:
        os.close(file)


def lock_soon(file: int) -> bool:
    """Lock an open file, and wait a moment for an owner that is just going. False: another process keeps it locked."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not _locked(file):
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(STEP_S)
    return True


def _locked(file: int) -> bool:
    """Take the lock, if nobody has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
