"""The search for the boundaries of fixed windows: bounded in probes, and nearer to each boundary with each window."""

from __future__ import annotations

import pytest

from headway.core.lanes.learning.boundary_search import FINE_S, LENGTHS_S, BoundarySearch


def first_boundary(search: BoundarySearch, closed_at: float, boundary_at: float) -> list[float]:
    """The probes until one is accepted."""
    probes = [search.closed(closed_at)]
    while probes[-1] < boundary_at:
        probes.append(search.refused(probes[-1]))
    search.accepted(probes[-1])
    return probes


@pytest.mark.parametrize("boundary_at", [8.0, 23.0, 47.0, 60.0, 119.0])
def test_a_search_costs_a_bounded_number_of_probes(boundary_at: float) -> None:
    probes = first_boundary(BoundarySearch(0.0, 5.0), 5.0, boundary_at)
    assert len(probes) <= 30
    assert probes == sorted(set(probes))
    assert probes[-1] - boundary_at < 0.15 * boundary_at + 2.0


def test_a_window_that_begins_with_the_first_request_is_found_where_it_begins() -> None:
    probes = first_boundary(BoundarySearch(100.0, 105.0), 105.0, 160.0)
    assert probes[-1] == pytest.approx(160.25)


@pytest.mark.parametrize("length_s", [10.0, 15.0, 30.0, 60.0])
def test_the_second_boundary_says_how_long_a_window_is(length_s: float) -> None:
    search = BoundarySearch(0.0, 5.0)
    first_at = first_boundary(search, 5.0, 7.0)[-1]
    assert search.known.length_s == 0.0
    probes = first_boundary(search, first_at + 3.0, 7.0 + length_s)
    assert search.known.length_s == length_s
    assert probes[-1] == pytest.approx(first_at + length_s)
    assert len(probes) <= len(LENGTHS_S)


def test_each_window_halves_what_its_boundary_lies_in() -> None:
    search = BoundarySearch(0.0, 5.0)
    boundary_at = 47.0
    first_boundary(search, 5.0, boundary_at)
    widths = []
    for _ in range(8):
        boundary_at += 60.0
        first_boundary(search, boundary_at - 55.0, boundary_at)
        assert search.known.next is not None
        low_at, high_at = search.known.next
        assert low_at < boundary_at + 60.0 <= high_at
        widths.append(high_at - low_at)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] <= FINE_S


def test_a_known_boundary_takes_one_probe() -> None:
    search = BoundarySearch(0.0, 5.0, length_s=60.0)
    search.announced(19.8, 20.0)
    search.accepted(20.0)
    assert search.closed(30.0) == pytest.approx(80.0, abs=FINE_S)


def test_a_boundary_that_comes_late_is_found_in_growing_steps() -> None:
    search = BoundarySearch(0.0, 5.0, length_s=60.0)
    search.announced(20.0, 20.0)
    search.accepted(20.0)
    probes = [search.closed(30.0)]
    while probes[-1] < 82.0:
        probes.append(search.refused(probes[-1]))
    assert len(probes) <= 5
    search.accepted(probes[-1])
    assert search.known.due_at == pytest.approx(probes[-1] + 60.0)


def test_boundaries_that_pass_unused_are_counted_on() -> None:
    search = BoundarySearch(0.0, 5.0, length_s=60.0)
    search.announced(19.0, 20.0)
    search.accepted(20.0)
    search.passed(200.0)
    assert search.known.due_at == pytest.approx(260.0)


def test_what_is_closed_for_longer_than_any_window_is_known_by_that() -> None:
    search = BoundarySearch(0.0, 5.0)
    search.closed(5.0)
    assert not search.too_long(100.0)
    assert search.too_long(130.0)
