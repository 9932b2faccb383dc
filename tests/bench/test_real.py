"""A short run of each real-time case: times have wide bounds that only a broken lane misses; lost units are exact."""

from __future__ import annotations

import pytest
from bench import real

#: Start-up and the reserve in the buckets matter more in a run of a few seconds.
LENGTH_S = 3.0
WIDE = 3.0


def test_a_paced_run_beside_the_oracle() -> None:
    case = real.paced("known", 1.0, LENGTH_S)
    assert case.output.sound
    assert case.exit_code == 0
    for lap in case.laps:
        assert lap.oracle_s >= 0.9 * LENGTH_S, "the oracle was faster than the limits allow"
        assert lap.makespan_s >= 0.9 * LENGTH_S, "Headway was faster than the limits allow"
        assert lap.ratio < WIDE


@pytest.mark.parametrize("trouble", ["held", "dead"])
def test_a_lane_beside_one_in_trouble_finishes(trouble: real.Trouble) -> None:
    case = real.beside(trouble, LENGTH_S, units=50)
    assert case.output.sound
    assert case.laps[0].makespan_s < WIDE * LENGTH_S


def test_a_faulty_provider_loses_nothing() -> None:
    case = real.faulty(1.0, timeout="2s")
    assert (case.output.lost, case.output.double, case.output.wrong) == (0, 0, 0)
    assert case.attempts > case.units
    assert case.faults
