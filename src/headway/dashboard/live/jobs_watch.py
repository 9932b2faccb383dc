"""Looks at the list of jobs again and again, and says which have changed."""

from __future__ import annotations

from typing import Final

from headway.dashboard.answers.job_rows import job_row
from headway.dashboard.json_answer import json_bytes
from headway.dashboard.live.live_event import LiveEvent
from headway.dashboard.records.job_reading import RecordPlace, reading_of
from headway.dashboard.troubles.job_troubles import brief_troubles
from headway.stores.records import LIVE
from headway.stores.store import Store

#: The latest jobs that are watched; older ones change only while they run.
MOST_JOBS: Final = 200


class JobsWatch:
    """All jobs. A watch belongs to one poller, whose looks follow each other."""

    def __init__(self, place: RecordPlace) -> None:
        self._place = place
        self._rows: dict[int, bytes] = {}
        #: The events for someone who begins to watch after others.
        self.first: list[LiveEvent] = []

    def look(self, store: Store) -> list[LiveEvent]:
        """The jobs that are new or have changed since the last look."""
        changed = []
        rows: dict[int, bytes] = {}
        for place, job in enumerate(store.jobs()):
            if place >= MOST_JOBS and job.state not in LIVE:
                continue
            reading = reading_of(self._place, job, with_progress=False)
            row = json_bytes(job_row(reading, brief_troubles(self._place, reading)))
            rows[job.id] = row
            if self._rows.get(job.id) != row:
                changed.append(row)
        self._rows, self.first = rows, [_event(list(rows.values()))]
        return [_event(changed)] if changed else []


def _event(rows: list[bytes]) -> LiveEvent:
    """Rows that are JSON already. None replaces another: each has only what has changed."""
    return LiveEvent("jobs", b"[%s]" % b",".join(rows), replaces=False)
