"""Backoff: doubling, capped, with a spread that is as good as chance and the same on every run."""

from __future__ import annotations

import pytest

from headway.core.model import Kind, RetryPolicy
from headway.core.retry import HOPELESS, LANE_STOPPERS, REFUSED, THROTTLES, backoff_s, spread


def test_the_defaults_are_those_of_http() -> None:
    retry = RetryPolicy()
    assert (retry.base_s, retry.cap_s, retry.jitter) == (1.0, 60.0, 0.2)
    assert (retry.max_attempts, retry.max_throttles) == (5, 50)
    assert (retry.hold_margin_s, retry.default_wait_s) == (2.0, 60.0)


def test_the_wait_doubles_up_to_the_cap() -> None:
    retry = RetryPolicy(base_s=1.0, cap_s=60.0, jitter=0.0)
    waits = [backoff_s(retry, 0, attempt) for attempt in range(8)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_a_very_late_attempt_still_waits_the_cap() -> None:
    assert backoff_s(RetryPolicy(jitter=0.0), 0, 100_000) == 60.0


@pytest.mark.parametrize("attempt", [0, 3, 9])
def test_jitter_comes_after_the_cap_so_that_capped_waits_spread_too(attempt: int) -> None:
    retry = RetryPolicy(base_s=1.0, cap_s=60.0, jitter=0.2)
    middle = min(2.0**attempt, 60.0)
    waits = [backoff_s(retry, index, attempt) for index in range(2000)]
    assert min(waits) >= 0.8 * middle
    assert max(waits) <= 1.2 * middle
    assert min(waits) < 0.82 * middle
    assert max(waits) > 1.18 * middle


def test_the_same_unit_and_attempt_wait_the_same_on_every_run() -> None:
    assert backoff_s(RetryPolicy(), 17, 2) == backoff_s(RetryPolicy(), 17, 2)
    assert backoff_s(RetryPolicy(), 17, 2) != backoff_s(RetryPolicy(), 18, 2)
    assert spread(17, 2) != spread(17, 3)


@pytest.mark.parametrize("attempt", [0, 1, 5])
def test_neighbouring_units_are_scattered_evenly(attempt: int) -> None:
    tenths = [0] * 10
    for index in range(10_000):
        value = spread(index, attempt)
        assert -1.0 <= value < 1.0
        tenths[int((value + 1.0) * 5.0)] += 1
    assert all(800 < count < 1200 for count in tenths)


def test_one_unit_is_scattered_over_its_attempts() -> None:
    values = sorted(spread(5, attempt) for attempt in range(1000))
    assert values[100] < -0.7
    assert values[-100] > 0.7


def test_each_kind_has_one_treatment() -> None:
    assert frozenset({Kind.RATE, Kind.CONCURRENCY, Kind.HOLD}) == THROTTLES
    assert frozenset({Kind.QUOTA, Kind.AUTH}) == LANE_STOPPERS
    assert frozenset({Kind.TOO_LARGE, Kind.INVALID}) == HOPELESS
    assert not THROTTLES & LANE_STOPPERS
    assert not THROTTLES & HOPELESS
    assert set(Kind) - REFUSED == {Kind.TRANSIENT, Kind.CRASH, Kind.TIMEOUT}


def test_a_linear_wait_grows_by_its_base_up_to_the_cap() -> None:
    retry = RetryPolicy(base_s=2.0, cap_s=7.0, jitter=0.0, linear=True)
    assert [backoff_s(retry, 0, attempt) for attempt in range(5)] == [2.0, 4.0, 6.0, 7.0, 7.0]
