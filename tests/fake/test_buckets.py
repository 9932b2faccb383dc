"""Buckets are exact at given instants."""

from __future__ import annotations

import pytest

from headway.fake.limits.buckets import FixedWindow, TokenBucket


def test_a_full_bucket_admits_its_capacity_and_no_more() -> None:
    bucket = TokenBucket(limit=600, period_s=60, depth_s=60)
    for _ in range(600):
        assert bucket.wait_s(1, 0.0) == 0.0
        bucket.charge(1, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(0.1)
    assert bucket.level(0.0) == pytest.approx(0.0, abs=1e-6)
    assert bucket.full_in_s(0.0) == pytest.approx(60.0)


@pytest.mark.parametrize("limit", [1, 7, 333, 600, 1e6])
@pytest.mark.parametrize("depth_s", [0.5, 1, 10, 60])
def test_a_request_is_admitted_after_its_wait_and_not_a_millisecond_earlier(
    limit: float, depth_s: float
) -> None:
    bucket = TokenBucket(limit, 60, depth_s, least=1)
    now, started = 12345.678, 0
    while bucket.wait_s(1, now) == 0.0 and started < 50:
        bucket.charge(1, now)
        started += 1
    for _ in range(200):
        wait = bucket.wait_s(1, now)
        if wait > 0.002:
            assert bucket.wait_s(1, now + wait - 0.001) > 0.0
        now += wait
        assert bucket.wait_s(1, now) == 0.0
        bucket.charge(1, now)


def test_an_hour_of_demand_gets_the_depth_and_the_rate() -> None:
    bucket = TokenBucket(limit=100, period_s=60, depth_s=10)
    now, admitted = 0.0, 0
    while now < 3600.0:
        now += bucket.wait_s(1, now)
        if now < 3600.0:
            bucket.charge(1, now)
            admitted += 1
    assert admitted == pytest.approx(100 / 60 * 10 + 6000, abs=1)


def test_a_bucket_refills_to_its_depth_and_no_further() -> None:
    bucket = TokenBucket(limit=60, period_s=60, depth_s=5)
    bucket.charge(5, 0.0)
    assert bucket.level(2.0) == pytest.approx(2.0)
    assert bucket.level(1000.0) == 5.0


def test_a_negative_level_is_refilled_first() -> None:
    bucket = TokenBucket(limit=60, period_s=60, depth_s=60)
    bucket.charge(100, 0.0)
    assert bucket.level(0.0) == pytest.approx(-40.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(41.0)


def test_a_changed_limit_keeps_the_filled_share() -> None:
    bucket = TokenBucket(limit=600, period_s=60, depth_s=60)
    bucket.charge(300, 0.0)
    bucket.change(60)
    assert bucket.level(0.0) == pytest.approx(30.0)
    assert bucket.level(15.0) == pytest.approx(45.0)


def test_a_cost_above_the_capacity_waits_for_a_full_bucket() -> None:
    bucket = TokenBucket(limit=60, period_s=60, depth_s=10)
    assert bucket.wait_s(50, 0.0) == 0.0
    bucket.charge(1, 0.0)
    assert bucket.wait_s(50, 0.0) == pytest.approx(1.0)


def test_a_fixed_window_grants_everything_at_its_start() -> None:
    window = FixedWindow(limit=60, period_s=60, depth_s=60)
    window.charge(60, 59.0)
    assert window.wait_s(1, 59.0) == pytest.approx(1.0)
    assert window.full_in_s(59.0) == pytest.approx(1.0)
    assert window.wait_s(60, 60.0) == 0.0
    window.charge(10, 60.0)
    assert window.level(60.0) == 50.0
    assert window.level(120.0) == 60.0


def test_a_fixed_window_that_must_hold_one_is_longer() -> None:
    window = FixedWindow(limit=6, period_s=60, depth_s=1, least=1)
    window.charge(1, 0.0)
    assert window.wait_s(1, 4.0) == pytest.approx(6.0)
    assert window.wait_s(1, 10.0) == 0.0


def test_a_changed_fixed_window_keeps_the_used_share() -> None:
    window = FixedWindow(limit=600, period_s=60, depth_s=60)
    window.charge(450, 0.0)
    window.change(60)
    assert window.level(0.0) == pytest.approx(15.0)


@pytest.mark.parametrize("limit", [7, 60, 333, 1e6])
def test_a_fixed_window_never_grants_more_than_its_allowance(limit: float) -> None:
    window = FixedWindow(limit, period_s=60, depth_s=10, least=1)
    now, admitted = 0.0, 0
    while now < 3600.0 and admitted < 20_000:
        wait_s = window.wait_s(1, now)
        now += wait_s
        if wait_s == 0.0:
            window.charge(1, now)
            admitted += 1
    allowance = int(window.capacity + 1e-6)
    windows = int(now // window.length_s) + 1
    assert (windows - 1) * allowance <= admitted <= windows * allowance
