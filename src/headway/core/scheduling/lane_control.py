"""Opens, holds, stops and reopens lanes, and says so: one notice for each change."""

from __future__ import annotations

from headway.core import events
from headway.core.budget import Budget
from headway.core.lanes.lane import Lane
from headway.core.lanes.queue import ALWAYS
from headway.core.model import LaneBudget, Usage
from headway.core.reasons import (
    HoldTooLong,
    LaneBudgetSpent,
    LimitsInForce,
    OthersGone,
    OthersUseKey,
    ProviderMessage,
    Reopened,
    StopReason,
    UsageDisbelieved,
)
from headway.core.scheduling.run_state import RunState


class LaneControl:
    """What is done to a lane as a whole."""

    def __init__(self, run: RunState) -> None:
        self._run = run

    def tell_limits(self, lane: Lane) -> None:
        """Say what limits are in force, where that is news."""
        limits = lane.limits_in_force()
        if limits != lane.limits_announced:
            lane.limits_announced = limits
            self._run.notice(lane, "limit", LimitsInForce(limits))

    def tell_of_others(self, lane: Lane, before: float) -> None:
        """Say once that somebody else uses the key, and once that nobody does any more."""
        if lane.others and not before:
            self._run.notice(lane, "shared", OthersUseKey(lane.others))
        elif before and not lane.others:
            self._run.notice(lane, "shared", OthersGone())

    def tell_of_usage(self, lane: Lane, usage: Usage) -> None:
        """Say once that the provider reports what cannot be."""
        if not lane.disbelieved:
            lane.disbelieved = True
            self._run.notice(lane, "usage", UsageDisbelieved(usage.input_tokens, usage.output_tokens))

    def open_lane(self, event: events.OpenLane, now: float) -> None:
        """A lane that is there already takes the new limits and keeps everything else."""
        lane = self._run.lanes.get(event.spec.key)
        if lane is None:
            lane = self._run.lanes[event.spec.key] = Lane(event.spec, now, self._run.out)
            lane.lane_budgets = tuple(map(self._lane_budget, event.spec.lane_budgets))
        else:
            lane.configure(event.spec.limits, now)
        self._run.dirty[lane.key] = lane

    def _lane_budget(self, lane_budget: LaneBudget) -> Budget:
        """The budget of that name: the first lane that names it says how much it holds."""
        if lane_budget.name not in self._run.lane_budgets:
            self._run.lane_budgets[lane_budget.name] = Budget.of(lane_budget)
        return self._run.lane_budgets[lane_budget.name]

    def announce_hold(self, lane: Lane, now: float) -> None:
        """Say once that a lane is held; a hold longer than anyone wants to wait parks it."""
        longest_s, hold = self._run.settings.max_hold_s, lane.hold
        if longest_s is not None and hold.until - now > longest_s:
            self.stop(lane, HoldTooLong(hold.reason))
        elif hold.is_news:
            hold.announce(now)
            self._run.notice(lane, "held", ProviderMessage(hold.reason), hold.until)

    def mind_hold(self, lane: Lane, now: float) -> None:
        """Announce a hold that came with a lane's memory, and the end of any."""
        hold = lane.hold
        if hold.until > now:
            self.announce_hold(lane, now)
        elif hold.announced_until > ALWAYS:
            lane.work_time.free(hold.until)
            hold.end(hold.until)
            self._run.notice(lane, "released", ProviderMessage(hold.reason))

    def stop(self, lane: Lane, reason: StopReason) -> None:
        """Close a lane for this run, with one explanation; its units stay pending."""
        if lane.stopped is None:
            lane.stopped = reason
            lane.parked = isinstance(reason, HoldTooLong)
            lane.broke = isinstance(reason, LaneBudgetSpent)
            self._run.notice(lane, "stopped", reason, lane.hold.until if lane.parked else None)
        self._run.dirty[lane.key] = lane

    def reopen_lane(self, event: events.ReopenLane, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.reopen(now)
        self._run.notice(lane, "reopened", Reopened())
        self._run.dirty[lane.key] = lane

    def set_limits(self, event: events.SetLimits, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.configure(event.limits, now)
        self.tell_limits(lane)
        self._run.dirty[lane.key] = lane

    def share(self, event: events.Share, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.share(event.grant, now)
        self._run.dirty[lane.key] = lane
