"""What units are expected to take: by family and size, by the nearest size, by the lane's mean, by size alone."""

from __future__ import annotations

from math import sqrt

import pytest

from headway.core.lanes.estimate import ENOUGH
from headway.core.lanes.queueing.unit_lengths import (
    MOST_SIZES,
    NOTHING_KNOWN,
    OPEN_OUTPUT,
    LengthTable,
    UnitLengths,
    size_of,
    unit_size,
)
from headway.core.model import Estimate, Unit

SMALL = size_of(100, 16)


def learned(*seen: tuple[str, tuple[int, int], float]) -> LengthTable:
    lengths = UnitLengths()
    for family, size, took_s in seen:
        lengths.learn(family, size, took_s)
    return lengths.table()


def test_a_size_is_a_power_of_two_of_either_number() -> None:
    assert size_of(1000, 256) == (10, 9)
    assert size_of(1023, 511) == (10, 9)
    assert size_of(1024, 512) == (11, 10)


@pytest.mark.parametrize("max_tokens", [0, -1], ids=["no limit", "no answer"])
def test_an_answer_without_a_limit_has_a_usual_size(max_tokens: int) -> None:
    assert size_of(100, max_tokens)[1] == OPEN_OUTPUT


def test_a_unit_is_sized_by_its_characters_or_by_its_tokens() -> None:
    assert unit_size(Unit(0, "a", Estimate(max_output_tokens=16.0), chars=100)) == SMALL
    assert unit_size(Unit(0, "a", Estimate(input_tokens=25.0, max_output_tokens=16.0))) == SMALL


def test_what_was_seen_of_a_family_and_size_is_expected_again() -> None:
    table = learned(("f", SMALL, 2.0), ("f", SMALL, 6.0), ("g", SMALL, 64.0))
    assert table.expected_s("f", SMALL) == 4.0
    assert table.expected_s("g", SMALL) == 64.0


def test_the_latest_units_count_more_than_early_ones() -> None:
    table = learned(*[("f", SMALL, 1.0)] * 50, *[("f", SMALL, 16.0)] * 50)
    assert table.expected_s("f", SMALL) == 16.0


def test_expectations_are_rounded_so_that_near_ones_are_equal() -> None:
    table = learned(("f", SMALL, 4.1), ("g", SMALL, 3.8), ("h", SMALL, 5.5))
    assert table.expected_s("f", SMALL) == table.expected_s("g", SMALL) == 4.0
    assert table.expected_s("h", SMALL) == pytest.approx(4.0 * sqrt(2.0))


def test_an_unseen_size_is_expected_by_the_nearest_of_its_family() -> None:
    table = learned(("f", (8, 5), 2.0), ("f", (12, 5), 8.0), ("g", (8, 5), 100.0))
    assert table.expected_s("f", (14, 5)) == 16.0  # Four times the input, twice the time.
    assert table.expected_s("f", (12, 7)) == 32.0  # Four times the answer, four times the time.


def test_a_new_family_is_expected_by_the_mean_of_the_lane() -> None:
    table = learned(("f", (8, 5), 2.0), ("g", (8, 5), 6.0))
    assert table.expected_s("new", (8, 5)) == 4.0
    assert table.expected_s("new", (8, 8)) == 32.0


def test_before_anything_ended_units_are_ordered_by_their_size() -> None:
    expected = [NOTHING_KNOWN.expected_s("", size) for size in ((8, 4), (10, 4), (10, 8))]
    assert expected == sorted(expected)
    assert len(set(expected)) == 3


def test_a_length_that_is_known_beforehand_is_taken_as_it_is() -> None:
    assert NOTHING_KNOWN.of(Unit(0, "a", expected_s=3.3)) == 3.3


def test_units_that_took_no_time_are_expected_to_take_none() -> None:
    assert learned(("f", SMALL, 0.0)).expected_s("f", SMALL) == 0.0


def test_enough_units_make_lengths_known() -> None:
    lengths = UnitLengths()
    for _ in range(ENOUGH - 1):
        lengths.learn("f", SMALL, 1.0)
    assert not lengths.known
    lengths.learn("f", SMALL, 1.0)
    assert lengths.known


def test_a_family_a_unit_does_not_fill_the_memory() -> None:
    lengths = UnitLengths()
    for number in range(2 * MOST_SIZES):
        lengths.learn(f"f{number}", SMALL, 1.0)
    assert len(lengths.table().families) == MOST_SIZES


def test_a_table_does_not_change_when_more_is_learned() -> None:
    lengths = UnitLengths()
    lengths.learn("f", SMALL, 1.0)
    table = lengths.table()
    lengths.learn("f", SMALL, 1000.0)
    assert table.expected_s("f", SMALL) == 1.0
