"""How far log files were written when an attempt began: what is below that mark is older, and is not read.

A file is known by its inode, so that one that is renamed keeps its mark. A mark counts only while the file was appended to:
one that is shorter now, or has other bytes before the mark, was written anew and is read as a whole.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Final

import msgspec

from headway.executors.regular_files import open_regular

#: How much before a mark is compared.
_COMPARED: Final = 512
#: A look at all files that takes less processor time than this is repeated for every attempt.
_CHEAP_S: Final = 0.01
#: One that takes longer is repeated only after this many times as long: it may not slow the work down. Marks are a
#: little too low then, and more is read than was written since.
_PAUSES: Final = 20.0


class Mark(msgspec.Struct, frozen=True):
    """How long a file was, when it was changed, and its last bytes."""

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
        self._looked_at = self._good_until = float("-inf")

    def marks(self, root: str, pattern: str) -> Marks:
        """The marks as of now. Callers that come while another looks share the next look."""
        now = time.monotonic()
        with self._lock:
            if self._looked_at < now and self._good_until < now:
                self._look(root, pattern)
            return self._marks

    def _look(self, root: str, pattern: str) -> None:
        self._looked_at = time.monotonic()
        began_s = time.thread_time()
        self._marks = _marked(root, pattern)
        took_s = time.thread_time() - began_s
        self._good_until = time.monotonic() + took_s * _PAUSES if took_s > _CHEAP_S else float("-inf")


def _marked(root: str, pattern: str) -> Marks:
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
    """Where in an open file begins what was written since the marks were made."""
    status = os.fstat(file.fileno())
    mark = marks.get(_key(status))
    if mark is None or status.st_size < mark.size:
        return 0
    if status.st_size == mark.size and status.st_mtime_ns != mark.changed_ns:
        return 0  # The same again, or something as long.
    return mark.size if _before(file, mark.size) == mark.last else 0


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _before(file: BinaryIO, end: int) -> bytes:
    begin = max(0, end - _COMPARED)
    file.seek(begin)
    return file.read(end - begin)


def is_regular(status: os.stat_result) -> bool:
    """Whether it is a file that can be read to its end: no pipe, no device."""
    return stat.S_ISREG(status.st_mode)
