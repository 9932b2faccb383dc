"""A short run of each measurement of overhead: it checks that they measure, not that the machine is fast."""

from __future__ import annotations

import pytest
from bench import overhead
from bench.overhead import Cost, Costs, Size


def test_cpu_beside_the_bare_loop() -> None:
    (few,) = overhead.costs((20,), requests=500, turns=1)
    assert 0.5 < few.cpu_ratio < 20.0
    assert few.throughput_ratio > 0.01
    assert sum(few.split) == pytest.approx(few.headway[0].cpu_s)


def test_a_job_that_is_interrupted_and_resumed() -> None:
    size = overhead.large(3_000, answers=200)
    assert 10.0 < size.peak_mb < 500.0
    assert 0.0 < size.resumed_call_s < 60.0
    assert 0.0 < size.first_call_s < 60.0
    assert 0.0 < size.status_s < 60.0


def test_every_bar_can_be_missed() -> None:
    slow, fast = Cost(1_000, 3.0, 100.0), Cost(1_000, 1.0, 1_000.0)
    few, many = Costs(100, [slow], [fast]), Costs(1_000, [Cost(1_000, 4.0, 100.0)], [fast])
    assert len(overhead.cost_misses(few, many)) == 3
    assert not overhead.cost_misses(Costs(100, [fast], [fast]), Costs(1_000, [fast], [fast]))
    small, large = Size(10, 10.0, 1.0), Size(1_000, 20.0, 10.0, 6.0, 1.0)
    assert not any(figure.met for figure in overhead.figures(small, large, 0.5))
