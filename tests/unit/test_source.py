"""Units in memory: a cursor for each lane, serial units separately, and the units that were never taken."""

from __future__ import annotations

from collections.abc import Sequence

from tests.unit.drive import units

from headway.core.model import Unit
from headway.core.unit_source import ListSource


def indices(taken: Sequence[Unit]) -> list[int]:
    return [unit.index for unit in taken]


def test_each_lane_has_its_own_cursor() -> None:
    source = ListSource([*units(3, "a"), *units(3, "b", first=3)])
    assert indices(source.take("b", 2)) == [3, 4]
    assert indices(source.take("a", 2)) == [0, 1]
    assert indices(source.take("b", 2)) == [5]
    assert indices(source.take("b", 2)) == []


def test_a_lane_without_units_has_none() -> None:
    source = ListSource(units(1, "a"))
    assert indices(source.take("z", 5)) == []
    assert source.remaining("z") == 0


def test_a_higher_priority_is_handed_out_first() -> None:
    source = ListSource([Unit(0, "a"), Unit(1, "a", priority=2), Unit(2, "a", priority=2), Unit(3, "a")])
    assert indices(source.take("a", 3)) == [1, 2, 0]


def test_serial_units_are_handed_out_apart() -> None:
    source = ListSource(units(2, "a", first=2), serial=[Unit(0, "a"), Unit(1, "b")])
    assert indices(source.take_serial(1)) == [0]
    assert indices(source.take_serial(5)) == [1]
    assert indices(source.take("a", 5)) == [2, 3]


def test_what_remains_counts_serial_units_of_the_lane_too() -> None:
    source = ListSource(units(3, "a", first=2), serial=[Unit(0, "a"), Unit(1, "b")])
    assert source.remaining("a") == 4
    source.take_serial(1)
    source.take("a", 1)
    assert source.remaining("a") == 2


def test_a_unit_added_later_is_handed_out() -> None:
    source = ListSource([])
    source.add(Unit(0, "a"))
    source.add(Unit(1, "b"))
    assert indices(source.take("b", 5)) == [1]
    assert indices(source.take("a", 5)) == [0]


def test_draining_gives_the_remaining_units_of_all_lanes_by_index() -> None:
    lanes = [Unit(1, "b"), Unit(2, "a"), Unit(4, "a", priority=9), Unit(5, "b")]
    source = ListSource(lanes, serial=[Unit(0, "a"), Unit(3, "b")])
    source.take("b", 1)
    drained = []
    while batch := source.drain(2):
        assert len(batch) <= 2
        drained += indices(batch)
    assert drained == [0, 2, 3, 4, 5]
    assert source.remaining("a") == source.remaining("b") == 0
