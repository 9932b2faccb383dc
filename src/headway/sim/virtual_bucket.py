"""A provider's own token bucket, kept as a level.

It shares no code with `core.lanes.meter` on purpose: the scheduler is measured against it, so the two must not share a
mistake. The meter keeps virtual time; this bucket keeps an amount and the instant at which it was correct.
"""

from __future__ import annotations


class VirtualBucket:
    """It holds `capacity`, is refilled at `rate` per second, and is full at the start."""

    __slots__ = ("capacity", "level", "rate", "updated_at")

    def __init__(self, rate: float, depth_s: float, now: float = 0.0) -> None:
        self.rate = rate
        self.capacity = rate * depth_s
        self.level = self.capacity
        self.updated_at = now

    def refill(self, now: float) -> None:
        """Add what has been refilled since the last call."""
        if now > self.updated_at:
            self.level = min(self.capacity, self.level + self.rate * (now - self.updated_at))
            self.updated_at = now

    def short_by(self, cost: float, now: float) -> float:
        """How much is missing for `cost`; 0 if it fits. A cost above the capacity fits into a full bucket."""
        self.refill(now)
        return max(0.0, min(cost, self.capacity) - self.level)

    def wait_s(self, cost: float, now: float) -> float:
        """Seconds until `cost` fits, without further charges."""
        return self.short_by(cost, now) / self.rate

    def charge(self, cost: float, now: float) -> None:
        """Take `cost` out. A negative cost is a refund; the level never exceeds the capacity."""
        self.refill(now)
        self.level = min(self.capacity, self.level - cost)

    def scale(self, rate: float, now: float) -> None:
        """Set a new rate. The capacity changes with it, and the bucket keeps the share that is filled."""
        self.refill(now)
        factor = rate / self.rate
        self.rate = rate
        self.capacity *= factor
        self.level *= factor

    def full_in_s(self) -> float:
        """Seconds until it is full, without further charges."""
        return (self.capacity - self.level) / self.rate


class VirtualWindow(VirtualBucket):
    """The whole allowance at the start of every window of `depth_s` seconds, and nothing in between."""

    __slots__ = ("length_s", "offset_s")

    def __init__(self, rate: float, depth_s: float, now: float = 0.0, offset_s: float = 0.0) -> None:
        super().__init__(rate, depth_s, now)
        self.length_s = depth_s
        #: How far into a window the run begins.
        self.offset_s = offset_s % depth_s

    def refill(self, now: float) -> None:
        if self._window(now) > self._window(self.updated_at):
            self.level = self.capacity
        self.updated_at = max(now, self.updated_at)

    def wait_s(self, cost: float, now: float) -> float:
        return self.full_in_s() if self.short_by(cost, now) > 0.0 else 0.0

    def full_in_s(self) -> float:
        return self.length_s - (self.updated_at + self.offset_s) % self.length_s

    def _window(self, at: float) -> float:
        return (at + self.offset_s) // self.length_s


def make_bucket(rate: float, depth_s: float, *, fixed: bool, offset_s: float) -> VirtualBucket:
    """A token bucket, or a fixed window."""
    return VirtualWindow(rate, depth_s, offset_s=offset_s) if fixed else VirtualBucket(rate, depth_s)
