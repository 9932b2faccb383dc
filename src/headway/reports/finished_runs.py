"""A run that ended: its job, what earlier runs saved, and what held each lane back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headway.core.snapshot import LaneView, Reserve
from headway.engine.observer import View
from headway.engine.run_result import RunResult
from headway.reports.jobs import JobReport, job_report
from headway.reports.usage import SavedReport, saved_report
from headway.stores.records import Job
from headway.stores.store import Store


class LimitUse(msgspec.Struct, frozen=True):
    """One limit, and the share of it that was used. `found`: the lane learned it by itself."""

    name: str
    limit: float
    used: float
    found: bool


class ReserveReport(msgspec.Struct, frozen=True):
    """The money reserved for a request, if a lane had to wait for it."""

    usd: float
    output_tokens: int
    max_tokens_set: bool
    in_flight: int
    held_s: float
    held_it_back: bool


class LaneConstraints(msgspec.Struct, frozen=True):
    """What limited a lane over a run: holds, money, rate limits."""

    held_s: float
    holds: int
    held_for: str | None
    reserve: ReserveReport | None
    limits: Sequence[LimitUse]


class BudgetReport(msgspec.Struct, frozen=True):
    """The cap of a run, and what was or may have been spent of it."""

    max_cost_usd: float
    spent_usd: float


class RunReport(msgspec.Struct, frozen=True):
    """A run that ended. `next` is the command that continues the job."""

    job: JobReport
    elapsed_s: float
    saved: SavedReport
    limits: dict[str, LaneConstraints]
    budget: BudgetReport | None
    next: str | None


def run_report(
    store: Store, before: Job, after: Job, ending: RunResult, next_command: str | None
) -> RunReport:
    """The report of a run, from the job before and after it."""
    return RunReport(
        job=job_report(store, after, ending.state),
        elapsed_s=round(ending.view.elapsed_s, 3),
        saved=saved_report(before),
        limits=limits_of(ending.view),
        budget=budget_of(ending.view),
        next=next_command,
    )


def limits_of(view: View) -> dict[str, LaneConstraints]:
    """What held each lane back, by its name."""
    return {view.names[lane.key]: _limits(lane) for lane in view.snapshot.lanes}


def _limits(lane: LaneView) -> LaneConstraints:
    return LaneConstraints(
        held_s=round(lane.held_s, 3),
        holds=lane.holds,
        held_for=lane.held_for or None,
        reserve=None if lane.reserve is None else _reserve(lane.reserve),
        limits=[
            LimitUse(share.name, share.limit, round(share.used, 4), share.found) for share in lane.shares
        ],
    )


def _reserve(reserve: Reserve) -> ReserveReport:
    return ReserveReport(
        usd=reserve.usd,
        output_tokens=round(reserve.output_tokens),
        max_tokens_set=reserve.limited,
        in_flight=reserve.in_flight,
        held_s=round(reserve.held_s, 3),
        held_it_back=reserve.binds,
    )


def budget_of(view: View) -> BudgetReport | None:
    """The budget of a run; None if it has none."""
    snapshot = view.snapshot
    return BudgetReport(snapshot.max_cost_usd, snapshot.spent_usd) if snapshot.max_cost_usd else None
