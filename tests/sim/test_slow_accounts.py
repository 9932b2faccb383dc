"""Accounts that allow a few requests a minute and tell nothing: each refusal is followed by a wait at the learned pace."""

from __future__ import annotations

import pytest
from bench.sweep.cells import Cell, measure


@pytest.mark.parametrize(("depth_s", "ratio"), [(1.0, 1.15), (10.0, 1.01), (60.0, 1.01)])
def test_twenty_a_minute_are_found_without_a_storm_of_refusals(depth_s: float, ratio: float) -> None:
    for seed in (1, 2, 3, 25, 26, 27):
        result = measure(Cell(400, depth_s, 0.3, "blind", 20), seed)
        assert result.refused < 0.1 * 400, f"seed {seed}: {result.refused} refusals"
        assert result.ratio < ratio, f"seed {seed}"


def test_late_reports_of_a_burst_free_nothing() -> None:
    assert measure(Cell(4_000, 60.0, 10.0, "headers", 2_000)).refused < 20
