"""A cap on how fast a lane's use may grow, learned from a refusal that says that use grew too fast."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from headway.core.lanes.meters.meter import Meter
from headway.core.model import DIMENSIONS, MINUTE_S, Costs, Dimension, GrowthRule

GROWTH_CAP: Final = "acceleration"
#: The factor for the pace after a refusal that says that use grew too fast.
GROWTH_DROP: Final = 0.7

_INPUT: Final = DIMENSIONS.index(Dimension.INPUT)


class GrowthCap:
    """The growth that is allowed since a refusal, and its meter."""

    __slots__ = ("_since", "meter", "rule")

    def __init__(self, rule: GrowthRule, now: float) -> None:
        self.rule = rule
        self.meter = Meter(rule.dimension, rule.free_per_minute, now=now, burst_s=1.0, name=GROWTH_CAP)
        self._since = now

    def ease(self, now: float) -> None:
        """Raise the limit by the time since the refusal."""
        self.meter.set_limit(self.rule.limit(now - self._since), now)


def slowed(known: GrowthRule | None, rate: float, costs: Costs, now: float) -> GrowthCap | None:
    """The cap after use grew too fast: somewhat below the present pace, and slow growth from there. None: there is no pace yet."""
    known = known or GrowthRule(Dimension.INPUT if costs[_INPUT] else Dimension.REQUESTS, 0.0)
    pace = rate * costs[DIMENSIONS.index(known.dimension)] * MINUTE_S
    if pace <= 0.0:
        return None
    return GrowthCap(structs.replace(known, free_per_minute=pace * GROWTH_DROP), now)
