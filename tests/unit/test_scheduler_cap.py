"""The global cap: never passed, shared in turns, and a permit of it is taken together with the lane's."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.unit.drive import Run, Step, failed, good, lane_spec, ok, play, units

from headway.core.model import Kind, LaneLimits, Settings


def three_lanes(cap: int, n: int = 20) -> Run:
    work = [unit for place, key in enumerate("abc") for unit in units(n, key, first=1000 * place)]
    return Run(work, *(lane_spec(key) for key in "abc"), settings=Settings(concurrency=cap))


def lanes_of(step: Step) -> Counter[str]:
    return Counter(start.unit.lane for start in step.starts)


@pytest.mark.parametrize("cap", [1, 2, 7])
def test_no_more_than_the_cap_is_ever_out(cap: int) -> None:
    run = three_lanes(cap)
    out = most = 0
    for _, step in play(run, good):
        out += len(step.starts) - len(step.finishes)
        most = max(most, out)
    assert most == cap


def test_lanes_start_in_turns() -> None:
    assert lanes_of(three_lanes(6).at(0.0)) == {"a": 2, "b": 2, "c": 2}


def test_the_lane_that_waited_longest_goes_first() -> None:
    run = three_lanes(1)
    order, step = [], run.at(0.0)
    for second in range(1, 10):
        order.append(step.starts[0].unit.lane)
        step = run.at(float(second), ok(step.started[0]))
    assert "".join(order) == "abcabcabc"


def test_a_lane_that_cannot_start_gives_its_turn_away() -> None:
    run = three_lanes(6)
    assert lanes_of(run.held(99.0, "closed", lane="b").at(0.0)) == {"a": 3, "c": 3}


def test_a_lane_comes_back_into_the_turns_after_its_hold() -> None:
    run = three_lanes(4)
    first = run.held(5.0, "closed", lane="b").at(0.0)
    assert lanes_of(run.at(6.0, *(ok(index) for index in first.started)))["b"] >= 1


def test_a_lane_waiting_for_the_cap_is_charged_nothing() -> None:
    limits = LaneLimits(rpm=60.0, burst_s=60.0)
    run = Run(
        [*units(5, "a"), *units(5, "b", first=5)],
        lane_spec("a", limits),
        lane_spec("b", limits),
        settings=Settings(concurrency=1),
    )
    assert run.at(0.0).started == [0]
    run.at(0.0)
    assert run.lane("b").limits.meters[0].level(0.0) == pytest.approx(60.0)
    assert run.lane("b").in_flight == 0


def test_the_lanes_own_window_still_counts_below_the_cap() -> None:
    run = Run(
        [*units(9, "a"), *units(9, "b", first=9)],
        lane_spec("a", LaneLimits(max_concurrency=1)),
        lane_spec("b"),
        settings=Settings(concurrency=4),
    )
    assert lanes_of(run.at(0.0)) == {"a": 1, "b": 3}


def test_a_failure_gives_its_permit_back() -> None:
    run = three_lanes(1)
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.TRANSIENT)).started == [1000]


def test_a_cap_of_zero_is_none() -> None:
    assert len(three_lanes(0).at(0.0).started) == 60


def test_everything_is_done_under_a_cap() -> None:
    steps = play(three_lanes(2), good)
    assert steps[-1][1].done == "complete"
    assert sum(len(step.finishes) for _, step in steps) == 60
