"""Chance without a generator: every draw is a hash of a seed and of what it is drawn for.

So two runs over the same requests meet the same delays and the same failures, in whatever order they come.
"""

from __future__ import annotations

from hashlib import blake2b
from math import exp
from statistics import NormalDist

from headway.fake.durations import seconds

_MASK = (1 << 64) - 1


def fingerprint(data: bytes) -> int:
    """Eight bytes that stand for `data`."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def draw(*numbers: int) -> float:
    """A number in [0, 1) that is the same whenever it is drawn for the same `numbers` (splitmix64, chained)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state / (1 << 64)


class Spread:
    """A quantity that lies evenly between two ends: `0.2`, `{min: 0.1, max: 0.3}` or `{mean: 0.2, jitter: 0.1}`."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low = low
        self.high = low if high is None else high

    def at(self, share: float) -> float:
        """The value at `share` of the way from the lower end to the upper."""
        return self.low + (self.high - self.low) * share

    def __bool__(self) -> bool:
        return self.high > 0.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spread) and (self.low, self.high) == (other.low, other.high)

    def __hash__(self) -> int:
        return hash((self.low, self.high))

    def __repr__(self) -> str:
        return f"Spread({self.low:g}, {self.high:g})"


class LongTail(Spread):
    """A quantity whose logarithm is normal: `{median: 300, sigma: 0.8}`. Most are near the median, a few many times it."""

    __slots__ = ("median", "sigma")

    def __init__(self, median: float, sigma: float) -> None:
        super().__init__(0.0, median)
        self.median, self.sigma = median, sigma

    def at(self, share: float) -> float:
        """The value that `share` of them stay below."""
        return self.median * exp(self.sigma * NormalDist().inv_cdf(min(max(share, 1e-9), 1.0 - 1e-9)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LongTail) and (self.median, self.sigma) == (other.median, other.sigma)

    def __hash__(self) -> int:
        return hash((self.median, self.sigma))

    def __repr__(self) -> str:
        return f"LongTail({self.median:g}, {self.sigma:g})"


def spread(said: object) -> Spread:
    """What is meant by `said`; a ValueError says what may stand there."""
    if not isinstance(said, dict):
        return Spread(seconds(said))
    keys = set(said)
    if keys == {"min", "max"}:
        low, high = seconds(said["min"]), seconds(said["max"])
        if low > high:
            raise ValueError(f"min is not above max, unlike {low:g} and {high:g}")
        return Spread(low, high)
    if keys == {"mean", "jitter"}:
        mean, jitter = seconds(said["mean"]), seconds(said["jitter"])
        return Spread(max(0.0, mean - jitter), mean + jitter)
    if keys == {"median", "sigma"}:
        return LongTail(seconds(said["median"]), seconds(said["sigma"]))
    raise ValueError(
        "a number, {min, max}, {mean, jitter} or {median, sigma} is meant, not "
        + "{"
        + ", ".join(map(str, said))
        + "}"
    )
