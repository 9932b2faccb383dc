"""How many units of a lane are kept in memory, and the fetch that is under way for more of them.

A lane asks for its next units before it runs out of them: as soon as fewer than `low` are ready. One fetch is under way at
a time. The marks follow the lane's pace, so that a fast lane has enough to start from while its next units are being read.
Longest-first chooses among the units in memory: with fewer than `low` of them it starts nothing until the fetch is answered.
"""

from __future__ import annotations

from typing import Final

#: How many units a fetch asks for, and the stock below which it does. Longest-first chooses from many; input order
#: needs only as many as may start while the next ones are being read.
BATCH: Final = 128
LOW: Final = 32
LONGEST_BATCH: Final = 1024
LONGEST_LOW: Final = 2048
#: A lane's stock lasts for so long at its present pace, up to so many units.
STOCK_S: Final = 0.5
MOST_LOW: Final = 1024


class Stock:
    """The marks of one lane, and whether its source has more."""

    __slots__ = ("_more_meanwhile", "batch", "exhausted", "fetching", "longest", "low")

    def __init__(self, *, longest: bool) -> None:
        self.longest = longest
        self.batch, self.low = (LONGEST_BATCH, LONGEST_LOW) if longest else (BATCH, LOW)
        #: Whether the source has no more units for now.
        self.exhausted = False
        #: Whether a fetch is under way.
        self.fetching = False
        self._more_meanwhile = False

    @property
    def chooses(self) -> bool:
        """Whether the lane waits for units that it has to choose among."""
        return self.fetching and self.longest

    def fetch(self) -> int:
        """A fetch begins; returns for how many units."""
        self.fetching = True
        self._more_meanwhile = False
        return self.batch

    def fetched(self, rate: float, *, more: bool) -> None:
        """The units are here. `more`: the source has further ones; `rate`: the lane's starts a second."""
        self.fetching = False
        self.exhausted = not (more or self._more_meanwhile)
        if not self.longest:
            self.low = max(self.low, min(MOST_LOW, int(rate * STOCK_S)))
            self.batch = max(self.batch, self.low)

    def more_work(self) -> None:
        """The source has units again. A fetch that is under way may have been answered before that."""
        self.exhausted = False
        self._more_meanwhile = True
