"""Notices that other clients use the same limit.

Every report says what is left, and a meter knows what this run has sent. What is missing beyond that is what other clients have
used. Alone on a key the difference is less than a twentieth of the limit (estimates, requests that overtake each other). One look
may be an accident, so a share counts only if two looks in a row show it.

A fixed window looks like other clients. It does not refill before its boundary, while the meter expects a steady refill, so in each
window the whole refill seems to be missing. The boundary then gives back, in one report, what this run has used. Where reports
contain a reset, the lane recognises the window by it (`BoundaryWatch`). Where they contain none (LiteLLM's proxy), a share counts
only after a whole period in which nothing was given back. A limit per day never gets there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.lanes.meters.meter import Meter

#: The length of one look.
LOOK_S: Final = 15.0
#: Smaller shares of a limit are not reported.
WORTH_SAYING: Final = 0.2
#: A report that gives back more than this share of the allowance is a boundary. Estimates and overtaken requests give back less.
GIVEN_BACK: Final = 0.05


class OtherClients:
    """Compares what reports say was used with what was sent, in looks of 15 s."""

    __slots__ = ("_before", "_last", "_since", "_steady_since", "until")

    def __init__(self, now: float) -> None:
        self.until = now + LOOK_S
        self._since = now
        self._before: dict[str, float] = {}
        self._last: dict[str, float] = {}
        #: By meter: since when no report has given back more than a little.
        self._steady_since: dict[str, float] = {}

    def look(self, meters: Iterable[Meter], now: float) -> float:
        """The largest share of any limit that others used in the last two looks; 0 if there are none."""
        elapsed_s = now - self._since
        shares, sums, steady = {}, {}, {}
        others = 0.0
        for meter in meters:
            name = meter.name
            sums[name], steady[name] = meter.foreign_s, self._steady(meter, now)
            if name in self._before:
                shares[name] = share = (meter.foreign_s - self._before[name]) / elapsed_s
                reset_reported = meter.implied[0] > 0.0
                if reset_reported or now - steady[name] >= meter.period_s + LOOK_S:
                    others = max(others, min(share, self._last.get(name, 0.0)))
        self._before, self._last, self._steady_since = sums, shares, steady
        self._since, self.until = now, now + LOOK_S
        return min(1.0, others) if others >= WORTH_SAYING else 0.0

    def _steady(self, meter: Meter, now: float) -> float:
        """Since when nothing was given back to a meter."""
        most_s, meter.given_back_s = meter.given_back_s, 0.0
        return now if most_s > GIVEN_BACK * meter.period_s else self._steady_since.get(meter.name, now)
