"""`.headway/jobs/JOB/progress.json`: rewritten atomically, at most twice a second."""

from __future__ import annotations

from pathlib import Path

import msgspec

from headway.engine.observer import View
from headway.reports.run_progress import VERSION, progress_of
from headway.stores.files import write_own
from headway.stores.job_lock import JOB_LEVELS
from headway.stores.records import Job, JobEvent, UnknownOutcome


class ProgressFile:
    """An observer that writes the file. Each version is one consistent state of the run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """Do nothing: `moved` writes the file."""

    def noted(self, event: JobEvent) -> None:
        """Do nothing: `moved` writes the file."""

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: `moved` writes the file."""

    def moved(self, view: View) -> None:
        try:
            data = (
                msgspec.json.encode({"version": VERSION, **msgspec.structs.asdict(progress_of(view))}) + b"\n"
            )
            write_own(self._path, JOB_LEVELS, data, make=True)
        except OSError:
            return  # A run continues without its progress file.
