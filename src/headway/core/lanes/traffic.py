"""What a lane has sent: the number of attempts, their tokens, the recent rate."""

from __future__ import annotations

from math import exp
from typing import Final

from headway.core.lanes.queueing.queue import ALWAYS, NEVER
from headway.core.model import Costs

#: The time constant of the rate.
RATE_TAU_S: Final = 20.0


class Traffic:
    """Counts the starts of one lane."""

    __slots__ = (
        "_rate", "_tokens", "_tokens_in", "_tokens_out", "first_start_at", "last_start_at", "started",
    )  # fmt: skip

    def __init__(self) -> None:
        self.started = 0
        self.first_start_at = NEVER
        self.last_start_at = ALWAYS
        #: As they were reserved, not as they were used.
        self._tokens = self._tokens_in = self._tokens_out = 0.0
        self._rate = 0.0

    def start(self, costs: Costs, now: float) -> None:
        """Count an attempt."""
        self.started += 1
        _, tokens, tokens_in, tokens_out = costs
        self._tokens += tokens
        self._tokens_in += tokens_in
        self._tokens_out += tokens_out
        gap_s = now - self.last_start_at
        if gap_s > 0.0:
            self._rate *= exp(-gap_s / RATE_TAU_S)
            self.last_start_at = now
        self._rate += 1.0 / RATE_TAU_S
        if now < self.first_start_at:
            self.first_start_at = now

    def rate_at(self, now: float) -> float:
        """Starts a second, lately."""
        if not self.started:
            return 0.0
        seen = 1.0 - exp(-max(1.0, now - self.first_start_at) / RATE_TAU_S)
        return self._rate * exp(-(now - self.last_start_at) / RATE_TAU_S) / seen

    def mean_costs(self) -> Costs:
        """What an attempt has reserved on average."""
        started = self.started or 1
        return (1.0, self._tokens / started, self._tokens_in / started, self._tokens_out / started)
