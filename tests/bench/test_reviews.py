"""The measurements of reviews: one seed of four workers under a limit, and what counts as a missed bar."""

from __future__ import annotations

import msgspec
import pytest
from bench.lanes import Bar
from bench.reviews import four_workers

from headway.sim.runner import HEADWAY


@pytest.mark.parametrize("bar", four_workers.BARS, ids=lambda bar: bar.scenario)
def test_four_workers_that_find_a_limit_alone_lose_files_and_ours_do_not(bar: Bar) -> None:
    report = four_workers.simulated(bar, seeds=(1,))
    assert four_workers.all_misses(bar, report) == []
    assert report.policies[HEADWAY].lanes["files"].failed == 0
    assert report.policies[four_workers.POOL].lanes["files"].failed > 0
    swapped = {HEADWAY: report.policies[four_workers.POOL], four_workers.POOL: report.policies[HEADWAY]}
    assert len(four_workers.all_misses(bar, msgspec.structs.replace(report, policies=swapped))) >= 2
