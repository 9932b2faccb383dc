"""So many groups of units are in flight at once; a group whose open units all wait does not count."""

from __future__ import annotations

from tests.unit.drive import ONE_BY_ONE, Run, failed, lane_spec, ok

from headway.core.model import Kind, Settings, Unit
from headway.core.reasons import WaitCode
from headway.core.snapshot import snapshot

TWO = Settings(max_groups=2)


def units(*sizes: int, lane: str = "a") -> list[Unit]:
    """Groups of these sizes, one after the other."""
    groups = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    return [Unit(index, lane, group=group) for index, group in enumerate(groups)]


def test_so_many_groups_are_in_flight_and_each_with_all_its_units() -> None:
    run = Run(units(3, 2, 2, 1), settings=TWO)
    assert run.at(0.0).started == [0, 1, 2, 3, 4]
    assert run.at(1.0, ok(0), ok(1), ok(3)).started == []
    assert run.at(2.0, ok(2)).started == [5, 6]
    assert run.at(3.0, ok(4)).started == [7]
    assert run.at(4.0, ok(5), ok(6), ok(7)).done == "complete"


def test_units_without_a_group_do_not_count() -> None:
    run = Run([*units(1, 1, 1), Unit(3, "a")], settings=TWO)
    assert run.at(0.0).started == [0, 1]
    assert run.at(1.0, ok(0)).started == [2, 3]


def test_a_group_whose_units_all_wait_does_not_count() -> None:
    run = Run(units(1, 1, 1), settings=TWO)
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.TRANSIENT)).started == [2]
    assert run.at(2.5).started == []
    assert run.at(3.0, ok(1)).started == [0]
    assert run.at(4.0, ok(0), ok(2)).done == "complete"


def test_a_lane_that_waits_for_a_place_starts_when_another_lane_frees_one() -> None:
    other = [Unit(2, "b", group=3), Unit(3, "b", group=4)]
    run = Run([*units(1, 1), *other], lane_spec("a", ONE_BY_ONE), lane_spec("b", ONE_BY_ONE), settings=TWO)
    first = run.at(0.0).started
    assert sorted(first) == [0, 2]
    assert sorted(run.at(1.0, ok(0), ok(2)).started) == [1, 3]


def test_the_wait_has_a_name() -> None:
    run = Run(units(1, 1, 1), settings=TWO)
    run.at(0.0)
    [lane] = snapshot(run.scheduler, 0.0, lambda lane: 0).lanes
    assert lane.wait is not None
    assert (lane.wait.code, lane.wait.limit) == (WaitCode.GROUP_CAP, 2)
