"""Everything that a report says of how a job ran: its course, what its lanes waited for, and what would have made it faster."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headway.forecast.what_if import Change, changes, replay
from headway.jobs.kinds import kind_of
from headway.reports.holds import HoldReport, holds_of
from headway.reports.lane_history import LaneHistory, lane_history
from headway.reports.run_analysis.attempt_history import attempt_history
from headway.reports.run_analysis.replay_job import replay_job
from headway.stores.records import Job, JobEvent
from headway.stores.samples import LaneWait
from headway.stores.store import BEGAN, ENDED, LOST, Store

POINTS: Final = 240
#: Waits below this share of the time of a job, and below this many seconds, are left out.
LEAST_SHARE: Final = 0.002
LEAST_S: Final = 0.05
#: A shorter job needs nothing that would make it faster.
SHORTEST_S: Final = 1.0


class WhatIfTime(msgspec.Struct, frozen=True):
    """How long the job would have taken with one change, by the simulator. `lane` is the slowest then."""

    change: Change
    seconds: float
    slowest: str


class FasterReport(msgspec.Struct, frozen=True):
    """What would have made a job faster. `simulated_s` is the job as it was, by the simulator; `simulated` is how many of its requests
    were simulated. `why_not`: why there is no simulation (a code), "" if there is one.
    """

    simulated_s: float = 0.0
    slowest: str = ""
    simulated: int = 0
    requests: int = 0
    without_limits: Sequence[str] = ()
    changes: Sequence[WhatIfTime] = ()
    why_not: str = ""


class RunAnalysis(msgspec.Struct, frozen=True):
    """How a job ran. `worked_s` is the time in which a process ran it; `sampled`: its history has limits and windows, not only rates."""

    worked_s: float
    history: LaneHistory
    sampled: bool
    waits: Sequence[LaneWait]
    holds: dict[str, HoldReport]
    faster: FasterReport


def run_analysis(store: Store, job: Job) -> RunAnalysis:
    """Read the records of a job. The simulation takes a few seconds at most."""
    history = lane_history(store, job, points=POINTS)
    sampled = len(history.t) > 1
    events = store.events(job.id)
    worked_s = worked_seconds(events, job.finished_utc or time.time())
    return RunAnalysis(
        worked_s,
        history if sampled else attempt_history(store, job, POINTS),
        sampled,
        [one for one in store.samples.waits(job.id) if one.seconds >= max(LEAST_S, LEAST_SHARE * worked_s)],
        holds_of(store, job),
        faster_report(store, job),
    )


def worked_seconds(events: Iterable[JobEvent], now_utc: float) -> float:
    """How long processes ran a job. A run whose process was killed counts up to its last event."""
    total, began, last = 0.0, None, 0.0
    for event in events:
        if event.what == BEGAN:
            if began is not None:
                total += max(0.0, last - began)
            began = event.at_utc
        elif event.what in (ENDED, LOST) and began is not None:
            total += (event.at_utc if event.what == ENDED else last) - began
            began = None
        last = event.at_utc
    return total + (max(0.0, now_utc - began) if began is not None else 0.0)


def faster_report(store: Store, job: Job) -> FasterReport:
    """Run the job again in virtual time, as it was and with one change at a time."""
    if kind_of(job).name == "flow":
        return FasterReport(why_not="flow")
    as_it_was = replay_job(store, job)
    if as_it_was is None:
        return FasterReport(why_not="no_answer")
    before = replay(as_it_was)
    if before.seconds < SHORTEST_S:
        return FasterReport(why_not="short")
    tried = []
    for change, changed in changes(as_it_was, before.slowest):
        after = replay(changed)
        tried.append(WhatIfTime(change, round(after.seconds, 3), after.slowest))
    return FasterReport(
        round(before.seconds, 3),
        before.slowest,
        sum(len(lane.units) for lane in as_it_was.lanes),
        sum(lane.requests for lane in as_it_was.lanes),
        [lane.name for lane in as_it_was.lanes if not lane.limits and not lane.most_in_flight],
        sorted(tried, key=lambda one: one.seconds),
    )
