"""Calls through lanes without a store."""

from __future__ import annotations

import asyncio

from headway.core.model import SUCCESS, LaneLimits, LaneSpec, Outcome
from headway.engine.calls import CallEnd, Calls, SubmittedCall
from headway.testing import Clock


async def good(flight: SubmittedCall) -> Outcome:
    return SUCCESS


def spec_of(lane: str) -> LaneSpec:
    return LaneSpec(lane, LaneLimits(max_concurrency=0, min_gap_s=10.0))


def test_a_start_that_falls_due_when_a_lane_is_opened_is_not_lost() -> None:
    clock = Clock()
    ended: list[tuple[str, str]] = []

    def note(flight: SubmittedCall, end: CallEnd) -> None:
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


def test_an_attempt_that_is_cancelled_before_its_first_step_ends_too() -> None:
    """Two callbacks in one round of the loop: the first starts the attempt, the second cancels it before its task has run."""
    clock = Clock()
    ended: list[tuple[str, str]] = []
    ran: list[str] = []

    def note(flight: SubmittedCall, end: CallEnd) -> None:
        ended.append((flight.lane, str(end.status)))

    async def stuck(flight: SubmittedCall) -> Outcome:
        ran.append(flight.lane)
        await asyncio.Event().wait()
        return SUCCESS

    async def work() -> None:
        loop = asyncio.get_running_loop()
        calls = Calls(lambda lane: spec_of(lane) if lane == "a" else LaneSpec(lane, LaneLimits(rpm=0)))
        for lane in ("a", "a", "b"):
            calls.submit(lane, good, note)
        await asyncio.sleep(1.0)
        due_at = 10.0  # The gap of lane a ends, which makes a turn of its own.

        def then_interrupt() -> None:
            loop.call_soon(lambda: calls.interrupt(cancel=True))
            calls.submit("b", stuck, note)

        loop.call_at(due_at - 1e-10, calls.submit, "b", stuck, note)
        loop.call_at(due_at + 1e-10, then_interrupt)
        await asyncio.sleep(20.0)
        left = len(calls)
        await calls.close()
        assert left == 0

    clock.run(work())
    assert ended.count(("b", "cancelled")) == 2
    assert ran == ["b"]  # The other one never began.
