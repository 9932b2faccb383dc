"""One process runs a job at a time: an operating-system lock on a file, which ends with its process.

The file is `jobs/JOB/lock` beside the real file of the database, so that all names of a database lead to one lock. Locks do not
work on every file system, and a lock file may be deleted. So the store also checks at every commit which run owns the job.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self

from headway.errors import JobBusy, JobTaken, StoreError
from headway.stores.files import ForeignFile, open_own, read_own

#: The folders above a job's files that belong to Headway: `jobs` and the job's folder.
JOB_LEVELS: Final = 2
#: The errors of file systems without locks.
NO_LOCKS: Final = frozenset({errno.ENOTSUP, errno.ENOSYS, errno.ENOLCK})
#: A number that is new whenever a machine starts.
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
#: How long a new owner waits for the previous one to exit.
PATIENCE_S: Final = 0.1
STEP_S: Final = 0.005


class JobLock:
    """Held from `__enter__` to `__exit__`, or to the end of the process, even after SIGKILL.

    `temporary`: its file is removed at the end, with folders that are empty then. The file is removed by the owner of the lock alone,
    and a process that got the lock of a removed file opens it anew.
    """

    def __init__(self, path: Path, job: str, *, temporary: bool = False) -> None:
        self.path = path
        self.job = job
        self._temporary = temporary
        self._file: int | None = None
        #: Which lock this is among those of all machines, while it is held: whoever held it before is dead. "": that is not known.
        self.place = ""

    def __enter__(self) -> Self:
        give_up_at = time.monotonic() + PATIENCE_S
        while not self._enter():
            if time.monotonic() >= give_up_at:
                raise StoreError(
                    f"{self.path} cannot be opened: another process removes it", hint="try again"
                )
        assert self._file is not None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        return self

    def _enter(self) -> bool:
        """Open the file and lock it. False: its last owner has just removed it."""
        try:
            self._file = open_own(self.path, JOB_LEVELS, os.O_RDWR | os.O_CREAT, make=True)
        except ForeignFile as error:
            raise StoreError(f"{error.filename} {error.strerror}", hint="remove it") from error
        except FileNotFoundError:
            if self.path.parent.parent.parent.exists():
                return False  # The folder was removed after it was made.
            raise StoreError(f"{self.path} cannot be opened: no such file or directory") from None
        except OSError as error:
            raise StoreError(
                f"{self.path} cannot be opened: {(error.strerror or str(error)).lower()}"
            ) from error
        try:
            has_lock = lock_patiently(self._file)
            self.place = _place_of(self._file)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                self._close()
                raise
            has_lock, self.place = True, ""  # The store still notices a second run.
        if not has_lock:
            raise JobBusy(self._busy_message(), hint=f"watch it with 'headway status {self.job}'")
        if not self._is_in_place(self._file):
            self._close()
            return False
        return True

    def _is_in_place(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        except OSError:
            return False

    def _busy_message(self) -> str:
        assert self._file is not None
        pid = os.pread(self._file, 20, 0).decode(errors="replace").strip()
        self._close()
        return f"job '{self.job}' is already running, in process {pid or '(unknown)'}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._temporary and self._file is not None:
            with suppress(OSError):  # A folder may have other files.
                self.path.unlink()
                self.path.parent.rmdir()
                self.path.parent.parent.rmdir()
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class JobLease(Protocol):
    """The right to run a job for some seconds, which its owner renews. A database server gives it; a file on one machine needs none."""

    @property
    def number(self) -> tuple[str, int]:
        """The job, and the number of this lease of it. A job has a new number whenever another process takes it."""

    def holds(self) -> bool:
        """Whether the owner may start something new. By its own clock: False if it could not renew the lease in time."""

    @property
    def lost(self) -> JobTaken | None:
        """The error for the owner if another process has taken the job."""

    def publish(self, progress: bytes) -> None:
        """Have other machines see how the run is. Returns at once; some are left out if they come often."""


class JobServer(Protocol):
    """What a database server knows of the processes of jobs."""

    def is_running(self, job: str, free: Callable[[], str]) -> bool:
        """Whether a process runs the job now, on any machine. `free`: the place of the job's lock on this machine, if no process holds it."""

    def progress(self, job: str) -> bytes | None:
        """How a run is, as its process has published it."""


class JobPlaces(NamedTuple):
    """Where jobs have their small files, and which of them a process runs now."""

    #: With a folder for each job.
    folder: Path
    #: Says it by the name of a job; None: the locks in the folders say it.
    server: JobServer | None = None

    def is_live(self, job: str) -> bool:
        """Whether a process runs the job now: it holds the job's lock."""
        if not is_folder_name(job):
            return False
        path = self.folder / job / "lock"
        return (
            is_locked(path) if self.server is None else self.server.is_running(job, lambda: free_place(path))
        )

    def progress(self, job: str) -> bytes | None:
        """What the process of a job has written last about its run (`progress.json`). None: it cannot be read."""
        if self.server is not None:
            return self.server.progress(job)
        try:
            return read_own(self.folder / job / "progress.json", JOB_LEVELS)
        except OSError:
            return None


def is_folder_name(job: str) -> bool:
    """Whether a job can have a folder of its name. Headway gives no other names, but another program may write them into a shared database."""
    return job not in ("", ".", "..") and "/" not in job and "\0" not in job


def free_place(path: Path) -> str:
    """The place of a lock that exists and that no process holds; "": there is none, or that is not known."""
    try:
        file = _open_existing(path)
    except OSError:
        return ""
    try:
        return _place_of(file) if _try_lock(file) else ""
    except OSError:
        return ""
    finally:
        os.close(file)


def _place_of(file: int) -> str:
    """The start of this machine's system and the file. In a container the same name is another file."""
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        return ""
    status = os.fstat(file)
    return f"{boot}:{status.st_dev}:{status.st_ino}"


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock now."""
    try:
        file = _open_existing(path)
    except OSError:
        return False
    try:
        return not _try_lock(file)
    except OSError:
        return False
    finally:
        os.close(file)


def _open_existing(path: Path) -> int:
    """Open for writing if that is allowed: network file systems lock only files that are open for writing."""
    try:
        return open_own(path, JOB_LEVELS, os.O_RDWR)
    except PermissionError:
        return open_own(path, JOB_LEVELS, os.O_RDONLY)
    except OSError as error:
        if error.errno != errno.EROFS:
            raise
        return open_own(path, JOB_LEVELS, os.O_RDONLY)


def lock_patiently(file: int) -> bool:
    """Lock an open file. Waits a moment for an owner that exits. False: another process keeps the lock."""
    give_up_at = time.monotonic() + PATIENCE_S
    while not _try_lock(file):
        if time.monotonic() >= give_up_at:
            return False
        time.sleep(STEP_S)
    return True


def _try_lock(file: int) -> bool:
    """Take the lock if it is free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
