"""The least rate that explains what was accepted."""

from __future__ import annotations

import pytest

from headway.core.lanes.learning.recent_starts import KEPT, RecentStarts, at_least


def started(*at: float, depth: float = 1.0) -> RecentStarts:
    """Starts at these instants, out of a bucket that gave so many at once."""
    starts = RecentStarts()
    starts.drain(depth, seq=0)
    for one in at:
        starts.add(one)
    return starts


def test_a_bucket_of_one_was_refilled_between_any_two_starts() -> None:
    assert started(0.0, 9.0, 12.0).proven_rate(14.0) == pytest.approx(1.0 / 3.0)


def test_a_whole_bucket_proves_no_refill() -> None:
    assert started(0.0, 1.0, 2.0, depth=3.0).proven_rate(3.0) == 0.0
    assert started(0.0, 1.0, 2.0, 3.0, depth=3.0).proven_rate(4.0) == pytest.approx(1.0 / 3.0)


def test_a_depth_that_is_not_known_proves_nothing() -> None:
    starts = RecentStarts()
    for at in range(KEPT):
        starts.add(float(at))
    assert starts.proven_rate(99.0) == 0.0


def test_a_deep_bucket_is_not_judged_by_a_few_starts() -> None:
    assert started(*(at / 10.0 for at in range(1000)), depth=KEPT).proven_rate(101.0) == 0.0


def test_starts_that_are_too_close_prove_nothing() -> None:
    assert started(5.0, 5.5).proven_rate(6.0) == 0.0


def test_a_refused_start_is_not_counted() -> None:
    starts = started(0.0, 2.0, 4.0)
    starts.turned_back(7, 2.0)
    assert starts.proven_rate(5.0) == pytest.approx(1.0 / 4.0)


def test_refusals_of_the_burst_that_drained_the_bucket_reduce_its_depth() -> None:
    starts = RecentStarts()
    starts.drain(3.0, seq=4)
    for seq in (1, 2, 9):
        starts.turned_back(seq, 0.0)
    assert starts.depth == 1.0


def test_each_refusal_is_judged_by_what_was_accepted_since_the_one_before() -> None:
    starts = started(0.0, 3.0, 6.0)
    assert starts.proven_rate(7.0) > 0.0
    assert starts.proven_rate(8.0) == 0.0, "the limit may have fallen"


def test_all_dimensions_rise_together() -> None:
    assert at_least(2.0, [1.0, 100.0]) == [2.0, 200.0]
    assert at_least(0.5, [1.0, 100.0]) == [1.0, 100.0]
    assert at_least(0.5, [0.0, 100.0]) == [0.0, 100.0]
