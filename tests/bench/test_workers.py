"""A short run of the measurement of worker processes: it measures, and says nothing about how fast the machine is."""

from __future__ import annotations

from bench import workers


def test_no_op_units_through_map_and_through_an_executor() -> None:
    cost = workers.overhead(units=500, rounds=1)
    assert cost.executor_us > 0.0
    assert 0.0 < cost.ratio < 1_000.0
