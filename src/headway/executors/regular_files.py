"""Opening files that a worker names or leaves behind.

A worker may leave a pipe, a device or a socket where a log should be. Opening a pipe waits until it has a writer, and a
device may have no end. So such files are opened without waiting, and only regular files are read.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading. OSError for anything else; never waits."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise
