"""A cap on money, of a whole run or of a lane. What a start may cost is set aside before it starts.

So the cap is never passed by what is in flight: spent + reserved never exceeds it, except where an attempt
turns out to cost more than was estimated, and then nothing more starts. That happens only to answers that nothing limits
(no `max_tokens`) and to inputs that are more than a text (files, images), where they are longer than what was seen; while this run
has seen none few of them are out at once (`Shortage`).
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
        #: Attempts that something is set aside for.
        self.out = 0
        self.max_cost_usd = max_cost_usd
        self.spent_usd = self.reserved_usd = 0.0

    @classmethod
    def of(cls, lane_budget: LaneBudget) -> Self:
        """A lane's, with what earlier runs have taken of it."""
        budget = cls(lane_budget.max_cost_usd, name=lane_budget.name)
        budget.spent_usd = lane_budget.spent_usd
        return budget

    @property
    def capped(self) -> bool:
        """Whether there is anything to watch."""
        return self.max_cost_usd > 0.0

    def fits(self, estimate: Estimate) -> bool:
        """Whether a start of this size stays below the cap."""
        wanted_usd = self.spent_usd + self.reserved_usd + estimate.cost_usd
        return not self.max_cost_usd or wanted_usd <= self.max_cost_usd + ROUNDING

    @property
    def room_usd(self) -> float:
        """What is neither spent nor set aside."""
        left = self.max_cost_usd - self.spent_usd - self.reserved_usd
        return left if self.max_cost_usd else float("inf")

    def used_up(self, wanted: Estimate) -> LaneBudgetSpent:
        """Why this does not fit, with the numbers."""
        return LaneBudgetSpent(self.name, self.max_cost_usd, self.spent_usd, wanted.cost_usd)

    def reserve(self, estimate: Estimate) -> None:
        """Set aside what a start may cost."""
        self.out += 1
        self.reserved_usd += estimate.cost_usd

    def release(self, estimate: Estimate) -> None:
        """The attempt ended: what was set aside for it is free again."""
        self.out -= 1
        self.reserved_usd -= estimate.cost_usd

    def reprice(self, before: Estimate, after: Estimate) -> None:
        """An attempt that is out is taken to cost something else from now on."""
        self.reserved_usd += after.cost_usd - before.cost_usd

    def spend(self, estimate: Estimate, usage: Usage | None) -> None:
        """The provider did some work: what it used is spent, or what was estimated where it does not say, or not all."""
        if usage is None:
            self.spent_usd += estimate.cost_usd
            return
        cost_usd = usage.cost_usd or 0.0
        self.spent_usd += max(cost_usd, estimate.cost_usd) if usage.partial else cost_usd


#: Of a family without enough answers in this run so many may be out at once, where the cap would not bear answers of so many
#: times what is set aside for a new one.
FEW_GUESSES: Final = 4
WORST: Final = 16.0


class Shortage:
    """How long a lane waited because what is set aside left no room under a cap, and for what."""

    __slots__ = ("_since", "guesses", "in_flight", "open_tokens", "seconds", "wanted")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None
        #: The latest start that did not fit: its unit's estimate, and how many of the lane were out then.
        self.wanted: Estimate | None = None
        self.in_flight = 0
        #: The output tokens that money was to be set aside for, where nothing limits the answer.
        self.open_tokens = 0.0
        #: Attempts that are out and whose answers or inputs may have any length.
        self.guesses = 0

    def begins(self, wanted: Estimate, open_tokens: float, in_flight: int, now: float) -> None:
        """Something could start but for the money."""
        if self._since is None:
            self._since = now
        self.wanted, self.open_tokens, self.in_flight = wanted, open_tokens, in_flight

    def ends(self, now: float) -> None:
        """Something started."""
        if self._since is not None:
            self.seconds += now - self._since
            self._since = None

    def too_many_guesses(self, reserve_usd: float, room_usd: float, few: int = FEW_GUESSES) -> bool:
        """Whether one more of unknown size should wait until those that are out have shown what such units take."""
        worst_usd = WORST * reserve_usd * (self.guesses + 1)
        return self.guesses >= few and worst_usd > room_usd


class HighestCost:
    """What a start is taken to cost where nobody knows before it ends: the most that a call of its lane has cost so far.

    While nothing is known of a lane its starts are free, but none fits a cap that is reached.
    """

    __slots__ = ("_most",)

    def __init__(self) -> None:
        self._most: dict[str, float] = {}

    def saw(self, lane: str, usage: Usage | None) -> bool:
        """A call has ended; returns whether it cost more than any before."""
        if usage is None or not usage.cost_usd or usage.cost_usd <= self._most.get(lane, 0.0):
            return False
        self._most[lane] = usage.cost_usd
        return True

    def priced(self, estimate: Estimate, lane: str) -> Estimate:
        """The estimate with that cost in it."""
        return msgspec.structs.replace(estimate, cost_usd=self._most.get(lane, 2.0 * ROUNDING))
