"""How many units of a lane are in memory, and the fetch that is under way.

A lane asks for its next units before it runs out of them: as soon as fewer than `low` are ready. One fetch is under way at
a time. The marks follow the lane's pace, so that a fast lane has enough to start from while its next units are being read.
Where the longest units start first, those in memory that are shorter than the longest of the rest do not count.
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.queueing.queue import ALWAYS, NEVER

#: How many units a fetch asks for, and the stock below which it does: as many as may start while the next are being read.
BATCH: Final = 128
LOW: Final = 32
#: The stock lasts so long at the present pace of the lane, up to so many units.
STOCK_S: Final = 0.5
MOST_LOW: Final = 1024


class Stock:
    """The marks of one lane, and whether its source has more."""

    __slots__ = (
        "_least",
        "_more_meanwhile",
        "batch",
        "exhausted",
        "fetching",
        "low",
        "read_on_at",
        "waits_until",
    )

    def __init__(self) -> None:
        self.batch, self.low = BATCH, LOW
        self._least = LOW
        #: Whether the source has no more units for now.
        self.exhausted = False
        #: Whether a fetch is under way.
        self.fetching = False
        self._more_meanwhile = False
        #: Where many units wait for others: when the lane may read on next, and until when it waits for that.
        self.read_on_at = ALWAYS
        self.waits_until = NEVER

    def fetch(self) -> int:
        """A fetch begins; returns for how many units."""
        self.fetching = True
        self.waits_until = NEVER
        self._more_meanwhile = False
        return self.batch

    def fetched(self, rate: float, *, more: bool) -> None:
        """The units are here. `more`: the source has further ones; `rate`: the lane's starts a second."""
        self.fetching = False
        self.exhausted = not (more or self._more_meanwhile)
        self._least = max(self._least, min(MOST_LOW, int(rate * STOCK_S)))
        self.low = self._least
        self.batch = max(self.batch, self._least)

    def set_apart(self, shorter: int) -> None:
        """So many of the units in memory are shorter than the longest of the rest: they start after those."""
        self.low = self._least + shorter

    def more_work(self) -> None:
        """The source has units again. A fetch that is under way may be answered without them."""
        self.exhausted = False
        self._more_meanwhile = True
