"""The error that ended the latest run of a job, in `jobs/JOB/error`, for `headway status`.

A full disk is the most likely error, and then the database takes no more records. So the file gets its size when the run begins,
and the error is written over it: most file systems need no new space for that.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from headway.stores.files import open_own, read_own
from headway.stores.job_lock import JOB_LEVELS

#: The size of the file: most file systems give a file this much at least.
SIZE: Final = 4096
NAME: Final = "error"


def clear_run_error(folder: Path) -> None:
    """A run begins: forget the error of the one before, and reserve space. A run does without it if that is impossible."""
    _write(folder, b"", os.O_CREAT)


def record_run_error(folder: Path, text: str) -> None:
    """Record the error that ends the run, if possible."""
    _write(folder, text.encode(errors="replace")[: SIZE - 1])


def read_run_error(folder: Path) -> str:
    """The error that ended the latest run; "" if it ended without one, or its process was killed."""
    try:
        data = read_own(folder / NAME, JOB_LEVELS)
    except OSError:
        return ""
    return data.decode(errors="replace").strip()


def _write(folder: Path, data: bytes, flags: int = 0) -> None:
    with suppress(OSError):
        file = open_own(folder / NAME, JOB_LEVELS, os.O_RDWR | flags, make=bool(flags))
        try:
            os.pwrite(file, data.ljust(SIZE - 1) + b"\n", 0)
        finally:
            os.close(file)
