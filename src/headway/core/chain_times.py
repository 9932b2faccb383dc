"""How long the units take that wait for other units.

A unit can start when the last of the units that it waits for has finished and its lane is open. It then takes as long as the
attempts of its lane took so far (of all lanes, if its own has no ended attempt). The limits of lanes are not counted here:
`outlook` computes the time that they need, and the longer time counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from headway.core.outlook import flight_s, mean_flight_s

if TYPE_CHECKING:
    from headway.core.scheduler import Scheduler

#: Waiting units that are looked at: under 1 µs each, twice a second. Usually not many more are in memory (`supply.MOST_BLOCKED`).
LOOKED_AT: Final = 10_000


def chain_etas_s(scheduler: Scheduler, now: float) -> dict[str, float | None]:
    """For each lane with such units: the seconds until the last of them has finished. None before any attempt has ended."""
    waiting = scheduler.waiting
    lanes = {key: scheduler.lanes[key] for key, count in waiting.per_lane.items() if count}
    mean_s = mean_flight_s(scheduler.lanes.values()) if lanes else None
    if mean_s is None:
        return dict.fromkeys(lanes)
    took_s = {key: flight_s(lane) or mean_s for key, lane in scheduler.lanes.items()}
    opens_s = {key: max(0.0, lane.hold.open_at - now) for key, lane in lanes.items()}
    etas = dict.fromkeys(lanes, 0.0)
    ends_s: dict[int, float] = {}
    looked_at = 0
    for index, entries in waiting.followers():
        # A unit waits only for units with lower indexes: the end of this one is final.
        before_s = ends_s[index] if index in ends_s else _end_s(scheduler, index, took_s, mean_s, now)
        for entry in islice(entries, LOOKED_AT - looked_at):
            if entry.waits_for:
                key, follower = entry.lane.key, entry.unit.index
                end_s = max(before_s, opens_s[key]) + took_s[key]
                ends_s[follower] = max(end_s, ends_s.get(follower, 0.0))
                etas[key] = max(end_s, etas[key])
        looked_at += len(entries)
        if looked_at >= LOOKED_AT:
            break
    return {**etas}


def _end_s(scheduler: Scheduler, index: int, took_s: Mapping[str, float], mean_s: float, now: float) -> float:
    """When a unit finishes that waits for no other."""
    entry = scheduler.out.get(index)
    return mean_s if entry is None else max(0.0, took_s[entry.lane.key] - (now - entry.started_at))
