"""The bars that hold in virtual time, one seed of each here and all of them in `make bench`."""

from __future__ import annotations

import pytest
from bench import lanes
from bench.speed import Run

from headway.sim.runner import HEADWAY, simulate


@pytest.mark.parametrize("bar", lanes.BARS, ids=lambda bar: f"{bar.scenario}-{bar.order}")
def test_the_scheduler_meets_its_bar(bar: lanes.Bar) -> None:
    report = lanes.run(bar, policies=(HEADWAY,), seeds=(1,))
    assert lanes.misses(bar, report) == []


def test_a_lane_does_not_notice_a_held_one() -> None:
    assert all(ratio <= lanes.BESIDE_HELD for _, ratio in lanes.beside_held(seeds=(1,)))


def test_the_shipped_scenarios_lose_no_unit() -> None:
    for name in ("demo", "held-lane"):
        report = simulate(name, lanes.scenario(name, seeds=(1,)), (HEADWAY,))
        for lane, result in report.policies[HEADWAY].lanes.items():
            assert (lane, result.failed, result.unfinished) == (lane, 0, 0)


def test_memory_follows_the_queues_not_the_input() -> None:
    """However long the input, a lane reads only as far ahead as it needs."""
    queued = []
    for units in (10_000, 40_000):
        run = Run(units, headers=False, batched=False)
        while run.go_on():
            pass
        queued.append(run.peak_queued)
    assert 0 < queued[1] <= 1.5 * queued[0]
