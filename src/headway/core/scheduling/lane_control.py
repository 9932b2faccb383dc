"""Opens, holds, stops and reopens lanes, with one notice for each change."""

from __future__ import annotations

from headway.core import events
from headway.core.budget import Budget
from headway.core.lanes.lane import Lane
from headway.core.lanes.queueing.queue import ALWAYS
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
    """Changes a lane as a whole."""

    def __init__(self, run: RunState) -> None:
        self._run = run

    def report_limits(self, lane: Lane) -> None:
        """Report the limits in force if they have changed."""
        limits = lane.limits_in_force()
        if limits != lane.limits_announced:
            lane.limits_announced = limits
            self._run.notice(lane, "limit", LimitsInForce(limits))

    def report_other_clients(self, lane: Lane, before: float) -> None:
        """Report once that other clients use the key, and once that they no longer do."""
        if lane.others and not before:
            self._run.notice(lane, "shared", OthersUseKey(lane.others))
        elif before and not lane.others:
            self._run.notice(lane, "shared", OthersGone())

    def report_usage(self, lane: Lane, usage: Usage) -> None:
        """Report once that the provider reports an impossible usage."""
        if not lane.disbelieved:
            lane.disbelieved = True
            self._run.notice(lane, "usage", UsageDisbelieved(usage.input_tokens, usage.output_tokens))

    def open_lane(self, event: events.OpenLane, now: float) -> None:
        """Open a lane. One that is open already takes the new limits and keeps everything else."""
        lane = self._run.lanes.get(event.spec.key)
        if lane is None:
            lane = self._run.lanes[event.spec.key] = Lane(event.spec, now, self._run.out)
            lane.lane_budgets = tuple(map(self._lane_budget, event.spec.lane_budgets))
        else:
            lane.configure(event.spec.limits, now)
        self._run.dirty[lane.key] = lane

    def _lane_budget(self, lane_budget: LaneBudget) -> Budget:
        """The budget of that name; the first lane that names it sets its cap."""
        if lane_budget.name not in self._run.lane_budgets:
            self._run.lane_budgets[lane_budget.name] = Budget.of(lane_budget)
        return self._run.lane_budgets[lane_budget.name]

    def announce_hold(self, lane: Lane, now: float) -> None:
        """Report once that a lane is held. A hold longer than `max_hold_s` parks the lane."""
        longest_s, hold = self._run.settings.max_hold_s, lane.hold
        if longest_s is not None and hold.until - now > longest_s:
            self.stop(lane, HoldTooLong(hold.reason))
        elif hold.is_news:
            hold.announce(now)
            self._run.notice(lane, "held", ProviderMessage(hold.reason), hold.until)

    def check_hold(self, lane: Lane, now: float) -> None:
        """Report a hold that came with the record of the lane, and the end of a hold."""
        hold = lane.hold
        if hold.until > now:
            self.announce_hold(lane, now)
        elif hold.announced_until > ALWAYS:
            lane.work_time.free(hold.until)
            hold.end(hold.until)
            self._run.notice(lane, "released", ProviderMessage(hold.reason))

    def stop(self, lane: Lane, reason: StopReason) -> None:
        """Close a lane for this run, with one notice; its units stay pending."""
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
        self.report_limits(lane)
        self._run.dirty[lane.key] = lane

    def share(self, event: events.Share, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.share(event.grant, now)
        self._run.dirty[lane.key] = lane
