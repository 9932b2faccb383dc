"""Chance without a generator: every draw is a hash of a seed and of what it is drawn for.

So two runs over the same requests meet the same delays and the same failures, in whatever order they come.
"""

from __future__ import annotations

from hashlib import blake2b

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
