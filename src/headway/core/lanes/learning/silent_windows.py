"""Recognises fixed windows that nothing reports, from refusals alone, and spends each window's allowance when it comes.

A bucket that has been drained is refilled at once, little by little. It holds a minute at the most, so a run of accepted requests is a
lower bound for its rate, and soon after the last accepted request another one must be accepted. Where requests are refused for several
times as long as such a bucket would need, the allowance comes in windows (`shows_windows`).

From then on the lane sends only single probes, until one is accepted (`boundary_search`): a window has begun. It spends what the window
before gave, most of it quickly and the end slowly: a refusal is back after 0.1 s, and what was sent meanwhile is refused too. The first
refusal closes the window until the next boundary.

A probe that is smaller than most may fit into what is left of a window, and what is refunded makes some room. So a few requests go ahead
of the rest, and if little more is accepted before a boundary was due, it was none. A bucket that was mistaken for windows shows in the
same way: it has some more to give each time. Then the lane searches for a rate again, and does not come back to windows.
"""

from __future__ import annotations

from typing import Final, Literal

from headway.core.lanes.learning.boundary_search import BoundarySearch
from headway.core.lanes.meters.meter import Meter
from headway.core.model import MINUTE_S, Dimension

#: The deepest bucket that providers document, in seconds of refill (providers.md §2).
DEEPEST_S: Final = 60.0
#: So many times as long as the slowest such bucket needs for one request, and at least this long.
SURELY: Final = 3.0
LEAST_DRY_S: Final = 0.5
#: A probe that was not refused after this long counts as accepted: refusals come back at once, answers when they are ready.
NOT_REFUSED_S: Final = 1.0
#: A few go ahead of the rest for so long: the time of two refusals.
AHEAD_S: Final = 0.3
#: Most of an allowance is spent in this time: a refusal that comes early costs a thirtieth of it. The end goes at a pace at which a
#: refusal costs one request in two hundred.
QUICK_S: Final = 3.0
QUICK_SHARE: Final = 0.85
SLOW_S: Final = 20.0
#: A window whose probe was accepted before a boundary was due, and that gives less than this share of the one before, was none. An
#: allowance falls by no more than this from one window to the next.
HALF: Final = 0.5
#: What fits into the rest of a window: so many average requests, or this share of an allowance. More, or more often, is a bucket.
REST_REQUESTS: Final = 3.0
REST_SHARE: Final = 0.05
MOST_RESTS: Final = 4


def shows_windows(run: float, run_s: float, cost: float, dry_s: float) -> bool:
    """Whether a refusal cannot be a bucket's.

    `run` was accepted in `run_s` seconds before the first refusal. Now `cost` is refused, `dry_s` seconds after the latest request
    that was accepted.
    """
    slowest_rate = run / (run_s + DEEPEST_S)
    return dry_s >= LEAST_DRY_S and slowest_rate * dry_s > SURELY * cost


class SilentWindow(Meter):
    """The pace of a lane whose windows were found by refusals. `full_at` is when the next request may go."""

    __slots__ = (
        "_closed", "_early", "_opened_at", "_phase", "_probed_at", "_rest", "_rests", "_search", "_spent", "_undo", "allowance",
    )  # fmt: skip

    def __init__(
        self, dimension: Dimension, allowance: float, mean: float, search: BoundarySearch, name: str
    ) -> None:
        super().__init__(dimension, allowance, burst_s=0.0, name=name)
        #: What a window gives, and what was spent of the present one.
        self.allowance = allowance
        self._spent = 0.0
        #: It spends, has a probe to send, or waits for the answer of one.
        self._phase: Literal["spend", "probe", "wait"] = "spend"
        self._probed_at = self._opened_at = float("-inf")
        #: Whether a refusal has ended the present window, and whether its probe was sent before a boundary was due.
        self._closed = self._early = False
        self._search = search
        self._undo = search.known
        #: What fits into the rest of a window, and how often something did since it was closed.
        self._rest = REST_REQUESTS * mean
        self._rests = 0
        self._give(allowance)

    @property
    def length_s(self) -> float:
        """How long a window is; 0: not known yet."""
        return self._search.known.length_s

    def too_long(self, now: float) -> bool:
        """Whether it has been closed for longer than any window that is looked for."""
        return self._phase != "spend" and self._search.too_long(now)

    def scale(self, ratio: float) -> None:
        """Another part of what a window gives."""
        self._give(self.allowance * ratio)

    def _give(self, allowance: float) -> None:
        self.allowance = allowance
        self.limit = allowance * MINUTE_S / (self.length_s or MINUTE_S)
        self.rate = self.limit / MINUTE_S

    # -- what is sent ----------------------------------------------------------------------------------

    def reserve(self, cost: float, now: float) -> float:
        self.used_s += cost / self.rate
        if self._phase == "probe":
            self._probe(now)
        else:
            self._spend(cost, now)
        self._spent += cost
        return self.full_at

    def _probe(self, now: float) -> None:
        self._phase = "wait"
        self._probed_at = now
        self.full_at = now + NOT_REFUSED_S
        if self._closed:
            self._give(max(self._spent, HALF * self.allowance))
            self._closed = False
        self._spent = 0.0

    def _spend(self, cost: float, now: float) -> None:
        if self._phase == "wait":
            self._open(now)
        elif now >= self._search.known.due_at:
            self._search.passed(now)
            self._give(max(self.allowance, self._spent))
            self._spent = 0.0
        ahead = now < self._opened_at + AHEAD_S
        quick = not ahead and self._spent < QUICK_SHARE * self.allowance
        pace = self.allowance / (QUICK_S if quick else SLOW_S)
        self.full_at = max(self.full_at, now) + cost / pace

    def adjust(self, cost: float) -> None:
        self.used_s += cost / self.rate
        self._spent += cost

    def credit(self, cost: float, now: float) -> None:
        self.adjust(-cost)

    def empty(self, now: float) -> None:
        """`refused` says what follows from a refusal."""

    def owe_until(self, at: float) -> None:
        """A window has no level that others could move."""

    # -- what comes back -------------------------------------------------------------------------------

    def taken(self, sent_at: float, now: float) -> None:
        """An attempt was accepted."""
        if self._phase == "wait" and sent_at >= self._probed_at:
            self._open(now)

    def _open(self, now: float) -> None:
        """The probe was accepted: a window has begun."""
        self._phase = "spend"
        self._undo = self._search.known
        self._early = self._probed_at < self._undo.due_at
        self._search.accepted(self._probed_at)
        self.full_at = self._opened_at = now
        self._give(self.allowance)

    def refused(self, sent_at: float, boundary: tuple[float, float] | None = None) -> bool:
        """An attempt was refused. `boundary`: between these instants the provider says to come back. False: these are no windows."""
        probed = self._phase == "wait"
        if self._phase == "probe" or sent_at < self._probed_at:
            return True
        if not probed and self._early and self._spent < HALF * self.allowance:
            self._rests += 1
            much = self._spent > max(self._rest, REST_SHARE * self.allowance)
            if not self._undo.length_s and (much or self._rests > MOST_RESTS):
                return False
            self._search.known = self._undo
            probed = True
        elif not probed:
            self._closed = self._probed_at > float("-inf")
            self._rests = 0
        self._phase = "probe"
        self.full_at = self._search.refused(sent_at) if probed else self._search.closed(sent_at)
        if boundary is not None:
            self.full_at = self._search.announced(*boundary)
        return True
