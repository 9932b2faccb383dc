"""Buckets are exact on a clock that the test holds."""

from __future__ import annotations

import pytest

from headway.fake.limits.buckets import FixedWindow, TokenBucket


def test_a_full_minute_goes_at_once_and_not_one_more() -> None:
    bucket = TokenBucket(limit=600, period_s=60, depth_s=60)
    for _ in range(600):
        assert bucket.wait_s(1, 0.0) == 0.0
        bucket.charge(1, 0.0)
    assert bucket.wait_s(1, 0.0) == pytest.approx(0.1)
    assert bucket.level(0.0) == pytest.approx(0.0, abs=1e-6)
    assert bucket.full_in_s(0.0) == pytest.approx(60.0)


@pytest.mark.parametrize("limit", [1, 7, 333, 600, 1e6])
@pytest.mark.parametrize("depth_s", [0.5, 1, 10, 60])
def test_who_comes_when_told_gets_in_and_a_millisecond_earlier_does_not(limit: float, depth_s: float) -> None:
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


def test_over_an_hour_of_greed_it_gives_its_depth_and_its_rate() -> None:
    bucket = TokenBucket(limit=100, period_s=60, depth_s=10)
    now, got = 0.0, 0
    while now < 3600.0:
        now += bucket.wait_s(1, now)
        if now < 3600.0:
            bucket.charge(1, now)
            got += 1
    assert got == pytest.approx(100 / 60 * 10 + 6000, abs=1)


def test_it_refills_to_its_depth_and_no_further() -> None:
    bucket = TokenBucket(limit=60, period_s=60, depth_s=5)
    bucket.charge(5, 0.0)
    assert bucket.level(2.0) == pytest.approx(2.0)
    assert bucket.level(1000.0) == 5.0


def test_debt_is_worked_off_first() -> None:
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


def test_one_larger_than_the_bucket_waits_until_it_is_full() -> None:
    bucket = TokenBucket(limit=60, period_s=60, depth_s=10)
    assert bucket.wait_s(50, 0.0) == 0.0
    bucket.charge(1, 0.0)
    assert bucket.wait_s(50, 0.0) == pytest.approx(1.0)


def test_a_fixed_window_gives_all_at_its_start() -> None:
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
def test_a_fixed_window_never_gives_more_than_its_allowance(limit: float) -> None:
    window = FixedWindow(limit, period_s=60, depth_s=10, least=1)
    now, got = 0.0, 0
    while now < 3600.0 and got < 20_000:
        wait_s = window.wait_s(1, now)
        now += wait_s
        if wait_s == 0.0:
            window.charge(1, now)
            got += 1
    allowance = int(window.capacity + 1e-6)
    windows = int(now // window.length_s) + 1
    assert (windows - 1) * allowance <= got <= windows * allowance
