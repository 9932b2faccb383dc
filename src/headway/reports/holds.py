"""The holds of a job's lanes over all of its runs, told by the events on record."""

from __future__ import annotations

import time

import msgspec

from headway.stores.records import Event, Job
from headway.stores.store import Store


def holds_of(store: Store, job: Job) -> dict[str, Held]:
    """What holds each lane had over all runs of a job, by the lane's name."""
    found: dict[str, Held] = {}
    for event in store.events(job.id):
        if event.lane is not None and event.what in ("held", "released", "reopened", "stopped"):
            found.setdefault(event.lane, Held()).hear(event)
    for held in found.values():
        held.end(job.finished_utc or time.time())
    return {lane: held for lane, held in found.items() if held.holds}


class Held(msgspec.Struct):
    """The holds of a lane, told by events. A hold that is told again is the same one."""

    held_s: float = 0.0
    holds: int = 0
    reason: str = ""
    since_utc: float | None = None
    until_utc: float | None = None

    def hear(self, event: Event) -> None:
        """The next event of the lane."""
        if event.what == "released":
            self.until_utc = (
                None  # The last attempts in flight may have made it a little longer than was told.
            )
        if event.what != "held":
            self.end(event.at_utc)
            return
        if self.until_utc is not None and event.at_utc > self.until_utc:
            self.end(self.until_utc)  # Its process died during the hold.
        if self.since_utc is None:
            self.since_utc = event.at_utc
            self.holds += 1
        self.until_utc, self.reason = event.until_utc, event.text

    def end(self, utc: float) -> None:
        """A hold that is open ends then, or when it was to end."""
        if self.since_utc is not None:
            end_utc = utc if self.until_utc is None else min(utc, self.until_utc)
            self.held_s += max(0.0, end_utc - self.since_utc)
        self.since_utc = self.until_utc = None
