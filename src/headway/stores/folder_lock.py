"""One process works on a folder at a time: an operating-system lock on the folder itself, which ends with its process.

Nothing is written into the folder, and the lock does not depend on any database: two jobs with different records and outputs find the same lock.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from headway.errors import UsageError
from headway.stores.job_lock import NO_LOCKS, lock_patiently

#: NFS locks only files that are open for writing; a folder never is.
_NO_FOLDER_LOCKS: Final = NO_LOCKS | {errno.EBADF, errno.EINVAL, errno.EISDIR}


class FolderLock:
    """Held from `__enter__` to `__exit__`, or to the end of the process, even after SIGKILL. `busy` makes the error of a folder that is locked.

    A folder that is gone or cannot be opened needs no lock. File systems without locks have none.
    """

    def __init__(self, folder: Path, busy: Callable[[], UsageError]) -> None:
        self._folder, self._busy = folder, busy
        self._file: int | None = None

    def __enter__(self) -> Self:
        try:
            self._file = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return self
        try:
            if not lock_patiently(self._file):
                raise self._busy()
        except OSError as error:
            self._close()
            if error.errno not in _NO_FOLDER_LOCKS:
                raise
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
