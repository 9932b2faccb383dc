"""What a unit of a lane is expected to take: tokens for the meters, money for the budget."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from headway.core.lanes.estimate import ENOUGH, Estimator
from headway.core.lanes.queueing.queue import Entry
from headway.core.model import Counting, Unit, Usage

#: The numbers of reports after which queued units are estimated anew: often at first, while each report says much.
_MILESTONES: Final = frozenset({1, *(ENOUGH * 2**power for power in range(20))})


class UnitCosts:
    """Estimates the units of one lane, and learns from their usage."""

    __slots__ = ("_counting", "estimator")

    def __init__(self, counting: Counting) -> None:
        self._counting = counting
        self.estimator = Estimator()

    def estimate(self, entry: Entry) -> None:
        """Set what a unit is expected to take. An attempt in flight keeps the costs that it was charged with."""
        unit = entry.unit
        estimate = unit.estimate
        if unit.chars:
            estimate = self.estimator.estimate(
                unit.chars, estimate.max_output_tokens, unit.family, estimate.cost_usd
            )
        entry.estimate = estimate
        entry.costs = self._counting.reserved(estimate)
        if unit.output_usd or unit.input_usd:
            self.reprice(entry)

    def reprice(self, entry: Entry) -> None:
        """Set the money to reserve for a unit, from similar inputs and from answers that have no limit."""
        unit, estimator = entry.unit, self.estimator
        usd, guess = unit.estimate.cost_usd, False
        if unit.output_usd:
            usd += unit.output_usd * estimator.reserve(unit.family)
            guess = not estimator.proven(unit.family)
        if unit.input_usd:
            tokens = estimator.input_reserve(unit.family, unit.input_most, exact=not unit.open_input)
            usd += unit.input_usd * (tokens - unit.input_most)
            guess = guess or (unit.open_input and estimator.inputs_seen(unit.family) < ENOUGH)
        if usd != entry.estimate.cost_usd:
            entry.estimate = structs.replace(entry.estimate, cost_usd=usd)
        entry.guess = guess

    def learn(self, unit: Unit, usage: Usage) -> bool:
        """Learn the usage of a unit. Returns whether queued units should be estimated anew."""
        if (unit.chars or unit.input_most) and not usage.partial:
            self.estimator.learn(unit.chars, unit.family, usage, unit.input_most)
            return self.estimator.reports in _MILESTONES
        return False
