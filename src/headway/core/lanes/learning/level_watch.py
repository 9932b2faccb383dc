"""Recognises fixed windows where headers report what is left and no reset.

Of a bucket, what is left and what was sent is a sum that grows with the refill, at the rate of the limit. Of a fixed window this
sum stays the same until the next boundary. So a sum that stays while much more is sent than a bucket refills is a window's.
Some providers count a request when it arrives, and some when it is answered (LiteLLM's proxy). So two sums are
watched, of what was sent before a request and of what was answered before it.

A lane that is used up sooner sees no refill either, and a refusal shows it (`shows_window`): long after the last request that was
accepted, a bucket would have room for several. A client of the same key that takes exactly the refill would look the same;
`ClockWindow` finds that out.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from headway.core.model import LimitReport

#: Whether a request counts when it is sent, or late: when it is answered, or after it has waited in a queue. Empty: these are no windows.
Counted: TypeAlias = Literal["", "sent", "answered"]

#: The sum stays if it varies by less than this, and by less than so many requests.
SAME_S: Final = 0.5
SAME_REQUESTS: Final = 3.0
#: It must stay while a bucket would refill so many times that, and while so many times the refill is sent.
PLAIN: Final = 4.0
FASTER: Final = 1.5
#: A bucket has room for several of the refused requests after this; and at least this long.
SURELY: Final = 3.0
LEAST_DRY_S: Final = 0.5


class _Sum:
    """One sum: its bounds, since when it is within them, and what was left then."""

    __slots__ = ("_bounds", "_left", "_since")

    def __init__(self) -> None:
        self._bounds: tuple[float, float] | None = None
        self._since = self._left = 0.0

    def stays(self, value: float, left: float, at: float, rate: float) -> bool:
        """Whether it stayed while a bucket would have refilled. `left` is what is left at this instant."""
        same = max(SAME_REQUESTS, SAME_S * rate)
        low, high = self._bounds or (value, value)
        low, high = min(low, value), max(high, value)
        if self._bounds is None or high - low > same:
            self._bounds = (value, value)
            self._since, self._left = at, left
            return False
        self._bounds = (low, high)
        refill = (at - self._since) * rate
        return refill >= PLAIN * same and self._left - left >= FASTER * refill


class LevelWatch:
    """Watches what is reported as left of one limit of requests."""

    __slots__ = ("_answered", "_by_answer", "_by_send", "_limit")

    def __init__(self) -> None:
        self._by_send, self._by_answer = _Sum(), _Sum()
        self._answered = 0
        self._limit = 0.0

    def observe(self, report: LimitReport, sent: int, sent_at: float, now: float) -> Counted:
        """The answer to request number `sent` reports this. Returns how a window counts, if it is one."""
        left = report.remaining
        if left is None:
            return ""
        if report.limit != self._limit:
            self.forget()
            self._limit = report.limit
        self._answered += 1
        rate = report.limit / report.period_s
        by_send = self._by_send.stays(left + sent, left, sent_at, rate)
        by_answer = self._by_answer.stays(left + self._answered, left, now, rate)
        return "sent" if by_send else "answered" if by_answer else ""

    def forget(self) -> None:
        """A request was refused, and numbers of requests count it: begin again."""
        self._by_send, self._by_answer = _Sum(), _Sum()


def shows_window(dry_s: float, cost_s: float) -> bool:
    """Whether a refusal so long after the last request that was accepted cannot be a bucket's, which refills its cost in `cost_s`."""
    return dry_s >= max(LEAST_DRY_S, SURELY * cost_s)
