"""The money of attempts: reserved before a start, spent and released at its end.

The run has a budget, and lanes may have budgets of their own (lane_budgets). A start that does not fit waits, because attempts in
flight may turn out cheaper than estimated.
"""

from __future__ import annotations

from headway.core.budget import FEW_GUESSES, HighestCost
from headway.core.events import SetBudget
from headway.core.lanes.estimate import ENOUGH, FIRST_RESERVE
from headway.core.lanes.lane import LaneState
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import Outcome
from headway.core.retry import unpaid
from headway.core.scheduling.lane_control import LaneControl
from headway.core.scheduling.run_state import RunState


class Spending:
    """Keeps the budgets of a run."""

    def __init__(self, run: RunState, control: LaneControl) -> None:
        self._run, self._control = run, control

    def set_cap(self, event: SetBudget, now: float) -> None:
        """Take another cap while the run goes on. Attempts in flight count under a new one; lanes that had no room look again."""
        run, budget = self._run, self._run.budget
        was_capped, budget.max_cost_usd = budget.capped, event.max_cost_usd
        if budget.capped != was_capped:
            entries = list(run.out.values())
            budget.out = len(entries)
            budget.reserved_usd = sum(entry.estimate.cost_usd for entry in entries)
            for entry in entries:
                if not entry.lane.lane_budgets:
                    entry.lane.shortage.guesses += entry.guess if budget.capped else -entry.guess
        run.dirty.update(run.broke)
        run.broke.clear()

    def reserve(self, entry: Entry, lane: LaneState, now: float) -> bool:
        """Reserve what the attempt may cost; False: it must wait, or its lane was stopped because its budget is used up."""
        budget = self._run.budget
        if not self._fits(entry, lane):
            unit = entry.unit
            open_tokens = lane.unit_costs.estimator.reserve(unit.family) if unit.output_usd else 0.0
            lane.shortage.begins(entry.estimate, open_tokens, lane.in_flight, now)
            return False
        budget.reserve(entry.estimate)
        for lane_budget in lane.lane_budgets:
            lane_budget.reserve(entry.estimate)
        lane.shortage.guesses += entry.guess
        lane.shortage.ends(now)
        return True

    def _fits(self, entry: Entry, lane: LaneState) -> bool:
        run = self._run
        if run.costliest is not None:
            entry.estimate = run.costliest.priced(entry.estimate, lane.key)
        elif entry.unit.output_usd or entry.unit.input_usd:
            lane.unit_costs.reprice(entry)
            if entry.guess and self._wait_for_answers(entry, lane):
                return False
        if run.budget.fits(entry.estimate) and self._affordable(entry, lane):
            return True
        if not lane.stopped:
            run.broke[lane.key] = lane
        return False

    def _wait_for_answers(self, entry: Entry, lane: LaneState) -> bool:
        """Whether the size of such a unit is unknown, and as many of them are in flight as the caps allow.

        What earlier jobs showed may be wrong: until this run has answers of its own, an answer counts as no shorter than one of a new
        family. The size of files and images is unknown until the first answer.
        """
        unit, known = entry.unit, lane.unit_costs.estimator
        unknown_usd, few = 0.0, FEW_GUESSES
        if unit.output_usd and not known.proven(unit.family):
            unknown_usd += unit.output_usd * max(known.reserve(unit.family), FIRST_RESERVE)
        if unit.open_input and known.inputs_seen(unit.family) < ENOUGH:
            unknown_usd += unit.input_usd * known.input_reserve(unit.family, unit.input_most, exact=False)
            few = few if known.inputs_seen(unit.family) else 1
        room_usd = min(budget.room_usd for budget in (self._run.budget, *lane.lane_budgets))
        return lane.shortage.too_many_guesses(unknown_usd, room_usd, few)

    def _affordable(self, entry: Entry, lane: LaneState) -> bool:
        """Whether the budgets of the lane allow this start. A lane that can start nothing without more money is stopped."""
        for lane_budget in lane.lane_budgets:
            if not lane_budget.fits(entry.estimate):
                if not lane_budget.out and not any(
                    lane_budget.fits(other.estimate) for other in lane.queue.waiting()
                ):
                    self._control.stop(lane, lane_budget.used_up(entry.estimate))
                return False
        return True

    def settle(self, entry: Entry, outcome: Outcome) -> None:
        """The attempt has ended: count its cost and release its reservation."""
        run, lane = self._run, entry.lane
        budget, lane_budgets = run.budget, lane.lane_budgets
        if run.costliest is not None:
            if run.costliest.observe(lane.key, outcome.usage):
                self._reprice(lane, run.costliest)
            budget.spend(entry.unit.estimate, outcome.usage)
        elif not unpaid(outcome):
            budget.spend(entry.estimate, outcome.usage)
            for lane_budget in lane_budgets:
                lane_budget.spend(entry.estimate, outcome.usage)
        if budget.capped or lane_budgets:
            self._give_back(entry)

    def _give_back(self, entry: Entry) -> None:
        run, lane = self._run, entry.lane
        run.budget.release(entry.estimate)
        for lane_budget in lane.lane_budgets:
            lane_budget.release(entry.estimate)
        lane.shortage.guesses -= entry.guess
        run.dirty.update(run.broke)
        run.broke.clear()

    def _reprice(self, lane: LaneState, costliest: HighestCost) -> None:
        """Attempts in flight may cost as much as the most expensive call so far: reserve that for them."""
        for entry in self._run.out.values():
            if entry.lane is lane:
                estimate = costliest.priced(entry.estimate, lane.key)
                if self._run.budget.capped:
                    self._run.budget.reprice(entry.estimate, estimate)
                entry.estimate = estimate
