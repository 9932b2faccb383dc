"""The lanes of a job that cannot go on, and why."""

from __future__ import annotations

from headway.core.reasons import DeadlinePassed, EndReason, RunBudgetSpent, StopReason
from headway.reason_text import unit_error
from headway.reports.progress import Progress
from headway.stores.records import Job
from headway.stores.store import Store


def stops_now(progress: Progress) -> dict[str, StopReason]:
    """The stopped lanes of a run that goes on, by name."""
    waits = {name: lane.waits_for for name, lane in progress.lanes.items()}
    return {name: wait.stop for name, wait in waits.items() if wait is not None and wait.stop is not None}


def stops_left(store: Store, job: Job) -> dict[str, EndReason]:
    """The lanes that the latest run left units of, by name. A run that merely ended says nothing of its lanes."""
    if job.ended >= job.total:
        return {}
    names = {str(route.id): route.name for route in store.routes(job.id)}
    return {names[route]: reason for route, reason in job.unfinished.items() if _is_of_lane(reason)}


def _is_of_lane(reason: EndReason) -> bool:
    if isinstance(reason, RunBudgetSpent | DeadlinePassed):
        return False
    return unit_error(reason)[0] != "interrupted"
