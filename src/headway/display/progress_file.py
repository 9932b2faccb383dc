"""`.headway/jobs/JOB/progress.json`: rewritten atomically, at most twice a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from headway.engine.observer import AgentActivity, Observer, View
from headway.reports.run_progress import VERSION, note_agent, progress_fields
from headway.stores.files import write_own
from headway.stores.job_lock import JOB_LEVELS
from headway.stores.records import Job, JobEvent, UnknownOutcome


class ProgressFile(Observer):
    """An observer that writes the file. Each version is one consistent state of the run."""

    def __init__(
        self,
        path: Path,
        more: Callable[[], Mapping[str, Any]] = dict,
        publish: Callable[[bytes], None] = lambda data: None,
    ) -> None:
        """`more`: further fields, those that a kind of job has. `publish` gets the same for other machines."""
        self._path, self._more, self._publish = path, more, publish
        self._agents: dict[int, AgentActivity] = {}
        self._last: View | None = None

    def activity(self, activity: AgentActivity) -> None:
        """Remember what an agent does: `moved` writes the file."""
        note_agent(self._agents, activity)

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        """Do nothing: `moved` writes the file."""

    def noted(self, event: JobEvent) -> None:
        """Do nothing: `moved` writes the file."""

    def ended(self, indexes: list[int]) -> None:
        """Do nothing: `moved` writes the file."""

    def moved(self, view: View) -> None:
        self._last = view
        try:
            fields = progress_fields(view, self._agents.values())
            data = msgspec.json.encode({"version": VERSION, **fields, **self._more()}) + b"\n"
            self._publish(data)
            write_own(self._path, JOB_LEVELS, data, make=True)
        except OSError:
            return  # A run continues without its progress file.

    def finish(self) -> None:
        """Write the file once more: the results of the run are written now."""
        if self._last is not None:
            self.moved(self._last)
