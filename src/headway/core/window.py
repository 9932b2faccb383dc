"""How many attempts of a lane may be in flight: additive increase, one halving for each congestion event.

A window that was configured starts at its maximum. One that was not is open where the lane's rate is known
(the meters do the pacing), and otherwise starts small and doubles each round, as TCP does, until the first
refusal. Ten refusals from one burst are one event: every attempt remembers the *epoch* it started in, a cut
begins a new one, and only refusals of the current epoch may cut. A success after a retry says nothing about
the present window, nor does one while the window was not really used; neither makes it grow.
"""

from __future__ import annotations

from typing import Final

#: In flight before the first answer where nothing is known: a handful, not a trickle (providers.md §4.7).
FIRST_WINDOW: Final = 3

#: A window counts as used from this share on (inspect_ai and providers.md §4.9 agree on it).
USED_SHARE: Final = 0.8

#: An open window: more than any engine will have in flight.
OPEN: Final = 1 << 30


class Window:
    """The adaptive number of permits of one lane."""

    __slots__ = ("configured", "credit", "epoch", "size", "slow_start")

    def __init__(self, configured: int | None, *, rate_known: bool) -> None:
        self.configured = configured or OPEN
        self.slow_start = configured is None and not rate_known
        self.size = FIRST_WINDOW if self.slow_start else self.configured
        self.epoch = 0
        self.credit = 0

    @property
    def open(self) -> bool:
        """Whether nothing bounds what is in flight."""
        return self.size >= OPEN

    @property
    def learned(self) -> bool:
        """Whether a refusal has shaped it."""
        return not self.slow_start and self.size < self.configured

    def throw_open(self) -> None:
        """The lane's rate has become known before any refusal: meters pace it from here on."""
        if self.slow_start:
            self.slow_start = False
            self.size = self.configured

    def configure(self, configured: int | None) -> None:
        """A new maximum. What was learned below it stays; an unlearned window moves with it."""
        was_at_top = self.size >= self.configured
        self.configured = configured or OPEN
        self.size = self.configured if was_at_top else min(self.size, self.configured)

    def resume(self, size: int) -> None:
        """Go on at a size that an earlier run had found."""
        self.slow_start = False
        self.size = max(1, min(size, self.configured))

    def succeeded(self, in_flight: int, *, first_try: bool) -> None:
        """An attempt went well while `in_flight` (itself included) were out."""
        size = self.size
        if size >= self.configured or not first_try or in_flight < size * USED_SHARE:
            return
        self.credit += 1
        if self.slow_start or self.credit >= size:
            self.size = size + 1
            self.credit = 0

    def refused(self, epoch: int, in_flight: int) -> bool:
        """An attempt of `epoch` was refused; returns whether that was a new congestion event, and cuts if so."""
        if epoch != self.epoch:
            return False
        self.epoch += 1
        self.slow_start = False
        self.size = max(1, min(self.size, in_flight) // 2)
        self.credit = 0
        return True
