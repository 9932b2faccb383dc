"""The bars in virtual time, with one seed each; `make bench` runs all seeds."""

from __future__ import annotations

import pytest
from bench import lanes
from bench.speed import Run

from headway.sim.runner import HEADWAY, simulate


@pytest.mark.parametrize("bar", lanes.BARS, ids=lambda bar: f"{bar.scenario}-{bar.order}")
def test_the_scheduler_meets_its_bar(bar: lanes.Bar) -> None:
    report = lanes.run(bar, policies=(HEADWAY,), seeds=(1,))
    assert lanes.misses(bar, report) == []


def test_a_held_lane_does_not_slow_down_another() -> None:
    assert all(ratio <= lanes.BESIDE_HELD for _, ratio in lanes.beside_held(seeds=(1,)))


def test_the_shipped_scenarios_lose_no_unit() -> None:
    for name in ("demo", "held-lane"):
        report = simulate(name, lanes.scenario(name, seeds=(1,)), (HEADWAY,))
        for lane, result in report.policies[HEADWAY].lanes.items():
            assert (lane, result.failed, result.unfinished) == (lane, 0, 0)


def test_memory_depends_on_the_queues_and_not_on_the_input() -> None:
    """A lane reads only as far ahead as it needs, however long the input is."""
    queued = []
    for units in (10_000, 40_000):
        run = Run(units, headers=False, batched=False)
        while run.go_on():
            pass
        queued.append(run.peak_queued)
    assert 0 < queued[1] <= 1.5 * queued[0]
