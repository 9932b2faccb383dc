"""A read-only view of a run: what each lane does, what it waits for and until when, and which limit binds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.lanes.lane import Lane
from headway.core.lanes.limit_usage import BINDING, LimitUsage, share_of_cap, shares
from headway.core.lanes.queueing.queue import NEVER
from headway.core.model import DAY_S
from headway.core.outlook import lane_eta_s, pace, run_eta_s
from headway.core.reasons import Wait, WaitCode

if TYPE_CHECKING:
    from headway.core.lanes.meter import Meter
    from headway.core.scheduler import Scheduler

#: A meter that is used less than this share does not hold its lane back.
IDLE_SHARE: Final = 0.01


class MeterView(msgspec.Struct, frozen=True):
    """One limit: its size, its level, and the assumed depth of its bucket."""

    name: str
    limit: float
    level: float
    depth_s: float
    reported: bool
    #: Views of older versions have none.
    dimension: str = "requests"


class Reserve(msgspec.Struct, frozen=True):
    """The money that is reserved for a request of a lane, if the lane had to wait for it: how long, and as a share of its work time.

    `output_tokens` is the length of an answer for that money; `limited`: the request itself sets that limit.
    """

    usd: float
    output_tokens: float
    limited: bool
    in_flight: int
    held_s: float
    held_share: float

    @property
    def binds(self) -> bool:
        """Whether it held the lane back."""
        return self.held_share >= BINDING


class LaneView(msgspec.Struct, frozen=True):
    """One lane at an instant."""

    key: str
    queued: int
    delayed: int
    remaining: int
    in_flight: int
    started: int
    succeeded: int
    failed: int
    refused: int
    window: int | None
    rate_per_s: float
    #: The share of a limit that other clients with the same key use.
    others: float
    meters: tuple[MeterView, ...]
    binding: str
    used_of_binding: float
    wait: Wait | None
    eta_s: float | None
    #: The used share of each limit so far, the most used first; and how long the lane was held.
    shares: tuple[LimitUsage, ...] = ()
    held_s: float = 0.0
    #: The number of holds, and the reason of the last one.
    holds: int = 0
    held_for: str = ""
    #: The used share of the global cap, if there is one.
    cap: LimitUsage | None = None
    #: The money that the latest waiting start needs.
    reserve: Reserve | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """The whole run at an instant."""

    at: float
    lanes: tuple[LaneView, ...]
    in_flight: int
    waiting_for_others: int
    started: int
    succeeded: int
    failed: int
    refused: int
    remaining: int
    spent_usd: float
    eta_s: float | None
    max_cost_usd: float = 0.0
    #: The global cap on requests in flight, if there is one.
    cap: LimitUsage | None = None


def snapshot(scheduler: Scheduler, now: float, unfetched: Callable[[str], int]) -> Snapshot:
    """View a scheduler without changing it. `unfetched` gives how many units of a lane have not been fetched."""
    cap = share_of_cap(scheduler)
    lanes = tuple(
        _lane_view(scheduler, lane, now, cap, 0 if lane.stock.exhausted else unfetched(lane.key))
        for lane in scheduler.lanes.values()
    )
    etas = [view.eta_s for view in lanes if view.remaining or view.in_flight]
    remaining = sum(view.remaining for view in lanes)
    return Snapshot(
        at=now,
        lanes=lanes,
        in_flight=len(scheduler.out),
        waiting_for_others=scheduler.waiting.count,
        started=sum(view.started for view in lanes),
        succeeded=sum(view.succeeded for view in lanes),
        failed=sum(view.failed for view in lanes),
        refused=sum(view.refused for view in lanes),
        remaining=remaining,
        spent_usd=scheduler.budget.spent_usd,
        max_cost_usd=scheduler.budget.max_cost_usd,
        eta_s=run_eta_s(scheduler, etas, remaining),
        cap=cap,
    )


def _lane_view(
    scheduler: Scheduler, lane: Lane, now: float, cap: LimitUsage | None, unfetched: int
) -> LaneView:
    queued, delayed = lane.queue.counts()
    remaining = queued + delayed + unfetched
    binding, used = _binding(lane, now)
    return LaneView(
        key=lane.key,
        queued=queued,
        delayed=delayed,
        remaining=remaining,
        in_flight=lane.in_flight,
        started=lane.started,
        succeeded=lane.succeeded,
        failed=lane.failed,
        refused=lane.refused,
        window=None if lane.window.open else lane.window.size,
        rate_per_s=pace(lane, now),
        others=lane.others,
        meters=tuple(_meter_view(meter, now) for meter in lane.meters),
        binding=binding,
        used_of_binding=used,
        wait=_wait(scheduler, lane, now),
        eta_s=lane_eta_s(lane, remaining, now),
        shares=shares(lane),
        held_s=lane.hold.held_s(now),
        holds=lane.hold.count,
        held_for=lane.hold.last_reason,
        cap=cap,
        reserve=_reserve(lane),
    )


def _reserve(lane: Lane) -> Reserve | None:
    shortage = lane.shortage
    if (wanted := shortage.wanted) is None:
        return None
    limited = not shortage.open_tokens
    tokens = shortage.open_tokens or wanted.max_output_tokens
    share = min(1.0, shortage.seconds / lane.work_time.total_s) if lane.work_time.total_s > 0.0 else 0.0
    return Reserve(wanted.cost_usd, tokens, limited, shortage.in_flight, shortage.seconds, share)


def _meter_view(meter: Meter, now: float) -> MeterView:
    level = meter.level(now, meter.ceiling_s if meter.levelled else None)
    return MeterView(meter.name, meter.limit, level, meter.depth_s, meter.reported, meter.dimension)


def _binding(lane: Lane, now: float) -> tuple[str, float]:
    """The limit that the lane uses most of, and the share of it that it achieves."""
    mean = lane.mean_costs()
    rate = lane.rate_at(now)
    shares = [(_used(meter, rate * mean[meter.place], now), meter.name) for meter in lane.meters]
    if not lane.window.open:
        shares.append((lane.in_flight / max(1, lane.window.size), "concurrency"))
    used, name = max(shares, default=(0.0, ""))
    return (name, min(1.0, used)) if used > IDLE_SHARE else ("", used)


def _used(meter: Meter, per_s: float, now: float) -> float:
    """The share of its limit that a lane uses. A limit for a day may be used up within a minute: there the used part counts."""
    if meter.period_s < DAY_S:
        return per_s / meter.rate
    left = meter.level(now, meter.ceiling_s if meter.levelled else None)
    return min(1.0, max(0.0, 1.0 - left / meter.limit))


def _wait(scheduler: Scheduler, lane: Lane, now: float) -> Wait | None:
    """Why the next unit of the lane does not start now; None if there is no unit or it is about to start."""
    if lane.stopped is not None:
        return Wait(WaitCode.STOPPED, stop=lane.stopped)
    if scheduler.paused:
        return Wait(WaitCode.PAUSED)
    if scheduler.mode != "run":
        return Wait(WaitCode.RUN_ENDING, message=scheduler.mode)
    if lane.hold.until > now:
        return Wait(WaitCode.HOLD, lane.hold.until, lane.hold.reason)
    entry = lane.queue.peek()
    if entry is None:
        return _wait_of_empty(scheduler, lane)
    if lane.order.choosing:
        return _READING
    if entry.unit.late and lane.rendering:
        return Wait(WaitCode.OTHER_UNITS)
    if lane.breaker.open:
        if lane.in_flight:
            return Wait(WaitCode.PROBE, message=lane.breaker.said)
        return Wait(WaitCode.BREAKER, lane.breaker.probe_at, lane.breaker.said)
    if not lane.window.size:
        return Wait(WaitCode.OTHER_JOBS)
    if lane.in_flight >= lane.window.size:
        return Wait(WaitCode.CONCURRENCY, limit=lane.window.size)
    if scheduler.concurrency and len(scheduler.out) >= scheduler.concurrency:
        return Wait(WaitCode.GLOBAL_CAP, limit=scheduler.concurrency)
    if scheduler.serial_phase and (scheduler.serial is None or scheduler.serial.lane is not lane):
        return Wait(WaitCode.SERIAL_FIRST)
    if lane.hold.paused_until > now:
        return Wait(WaitCode.RETRY_AFTER, lane.hold.paused_until)
    if scheduler.next_start_at > now:
        return Wait(WaitCode.START_DELAY, scheduler.next_start_at)
    if not all(budget.fits(entry.estimate) for budget in (scheduler.budget, *lane.lane_budgets)):
        return Wait(WaitCode.BUDGET)
    meter = lane.binding(entry)
    if meter is not None:
        ready_at = meter.ready_at(entry.costs[meter.place], lane.caution)
        if ready_at > now:
            return Wait(WaitCode.PACE, ready_at, meter.name)
    return None


_READING: Final = Wait(WaitCode.READING)


def _wait_of_empty(scheduler: Scheduler, lane: Lane) -> Wait | None:
    due_at = lane.queue.next_at()
    if due_at != NEVER:
        if not lane.queue.delayed or due_at < lane.queue.delayed[0][0]:
            return Wait(WaitCode.CRASHED_TWICE, due_at)
        unreached = lane.breaker.said if not lane.breaker.heard else ""
        return Wait(WaitCode.BACKOFF, due_at, unreached or lane.queue.delayed[0][2].why)
    if any(True for _ in lane.queue.waiting()):  # Another suspect runs alone now.
        return Wait(WaitCode.CRASHED_TWICE)
    if scheduler.serial_phase and not lane.stock.exhausted:
        return Wait(WaitCode.SERIAL_FIRST)
    if not lane.stock.exhausted and scheduler.concurrency and len(scheduler.out) >= scheduler.concurrency:
        return Wait(WaitCode.GLOBAL_CAP, limit=scheduler.concurrency)
    if lane.stock.fetching:
        return _READING
    if lane.rendering or (
        scheduler.waiting.count and any(entry.lane is lane for entry in scheduler.waiting.entries())
    ):
        return Wait(WaitCode.OTHER_UNITS)
    return None
