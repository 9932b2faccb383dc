"""A cap on money, of a whole run or of a lane. The most that an attempt may cost is reserved before it starts.

So attempts in flight never pass the cap: spent + reserved stays below it, unless an attempt costs more than was estimated;
then nothing more starts. That can happen only with answers without a limit (no `max_tokens`) and with inputs that have more
than text (files, images), if they are longer than those seen before. While this run has seen none of a kind, only few of
them are in flight at once (`Shortage`).
"""

from __future__ import annotations

from typing import Final, Self

import msgspec

from headway.core.model import Estimate, LaneBudget, Usage
from headway.core.reasons import LaneBudgetSpent

#: Sums of cents carry rounding; a start that fits to within this does fit.
ROUNDING = 1e-9


class Budget:
    """Money: spent, reserved, and the cap on their sum. 0 is no cap."""

    __slots__ = ("max_cost_usd", "name", "out", "reserved_usd", "spent_usd")

    def __init__(self, max_cost_usd: float = 0.0, name: str = "") -> None:
        self.name = name
        #: Attempts with a reservation.
        self.out = 0
        self.max_cost_usd = max_cost_usd
        self.spent_usd = self.reserved_usd = 0.0

    @classmethod
    def of(cls, lane_budget: LaneBudget) -> Self:
        """The budget of a lane, with what earlier runs have spent of it."""
        budget = cls(lane_budget.max_cost_usd, name=lane_budget.name)
        budget.spent_usd = lane_budget.spent_usd
        return budget

    @property
    def capped(self) -> bool:
        """Whether there is a cap."""
        return self.max_cost_usd > 0.0

    def fits(self, estimate: Estimate) -> bool:
        """Whether a start of this size stays below the cap."""
        wanted_usd = self.spent_usd + self.reserved_usd + estimate.cost_usd
        return not self.max_cost_usd or wanted_usd <= self.max_cost_usd + ROUNDING

    @property
    def room_usd(self) -> float:
        """What is neither spent nor reserved."""
        left = self.max_cost_usd - self.spent_usd - self.reserved_usd
        return left if self.max_cost_usd else float("inf")

    def used_up(self, wanted: Estimate) -> LaneBudgetSpent:
        """The reason why this does not fit, with the numbers."""
        return LaneBudgetSpent(self.name, self.max_cost_usd, self.spent_usd, wanted.cost_usd)

    def reserve(self, estimate: Estimate) -> None:
        """Reserve what an attempt may cost."""
        self.out += 1
        self.reserved_usd += estimate.cost_usd

    def release(self, estimate: Estimate) -> None:
        """The attempt ended: release its reservation."""
        self.out -= 1
        self.reserved_usd -= estimate.cost_usd

    def reprice(self, before: Estimate, after: Estimate) -> None:
        """Change the reservation of an attempt in flight."""
        self.reserved_usd += after.cost_usd - before.cost_usd

    def spend(self, estimate: Estimate, usage: Usage | None) -> None:
        """The provider did some work. Its usage is spent; without usage, or with a partial one, the estimate counts."""
        if usage is None:
            self.spent_usd += estimate.cost_usd
            return
        cost_usd = usage.cost_usd or 0.0
        self.spent_usd += max(cost_usd, estimate.cost_usd) if usage.partial else cost_usd


#: While a family has too few answers in this run, so many of its units may be in flight at once, if the cap would not allow
#: answers of `WORST` times the reservation for a new family.
FEW_GUESSES: Final = 4
WORST: Final = 16.0


class Shortage:
    """How long a lane waited because reservations left no room under a cap, and for which start."""

    __slots__ = ("_since", "guesses", "in_flight", "open_tokens", "seconds", "wanted")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None
        #: The latest start that did not fit: the estimate of its unit, and how many of the lane were in flight then.
        self.wanted: Estimate | None = None
        self.in_flight = 0
        #: The output tokens that money would have been reserved for, if nothing limits the answer.
        self.open_tokens = 0.0
        #: Attempts in flight whose answers or inputs may have any length.
        self.guesses = 0

    def begins(self, wanted: Estimate, open_tokens: float, in_flight: int, now: float) -> None:
        """A start did not fit the budget."""
        if self._since is None:
            self._since = now
        self.wanted, self.open_tokens, self.in_flight = wanted, open_tokens, in_flight

    def ends(self, now: float) -> None:
        """A start fitted."""
        if self._since is not None:
            self.seconds += now - self._since
            self._since = None

    def too_many_guesses(self, reserve_usd: float, room_usd: float, few: int = FEW_GUESSES) -> bool:
        """Whether another unit of unknown size should wait until those in flight have shown what such units use."""
        worst_usd = WORST * reserve_usd * (self.guesses + 1)
        return self.guesses >= few and worst_usd > room_usd


class HighestCost:
    """The expected cost of calls whose cost is known only at their end: the most that a call of the lane has cost so far.

    Before the first cost of a lane is known, its calls are free, but none fits a cap that is reached.
    """

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most: dict[str, float] = {}

    def observe(self, lane: str, usage: Usage | None) -> bool:
        """A call has ended; returns whether it cost more than every call before."""
        if usage is None or not usage.cost_usd or usage.cost_usd <= self._most.get(lane, 0.0):
            return False
        self._most[lane] = usage.cost_usd
        return True

    def priced(self, estimate: Estimate, lane: str) -> Estimate:
        """The estimate with that cost in it."""
        return msgspec.structs.replace(estimate, cost_usd=self._most.get(lane, 2.0 * ROUNDING))
