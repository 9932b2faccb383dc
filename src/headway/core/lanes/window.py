"""How many attempts of a lane may be in flight: additive increase, one halving for each congestion event.

A window that was configured starts at its maximum. One that was not is open where the lane's rate is known
(the meters do the pacing), and otherwise starts small and doubles each round, as TCP does, until the first
refusal. Ten refusals from one burst are one event: every attempt remembers the *epoch* it started in, a cut
begins a new one, and only refusals of the current epoch may cut. A success after a retry says nothing about
the present window, nor does one while the window was not really used; neither makes it grow.

What was refused is remembered as a *ceiling*. Growing back to it takes one round a step; beyond it the window goes
only after longer and longer patience, and a refusal there is no news: it goes back to the ceiling, not to half.
Without that memory a window would saw between half and full for ever.
"""

from __future__ import annotations

from typing import Final

#: In flight before the first answer where nothing is known: a handful, not a trickle (providers.md §4.7).
FIRST_WINDOW: Final = 3

#: A window counts as used from this share on (inspect_ai and providers.md §4.9 agree on it).
USED_SHARE: Final = 0.8

#: Rounds of success at the ceiling before the window tries one more; doubles with each refusal there.
FIRST_PATIENCE: Final = 4

#: After so long at a quarter of its pace a bucket has something in it again, and a refusal is not about the rate.
QUIET_S: Final = 1.0

NEVER: Final = float("inf")

#: An open window: more than any engine will have in flight.
OPEN: Final = 1 << 30


class Window:
    """The adaptive number of permits of one lane."""

    __slots__ = (
        "_exact",
        "ceiling",
        "configured",
        "credit",
        "enough",
        "epoch",
        "kept",
        "patience",
        "probe_at",
        "size",
        "slow_start",
    )

    def __init__(self, configured: int | None, *, rate_known: bool) -> None:
        self.configured = configured or OPEN
        self.slow_start = configured is None and not rate_known
        self.size = FIRST_WINDOW if self.slow_start else self.configured
        self.epoch = 0
        self.credit = 0
        self.ceiling = OPEN
        self.patience = FIRST_PATIENCE
        self.probe_at = NEVER
        self.enough = 0
        #: While one goes ahead of the rest: the size that comes back when it has met no limit. 0: none does.
        self.kept = 0
        #: What other parts of it would be, before rounding.
        self._exact: dict[str, float] = {}

    @property
    def open(self) -> bool:
        """Whether nothing bounds what is in flight."""
        return self.size >= OPEN

    @property
    def learned(self) -> bool:
        """Whether a refusal has shaped it, beyond mere suspicion."""
        return not self.slow_start and self.lasting < self.configured and self.probe_at == NEVER

    @property
    def lasting(self) -> int:
        """Its size, also while one goes ahead of the rest."""
        return self.kept or self.size

    def throw_open(self) -> None:
        """The lane's rate has become known before any refusal: meters pace it from here on."""
        if self.slow_start:
            self.clear()

    def clear(self) -> None:
        """Forget what was suspected: the number in flight is not what is limited."""
        self.slow_start = False
        self.size = self.configured
        self.ceiling = OPEN
        self.probe_at = NEVER

    def configure(self, configured: int | None) -> None:
        """A new maximum. What was learned below it stays; an unlearned window moves with it."""
        was_at_top = self.size >= self.configured
        self.configured = OPEN if configured is None else configured
        self.size = self.configured if was_at_top else min(self.size, self.configured)
        self.probe_at = NEVER

    def scale(self, configured: int | None, ratio: float) -> None:
        """Another part of what may be in flight: what is configured, and what was learned below it.

        Nothing at all, while other jobs have all that there is.
        """
        was_at_top = self.size >= self.configured and self.ceiling >= OPEN
        self.configured = OPEN if configured is None else configured
        if was_at_top:
            self.size = self.configured
        elif not self.slow_start:
            self.size = self._scaled("size", self.size, ratio)
        if self.ceiling < OPEN:
            self.ceiling = self._scaled("ceiling", self.ceiling, ratio)
        if 0 < self.kept < OPEN:
            self.kept = self._scaled("kept", self.kept, ratio)

    def _scaled(self, name: str, size: int, ratio: float) -> int:
        """Small numbers round to the same: what was learned comes back as it was. What was learned meanwhile, beside others,
        is not made larger than it was found.
        """
        exact = self._exact.get(name, 0.0)
        if name not in self._exact or self._within(round(exact)) != size:
            exact = min(size, size / ratio)
        self._exact[name] = exact = exact * ratio
        return self._within(round(exact))

    def _within(self, size: int) -> int:
        return min(max(1, size), self.configured)

    def resume(self, size: int) -> None:
        """Go on at a size that an earlier run had found."""
        self.slow_start = False
        self.ceiling = self._within(size)
        if self.kept:
            self.kept = self.ceiling
        else:
            self.size = self.ceiling

    def narrow(self) -> None:
        """One goes ahead of the rest; what was sent before says nothing about how that one fares."""
        self.epoch += 1
        if not self.kept:
            self.kept = OPEN if self.size >= self.configured else self.size
        self.size = 1

    def widen(self) -> None:
        """It met no limit."""
        self.size = max(self.size, min(self.kept, self.configured))
        self.kept = 0

    def succeeded(self, in_flight: int, *, first_try: bool) -> None:
        """An attempt went well while `in_flight` (itself included) were out."""
        size = self.size
        if size >= self.configured or not first_try or in_flight < size * USED_SHARE:
            return
        self.credit += 1
        if not self.slow_start and self.credit < size * (self.patience if size >= self.ceiling else 1):
            return
        if size > self.ceiling:  # A whole patience long nobody minded: the ceiling has risen.
            self.ceiling = size
            self.patience = FIRST_PATIENCE
        self.size = size + 1
        self.credit = 0

    def refused(self, epoch: int, in_flight: int) -> bool:
        """An attempt of `epoch` was refused; returns whether that was a new congestion event, and cuts if so."""
        if epoch != self.epoch:
            return False
        self.epoch += 1
        self.slow_start = False
        self.credit = 0
        self.probe_at = NEVER
        if self.size > self.ceiling:
            self.size = self.ceiling
            self.patience *= 2
            return True
        size = min(self.size, in_flight)
        self.ceiling = max(1, size - 1)
        self.size = self._within(size // 2)
        self.patience = FIRST_PATIENCE
        return True

    def gauge(self, size: int) -> None:
        """The server's answers ask for this size: it queues instead of refusing."""
        self.size = self._within(size)
        self.ceiling = OPEN
        self.credit = 0

    def suspect(self, most: int, now: float) -> None:
        """A refusal that may be about this number or about a rate: stay below it until one beyond has told."""
        self.ceiling = self.size = self._within(most)
        self.patience = FIRST_PATIENCE
        self.credit = 0
        self.probe_at = now + QUIET_S
        # A cap refuses every one beyond it. Only what has ended at the server, and not here yet, makes room: a few.
        self.enough = int(self.size * 1.03) + 3

    def doubt(self, now: float) -> None:
        """One beyond was accepted. A few more, and it was not about the number in flight."""
        self.size = self.ceiling = min(self.size + 1, self.configured)
        self.probe_at = now
        if self.size >= self.enough:
            self.clear()

    def confirm(self) -> None:
        """One beyond was refused though the lane had been quiet: it is the number in flight."""
        self.probe_at = NEVER
