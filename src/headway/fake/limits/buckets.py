"""One limit, enforced exactly: no timers, only arithmetic on the instant that the caller passes.

A `TokenBucket` is one number: the instant at which it will be full again. What is missing from it is the time until
then times its rate. Nothing has to be updated as time passes, and after a change of the limit the bucket is as full as before, as a
share of its capacity. A `FixedWindow` grants the whole allowance at the start of every window.

A request that arrives exactly at the instant it was given must be admitted, and floats are rounded. So a cost fits if less
than a microsecond of refill is missing.
"""

from __future__ import annotations

GRACE_S = 1e-6  # far below what a client can time, far above what doubles round off in a year


class TokenBucket:
    """`limit` per `period_s`, refilled continuously. It holds `depth_s` seconds of refill and is full at the start."""

    __slots__ = ("capacity", "depth_s", "full_at", "least", "limit", "period_s", "rate")

    def __init__(self, limit: float, period_s: float, depth_s: float, least: float = 0.0) -> None:
        self.period_s = period_s
        self.depth_s = depth_s
        self.least = least
        self.full_at = 0.0
        self.change(limit)

    def change(self, limit: float) -> None:
        """Set a new limit. The bucket keeps the share that is filled, and its capacity is at least `least`."""
        self.limit = limit
        self.rate = limit / self.period_s
        self.capacity = max(self.rate * self.depth_s, self.least)

    def level(self, now: float) -> float:
        """What is left; negative if more was used than there was."""
        return self.capacity - self.full_in_s(now) * self.rate

    def full_in_s(self, now: float) -> float:
        """Seconds until it is full, without further charges."""
        return max(0.0, self.full_at - now)

    def wait_s(self, cost: float, now: float) -> float:
        """Seconds until `cost` fits, without further charges. A cost above the capacity waits for a full bucket."""
        free_s = (self.capacity - min(cost, self.capacity)) / self.rate
        wait_s = self.full_in_s(now) - free_s
        return wait_s if wait_s > GRACE_S else 0.0

    def charge(self, cost: float, now: float) -> None:
        """Take `cost` out; a negative cost is a refund."""
        self.full_at = max(self.full_at, now) + cost / self.rate


class FixedWindow(TokenBucket):
    """The whole allowance at the start of each window of `depth_s` seconds, and nothing in between.

    A window lasts as long as the allowance takes to refill. A window whose capacity was raised to `least` is longer.
    """

    __slots__ = ("used", "window")

    def __init__(self, limit: float, period_s: float, depth_s: float, least: float = 0.0) -> None:
        self.used = 0.0  # as a share of the capacity
        self.window = 0
        super().__init__(limit, period_s, depth_s, least)

    @property
    def length_s(self) -> float:
        """The length of a window."""
        return self.capacity / self.rate

    def level(self, now: float) -> float:
        used = self.used if int(now // self.length_s) == self.window else 0.0
        return self.capacity * (1.0 - used)

    def full_in_s(self, now: float) -> float:
        return self.length_s - now % self.length_s

    def wait_s(self, cost: float, now: float) -> float:
        fits = self.level(now) + self.rate * GRACE_S >= min(cost, self.capacity)
        return 0.0 if fits else self.full_in_s(now)

    def charge(self, cost: float, now: float) -> None:
        window = int(now // self.length_s)
        if window != self.window:
            self.window, self.used = window, 0.0
        self.used = max(0.0, self.used + cost / self.capacity)
