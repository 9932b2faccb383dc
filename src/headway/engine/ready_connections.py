"""Tells adapters how many connections their lanes are about to use, so that they can open them ahead.

Only for lanes that have work, and never more than what may be in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headway.core.lanes.in_flight.connections_ahead import HANDFUL, connections_ahead
from headway.core.scheduler import Scheduler
from headway.engine.run_spec import RunLane
from headway.providers.adapter import KeepsConnections

#: It looks again after this time, or when a quarter more are in flight.
LOOK_S: Final = 0.05
GROWN: Final = 1.25


class ReadyConnections:
    """The connections of one run. `remaining` says how many units of a lane are still in the store."""

    def __init__(self, lanes: Mapping[str, RunLane], remaining: Callable[[str], int]) -> None:
        self._remaining = remaining
        self._next_at = float("-inf")
        self._most_out = 0.0
        self._adapters: list[tuple[KeepsConnections, list[str]]] = []
        self._told: dict[int, int] = {}
        for adapter in {id(lane.adapter): lane.adapter for lane in lanes.values()}.values():
            if isinstance(adapter, KeepsConnections):
                keys = [key for key, lane in lanes.items() if lane.adapter is adapter]
                self._adapters.append((adapter, keys))

    def look(self, scheduler: Scheduler, now: float) -> None:
        """Tell each adapter what its lanes are about to start, if that has changed."""
        out = len(scheduler.out)
        if now < self._next_at and out <= self._most_out:
            return
        self._next_at, self._most_out = now + LOOK_S, GROWN * out + HANDFUL
        caps = [cap for cap in (scheduler.max_in_flight, scheduler.concurrency) if cap]
        room = max(0, min(caps) - out) if caps else None
        for adapter, keys in self._adapters:
            wanted = sum(self._wanted(scheduler, key, now) for key in keys)
            self._tell(adapter, wanted if room is None else min(wanted, room))

    def _wanted(self, scheduler: Scheduler, key: str, now: float) -> int:
        lane = scheduler.lanes[key]
        if not (lane.queue.ready or lane.in_flight or self._remaining(key)):
            return 0
        wanted = connections_ahead(lane, now)
        return min(wanted, 1) if scheduler.serial_phase else wanted

    def stop(self) -> None:
        """Nothing starts for a while."""
        self._next_at = float("-inf")
        for adapter, _ in self._adapters:
            self._tell(adapter, 0)

    def _tell(self, adapter: KeepsConnections, n: int) -> None:
        if self._told.get(id(adapter), 0) != n:
            self._told[id(adapter)] = n
            adapter.keep_ready(n)
