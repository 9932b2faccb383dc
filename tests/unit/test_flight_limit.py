"""In flight without limits: as many as bring throughput, and never more than the process can have."""

from __future__ import annotations

from heapq import heappop, heappush

import msgspec
import pytest
from tests.unit.drive import Run, failed, lane_spec, ok, play, units

from headway.core.commands import Start
from headway.core.events import Finished, SetMaxInFlight
from headway.core.lanes.in_flight.flight_limit import (
    FIRST_FLIGHT,
    FIRST_PACED_FLIGHT,
    HALF_DOUBLE,
    MANY,
    VERY_MANY,
    FlightLimit,
)
from headway.core.model import Kind, LaneLimits, LaneSpec, Settings
from headway.engine.intents import due_soon

UNLIMITED = LaneLimits(rpm=0.0, tpm=0.0)


def following(limits: LaneLimits = UNLIMITED) -> LaneSpec:
    """A lane that follows its throughput where it has no limits."""
    return msgspec.structs.replace(lane_spec(limits=limits), follow_throughput=True)


class Queueing:
    """A server that answers `slots` at a time, each after a tenth of a second, and lets the others wait."""

    def __init__(self, slots: int) -> None:
        self._free_at = [0.0] * slots

    def answer(self, start: Start, now: float) -> tuple[float, Finished]:
        ends_at = max(now, heappop(self._free_at)) + 0.1
        heappush(self._free_at, ends_at)
        return ends_at - now, ok(start.unit.index)


def most_in_flight(run: Run, server: Queueing) -> int:
    most = out = 0
    for _, step in play(run, server.answer):
        out += len(step.started) - len(step.finishes)
        most = max(most, out)
    return most


@pytest.mark.parametrize("slots", [1, 8, 40, 200])
def test_what_is_in_flight_follows_what_the_server_answers_at_once(slots: int) -> None:
    run = Run(units(8000), following())
    assert most_in_flight(run, Queueing(slots)) <= max(2 * FIRST_FLIGHT, 6 * slots)


def test_a_server_that_answers_everything_at_once_gets_more_and_more() -> None:
    run = Run(units(8000), following())
    assert most_in_flight(run, Queueing(4000)) > 500


def test_a_lane_with_a_cap_or_with_limits_to_find_is_not_bounded_by_throughput() -> None:
    for limits in (LaneLimits(max_concurrency=64), LaneLimits(rpm=600.0, max_concurrency=8), LaneLimits()):
        assert Run(units(10), following(limits)).lane().flight is None


def test_a_lane_with_a_rate_but_no_cap_is_bounded_too() -> None:
    run = Run(units(8000), following(LaneLimits(rpm=10_000_000.0, burst_s=60.0)))
    assert most_in_flight(run, Queueing(40)) <= 2 * FIRST_PACED_FLIGHT


def test_a_full_bucket_may_be_in_flight_at_once() -> None:
    run = Run(units(600), following(LaneLimits(rpm=600.0, burst_s=60.0)))
    assert most_in_flight(run, Queueing(4000)) > 590
    assert run.lane().window.open


def test_a_refusal_about_the_number_in_flight_ends_the_search() -> None:
    run = Run(units(100), following())
    run.at(0.0)
    run.at(0.1, failed(0, Kind.CONCURRENCY))
    assert run.lane().flight is None
    assert run.lane().window.size < FIRST_FLIGHT


def test_no_more_are_in_flight_than_the_process_can_have() -> None:
    run = Run(
        units(4000),
        lane_spec(limits=LaneLimits(rpm=0.0, max_concurrency=0)),
        settings=Settings(max_in_flight=10),
    )
    assert most_in_flight(run, Queueing(4000)) == 10


@pytest.mark.parametrize("settings", [Settings(max_in_flight=10), Settings(concurrency=10)])
def test_a_lane_that_waits_for_a_place_in_the_run_starts_soon(settings: Settings) -> None:
    """Its next intents are recorded ahead, so that a place that becomes free is used at once."""
    run = Run(units(400), lane_spec(limits=UNLIMITED), settings=settings)
    run.at(0.0)
    assert due_soon(run.lane(), 0.0) > 1
    run.at(0.1, SetMaxInFlight(0), *(ok(index) for index in range(10)))
    run.at(0.2, *(ok(index) for index in list(run.out)))
    while run.out:
        run.at(0.3, *(ok(index) for index in list(run.out)))
    assert not run.lane().crowded_out


def sizes_after(answers_s: list[float], size: int) -> int:
    """The window after cohorts of these answer times; before them, a ramp up to `size` with answers of 1 s."""
    limit, window, now, sent = FlightLimit(0.0), FIRST_FLIGHT, 0.0, 0

    def cohort(answer_s: float) -> None:
        nonlocal window, now, sent
        following = None
        while following is None:
            sent += 1
            following = limit.finished(now + answer_s, sent, answer_s, window, window, sent)
        now, window = now + answer_s, following

    while window < size:
        cohort(1.0)
    for answer_s in answers_s:
        cohort(answer_s)
    return window


WIDE = int(MANY * HALF_DOUBLE)


@pytest.mark.parametrize(
    ("size", "answers_s", "expected"),
    [
        (256, [1.15], 512),  # A gain of 1.74: enough for a doubling while few are in flight.
        (256, [1.3, 1.3], 512),
        (WIDE, [1.05], int(WIDE * HALF_DOUBLE)),  # Where many are, steps are smaller.
        (WIDE, [1.15], WIDE),  # A second cohort decides,
        (WIDE, [1.15, 1.08], int(WIDE * HALF_DOUBLE)),
        (WIDE, [1.15, 1.15], WIDE),  # and what is worth keeping is kept, without another step.
        (WIDE, [1.3, 1.3], MANY),
        (VERY_MANY, [1.0], 2894),  # Where very many are, always.
        (VERY_MANY, [1.0, 1.0], 4092),
    ],
)
def test_where_many_are_in_flight_steps_are_smaller_and_need_clearer_evidence(
    size: int, answers_s: list[float], expected: int
) -> None:
    assert sizes_after(answers_s, size) == expected


def test_lanes_take_turns_under_what_the_process_can_have() -> None:
    limits = LaneLimits(max_concurrency=100)
    work = [*units(50, "a"), *units(50, "b", first=50)]
    run = Run(
        work, lane_spec("a", limits=limits), lane_spec("b", limits=limits), settings=Settings(max_in_flight=4)
    )
    run.at(0.0)
    for second in range(20):
        run.at(float(second), ok(run.out[0]))
    assert min(run.lane("a").traffic.started, run.lane("b").traffic.started) >= 10
    assert len(run.out) == 4


def test_a_process_that_is_exhausted_lowers_the_number_while_it_runs() -> None:
    run = Run(units(400), lane_spec(limits=LaneLimits(max_concurrency=50)))
    assert len(run.at(0.0).started) == 50
    run.at(0.1, SetMaxInFlight(5))
    for index in range(46):
        run.at(0.2, ok(index))
    assert len(run.out) == 5
    assert len(run.at(0.3, SetMaxInFlight(0)).started) == 45
