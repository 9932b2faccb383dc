"""What a provider would keep for one limit of a lane: an independent token bucket, told only of starts and answers.

What is provable, and what is not. A meter whose depth is configured (`burst_s`), one that counts by the day,
and the minimum gap are never probed beyond their depth. For them, as long as the lane was sent no report, a
start must find the bucket full (a unit larger than the usable depth goes alone, on a full bucket) or leave it
at zero or above. Settling may take it below zero: the answer then used more than the estimate said, and the
bucket owes. A meter of unknown depth (`burst = "auto"`) and a lane with reports are not judged here.
"""

from __future__ import annotations

from headway.core.model import DAY_S, MINUTE_S, LaneLimits

REQUESTS = 0


def slack_s(now: float) -> float:
    """How far two instants may differ by rounding alone (the core calls 1e-9 s the same instant)."""
    return 1e-6 + 1e-13 * abs(now)


class Bucket:
    """One limit: it refills at `limit ÷ period`, holds `depth_s` of that, and is full again at `full_at`."""

    #: A gap is ours, not the provider's: nobody gives it back.
    gap = False

    def __init__(self, place: int, limit: float, period_s: float, depth_s: float, now: float) -> None:
        self.place = place
        self.period_s = period_s
        self.limit = limit
        self.depth_s = depth_s
        self.full_at = now

    @property
    def rate(self) -> float:
        return self.limit / self.period_s

    def level(self, now: float) -> float:
        """What is in it, in seconds of refill; below zero where it owes."""
        return self.depth_s - max(0.0, self.full_at - now)

    def admits(self, cost: float, now: float) -> bool:
        """Whether a start of this size is lawful: on a full bucket, or one that it does not overdraw."""
        full = self.full_at <= now + slack_s(now)
        return full or self.level(now) - cost / self.rate >= -slack_s(now)

    def take(self, cost: float, now: float) -> None:
        self.full_at = max(self.full_at, now) + cost / self.rate

    def move(self, cost: float) -> None:
        """Charge more for something taken before; a negative cost gives back."""
        self.full_at += cost / self.rate

    def become(self, other: Bucket, now: float) -> None:
        """Take over another bucket's limit and depth; what is owed stays owed."""
        debt = max(0.0, self.full_at - now) * self.rate
        self.limit, self.period_s, self.depth_s = other.limit, other.period_s, other.depth_s
        if debt:
            self.full_at = now + debt / self.rate


def buckets_of(limits: LaneLimits, now: float) -> dict[str, Bucket]:
    """A full bucket for each limit that can be judged, by name."""
    wanted: dict[str, Bucket] = {}
    minutes = (limits.rpm, limits.tpm, limits.input_tpm, limits.output_tpm)
    for place, limit in enumerate(minutes):
        if limit and limits.burst_s is not None:
            wanted[f"minute {place}"] = Bucket(place, limit, MINUTE_S, limits.burst_s, now)
    for place, limit in enumerate((limits.rpd, limits.tpd)):
        if limit:
            wanted[f"day {place}"] = Bucket(place, limit, DAY_S, DAY_S, now)
    if limits.min_gap_s > 0.0:
        wanted["gap"] = Bucket(REQUESTS, 1.0, limits.min_gap_s, 0.0, now)
        wanted["gap"].gap = True
    return wanted
