"""The holds of a job's lanes over all of its runs, from recorded events."""

from __future__ import annotations

import time

import msgspec

from headway.stores.records import Job, JobEvent
from headway.stores.store import Store


class HoldReport(msgspec.Struct, frozen=True):
    """How long a lane was held, how often, and what the provider said the last time."""

    held_s: float
    holds: int
    reason: str


def holds_of(store: Store, job: Job) -> dict[str, HoldReport]:
    """The holds of each lane over all runs of a job, by the lane's name."""
    lanes: dict[str, HoldHistory] = {}
    for event in store.events(job.id):
        if event.lane is not None and event.what in ("held", "released", "reopened", "stopped"):
            lanes.setdefault(event.lane, HoldHistory()).add(event)
    for history in lanes.values():
        history.end(job.finished_utc or time.time())
    return {
        lane: HoldReport(round(history.held_s, 3), history.holds, history.reason)
        for lane, history in lanes.items()
        if history.holds
    }


class HoldHistory(msgspec.Struct):
    """Adds up the holds of a lane from its events. A second event about an open hold is the same hold."""

    held_s: float = 0.0
    holds: int = 0
    reason: str = ""
    since_utc: float | None = None
    until_utc: float | None = None

    def add(self, event: JobEvent) -> None:
        """Add the next event of the lane."""
        if event.what == "released":
            self.until_utc = None  # Attempts in flight may have made the hold longer than its event says.
        if event.what != "held":
            self.end(event.at_utc)
            return
        if self.until_utc is not None and event.at_utc > self.until_utc:
            self.end(self.until_utc)  # The process died during the hold.
        if self.since_utc is None:
            self.since_utc = event.at_utc
            self.holds += 1
        self.until_utc, self.reason = event.until_utc, event.text

    def end(self, utc: float) -> None:
        """End an open hold at this instant, or at its own end if that is earlier."""
        if self.since_utc is not None:
            end_utc = utc if self.until_utc is None else min(utc, self.until_utc)
            self.held_s += max(0.0, end_utc - self.since_utc)
        self.since_utc = self.until_utc = None
