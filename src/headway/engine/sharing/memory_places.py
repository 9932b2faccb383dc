"""How many processes of a lane fit into memory: told to the scheduler whenever it changes.

Lanes of one run share the machine. What the processes of other lanes take, as they are expected to grow, is not free for this one. One
process always fits, or nothing would ever run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from headway.core.events import SetMemoryPlaces
from headway.core.lanes.lane import LaneState
from headway.engine.run_spec import RunLane


class Gauge(Protocol):
    """What the processes of an adapter take: each, and all of them at the most, in bytes; None: not known, or no limit."""

    @property
    def each(self) -> float | None: ...

    @property
    def budget(self) -> float | None: ...


@runtime_checkable
class TakesMemory(Protocol):
    """An adapter that starts a process for each attempt."""

    @property
    def memory(self) -> Gauge: ...


class MemoryPlaces:
    """The lanes of a run whose adapters take memory."""

    def __init__(self, lanes: Mapping[str, RunLane]) -> None:
        self._gauges = {
            key: lane.adapter.memory for key, lane in lanes.items() if isinstance(lane.adapter, TakesMemory)
        }
        self._places: dict[str, int] = {}

    def look(self, states: Mapping[str, LaneState]) -> list[SetMemoryPlaces]:
        """The numbers that changed."""
        changed = []
        for key, gauge in self._gauges.items():
            each, budget = gauge.each, gauge.budget
            if not each or budget is None:
                continue
            others = sum(
                states[other].in_flight * (them.each or 0.0)
                for other, them in self._gauges.items()
                if other != key
            )
            places = max(1, int((budget - others) / each))
            if places != self._places.get(key):
                self._places[key] = places
                changed.append(SetMemoryPlaces(key, places, each, budget))
        return changed
