"""Units of one group run one at a time, in any lane, and those that wait hold nothing."""

from __future__ import annotations

from tests.unit.drive import ONE_BY_ONE, Run, failed, lane_spec, ok

from headway.core.events import CancelUnit
from headway.core.model import Kind, LaneLimits, Settings, Unit
from headway.core.reasons import WaitCode


def group(*indexes: int, number: int = 1, lane: str = "a") -> list[Unit]:
    return [Unit(index, lane, exclusive=number) for index in indexes]


def test_one_of_a_group_runs_at_a_time_in_order() -> None:
    run = Run(group(0, 1, 2))
    assert run.at(0.0).started == [0]
    assert run.at(1.0, ok(0)).started == [1]
    assert run.at(2.0, ok(1)).started == [2]
    assert run.at(3.0, ok(2)).done == "complete"


def test_groups_and_units_without_a_group_run_side_by_side() -> None:
    run = Run([*group(0, 1), *group(2, 3, number=2), Unit(4, "a"), Unit(5, "a")])
    assert run.at(0.0).started == [0, 2, 4, 5]


def test_those_that_wait_hold_no_permit_of_their_lane() -> None:
    run = Run([*group(0, 1, 2), Unit(3, "a"), Unit(4, "a")], lane_spec("a", LaneLimits(max_concurrency=2)))
    assert run.at(0.0).started == [0, 3]
    assert run.at(1.0, ok(3)).started == [4]
    assert run.at(2.0, ok(0)).started == [1]


def test_a_group_reaches_over_lanes() -> None:
    run = Run([*group(0, 1), *group(2, 3, lane="b")], lane_spec("a", ONE_BY_ONE), lane_spec("b", ONE_BY_ONE))
    first = run.at(0.0).started
    assert len(first) == 1
    seen = first
    for now in (1.0, 2.0, 3.0):
        [started] = run.at(now, ok(seen[-1])).started
        seen.append(started)
    assert sorted(seen) == [0, 1, 2, 3]
    assert run.at(4.0, ok(seen[-1])).done == "complete"


def test_while_one_waits_for_its_next_attempt_another_runs() -> None:
    run = Run(group(0, 1))
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.TRANSIENT)).started == [1]
    assert run.at(2.5).started == []
    assert run.at(3.0, ok(1)).started == [0]
    assert run.at(4.0, ok(0)).done == "complete"


def test_a_unit_that_is_cancelled_while_it_waits_keeps_none_back() -> None:
    run = Run(group(0, 1, 2))
    run.at(0.0)
    assert run.at(0.5, CancelUnit(1)).ended == {1: "cancelled"}
    assert run.at(1.0, ok(0)).started == [2]
    assert run.at(2.0, ok(2)).done == "complete"


def test_a_unit_that_is_cancelled_in_the_queue_lets_the_next_one_in() -> None:
    run = Run(group(0, 1, 2), lane_spec("a", LaneLimits(rpm=1, burst_s=0.0)))
    assert run.at(0.0).started == [0]
    run.at(1.0, ok(0))
    run.at(2.0, CancelUnit(1))
    assert run.at(61.0).started == [2]


def test_those_that_wait_are_reported_at_the_deadline() -> None:
    run = Run(group(0, 1, 2), settings=Settings(deadline_at=5.0))
    run.at(0.0)
    step = run.at(5.0)
    assert {1, 2} <= step.ended.keys()


def test_a_view_counts_those_that_wait_and_says_why() -> None:
    run = Run(group(0, 1, 2, 3), lane_spec("a", LaneLimits(max_concurrency=4)))
    run.at(0.0)
    run.at(10.0, ok(0))
    view = run.view(10.0)
    assert (view.in_flight, view.remaining) == (1, 2)
    assert view.wait is not None
    assert view.wait.code is WaitCode.SAME_DIRECTORY
    assert view.eta_s is not None
    assert view.eta_s >= 20.0, "they run one after the other, 10 s each"
