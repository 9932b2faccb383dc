"""Notices that somebody else uses the same limit.

Every report says what is left, and a meter knows what this run has sent. What is missing beyond that, somebody else
has used. Alone on a key that comes to less than a twentieth of the limit (estimates, crossings on the network);
a fixed window that starts anew shows as a large sum that the next one takes back. So it takes two looks in a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.lanes.meter import Meter

#: How long one look is.
LOOK_S: Final = 15.0
#: The share of a limit from which on it is worth a word.
WORTH_SAYING: Final = 0.2


class OtherClients:
    """Compares, look by look, what reports say was used with what was sent."""

    __slots__ = ("_before", "_last", "_since", "until")

    def __init__(self, now: float) -> None:
        self.until = now + LOOK_S
        self._since = now
        self._before: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def look(self, meters: Iterable[Meter], now: float) -> float:
        """The largest share of any limit that others used in the last two looks; 0 where that is nobody."""
        elapsed_s = now - self._since
        shares, sums = {}, {}
        for meter in meters:
            sums[meter.name] = meter.foreign_s
            if meter.name in self._before:
                shares[meter.name] = (meter.foreign_s - self._before[meter.name]) / elapsed_s
        found = max((min(share, self._last.get(name, 0.0)) for name, share in shares.items()), default=0.0)
        self._before, self._last = sums, shares
        self._since, self.until = now, now + LOOK_S
        return min(1.0, found) if found >= WORTH_SAYING else 0.0
