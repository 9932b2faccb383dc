"""A cap on how fast a lane's use may grow: the provider's, where it is known, or one that a refusal about growth has taught."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from headway.core.lanes.meter import Meter
from headway.core.model import DIMENSIONS, MINUTE_S, Costs, Dimension, Ramp

RAMP_CAP: Final = "acceleration"
#: It binds once this share of its second is used up.
RAMP_BINDS: Final = 0.5
#: What is left of the pace when the provider says that it grew too fast.
RAMP_DROP: Final = 0.7

_INPUT: Final = DIMENSIONS.index(Dimension.INPUT)
_NEVER: Final = float("inf")


class GrowthCap:
    """A ramp, and the meter that keeps to it."""

    __slots__ = ("_since", "meter", "ramp")

    def __init__(self, ramp: Ramp, now: float, since: float = _NEVER) -> None:
        self.ramp = ramp
        self.meter = Meter(ramp.dimension, ramp.free_per_minute, now=now, burst_s=1.0, name=RAMP_CAP)
        self._since = since

    def ease(self, now: float) -> None:
        """It rises from the moment that it first binds."""
        meter = self.meter
        if self._since == _NEVER and meter.full_at - now > RAMP_BINDS * meter.depth_s:
            self._since = now
        meter.set_limit(self.ramp.limit(now - min(now, self._since)), now)


def slowed(known: Ramp | None, rate: float, costs: Costs, now: float) -> GrowthCap | None:
    """The use has grown too fast: go on somewhat below the present pace, and grow slowly from there."""
    known = known or Ramp(Dimension.INPUT if costs[_INPUT] else Dimension.REQUESTS, 0.0)
    pace = rate * costs[DIMENSIONS.index(known.dimension)] * MINUTE_S
    if pace <= 0.0:
        return None
    return GrowthCap(structs.replace(known, free_per_minute=pace * RAMP_DROP), now, since=now)
