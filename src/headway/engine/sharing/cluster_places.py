"""How many units of a lane can run on the cluster that its executor uses: told to the scheduler whenever it changes.

Why a lane waits for the cluster is told once while units run, and once whenever none can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headway.core.events import SetClusterPlaces
from headway.engine.run_spec import RunLane


class ClusterHosts(Protocol):
    """What an executor knows of its cluster (`executors.on_ray.hosts`)."""

    @property
    def places(self) -> int:
        """How many units can run, or could soon; at least 1."""

    @property
    def waits_for(self) -> str:
        """What units wait for, or ""."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs there."""


class ClusterPlaces:
    """The lanes of a run whose units run on a cluster."""

    def __init__(self, lanes: Mapping[str, RunLane]) -> None:
        self._hosts: dict[str, ClusterHosts] = {
            key: hosts
            for key, lane in lanes.items()
            if (hosts := getattr(lane.adapter, "hosts", None)) is not None
        }
        self._places: dict[str, int] = {}
        #: Lanes of which it was said that they wait, and those that wait with nothing in flight.
        self._told: set[str] = set()
        self._stands: set[str] = set()

    def look(self) -> list[SetClusterPlaces]:
        """What changed."""
        changed = []
        for key, hosts in self._hosts.items():
            why, places = self._news(key, hosts), hosts.places
            if why or places != self._places.get(key):
                self._places[key] = places
                changed.append(SetClusterPlaces(key, places, why))
        return changed

    def _news(self, key: str, hosts: ClusterHosts) -> str:
        """What to say of a lane that waits, if it was not said before."""
        why = hosts.waits_for
        if not why or not hosts.is_idle:
            self._stands.discard(key)
        if not why or (key in self._stands or (key in self._told and not hosts.is_idle)):
            return ""
        self._told.add(key)
        if hosts.is_idle:
            self._stands.add(key)
        return why
