"""Whether configured limits are too high: judged by what was accepted between refusals.

A configured limit is a ceiling and never a proof: it may be a mistake, and another limit may bind that was not configured. A
bucket is empty at the moment of a refusal, so what was accepted between two of them is what flowed in. If that is clearly
less than the configured limits allow, they do not hold, and the lane goes on at the measured rate, as a lane does that knows
nothing (`rate_finder`), with the configured limits as ceilings.

A right limit must never be doubted by chance. Levels are misjudged by a second or so, which is much of a short measurement and
little of a long one. So the measurement goes on from the first refusal, over all later ones, until it is clear either way.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headway.core.model import Dimension

#: Refusals that a measurement rests on, how many requests the limits must have allowed meanwhile, and how long it takes at the
#: most. Longer, and the lane may have had nothing to send.
FEWEST: Final = 3
FEWEST_ALLOWED: Final = 8.0
LONGEST_S: Final = 30.0
#: A right limit lets in nearly everything, but for what a level may be misjudged by.
NEARLY_ALL: Final = 0.95
MISJUDGED_S: Final = 1.5


class DisprovedLimit(msgspec.Struct, frozen=True, gc=False):
    """A limit per minute that does not hold: what is configured (0: nothing), and what the provider takes."""

    dimension: Dimension
    configured: float
    found: float


class LimitDoubt:
    """One measurement after the other, of a lane whose limits are configured and not reported."""

    __slots__ = ("_accepted", "_count", "_since")

    def __init__(self) -> None:
        self._since = float("-inf")
        self._accepted = 0
        self._count = 0

    def refused(self, sent_at: float, accepted: int, allowed: float) -> float:
        """An attempt was refused that was sent at this instant, after so many accepted ones.

        `allowed` is how many requests a second the limits allow. Returns how many the provider takes, once that is clearly less;
        0: not known.
        """
        elapsed_s = sent_at - self._since
        if elapsed_s > LONGEST_S:
            self._since, self._accepted, self._count = sent_at, accepted, 1
            return 0.0
        self._count += 1
        found = max(0, accepted - self._accepted) / elapsed_s if elapsed_s > 0.0 else allowed
        clear = found < (NEARLY_ALL - MISJUDGED_S / max(elapsed_s, 0.1)) * allowed
        enough = self._count >= FEWEST and allowed * elapsed_s >= FEWEST_ALLOWED
        return max(found, 1.0 / LONGEST_S) if clear and enough else 0.0
