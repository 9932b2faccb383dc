"""A limit that is counted by the minute of the provider's clock, where headers report what is left and no reset.

LiteLLM's proxy is one such provider. The lane assumes that the next minute of the clock brings the whole allowance. That is only
a guess at first, so a single request goes ahead at the boundary (the *trial*). If its answer reports that most of the
allowance is left, the guess was right, and from then on each allowance is spent when it comes. If it reports little, these are no
windows, and the meter says so (`disproved`). If it is refused, the clocks may differ, and another one goes a little later.

What was spent is the lane's own count, unless a report says that it was more, or nothing else is in flight. A provider may count a
request late, when it is answered or leaves a queue (`late`). Then what was spent is at least what a report says and all that has no
answer yet, and the next window may count what is in flight at the boundary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from headway.core.lanes.meters.fixed_window import ERROR_SHARE, LATE_S, WindowMeter
from headway.core.model import Dimension, LimitReport

#: A window has begun if more than this share of its allowance is left.
MOST_LEFT: Final = 0.5
#: A trial that is not refused in this time was accepted: a refusal comes back at once, an answer when it is ready.
NOT_REFUSED_S: Final = 1.0
#: The first step after a trial that was refused; each is twice as long as the one before. After so long there was no boundary.
FIRST_STEP_S: Final = 0.25
LONGEST_STEP_S: Final = 5.0
#: A refusal so soon after the boundary, before anything was accepted, came because the boundary is a little later.
EARLY_S: Final = 2.0
#: A wait that a refusal tells is the whole period, and not the time to the boundary, if it is within a second of it.
WHOLE_S: Final = 1.0
#: The rounding error of instants.
EPSILON_S: Final = 1e-6
#: Requests that are accepted although the window is closed: a few may fit into a rest.
MOST_RESTS: Final = 2


class ClockWindow(WindowMeter):
    """Counts what was spent of the present minute's allowance."""

    __slots__ = (
        "_confirmed",
        "_phase",
        "_rests",
        "_step_s",
        "_try_at",
        "closed_at",
        "disproved",
        "late",
        "sure",
        "unanswered",
    )

    def __init__(
        self, dimension: Dimension, limit: float, period_s: float, boundary_at: float, now: float
    ) -> None:
        #: It spends; a trial is due at `_try_at`; a trial was sent then; or a refusal has closed the window.
        self._phase: Literal["open", "try", "wait", "closed"] = "open"
        self._try_at = self.closed_at = now
        self._step_s = FIRST_STEP_S
        #: Whether a report has shown that the present window has begun, and whether one has shown that of any window.
        self._confirmed = True
        self.sure = False
        #: Whether reports contradict it.
        self.disproved = False
        self._rests = 0
        #: Whether requests may be counted late, and what is charged for all attempts without an answer.
        self.late = False
        self.unanswered: Callable[[], float] = lambda: 0.0
        super().__init__(dimension, limit, period_s, boundary_at, now)
        self._update()

    def deepen(self, proven_s: float, now: float = float("-inf")) -> None:
        """A window has no depth to find, and its count needs no reserve."""
        super().deepen(proven_s, now)
        self.guard_s = 0.0

    @property
    def opened_at(self) -> float:
        """When the present window began."""
        return self.boundary_at - self.period_s

    @property
    def closed(self) -> bool:
        """Whether nothing may start before the next boundary."""
        return self.full_at > self.boundary_at

    @property
    def reopens_at(self) -> float:
        """When the next window begins, after a refusal has closed the present one; otherwise any time."""
        return self.boundary_at + LATE_S if self._phase == "closed" else float("-inf")

    def _roll(self, now: float) -> None:
        before = self.boundary_at
        super()._roll(now + EPSILON_S)
        if self.boundary_at != before:
            self.spent = self.unanswered() if self.late else 0.0
            self._confirmed = False
            self._rests = 0
            self._step_s = FIRST_STEP_S
            self._phase = "open" if self.sure else "try"
            self._try_at = now

    def _update(self) -> None:
        unsure = ERROR_SHARE * self._estimated * self.unit_s * self.rate
        one = self.safety * self.unit_s * self.rate
        if self._phase == "try":
            at = self._try_at
        elif self._phase == "wait":
            at = self._try_at + NOT_REFUSED_S
        elif self._phase == "open" and self.limit - self.spent - unsure >= one:
            self.full_at = float("-inf")
            return
        else:
            at = self.boundary_at + LATE_S
        self.full_at = at + self.reach_s - self.safety * self.unit_s

    def reserve(self, cost: float, now: float) -> float:
        self._roll(now)
        if self._phase == "try":
            self._phase, self._try_at = "wait", now
        elif self._phase == "wait" and now + EPSILON_S >= self._try_at + NOT_REFUSED_S:
            self._phase = "open"
        mark = super().reserve(cost, now)
        if self._phase == "open" and self.full_at > now:
            self.closed_at = now
        return mark

    def empty(self, now: float) -> None:
        """`refused` says what follows from a refusal."""

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
        """Take what means something of a report: that a window has begun, or that less is left than the lane has counted."""
        if report.remaining is None or sent_at < self.opened_at:
            return
        if refused:
            return  # `refused` says what follows.
        spent = self.limit - report.remaining
        tried = self._phase == "wait" and sent_at >= self._try_at
        if report.remaining > MOST_LEFT * self.limit:
            self._confirmed = self.sure = True
            if tried:
                self._phase = "open"
        elif tried and not self.sure:
            self.disproved = True
        elif self._phase == "closed" and sent_at > self.closed_at:
            self._rests += 1
            self.disproved = not self.sure and self._rests > MOST_RESTS
        others = self.unanswered() - cost
        if others <= 0.0:
            self.spent = spent
        else:
            self.spent = max(self.spent, spent + others if self.late else spent)
        self._update()

    def refused(self, sent_at: float, now: float) -> None:
        """An attempt was refused: the window is used up, or it has not begun yet."""
        if sent_at < self.opened_at or self._phase == "try":
            return
        tried = self._phase == "wait" and sent_at >= self._try_at
        early = not self._confirmed and self._phase == "open" and sent_at < self.opened_at + EARLY_S
        if (tried or early) and self._step_s <= LONGEST_STEP_S:
            self._phase, self._try_at = "try", now + self._step_s
            self._step_s *= 2.0
        elif self._phase == "open" or tried:
            if not self.closed:
                self.closed_at = now
            self._phase = "closed"
        self._update()

    def retry_wait_s(self, wait_s: float, now: float) -> float:
        """The wait after a refusal that says to wait so long: a whole period says no more than "in the next window"."""
        if self._phase == "try" or abs(wait_s - self.period_s) > WHOLE_S:
            return wait_s
        return min(wait_s, max(0.0, self.boundary_at + LATE_S - now))
