"""The oracle's buckets and windows are exact: they admit what the limit allows and not a token more."""

from __future__ import annotations

import pytest
from bench.oracle import MARGIN_S, Buckets, Windows


def test_a_full_bucket_and_then_the_rate() -> None:
    buckets = Buckets((10.0,), 1.0)
    now, sent = 100.0, 0
    while now < 110.0:
        now = max(now, buckets.ready_at((1.0,)))
        buckets.take((1.0,), now)
        sent += 1
    assert sent == pytest.approx(10.0 * (10.0 + 1.0 - MARGIN_S), abs=1.5)


def test_the_tightest_bucket_binds() -> None:
    buckets = Buckets((10.0, 100.0), 1.0)
    buckets.take((1.0, 95.0), 0.0)
    assert buckets.ready_at((1.0, 50.0)) == pytest.approx(0.45 + MARGIN_S)


def test_a_window_admits_its_allowance_and_then_waits_for_the_next_boundary() -> None:
    windows = Windows((2.0,), 60.0)
    now = 1_000.0  # The window from 960 to 1,020.
    sent: list[float] = []
    for _ in range(300):
        now = max(now, windows.ready_at((1.0,)))
        windows.take((1.0,), now)
        sent.append(now)
    assert [sent.count(at) for at in dict.fromkeys(sent)] == [120, 120, 60]
    assert list(dict.fromkeys(sent)) == pytest.approx([1_000.0, 1_020.0 + MARGIN_S, 1_080.0 + MARGIN_S])
