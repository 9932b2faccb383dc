"""A limit whose whole allowance comes at once, at the start of each window.

Many gateways count per clock minute. In a bucket, every request delays the instant at which it is full, by cost ÷ rate. The reset of
a fixed window is the same boundary whatever was sent. So a reset that does not move while several seconds' worth are used is a
boundary (`BoundaryWatch`).

From then on a `WindowMeter` replaces the bucket. It counts what was spent in the present window. While there is room,
a request may start at once; otherwise the next may start at the boundary, and the new allowance is spent when it comes.
Resets are rounded up, to two seconds in Anthropic's headers, so the earliest one seen is the best. A request that arrives before
the boundary is refused, so the lane waits a moment longer.
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.meters.meter import CROSSING_S, Meter
from headway.core.model import DAY_S, Dimension, LimitReport

#: So many seconds' worth must be used while the reset does not move, beyond what its rounding explains.
PLAIN_S: Final = 4.0
#: The first few dozen requests show a window. The reports of later requests are not watched.
WATCHED: Final = 300
#: Two reports of the same reset differ by at most this much, besides their rounding: network delays vary.
SAME_S: Final = 0.25
#: The wait after the boundary: network delays vary.
LATE_S: Final = 0.1
#: What stays unused of an allowance; and a share of what is counted by estimates alone, because their sum has an error.
SPARE_S: Final = 0.5
ERROR_SHARE: Final = 0.03

_OPEN: Final = float("-inf")


class BoundaryWatch:
    """Watches the resets that a provider reports for one limit."""

    __slots__ = ("_high", "_low", "_most_left")

    def __init__(self) -> None:
        self._low, self._high = _OPEN, _OPEN
        self._most_left = 0.0

    def boundary(self, report: LimitReport, sent_at: float, rate: float) -> float | None:
        """The boundary that the latest resets agree on, once it cannot be a bucket's; None: not known."""
        if report.remaining is None or report.reset_s is None or report.period_s >= DAY_S:
            return None
        high = sent_at + report.reset_s + SAME_S
        low = high - report.reset_precision_s - 2.0 * SAME_S
        if low > self._high or high < self._low:
            self._low, self._high, self._most_left = low, high, report.remaining
            return None
        self._low, self._high = max(low, self._low), min(high, self._high)
        self._most_left = max(self._most_left, report.remaining)
        used_s = (self._most_left - report.remaining) / rate
        return self._high - SAME_S if used_s > PLAIN_S + report.reset_precision_s else None


class WindowMeter(Meter):
    """Counts what was spent of the present window's allowance.

    The lane uses `full_at`: it is in the past while there is room, and after the boundary when there is none.
    """

    __slots__ = ("_alone", "_estimated", "_last_at", "_sends", "boundary_at", "spent")

    def __init__(
        self, dimension: Dimension, limit: float, period_s: float, boundary_at: float, now: float
    ) -> None:
        super().__init__(dimension, limit, period_s, now, burst_s=period_s, reported=True)
        self.boundary_at = boundary_at
        self.spent = 0.0
        #: Sends so far, the instant of the last one, and whether no other send was near it: then its report is exact.
        self._sends = 0
        self._last_at = now
        self._alone = False
        #: How many sends are counted by estimates alone.
        self._estimated = 0
        self._update()

    @property
    def windowed(self) -> bool:
        return True

    def _roll(self, now: float) -> None:
        """Begin the present window, with the whole allowance, if a boundary has passed."""
        if now >= self.boundary_at + LATE_S:
            passed = (now - LATE_S - self.boundary_at) // self.period_s + 1.0
            self.boundary_at += passed * self.period_s
            self.spent = 0.0
            self._estimated = 0

    def _update(self) -> None:
        unsure_s = ERROR_SHARE * self._estimated * self.unit_s
        room = self.limit - self.spent - (SPARE_S + unsure_s) * self.rate
        if room > self.safety * self.unit_s * self.rate:
            self.full_at = _OPEN
        else:
            self.full_at = self.boundary_at + LATE_S + self.reach_s - self.guard_s

    def reserve(self, cost: float, now: float) -> float:
        self._roll(now)
        self.unit_s += 0.1 * (cost / self.rate - self.unit_s)
        self.used_s += cost / self.rate
        self.spent += cost
        self._alone = now - self._last_at > CROSSING_S
        self._last_at = now
        self._sends += 1
        self._estimated += self.dimension is not Dimension.REQUESTS
        self._update()
        return float(self._sends)

    def redate(self, cost: float, waiting: float, now: float) -> float:
        """Charges nothing: a window has no level that refills. Its report does not count, because it came with others."""
        return -1.0

    def mark_before(self, mark: float, waiting: float) -> float:
        return mark

    def adjust(self, cost: float) -> None:
        self.used_s += cost / self.rate
        self._estimated = max(0, self._estimated - 1)
        self.spent += cost
        self._update()

    def credit(self, cost: float, now: float) -> None:
        self.adjust(-cost)

    def level(self, now: float, depth_s: float | None = None) -> float:
        return self.limit if now >= self.boundary_at + LATE_S else self.limit - self.spent

    def empty(self, now: float) -> None:
        """A request was refused: nothing is left of this window."""
        self._roll(now)
        self.spent = self.limit
        self._update()

    def owe_until(self, at: float) -> None:
        """Does nothing: a window has no level that others could move."""

    def set_limit(self, limit: float, now: float) -> None:
        self.limit, self.rate = limit, limit / self.period_s
        self._update()

    def overreached(self, deep_s: float) -> None:
        """Does nothing: a window has no depth to find."""

    def sync(
        self,
        report: LimitReport,
        mark: float,
        sent_at: float,
        seq: int,
        cost: float = 0.0,
        *,
        refused: bool = False,
    ) -> None:
        """Take the reported level if it means something: at a refusal, or for a send that had no other near it.

        Requests of one burst arrive in any order, and a whole allowance goes in one burst, so a report of the burst counts a random
        part of it. Usage corrects the count, as without reports.
        """
        if report.remaining is None:
            return
        if (
            report.reset_s is not None
            and 0.0 < self.boundary_at - sent_at - report.reset_s < 0.5 * self.period_s
        ):
            self.boundary_at = sent_at + report.reset_s
        present = sent_at >= self.boundary_at - self.period_s
        spent = self.limit - report.remaining
        if present and ((self._alone and mark == self._sends) or (refused and spent > self.spent)):
            self.spent = spent
        self._update()
