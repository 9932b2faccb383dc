"""What lanes do now, as samples of gauges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.core.snapshot import LaneView
from headway.metrics.families import (
    IN_FLIGHT,
    LEVEL,
    LIMIT,
    OLDEST_WAIT,
    QUEUED,
    WINDOW,
    MetricFamily,
)
from headway.metrics.labels import OTHER
from headway.metrics.text_format import Labels, Samples

_FAMILIES: Final = (IN_FLIGHT, QUEUED, WINDOW, OLDEST_WAIT, LIMIT, LEVEL)


def lane_gauges(lanes: Iterable[tuple[str, LaneView]]) -> dict[MetricFamily, Samples]:
    """The gauges of lanes with their labels. Lanes with one label (`OTHER`) have the sum, or the longest wait, and no limits."""
    samples: dict[MetricFamily, dict[Labels, float]] = {family: {} for family in _FAMILIES}
    for label, lane in lanes:
        _add(samples[IN_FLIGHT], label, lane.in_flight)
        _add(samples[QUEUED], label, max(0, lane.remaining - lane.waiting_for_others))
        if lane.window is not None:
            _add(samples[WINDOW], label, lane.window)
        waits = samples[OLDEST_WAIT]
        waits[label,] = max(waits.get((label,), 0.0), lane.oldest_wait_s)
        if label != OTHER:
            _add_meters(samples[LIMIT], samples[LEVEL], label, lane)
    return dict(samples)


def _add(samples: dict[Labels, float], label: str, value: float) -> None:
    samples[label,] = samples.get((label,), 0) + value


def _add_meters(limits: dict[Labels, float], levels: dict[Labels, float], label: str, lane: LaneView) -> None:
    """Of two meters with one name the tighter one counts: a configured and a reported limit."""
    for meter in lane.meters:
        labels = (label, meter.name)
        if meter.limit < limits.get(labels, float("inf")):
            limits[labels] = meter.limit
            levels[labels] = max(0.0, meter.level)
