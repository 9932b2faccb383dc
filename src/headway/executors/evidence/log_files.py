"""Log files that work leaves behind: only regular files are read, and only what was written since an attempt began.

A worker may leave a pipe, a device or a socket where a log should be. Opening a pipe waits until it has a writer, and a
device may have no end. So such files are opened without waiting, and only regular files are read.

A mark says how long a file was when an attempt began; what is before the mark is older and is not read. A file is known by
its inode, so a renamed file keeps its mark. A mark counts only if the file was appended to: a file that is shorter now, or has
other bytes before the mark, was written anew and is read as a whole.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

import msgspec

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
#: Bytes before a mark that are compared.
_COMPARED: Final = 512
#: A scan of all files that takes less processor time than this is repeated for every attempt.
_CHEAP_S: Final = 0.01
#: A slower scan is repeated only after this many times its duration, so that it does not slow the work down. Marks are a
#: little too low then, and more is read than was written since.
_PAUSES: Final = 20.0


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file, or a link to one, for reading. OSError for anything else; never waits."""
    descriptor = os.open(path, _FLAGS)
    try:
        if not is_regular(os.fstat(descriptor)):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def is_regular(status: os.stat_result) -> bool:
    """Whether it is a file that can be read to its end: not a pipe, not a device."""
    return stat.S_ISREG(status.st_mode)


class Mark(msgspec.Struct, frozen=True):
    """The length of a file, when it was changed, and its last bytes."""

    size: int
    changed_ns: int
    last: bytes


#: By device and inode.
Marks = Mapping[tuple[int, int], Mark]
NO_MARKS: Final[Marks] = MappingProxyType({})


class LogMarker:
    """Marks all files that match a pattern below a directory. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks = NO_MARKS
        self._scanned_at = self._good_until = float("-inf")

    def marks(self, root: str, pattern: str) -> Marks:
        """The marks as of now. Callers that come during a scan share the next one."""
        now = time.monotonic()
        with self._lock:
            if self._scanned_at < now and self._good_until < now:
                self._scan(root, pattern)
            return self._marks

    def _scan(self, root: str, pattern: str) -> None:
        self._scanned_at = time.monotonic()
        began_s = time.thread_time()
        self._marks = _marks_below(root, pattern)
        took_s = time.thread_time() - began_s
        self._good_until = time.monotonic() + took_s * _PAUSES if took_s > _CHEAP_S else float("-inf")


def _marks_below(root: str, pattern: str) -> Marks:
    marks = {}
    for path in Path(root).glob(pattern):
        try:
            if not path.is_file():
                continue
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                marks[_key(status)] = Mark(status.st_size, status.st_mtime_ns, _before(file, status.st_size))
        except (OSError, ValueError):
            continue
    return marks


def unread_from(file: BinaryIO, marks: Marks) -> int:
    """The offset in an open file of what was written since the marks were made."""
    status = os.fstat(file.fileno())
    mark = marks.get(_key(status))
    if mark is None or status.st_size < mark.size:
        return 0
    if status.st_size == mark.size and status.st_mtime_ns != mark.changed_ns:
        return 0  # Written again with the same content, or with other content of the same length.
    return mark.size if _before(file, mark.size) == mark.last else 0


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _before(file: BinaryIO, end: int) -> bytes:
    begin = max(0, end - _COMPARED)
    file.seek(begin)
    return file.read(end - begin)
