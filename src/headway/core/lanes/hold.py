"""A lane's hold: closed until an instant, with a reason; and the totals of all its holds.

A hold is too long for a single unit to wait for; a pause is the short wait that a refusal asked for. A hold is announced
when it begins, when it grows by much, and when it ends. Attempts that were in flight together each report an end
of their own, a little later than the one before: that is one hold.
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.queueing.queue import ALWAYS, NEVER

#: A hold that ends later than announced is announced again if the difference is more than this many seconds, and more than this
#: share of the hold.
SAME_HOLD_S: Final = 5.0
SAME_HOLD_PART: Final = 0.1


class Hold:
    """The hold of one lane; open at first."""

    __slots__ = (
        "_began_at",
        "_held_s",
        "announced_until",
        "count",
        "last_reason",
        "paused_until",
        "reason",
        "scope",
        "until",
    )

    def __init__(self) -> None:
        self.until = ALWAYS
        self.reason = ""
        #: Whether other lanes are held with it: those of its `account`, or of its `model` there; "": none.
        self.scope = ""
        self.paused_until = ALWAYS
        #: The end that was announced; ALWAYS: no hold is announced.
        self.announced_until = ALWAYS
        #: How many holds there were, and the reason of the latest.
        self.count = 0
        self.last_reason = ""
        self._held_s = 0.0
        self._began_at = NEVER

    def extend(self, until: float, reason: str, scope: str = "") -> None:
        """Close until an instant; a shorter hold never opens a longer one."""
        if until > self.until:
            self.until = until
            self.reason = self.last_reason = reason
            self.scope = scope

    def pause(self, until: float) -> None:
        """Start nothing before an instant."""
        self.paused_until = max(self.paused_until, until)

    @property
    def open_at(self) -> float:
        """When neither hold nor pause closes the lane."""
        return max(self.until, self.paused_until)

    @property
    def changed(self) -> bool:
        """Whether a hold, or the end of one, may have to be announced."""
        return self.until > self.announced_until or self.announced_until > ALWAYS

    @property
    def is_news(self) -> bool:
        """Whether it should be announced: it is new, or ends much later than announced."""
        longer_s = self.until - self.announced_until
        return longer_s > max(SAME_HOLD_S, SAME_HOLD_PART * (self.announced_until - self._began_at))

    def announce(self, now: float) -> None:
        """Note that it is announced now. A hold that only grows began earlier."""
        if self._began_at == NEVER:
            self.count += 1
        self._began_at = min(self._began_at, now)
        self.announced_until = self.until

    def end(self, at: float) -> None:
        """The hold ended at `at`."""
        self._held_s += max(0.0, at - self._began_at)
        self._began_at = NEVER
        self.announced_until = self.until = ALWAYS

    def lift(self, now: float) -> None:
        """End hold and pause at once."""
        self.end(now)
        self.paused_until = ALWAYS
        self.reason = self.scope = ""

    def held_s(self, now: float) -> float:
        """How long the lane has been held so far."""
        return self._held_s + max(0.0, now - self._began_at)
