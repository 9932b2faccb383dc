"""How many attempts of a lane may be in flight: additive increase, one halving for each congestion event.

A configured window starts at its maximum. Without one the window is open if the lane's rate is known
(the meters do the pacing); otherwise it starts small and doubles each round, as TCP does, until the first
refusal. Ten refusals from one burst are one event: every attempt remembers the *epoch* it started in, a cut
begins a new one, and only refusals of the current epoch may cut. A success after a retry says nothing about
the present window, nor does a success while the window was not really used; neither makes it grow.

The size that was refused is remembered as a *ceiling*. Growing back to it takes one round a step. Beyond it the window goes
only after longer and longer patience; a refusal there sets it back to the ceiling, not to half.
Without that memory a window would oscillate between half and full for ever.
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.in_flight.flight_limit import FIRST_PACED_FLIGHT

#: In flight before the first answer if nothing is known: a handful, not one by one (providers.md §4.7).
FIRST_WINDOW: Final = 3

#: A window counts as used from this share on (inspect_ai and providers.md §4.9 agree on it).
USED_SHARE: Final = 0.8

#: Rounds of success at the ceiling before the window tries one more; doubles with each refusal there.
FIRST_PATIENCE: Final = 4

#: After so long at a quarter of the pace a bucket has refilled a little, so a refusal is not about the rate.
QUIET_S: Final = 1.0

NEVER: Final = float("inf")

#: The size of an open window: more than any engine has in flight.
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
        "followed",
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
        #: Whether it follows the throughput (`flight_limit`).
        self.followed = False
        #: While one attempt goes ahead of the others: the size to restore when it has met no limit. 0: none goes ahead.
        self.kept = 0
        #: Scaled values before rounding, by attribute.
        self._exact: dict[str, float] = {}

    @property
    def open(self) -> bool:
        """Whether nothing but a rate, or the process, limits the number in flight."""
        return self.size >= (FIRST_PACED_FLIGHT if self.followed else OPEN)

    @property
    def learned(self) -> bool:
        """Whether refusals have set its size, beyond a suspicion."""
        shaped = not self.slow_start and not self.followed
        return shaped and self.lasting < self.configured and self.probe_at == NEVER

    @property
    def suspected(self) -> bool:
        """Whether a refusal may have been about the number in flight, and that is not settled."""
        return self.probe_at < NEVER

    @property
    def lasting(self) -> int:
        """Its size, even while one attempt goes ahead of the others."""
        return self.kept or self.size

    def throw_open(self) -> None:
        """The lane's rate is known before any refusal: from now on the meters pace it."""
        if self.slow_start:
            self.clear()

    def clear(self) -> None:
        """Forget a suspicion: the limit is not about the number in flight."""
        self.slow_start = self.followed = False
        self.size = self.configured
        self.ceiling = OPEN
        self.probe_at = NEVER

    def configure(self, configured: int | None) -> None:
        """Set a new maximum. A learned size below it stays; a window at its maximum moves with it."""
        was_at_top = self.size >= self.configured
        self.configured = OPEN if configured is None else configured
        self.size = self.configured if was_at_top else min(self.size, self.configured)
        self.probe_at = NEVER

    def scale(self, configured: int | None, ratio: float) -> None:
        """Scale the window to this job's new part of the lane: a new maximum, and `ratio` times the learned size.

        The maximum is 0 while other jobs have all places.
        """
        was_at_top = self.size >= self.configured and self.ceiling >= OPEN
        self.configured = OPEN if configured is None else configured
        if was_at_top:
            self.size = self.configured
        elif not self.slow_start:
            self.size = self._scaled("size", self.size, ratio)
        if 0 < self.kept < OPEN:
            self.kept = self._scaled("kept", self.kept, ratio)

    def keep_to(self, places: int) -> None:
        """Another job searches for a cap: keep to these places of it, and learn nothing."""
        self.configured = places
        self.ceiling = OPEN
        self.probe_at = NEVER
        self.kept = OPEN if self.kept else 0
        self.size = min(1, self.configured) if self.kept else self.configured

    def move(self, configured: int | None, ceiling: int) -> None:
        """So many places of a found cap are ours from now on: the ceiling moves there, and the size with it."""
        before, size = self.ceiling, self.lasting
        self.configured = (OPEN if configured is None else configured) if ceiling else 0
        if before >= OPEN:
            size = ceiling
        elif size >= before:
            size += ceiling - before
        else:
            size = max(1, round(size * ceiling / before))
        self.ceiling = ceiling
        if self.suspected:
            self.enough += ceiling - before
        size = min(max(size, 1), self.configured)
        if self.kept:
            self.kept, self.size = size, min(1, self.configured)
        else:
            self.size = size

    def _scaled(self, name: str, size: int, ratio: float) -> int:
        """Scale a value without losing its fraction, so that it is restored exactly when the part grows back.

        A value that was learned beside other jobs is not made larger than it was learned.
        """
        exact = self._exact.get(name, 0.0)
        if name not in self._exact or self._within(round(exact)) != size:
            exact = min(size, size / ratio)
        self._exact[name] = exact = exact * ratio
        return self._within(round(exact))

    def _within(self, size: int) -> int:
        return min(max(1, size), self.configured)

    def resume(self, size: int) -> None:
        """Continue at a size that an earlier run has learned."""
        self.slow_start = False
        self.ceiling = self._within(size)
        if self.kept:
            self.kept = self.ceiling
        else:
            self.size = self.ceiling

    def narrow(self) -> None:
        """Let one attempt go ahead of the others. Earlier attempts say nothing about how it ends."""
        self.epoch += 1
        if not self.kept:
            self.kept = OPEN if self.size >= self.configured else self.size
        self.size = 1

    @property
    def one_ahead(self) -> bool:
        """Whether one attempt goes ahead of others that could start otherwise."""
        return self.kept > 0 and self.configured > 1

    def widen(self) -> None:
        """The attempt that went ahead met no limit."""
        self.size = max(self.size, min(self.kept, self.configured))
        self.kept = 0

    def succeeded(self, in_flight: int, *, first_try: bool) -> None:
        """An attempt succeeded while `in_flight` (itself included) were in flight."""
        size = self.size
        if size >= self.configured or not first_try or in_flight < size * USED_SHARE:
            return
        self.credit += 1
        if not self.slow_start and self.credit < size * (self.patience if size >= self.ceiling else 1):
            return
        if size > self.ceiling:  # No refusal for as long as its patience: the ceiling has risen.
            self.ceiling = size
            self.patience = FIRST_PATIENCE
        self.size = size + 1
        self.credit = 0

    def refused(self, epoch: int, in_flight: int) -> bool:
        """An attempt of `epoch` was refused. Cuts the window if that is a new congestion event, and returns whether it is."""
        if epoch != self.epoch:
            return False
        self.epoch += 1
        self.slow_start = self.followed = False
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
        """Set the size that measurements ask for: the server queues instead of refusing."""
        self.size = self._within(size)
        self.ceiling = OPEN
        self.credit = 0

    def follow(self, size: int) -> None:
        """So many bring throughput."""
        self.followed = True
        if self.kept:
            self.kept = self._within(size)
        else:
            self.size = self._within(size)

    def suspect(self, most: int, now: float) -> None:
        """A refusal may be about this number in flight or about a rate: stay below until an attempt beyond it shows which."""
        self.ceiling = self.size = self._within(most)
        self.patience = FIRST_PATIENCE
        self.credit = 0
        self.probe_at = now + QUIET_S
        # A cap refuses every attempt beyond it, except for the few that have ended at the server and not here yet.
        self.enough = int(self.size * 1.03) + 4

    def doubt(self, now: float) -> None:
        """An attempt beyond the suspected number was accepted. After a few more the suspicion is dropped."""
        self.size = self.ceiling = min(self.size + 1, self.configured)
        self.probe_at = now
        if self.size >= self.enough:
            self.clear()

    def confirm(self) -> None:
        """An attempt beyond the suspected number was refused although the lane had been quiet: the number is limited."""
        self.probe_at = NEVER
