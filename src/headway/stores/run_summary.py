"""The summary of a job's latest run, in `jobs/JOB/summary.json`: `headway attach` prints it as the run itself did."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from headway.stores.files import read_own, write_own
from headway.stores.job_lock import JOB_LEVELS

NAME: Final = "summary.json"


class PrintedSummary(msgspec.Struct, frozen=True):
    """How a run ended: the state of its job, its exit code, and the lines that it printed."""

    state: str
    exit_code: int
    lines: list[str]


def clear_summary(folder: Path) -> None:
    """A run begins: forget the summary of the one before."""
    with suppress(OSError):
        write_own(folder / NAME, JOB_LEVELS, b"", make=True)


def write_summary(folder: Path, end: PrintedSummary) -> None:
    """Record the end of a run, if possible: all of it is in the store, too."""
    with suppress(OSError):
        write_own(folder / NAME, JOB_LEVELS, msgspec.json.encode(end) + b"\n", make=True)


def read_summary(folder: Path) -> PrintedSummary | None:
    """The end of the latest run; None if it has not ended, or its process was killed."""
    try:
        return msgspec.json.decode(read_own(folder / NAME, JOB_LEVELS), type=PrintedSummary)
    except (OSError, msgspec.DecodeError):
        return None
