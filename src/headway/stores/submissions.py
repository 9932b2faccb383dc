"""Jobs that were handed to engines (`headway submit`, `headway serve`): which of them an engine may run now.

A job is wanted from the moment when a user hands it over until anything is decided about it: a run begins, or a command ends it. After that
an engine only continues what an engine has left: a run whose process died, and one that ended because its engine was stopped. What a user
has stopped, paused or cancelled stays so, and so does what has failed, is parked, or has spent its budget.
"""

from __future__ import annotations

import time
from typing import Final

from headway.stores.database import Database
from headway.stores.records import Job
from headway.stores.row_conversion import job_of, json_of

#: The setting of a job whose present or last run belongs to an engine.
SERVED: Final = "served"


class Submissions:
    """Those of one store."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, job: int, utc: float) -> None:
        """Hand a job to the engines, whatever its state."""
        with self._db.transaction():
            self._db.execute("submit_job", (job, utc))

    def withdraw(self, job: int, utc: float) -> None:
        """No engine is to run the job any more."""
        with self._db.transaction():
            self._db.execute("set_state", {"job": job, "state": "cancelled", "finished_utc": utc})

    def keep(self, job: int) -> None:
        """A user has paused the job: when its engine ends, no other one takes it."""
        with self._db.transaction():
            settings = job_of(self._db.execute("job_numbered", (job,))[0]).settings
            if settings.pop(SERVED, None):
                self._db.execute("set_settings", (json_of(settings), job))

    def open(self) -> dict[int, bool]:
        """The jobs that an engine may have to run, the oldest first, by number; whether each is wanted whatever its state."""
        return {job: bool(wanted) for job, wanted in self._db.execute("submitted_jobs")}

    def claim(self, job: int, seconds: float) -> bool:
        """Have this engine alone start a process for a job, for some seconds. False: another engine does."""
        with self._db.transaction():
            return bool(self._db.execute("claim_submission", (time.time(), seconds, job)))

    def heard(self) -> bool:
        """Whether there may be more of them since the last call. Asks no server; true from time to time."""
        return self._db.heard("work", 0)


def may_take(job: Job, *, wanted: bool) -> bool:
    """Whether an engine may run a job that no process runs."""
    if job.state == "ingesting":
        return False
    if wanted or job.state == "running":
        return True
    return job.state == "interrupted" and bool(job.settings.get(SERVED))
