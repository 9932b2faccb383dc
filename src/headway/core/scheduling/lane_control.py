"""Opens, holds, stops and reopens lanes, with one notice for each change."""

from __future__ import annotations

from headway.core import events
from headway.core.budget import Budget
from headway.core.lanes.account import AccountKey
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import ALWAYS
from headway.core.model import LaneBudget, Usage
from headway.core.reasons import (
    HoldTooLong,
    LaneBudgetSpent,
    LimitDisproved,
    LimitsInForce,
    MemoryBinds,
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

    def report_limits(self, lane: LaneState) -> None:
        """Report the limits in force if they have changed."""
        limits = lane.limits.in_force()
        if limits != lane.limits_announced:
            lane.limits_announced = limits
            self._run.notice(lane, "limit", LimitsInForce(limits))

    def report_other_clients(self, lane: LaneState, before: float) -> None:
        """Report once that other clients use the key, and once that they no longer do."""
        if lane.reported.others and not before:
            self._run.notice(lane, "shared", OthersUseKey(lane.reported.others))
        elif before and not lane.reported.others:
            self._run.notice(lane, "shared", OthersGone())

    def report_usage(self, lane: LaneState, usage: Usage) -> None:
        """Report once that the provider reports an impossible usage."""
        if not lane.disbelieved:
            lane.disbelieved = True
            self._run.notice(lane, "usage", UsageDisbelieved(usage.input_tokens, usage.output_tokens))

    def open_lane(self, event: events.OpenLane, now: float) -> None:
        """Open a lane. One that is open already takes the new limits and keeps everything else."""
        lane = self._run.lanes.get(event.spec.key)
        if lane is None:
            lane = self._run.lanes[event.spec.key] = LaneState(event.spec, now, self._run.out)
            lane.lane_budgets = tuple(map(self._lane_budget, event.spec.lane_budgets))
            if lane.account.name:
                lane.windows = self._run.accounts.setdefault(lane.account.name, lane.windows)
            self._run.done = False  # It may have units.
        else:
            lane.configure(event.spec.limits, now)
        self._run.dirty[lane.key] = lane

    def _lane_budget(self, lane_budget: LaneBudget) -> Budget:
        """The budget of that name; the first lane that names it sets its cap."""
        if lane_budget.name not in self._run.lane_budgets:
            self._run.lane_budgets[lane_budget.name] = Budget.of(lane_budget)
        return self._run.lane_budgets[lane_budget.name]

    def announce_hold(self, lane: LaneState, now: float) -> None:
        """Report once that a lane is held. A hold longer than `max_hold_s` parks the lane."""
        longest_s, hold = self._run.settings.max_hold_s, lane.hold
        if longest_s is not None and hold.until - now > longest_s:
            self.stop(lane, HoldTooLong(hold.reason))
        elif hold.is_news:
            hold.announce(now)
            self._run.notice(lane, "held", ProviderMessage(hold.reason), hold.until)

    def hold_others(self, lane: LaneState, now: float) -> None:
        """The hold of a lane is one of its account: the other lanes of the account are held as long."""
        if lane.hold.scope and lane.account.name:
            self._hold_all(lane.account, lane.hold.scope, lane.hold.until, lane.hold.reason, now)

    def hold_account(self, event: events.HoldAccount, now: float) -> None:
        """Another process was refused."""
        account = AccountKey(event.account, event.model)
        self._hold_all(account, event.scope, event.until, event.reason, now)

    def hold_lane(self, event: events.HoldLane, now: float) -> None:
        """Another process was refused on this lane."""
        lane = self._run.lanes[event.lane]
        if event.until > lane.hold.until:
            lane.hold.extend(event.until, event.reason)
            self.announce_hold(lane, now)
            self._run.dirty[lane.key] = lane

    def _hold_all(self, account: AccountKey, scope: str, until: float, reason: str, now: float) -> None:
        for lane in self._run.lanes.values():
            if until > lane.hold.until and account.shares_hold(lane.account, scope):
                lane.hold.extend(until, reason, scope)
                if lane.spec.one_ahead:
                    lane.window.narrow()
                self.announce_hold(lane, now)
                self._run.dirty[lane.key] = lane

    def set_memory_places(self, event: events.SetMemoryPlaces, now: float) -> None:
        """Keep to what fits into memory. A notice says so once, when more could start otherwise."""
        lane = self._run.lanes[event.lane]
        lane.fit_into_memory(event.places)
        most = lane.limits.settings.max_concurrency or event.places + 1
        wanted = min(most, lane.unstarted + lane.in_flight)
        if event.places < wanted and not lane.memory_announced:
            lane.memory_announced = True
            self._run.notice(lane, "memory", MemoryBinds(event.places, event.each, event.budget))
        self._run.dirty[lane.key] = lane

    def check_hold(self, lane: LaneState, now: float) -> None:
        """Report a hold that came with the record of the lane, and the end of a hold."""
        hold = lane.hold
        if hold.until > now:
            self.announce_hold(lane, now)
        elif hold.announced_until > ALWAYS:
            lane.work_time.free(hold.until)
            hold.end(hold.until)
            self._run.notice(lane, "released", ProviderMessage(hold.reason))

    def stop(self, lane: LaneState, reason: StopReason) -> None:
        """Close a lane for this run, with one notice; its units stay pending."""
        if lane.stopped is None:
            lane.stopped = reason
            lane.parked = isinstance(reason, HoldTooLong)
            lane.broke = isinstance(reason, LaneBudgetSpent)
            self._run.notice(lane, "stopped", reason, lane.hold.until if lane.parked else None)
        self._run.dirty[lane.key] = lane

    def reopen_lane(self, event: events.ReopenLane, now: float) -> None:
        """Reopen a lane. The hold of an account is lifted for all its lanes: they would be held again by each other's records."""
        lane, scope = self._run.lanes[event.lane], self._run.lanes[event.lane].hold.scope
        for other in self._run.lanes.values():
            if other is lane or lane.account.shares_hold(other.account, scope):
                other.reopen(now)
                self._run.notice(other, "reopened", Reopened())
                self._run.dirty[other.key] = other
        self._run.done = False  # Units that the end left behind may start.

    def set_limits(self, event: events.SetLimits, now: float) -> None:
        lane = self._run.lanes[event.lane]
        lane.configure(event.limits, now)
        self.report_limits(lane)
        self._run.dirty[lane.key] = lane

    def share(self, event: events.Share, now: float) -> None:
        lane = self._run.lanes[event.lane]
        if event.owed:
            lane.limits.owe(event.owed, now)
        disproved = lane.limits.disproved
        lane.share(event.grant, now)
        if lane.limits.disproved is not None and disproved is None:
            wrong = lane.limits.disproved
            self._run.notice(lane, "limit", LimitDisproved(wrong.dimension, wrong.configured, wrong.found))
        if event.anew:
            lane.limits.begin_anew(now)
        self._run.dirty[lane.key] = lane
