"""The invariants of a scheduler between two calls. Tests run `check` after each step."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headway.core.unit_states import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headway.core.budget import Budget
    from headway.core.lanes.lane import LaneState
    from headway.core.lanes.queueing.queue import Entry
    from headway.core.scheduler import Scheduler

#: Sums of floats drift; a smaller difference is not a leak.
DRIFT = 1e-6


def check(scheduler: Scheduler) -> None:
    """Raise AssertionError with a description unless every invariant holds."""
    _check_permits(scheduler)
    _check_places(scheduler)
    _check_exclusion(scheduler)
    _check_group_cap(scheduler)
    _check_rendering(scheduler)
    _check_fetches(scheduler)
    _check_budget(scheduler)
    for lane in scheduler.lanes.values():
        _check_lane(lane)


def _check_permits(scheduler: Scheduler) -> None:
    held = dict.fromkeys(scheduler.lanes, 0)
    for index, entry in scheduler.out.items():
        assert entry.unit.index == index, f"unit {entry.unit.index} is out under number {index}"
        assert entry.status is Status.RUNNING, f"unit {index} is out but {entry.status}"
        held[entry.lane.key] += 1
    for key, lane in scheduler.lanes.items():
        assert lane.in_flight == held[key], (
            f"lane {key} holds {lane.in_flight} permits for {held[key]} attempts"
        )


def _check_rendering(scheduler: Scheduler) -> None:
    """A unit whose request is being made is late and pending, or was ended meanwhile; its lane counts it."""
    counted = dict.fromkeys(scheduler.lanes, 0)
    for index, entry in scheduler.rendering.items():
        assert entry.unit.index == index, f"unit {entry.unit.index} is rendered under number {index}"
        assert entry.unit.late, f"unit {index} is rendered, and its request is known"
        assert entry.status is not Status.RUNNING, f"unit {index} runs without its request"
        counted[entry.lane.key] += 1
    for key, lane in scheduler.lanes.items():
        assert lane.rendering == counted[key], (
            f"lane {key} counts {lane.rendering} requests, not {counted[key]}"
        )
    for index, entry in scheduler.out.items():
        assert not entry.unit.late, f"unit {index} is out without its request"


def _check_places(scheduler: Scheduler) -> None:
    """Each unit is in one place at a time."""
    seen = set(scheduler.out)
    for entry in scheduler.in_memory():
        assert entry.unit.index not in seen, f"unit {entry.unit.index} is in two places"
        seen.add(entry.unit.index)
    blocked = Counter(entry.lane.key for entry in scheduler.waiting.entries())
    assert blocked == scheduler.waiting.per_lane, (
        f"{blocked} units wait for others, {scheduler.waiting.per_lane} counted"
    )
    assert blocked.total() == scheduler.waiting.count, (
        f"{blocked.total()} units wait for others, {scheduler.waiting.count} counted"
    )


def _check_exclusion(scheduler: Scheduler) -> None:
    """One unit of a group is in flight at most. Of a free group, a lane that has units aside has one in its queue, or its
    request is being made."""
    groups = Counter(entry.unit.exclusive for entry in scheduler.out.values() if entry.unit.exclusive)
    for group, count in groups.items():
        assert count == 1, f"{count} units of group {group} are in flight"
        assert scheduler.exclusion.is_busy(group), f"group {group} is in flight and counts as free"
    for entry in scheduler.exclusion.entries():
        group = entry.unit.exclusive
        queued = {one.unit.exclusive for one in entry.lane.queue.entries()}
        queued |= {one.unit.exclusive for one in scheduler.rendering.values() if one.lane is entry.lane}
        assert group in groups or group in queued, (
            f"unit {entry.unit.index} waits for group {group}, which is free"
        )


def _check_group_cap(scheduler: Scheduler) -> None:
    """No more groups are in flight than may be, and each is counted while one of its units is."""
    cap = scheduler.group_cap
    groups = Counter(entry.unit.group for entry in scheduler.out.values() if entry.unit.group)
    assert groups == cap.in_flight, f"{groups} in flight by group, {cap.in_flight} counted"
    assert not cap.most or len(groups) <= cap.most, f"{len(groups)} groups are in flight, not {cap.most}"


def _check_fetches(scheduler: Scheduler) -> None:
    """Nothing is fetched from a source that has no more, and in the serial phase only serial units are."""
    for key, lane in scheduler.lanes.items():
        stock = lane.stock
        assert not (stock.fetching and stock.exhausted), f"lane {key} fetches from a source that has no more"
        assert not (stock.fetching and scheduler.serial_phase), f"lane {key} fetches in the serial phase"
        assert min(stock.low, stock.batch) > 0, f"lane {key} keeps no stock"


def _check_budget(scheduler: Scheduler) -> None:
    if scheduler.budget.capped:
        _check_reserved(scheduler.budget, scheduler.out.values())
    for lane_budget in scheduler.lane_budgets.values():
        _check_reserved(
            lane_budget, (entry for entry in scheduler.out.values() if lane_budget in entry.lane.lane_budgets)
        )


def _check_reserved(budget: Budget, entries: Iterable[Entry]) -> None:
    out = [entry.estimate.cost_usd for entry in entries]
    assert abs(budget.reserved_usd - sum(out)) < DRIFT, (
        f"{budget.reserved_usd} reserved, {sum(out)} in flight"
    )
    assert budget.out == len(out), f"{budget.name} counts {budget.out} in flight, {len(out)} are"


def _check_lane(lane: LaneState) -> None:
    assert 0 <= lane.unanswered <= lane.in_flight, f"lane {lane.key}: {lane.unanswered} without a word"
    assert 0 <= lane.unwritten.count <= lane.in_flight, f"lane {lane.key}: {lane.unwritten.count} unwritten"
    assert lane.in_flight >= 0, f"lane {lane.key} has {lane.in_flight} in flight"
    size, most = lane.window.size, lane.window.configured
    assert min(1, most) <= size <= most, f"lane {lane.key}: a window of {size}, {most} are configured"
    for meter in lane.limits.meters:
        assert meter.rate > 0.0, f"lane {lane.key}: {meter.name} has no rate"
        assert meter.full_at == meter.full_at, f"lane {lane.key}: {meter.name} is not a number"
        assert meter.depth_s <= meter.ceiling_s + DRIFT, (
            f"lane {lane.key}: {meter.name} is deeper than it can be"
        )
