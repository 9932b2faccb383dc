"""Decides whether configured limits are too high, by what was accepted between refusals.

A configured limit is a ceiling, not a fact: it may be a mistake, and another limit may bind that was not configured. A
bucket is empty at the moment of a refusal, so what was accepted between two refusals is what flowed in. If that is clearly
less than the configured limits allow, they are wrong. The lane then continues at the measured rate, as a lane with unknown
limits does (`rate_finder`), with the configured limits as ceilings.

A right limit must never be doubted by chance. Levels are wrong by a second or so, which is much in a short measurement and
little in a long one. So the measurement goes on from the first refusal, over all later ones, until the answer is clear.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from headway.core.model import Dimension

#: A measurement needs so many refusals, so many requests that the limits would have allowed meanwhile, and takes at most so long:
#: in a longer time the lane may have had nothing to send.
FEWEST: Final = 3
FEWEST_ALLOWED: Final = 8.0
LONGEST_S: Final = 30.0
#: With a right limit nearly everything is accepted, except for the error of the level in seconds.
NEARLY_ALL: Final = 0.95
MISJUDGED_S: Final = 1.5


class DisprovedLimit(msgspec.Struct, frozen=True, gc=False):
    """A limit per minute that is wrong: the configured value (0: none), and what the provider really accepts."""

    dimension: Dimension
    configured: float
    found: float


class RefusedAttempt(NamedTuple):
    """A refused attempt, and the lane at that moment."""

    seq: int
    sent_at: float
    #: How many attempts were sent in all, how many of them were refused (with this one), and how many, not answered yet, were sent after it.
    sent: int
    refused: int
    after: int


class LimitDoubt:
    """Measures a lane whose limits are configured and not reported, again and again."""

    __slots__ = ("_accepted", "_burst", "_count", "_since")

    def __init__(self) -> None:
        self._since = float("-inf")
        #: The last attempt that had been sent when the first refusal came back. It and those before it drained the bucket.
        self._burst = 0
        self._accepted = 0
        self._count = 0

    def refused(self, attempt: RefusedAttempt, allowed: float) -> float:
        """An attempt was refused. `allowed` is how many requests a second the limits allow.

        Returns how many the provider accepts once that is clearly less; 0: not clear.
        """
        elapsed_s = attempt.sent_at - self._since
        if elapsed_s > LONGEST_S:
            self._since, self._count = attempt.sent_at, 1
            self._burst, self._accepted = attempt.sent, attempt.sent - attempt.refused
            return 0.0
        self._count += 1
        if attempt.seq <= self._burst:
            self._accepted -= 1  # It was counted as accepted.
            return 0.0
        accepted = attempt.sent - attempt.refused - attempt.after - self._accepted
        rate = max(0, accepted) / elapsed_s if elapsed_s > 0.0 else allowed
        clear = rate < (NEARLY_ALL - MISJUDGED_S / max(elapsed_s, 0.1)) * allowed
        enough = self._count >= FEWEST and allowed * elapsed_s >= FEWEST_ALLOWED
        return max(rate, 1.0 / LONGEST_S) if clear and enough else 0.0
