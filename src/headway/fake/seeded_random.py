"""Random numbers without a generator: each draw is a hash of the seed and of the request.

Two runs over the same requests therefore have the same delays and failures, in whatever order the requests arrive.
"""

from __future__ import annotations

from hashlib import blake2b

_MASK = (1 << 64) - 1


def fingerprint(data: bytes) -> int:
    """A hash of eight bytes."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def draw(*numbers: int) -> float:
    """A number in [0, 1), the same for the same `numbers` (splitmix64, chained)."""
    state = 0
    for number in numbers:
        state = (state + number + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state / (1 << 64)
