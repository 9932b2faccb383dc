"""The holds of a job's lanes over all of its runs, from recorded events."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import msgspec

from headway.stores.records import Job, JobEvent
from headway.stores.store import BEGAN, ENDED, Store

#: Events that begin or end a hold.
HOLD_EVENTS: Final = ("held", "released", "reopened", "stopped")


class HoldReport(msgspec.Struct, frozen=True):
    """How long a lane was held, how often, and what the provider said the last time."""

    held_s: float
    holds: int
    reason: str


def holds_of(store: Store, job: Job) -> dict[str, HoldReport]:
    """The holds of each lane over all runs of a job, by the lane's name."""
    lanes: dict[str, HoldHistory] = {}
    for event in store.events(job.id):
        if event.lane is not None and event.what in HOLD_EVENTS:
            lanes.setdefault(event.lane, HoldHistory()).add(event)
    for history in lanes.values():
        history.end(job.finished_utc or time.time())
    return {
        lane: HoldReport(round(history.held_s, 3), history.holds, history.reason)
        for lane, history in lanes.items()
        if history.holds
    }


class HoldSpan(msgspec.Struct, frozen=True):
    """The time in which a lane was held, and what the provider said."""

    lane: str
    from_utc: float
    until_utc: float
    reason: str


def hold_spans(events: Iterable[JobEvent], now_utc: float) -> list[HoldSpan]:
    """Every hold, by its beginning. One that is open lasts until now, or until its recorded end if that is earlier."""
    lanes: dict[str, HoldHistory] = {}
    for event in events:
        if event.lane is not None and event.what in HOLD_EVENTS:
            lanes.setdefault(event.lane, HoldHistory()).add(event)
    spans = []
    for lane, history in lanes.items():
        history.end(now_utc)
        spans += [HoldSpan(lane, *span) for span in history.spans]
    return sorted(spans, key=lambda span: span.from_utc)


#: What closes a lane besides a hold, and what opens it again.
_CLOSED: Final = {"stopped": "reopened", "breaker_opened": "breaker_closed"}


def closed_spans(events: Iterable[JobEvent], lane: str, now_utc: float) -> list[HoldSpan]:
    """When a lane was held, stopped, or kept shut after failures. A lane that was not opened again opens with the next run."""
    of_lane = [event for event in events if event.lane == lane or event.what in (BEGAN, ENDED)]
    spans = hold_spans(of_lane, now_utc)
    for closing, opening in _CLOSED.items():
        closed: JobEvent | None = None
        for event in of_lane:
            if event.what == closing:
                closed = closed or event
            elif closed is not None and event.what in (opening, BEGAN, ENDED):
                spans.append(HoldSpan(lane, closed.at_utc, max(closed.at_utc, event.at_utc), closed.text))
                closed = None
        if closed is not None:
            spans.append(HoldSpan(lane, closed.at_utc, max(closed.at_utc, now_utc), closed.text))
    return spans


class HoldHistory(msgspec.Struct):
    """Adds up the holds of a lane from its events. A second event about an open hold is the same hold."""

    held_s: float = 0.0
    holds: int = 0
    reason: str = ""
    #: (beginning, end, reason) of each hold that has ended.
    spans: list[tuple[float, float, str]] = []
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
            self.spans.append((self.since_utc, max(end_utc, self.since_utc), self.reason))
        self.since_utc = self.until_utc = None
