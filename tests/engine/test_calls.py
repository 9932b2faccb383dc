"""Calls through lanes with nothing on record."""

from __future__ import annotations

import asyncio

from headway.core.model import SUCCESS, LaneSpec, Limits, Outcome
from headway.engine.calls import Calls, End, Flight
from headway.testing import Clock


async def good(flight: Flight) -> Outcome:
    return SUCCESS


def spec_of(lane: str) -> LaneSpec:
    return LaneSpec(lane, Limits(max_concurrency=0, min_gap_s=10.0))


def test_a_start_that_falls_due_when_a_lane_is_opened_is_not_lost() -> None:
    clock = Clock()
    ended: list[tuple[str, str]] = []

    def note(flight: Flight, end: End) -> None:
        ended.append((flight.lane, str(end.status)))

    async def work() -> None:
        calls = Calls(spec_of)
        calls.submit("a", good, note)
        calls.submit("a", good, note)
        await asyncio.sleep(1.0)
        assert ended == [("a", "succeeded")]
        clock.jump(20.0)  # The second one is due, and the loop has not come to its timer.
        calls.submit("b", good, note)
        await asyncio.sleep(1.0)
        await calls.close()

    clock.run(work())
    assert sorted(ended) == [("a", "succeeded"), ("a", "succeeded"), ("b", "succeeded")]
