"""A read-only view of a run: what each lane does, what it waits for and until when, and which limit binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.chain_times import chain_etas_s
from headway.core.lanes.lane import LaneState
from headway.core.lanes.meters.limit_usage import BINDING, LimitUsage, share_of_cap, shares
from headway.core.lanes.queueing.queue import NEVER
from headway.core.lanes.waited_limits import CAP, unreached_limits
from headway.core.model import DAY_S, AccountWindow
from headway.core.outlook import flight_s, lane_eta_s, pace, run_eta_s
from headway.core.reasons import Wait, WaitCode
from headway.core.unit_states import Status

if TYPE_CHECKING:
    from headway.core.lanes.meters.meter import Meter
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
    """One lane at an instant. `remaining` are all units that are neither in flight nor ended."""

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
    #: The used share of the global cap, if there is one and more attempts were started than it allows at once.
    cap: LimitUsage | None = None
    #: The money that the latest waiting start needs.
    reserve: Reserve | None = None
    #: Units in memory that wait for other units.
    waiting_for_others: int = 0
    #: The limits of `shares` (and `cap`) that no unit waited for, or not for a noticeable time, whatever share was used.
    unreached: tuple[str, ...] = ()
    #: The windows of its subscription.
    windows: tuple[AccountWindow, ...] = ()
    #: How many of its processes fit into memory, if that is fewer than it may start otherwise.
    memory_places: int | None = None
    #: How long the unit of its queue that waits the longest has been ready to start.
    oldest_wait_s: float = 0.0

    @property
    def held_back_by(self) -> LimitUsage | None:
        """The limit that held the lane back so far; None if none did."""
        return next(
            (share for share in self.shares if share.binds and share.name not in self.unreached), None
        )

    @property
    def held_back_by_cap(self) -> bool:
        """Whether the global cap held the lane back, and more than any limit of its own."""
        if self.cap is None or not self.cap.binds or CAP in self.unreached:
            return False
        own = self.held_back_by
        return own is None or self.cap.used > own.used


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
    chains = chain_etas_s(scheduler, now)
    reached = (
        cap
        if sum(lane.traffic.started for lane in scheduler.lanes.values()) > scheduler.concurrency
        else None
    )
    lanes = tuple(
        _lane_view(scheduler, lane, now, reached, 0 if lane.stock.exhausted else unfetched(lane.key), chains)
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
    scheduler: Scheduler,
    lane: LaneState,
    now: float,
    cap: LimitUsage | None,
    unfetched: int,
    chains: Mapping[str, float | None],
) -> LaneView:
    queued, delayed = lane.queue.counts()
    waiting = scheduler.waiting.per_lane[lane.key]
    aside, in_a_row = scheduler.exclusion.of_lane(lane.key)
    startable = queued + delayed + unfetched + _rendering(scheduler, lane) + aside
    remaining = startable + waiting
    binding, used = _binding(lane, now)
    used_shares = shares(lane)
    return LaneView(
        key=lane.key,
        queued=queued,
        delayed=delayed,
        remaining=remaining,
        in_flight=lane.in_flight,
        started=lane.traffic.started,
        succeeded=lane.succeeded,
        failed=lane.failed,
        refused=lane.refused,
        window=None if lane.window.open else lane.window.size,
        rate_per_s=pace(lane, now),
        others=lane.reported.others,
        meters=tuple(_meter_view(meter, now) for meter in lane.limits.meters),
        binding=binding,
        used_of_binding=used,
        wait=_wait(scheduler, lane, now),
        eta_s=_one_by_one_s(lane, in_a_row, _eta_s(lane, startable, waiting, chains.get(lane.key), now)),
        shares=used_shares,
        held_s=lane.hold.held_s(now),
        holds=lane.hold.count,
        held_for=lane.hold.last_reason,
        cap=cap,
        reserve=_reserve(lane),
        waiting_for_others=waiting,
        unreached=unreached_limits(lane, used_shares),
        windows=lane.windows.all(),
        memory_places=_binding_places(lane),
        oldest_wait_s=lane.queue.oldest_wait_s(now),
    )


def _binding_places(lane: LaneState) -> int | None:
    """How many fit into memory, if that is fewer than may be in flight otherwise."""
    places, most = lane.memory_places, lane.limits.settings.max_concurrency
    return places if places is not None and (not most or places < most) else None


def _rendering(scheduler: Scheduler, lane: LaneState) -> int:
    """How many requests of the lane are being made from answers of other units."""
    if not lane.rendering:
        return 0
    entries = scheduler.rendering.values()
    return sum(entry.lane is lane and entry.status is Status.PENDING for entry in entries)


def _eta_s(lane: LaneState, startable: int, waiting: int, chain_s: float | None, now: float) -> float | None:
    """The longer of two times: what the limits of the lane need for all its units, and what chains of units need."""
    eta_s = lane_eta_s(lane, startable + waiting, now)
    if not waiting or lane.stopped:
        return eta_s
    if eta_s is None:
        return None if startable or lane.breaker.open else chain_s
    return None if chain_s is None else max(eta_s, chain_s)


def _one_by_one_s(lane: LaneState, units: int, eta_s: float | None) -> float | None:
    """The time of the lane, if so many of its units must run one after the other."""
    took_s = flight_s(lane)
    return eta_s if not units or eta_s is None or took_s is None else max(eta_s, units * took_s)


def _reserve(lane: LaneState) -> Reserve | None:
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


def _binding(lane: LaneState, now: float) -> tuple[str, float]:
    """The limit that the lane uses most of, and the share of it that it achieves."""
    mean = lane.traffic.mean_costs()
    rate = lane.traffic.rate_at(now)
    shares = [(_used(meter, rate * mean[meter.place], now), meter.name) for meter in lane.limits.meters]
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


def _wait(scheduler: Scheduler, lane: LaneState, now: float) -> Wait | None:
    """Why the next unit of the lane does not start now; None if there is no unit or it is about to start."""
    if lane.stopped is not None:
        return Wait(WaitCode.STOPPED, stop=lane.stopped)
    if scheduler.paused:
        return Wait(WaitCode.PAUSED)
    if scheduler.mode != "run":
        return Wait(WaitCode.RUN_ENDING, message=scheduler.mode)
    if now >= scheduler.granted_until:
        return Wait(WaitCode.DATABASE)
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
            return Wait(WaitCode.PROBE, message=lane.breaker.last_message)
        return Wait(WaitCode.BREAKER, lane.breaker.probe_at, lane.breaker.last_message)
    if not lane.window.size:
        return Wait(WaitCode.OTHER_JOBS)
    if lane.in_flight >= lane.window.size:
        if lane.window.one_ahead:
            return Wait(WaitCode.ONE_AHEAD)
        return Wait(WaitCode.CONCURRENCY, limit=lane.window.size)
    if scheduler.concurrency and len(scheduler.out) >= scheduler.concurrency:
        return Wait(WaitCode.GLOBAL_CAP, limit=scheduler.concurrency)
    if scheduler.group_cap.is_waiting(lane):
        return Wait(WaitCode.GROUP_CAP, limit=scheduler.group_cap.most)
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
        ready_at = meter.ready_at(entry.costs[meter.place], lane.caution.level)
        if ready_at > now:
            return Wait(WaitCode.PACE, ready_at, meter.name)
    if lane.full:
        return Wait(WaitCode.ANSWERS)
    return Wait(WaitCode.CONNECTIONS) if lane.waits_for_connections(entry) else None


_READING: Final = Wait(WaitCode.READING)


def _wait_of_empty(scheduler: Scheduler, lane: LaneState) -> Wait | None:
    due_at = lane.queue.next_at()
    if due_at != NEVER:
        if not lane.queue.delayed or due_at < lane.queue.delayed[0][0]:
            return Wait(WaitCode.CRASHED_TWICE, due_at)
        unreached = lane.breaker.last_message if not lane.breaker.ever_answered else ""
        return Wait(WaitCode.BACKOFF, due_at, unreached or lane.queue.delayed[0][2].why)
    if any(True for _ in lane.queue.waiting()):  # Another suspect runs alone now.
        return Wait(WaitCode.CRASHED_TWICE)
    if scheduler.serial_phase and not lane.stock.exhausted:
        return Wait(WaitCode.SERIAL_FIRST)
    if not lane.stock.exhausted and scheduler.concurrency and len(scheduler.out) >= scheduler.concurrency:
        return Wait(WaitCode.GLOBAL_CAP, limit=scheduler.concurrency)
    if lane.stock.fetching:
        return _READING
    if lane.rendering or scheduler.waiting.per_lane[lane.key]:
        return Wait(WaitCode.OTHER_UNITS)
    if scheduler.exclusion.of_lane(lane.key)[0]:
        return Wait(WaitCode.SAME_DIRECTORY)
    return None
