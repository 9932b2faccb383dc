"""A short run of the section `million`: a job that is interrupted and resumed writes every row once."""

from __future__ import annotations

from bench import million
from bench.overhead import Size


def test_a_job_that_is_interrupted_half_way_runs_to_its_end() -> None:
    job = million.measure(8_000)
    assert (job.wrong_rows, job.repeats) == (0, 0)
    assert 10.0 < job.peak_mb < 500.0
    assert 0.0 < job.resumed_call_s < 60.0
    assert job.cpu_us > 0.0


def test_every_bar_can_be_missed() -> None:
    few = Size(10, 10.0, 1.0)
    good = million.Million(1_000, 1.0, 1.0, 12.0, 1.0, 1.0, 0, 0)
    assert million.misses(good, few) == []
    bad = million.Million(1_000, 1.0, 1.0, 20.0, 9.0, 1.0, 1, 0)
    assert len(million.misses(bad, few)) == 3
