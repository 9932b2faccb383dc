"""Percentiles of latencies and costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec


class Percentiles(msgspec.Struct, frozen=True):
    """Of `count` values."""

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    p50, p90, p95, p99 = (percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99))
    return Percentiles(len(ordered), sum(ordered) / len(ordered), p50, p90, p95, p99)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Between two values in proportion: definition 7 of Hyndman and Fan (1996), which spreadsheets and NumPy use."""
    place = share * (len(ordered) - 1)
    below = int(place)
    if below + 1 >= len(ordered):
        return ordered[-1]
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])
