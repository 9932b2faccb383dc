"""The oracle's buckets are exact: they admit what a bucket holds and not a token more."""

from __future__ import annotations

import pytest
from bench.oracle import MARGIN_S, Buckets


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
