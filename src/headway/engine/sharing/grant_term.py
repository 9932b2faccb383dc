"""How long a process may use its parts of lanes without an exchange of claims: what it has drawn is a grant, and a grant expires.

A part is sure only while the others count our claims, which they do for `COUNTS_S` after we were last seen, by the clock of the store. So
a process ends its own use earlier, by its own clock, counted from before the server could see it: no difference between clocks and no lost
connection makes two processes use the same part. The scheduler starts nothing after `until` (`Scheduler.granted_until`), even if the process
was stopped for a while and no timer has fired.
"""

from __future__ import annotations

from typing import Final

#: Less than `COUNTS_S`, by the time from a start to its arrival at the provider. Claims are renewed each second.
GRANT_S: Final = 3.0
#: A grant that ends within this time is renewed as soon as a renewal is committed, without waiting for the next look. Beside a hundred
#: processes looks come twice a second, and in a file a renewal waits for the commit that it is a part of.
SOON_S: Final = 1.5
NEVER: Final = float("-inf")


class GrantTerm:
    """The term of one process. All instants are on the clock of its loop."""

    def __init__(self) -> None:
        #: The latest renewal that is committed: when it was written, which is before the store saw it. And that of the present look.
        self._renewed_at = self._asked_at = NEVER
        self.until = NEVER

    def renewed(self, written_at: float) -> None:
        """A renewal that was written at this instant is committed: others see it."""
        self._renewed_at = max(self._renewed_at, written_at)

    def asks(self) -> None:
        """A look at the claims of others begins. May be called by another thread."""
        self._asked_at = self._renewed_at

    def heard(self) -> None:
        """The look that was begun last has its answer: our parts count until some seconds after the renewal before it."""
        self.until = max(self.until, self._asked_at + GRANT_S)

    def is_renewable(self, now: float) -> bool:
        """Whether the grant ends soon, and a look would renew it."""
        return self.until - SOON_S <= now and self._renewed_at > self._asked_at

    def is_over(self, now: float) -> bool:
        """Whether the others may have given our parts away."""
        return now >= self.until
