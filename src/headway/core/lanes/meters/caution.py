"""How much of every bucket stays in reserve, in multiples of a meter's guard.

A refusal does not lower the rate, which is known. It raises the reserve, once per congestion event; each success brings it a
little nearer to the usual one.
"""

from __future__ import annotations

from typing import Final

#: The usual reserve, and the largest: multiples of the guard.
CALM: Final = 1.0
ALARMED: Final = 8.0
#: The factor for each congestion event.
CAUTION_GROWTH: Final = 1.5
#: The share of what refusals added that one success leaves: half is gone after some 350.
CAUTION_DECAY: Final = 0.998


class Caution:
    """The reserve of one lane."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = CALM

    def grow(self) -> None:
        """A congestion event."""
        self.level = min(self.level * CAUTION_GROWTH, ALARMED)

    def decay(self) -> None:
        """A success."""
        self.level = CALM + (self.level - CALM) * CAUTION_DECAY

    def raise_to(self, level: float) -> None:
        """Keep at least this much."""
        self.level = max(self.level, level)

    def reset(self) -> None:
        """Keep the usual reserve again."""
        self.level = CALM
