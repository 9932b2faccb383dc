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
    """Every version of the file is one whole moment of the run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """The first moment shows it."""

    def noted(self, event: JobEvent) -> None:
        """The next moment shows it."""

    def ended(self, indexes: list[int]) -> None:
        """The next moment counts them."""

    def moved(self, view: View) -> None:
        try:
            data = (
                msgspec.json.encode({"version": VERSION, **msgspec.structs.asdict(progress_of(view))}) + b"\n"
            )
            write_own(self._path, JOB_LEVELS, data, make=True)
        except OSError:
            return  # A progress file that cannot be written is no reason to stop a run.
