"""Probes of how deep a lane's buckets are: requests that go beyond the depth that is proven.

One at a time to begin with, after the first acceptance two, then more, up to a small share of what is proven: what is
refused at the end of a bucket is a small part of what it gave. Probes go together, again when half of them are answered:
those of one instant go on from each other's debt. One by one, each as an answer comes, none would go further beyond the
proven depth than its own cost. A refused probe ends that for ten minutes, then twenty, …
"""

from __future__ import annotations

from typing import Final

from headway.core.lanes.queue import ALWAYS

#: Unanswered probes: one, doubling with each accepted one up to this share of the depth that is proven, or this much of it.
PROBE_SHARE: Final = 0.05
WIDEST_PROBE_S: Final = 0.35
LEAST_WIDEST_PROBE: Final = 2
#: Probes within this time are of one instant.
SAME_S: Final = 1e-6
#: The pause after a refused probe; doubles with each.
PROBE_PAUSE_S: Final = 600.0


class Probing:
    """Of one lane: how many probes are out, how many may be, and when the next may go."""

    __slots__ = ("_sent_at", "not_before", "out", "pause_s", "width")

    def __init__(self) -> None:
        self.out = 0
        self.width = 1
        self.not_before = ALWAYS
        self.pause_s = PROBE_PAUSE_S
        self._sent_at = ALWAYS

    @property
    def refused_before(self) -> bool:
        """Whether a probe has ever been refused."""
        return self.pause_s > PROBE_PAUSE_S

    def has_room(self, now: float) -> bool:
        """Whether another probe may go beside those that are out."""
        if self.out >= self.width:
            return False
        return 2 * self.out <= self.width or now <= self._sent_at

    def send(self, now: float) -> None:
        """A probe goes."""
        self.out += 1
        self._sent_at = now + SAME_S

    def drop(self) -> None:
        """A probe ended without telling anything about the depth, or was refused."""
        self.out -= 1

    def accept(self, rate: float, proven_s: float) -> None:
        """A probe was accepted; the lane starts `rate` units a second, and buckets are at least so deep."""
        self.out -= 1
        widest = max(LEAST_WIDEST_PROBE, int(rate * min(WIDEST_PROBE_S, PROBE_SHARE * proven_s)))
        self.width = min(self.width * 2, widest)

    def refuse(self, now: float) -> None:
        """A probe has met the bottom."""
        self.width = 1
        self.not_before = now + self.pause_s
        self.pause_s *= 2.0

    def wait(self, until: float) -> None:
        """Send no probe before then."""
        self.not_before = max(self.not_before, until)
