"""Looks at one job again and again, and says what has changed.

A look is cheap: the file of the process's progress, two rows of the store, and once a second whether the process lives. All else is read
only if something has changed, and what takes a scan at most for a small part of the time (`SlowValues`).
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import Any, Final

from headway.dashboard.answers.agent_rows import running_agents
from headway.dashboard.answers.job_details import failure_rows, nodes_of
from headway.dashboard.answers.job_rows import job_row
from headway.dashboard.answers.lane_rows import LaneRows
from headway.dashboard.live.live_event import LiveEvent, live_event
from headway.dashboard.records.job_reading import JobReading, NoSuchJob, RecordPlace, reading_of
from headway.dashboard.troubles.job_troubles import troubles_of
from headway.display.plain import noted_line
from headway.reports.lane_history import lane_history
from headway.reports.watched_run import shown_events
from headway.stores.records import Job, JobEvent
from headway.stores.store import Store

#: The latest events that a new watcher gets.
MOST_EVENTS: Final = 50
#: A job that nothing has changed in is read this often, to notice that its process has died.
_CHECK_S: Final = 1.0
#: Columns of the history that are sent at once, and the time that the first look repeats.
MOST_COLUMNS: Final = 100
_REPEATED_S: Final = 3.0
#: Instants in a history are rounded.
_ROUNDING_S: Final = 0.001


class JobFeed:
    """One job. A watch belongs to one poller, whose looks follow each other."""

    def __init__(self, place: RecordPlace, name: str) -> None:
        self._place, self._name = place, name
        self._last_event = 0
        #: Whether a process ran the job at the last look, and when its last run had ended.
        self._was_live: bool | None = None
        self._finished_utc: float | None = None
        self._mark: object = None
        self._checked_at = -_CHECK_S
        self._state: LiveEvent | None = None
        self._lines: deque[LiveEvent] = deque(maxlen=MOST_EVENTS)
        #: The end of the last column of the history that was sent. The first look repeats the latest.
        self._sampled_utc = time.time() - _REPEATED_S
        self._sampled_at = -_CHECK_S

        #: The events for someone who begins to watch after others.
        self.first: list[LiveEvent] = []

    def look(self, store: Store) -> list[LiveEvent]:
        """What is new since the last look."""
        if news := self._look(store):
            self.first = [*([] if self._state is None else [self._state]), *self._lines]
        return news

    def _look(self, store: Store) -> list[LiveEvent]:
        job = store.job(self._name)
        if job is None:
            raise NoSuchJob(self._name)
        lines = self._new_lines(store, job)
        mark, now = (job, self._file_mark()), time.monotonic()
        if mark == self._mark and now - self._checked_at < _CHECK_S:
            return lines
        self._mark, self._checked_at = mark, now
        reading = self._reading(store, job)
        news = [*lines, *self._samples(store, job, now), *self._changes(store, reading)]
        if self._has_ended(reading):
            news.append(live_event("ended", job_row(reading, troubles_of(self._place, store, reading))))
        self._was_live, self._finished_utc = reading.is_live, reading.job.finished_utc
        return news

    def _reading(self, store: Store, job: Job) -> JobReading:
        """The job as it is now. Its row may have been read just before a run recorded its end and went."""
        reading = reading_of(self._place, job)
        latest = None if reading.is_live else store.job(self._name)
        return reading if latest is None else reading_of(self._place, latest)

    def _has_ended(self, reading: JobReading) -> bool:
        """Whether a run has ended since the last look. A short one may have begun since then, too."""
        if reading.is_live or self._was_live is None:
            return False
        return self._was_live or reading.job.finished_utc != self._finished_utc

    def _file_mark(self) -> object:
        """Something that differs if the process has written its progress."""
        if self._place.jobs.server is not None:
            return self._place.jobs.progress(self._name)
        try:
            info = os.stat(self._place.jobs.folder / self._name / "progress.json")
        except OSError:
            return None
        return info.st_mtime_ns, info.st_ino

    def _samples(self, store: Store, job: Job, now: float) -> list[LiveEvent]:
        """New columns of the history. The process records one a second."""
        if now - self._sampled_at < _CHECK_S:
            return []
        self._sampled_at = now
        history = lane_history(store, job, None, self._sampled_utc, MOST_COLUMNS)
        if not history.t:
            return []
        self._sampled_utc = history.t[-1] + _ROUNDING_S
        return [live_event("sample", history, replaces=False)]

    def _changes(self, store: Store, reading: JobReading) -> list[LiveEvent]:
        """The job as it is, if it has changed."""
        event = live_event("progress", job_progress(self._place, store, reading))
        if event == self._state:
            return []
        self._state = event
        return [event]

    def _new_lines(self, store: Store, job: Job) -> list[LiveEvent]:
        """New events of the job and its lanes. The first time these are the latest of all."""
        events = store.events(job.id, self._last_event)
        if not events:
            return []
        self._last_event = events[-1].id
        lines = [live_event("line", line_of(event), replaces=False) for event in shown_events(events)]
        self._lines.extend(lines)
        return lines[-MOST_EVENTS:]


def job_progress(place: RecordPlace, store: Store, reading: JobReading) -> dict[str, Any]:
    """What changes of a job while it runs."""
    flow = reading.job.kind == "flow"
    return {
        **job_row(reading, troubles_of(place, store, reading)),
        "lanes": LaneRows(place, store, reading).rows(),
        "nodes": nodes_of(place, store, reading) if flow else None,
        "agents": running_agents(reading),
        "failures": failure_rows(place, reading.job),
    }


def line_of(event: JobEvent) -> dict[str, Any]:
    """An event of a job or a lane. `line` is what the terminal shows."""
    return {
        "id": event.id, "at_utc": event.at_utc, "lane": event.lane, "what": event.what, "text": event.text,
        "until_utc": event.until_utc, "line": noted_line(event),
    }  # fmt: skip
