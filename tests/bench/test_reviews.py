"""The measurements of reviews: one seed of four workers under a limit, and what counts as a missed bar."""

from __future__ import annotations

import msgspec
import pytest
from bench.lanes import Bar
from bench.reviews import estimates, four_workers, large_tree

from headway.sim.runner import HEADWAY


@pytest.mark.parametrize("bar", four_workers.BARS, ids=lambda bar: bar.scenario)
def test_four_workers_that_find_a_limit_alone_lose_files_and_ours_do_not(bar: Bar) -> None:
    report = four_workers.simulated(bar, seeds=(1,))
    assert four_workers.all_misses(bar, report) == []
    assert report.policies[HEADWAY].lanes["files"].failed == 0
    assert report.policies[four_workers.POOL].lanes["files"].failed > 0
    swapped = {HEADWAY: report.policies[four_workers.POOL], four_workers.POOL: report.policies[HEADWAY]}
    assert len(four_workers.all_misses(bar, msgspec.structs.replace(report, policies=swapped))) >= 2


def test_a_tree_is_planned_estimated_and_reviewed() -> None:
    few = large_tree.measure(12)
    assert 0.0 < few.plan_s < few.estimate_s + few.run_s
    assert large_tree.misses(few, msgspec.structs.replace(few, files=13)) == []
    slow = msgspec.structs.replace(few, files=13, plan_s=6.0, run_mb=few.run_mb + 1.0)
    assert len(large_tree.misses(few, slow)) == 2


def test_an_estimate_that_is_off_is_reported() -> None:
    right = estimates.Compared("x", 10, 11.0, 10.0, 1.05, 1.0)
    assert estimates.misses(right) == []
    assert len(estimates.misses(msgspec.structs.replace(right, time_s=8.0, cost_usd=1.2))) == 2
