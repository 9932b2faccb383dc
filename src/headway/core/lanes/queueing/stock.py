"""How many units of a lane are kept in memory, and the fetch that is under way.

A lane asks for its next units before it runs out: as soon as fewer than `low` are ready. One fetch is under way at
a time. The marks follow the lane's pace, so that a fast lane has enough to start while its next units are being read.
If the longest units start first, units in memory that are shorter than the longest of the rest do not count.
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.queueing.queue import ALWAYS, NEVER

#: How many units a fetch asks for, and the stock below which it is made: as many as may start while the next are being read.
BATCH: Final = 128
LOW: Final = 32
#: The stock lasts this long at the present pace of the lane, up to so many units.
STOCK_S: Final = 0.5
MOST_LOW: Final = 2048


class Stock:
    """The marks of one lane, and whether its source has more."""

    __slots__ = (
        "_least",
        "_more_meanwhile",
        "batch",
        "exhausted",
        "fetching",
        "left",
        "low",
        "read_on_at",
        "waits_until",
    )

    def __init__(self) -> None:
        self.batch, self.low = BATCH, LOW
        self._least = LOW
        #: Whether the source has no more units for now.
        self.exhausted = False
        #: How many units the source still has; infinity: not known.
        self.left = float("inf")
        #: Whether a fetch is under way.
        self.fetching = False
        self._more_meanwhile = False
        #: If many units wait for others: when the lane may fetch more, and until when it waits for that.
        self.read_on_at = ALWAYS
        self.waits_until = NEVER

    def fetch(self) -> int:
        """Begin a fetch; returns for how many units."""
        self.fetching = True
        self.waits_until = NEVER
        self._more_meanwhile = False
        return self.batch

    def fetched(self, rate: float, *, more: bool, left: int = 0) -> None:
        """The units have arrived. `more`: the source has further ones, `left` of them if that is known; `rate`: the lane's starts
        a second."""
        self.fetching = False
        self.exhausted = not (more or self._more_meanwhile)
        self.left = float("inf") if self._more_meanwhile or (more and not left) else float(left)
        self._least = max(self._least, min(MOST_LOW, int(rate * STOCK_S)))
        self.low = self._least
        self.batch = max(self.batch, self._least)

    def set_apart(self, shorter: int) -> None:
        """`shorter` units in memory are shorter than the longest of the rest, and start after those."""
        self.low = self._least + shorter

    def more_work(self) -> None:
        """The source has units again. The answer to a fetch that is under way may not contain them."""
        self.exhausted = False
        self.left = float("inf")
        self._more_meanwhile = True
