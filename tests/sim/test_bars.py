"""The bars in virtual time, with one seed each; `make bench` runs all seeds."""

from __future__ import annotations

import msgspec
import pytest
from bench import lanes
from bench.speed import Run

from headway.sim.runner import HEADWAY, simulate


@pytest.mark.parametrize("bar", lanes.BARS, ids=lambda bar: f"{bar.scenario}-{bar.order}")
def test_the_scheduler_meets_its_bar(bar: lanes.Bar) -> None:
    report = lanes.run(bar, policies=(HEADWAY,), seeds=(1,))
    assert lanes.misses(bar, report) == []


def test_every_lane_bar_can_be_missed() -> None:
    """Also by units that fail, and by requests that wait in the server's queue."""
    bar = next(bar for bar in lanes.BARS if bar.scenario == "queueing-server")
    report = lanes.run(bar, policies=(HEADWAY,), seeds=(1,))
    policy = report.policies[HEADWAY]
    worse = {
        "ratio": 2.0,
        "rejected_per_1000": 1.0,
        "unfinished": 1,
        "failed": 1,
        "longest_queue": bar.queue + 1,
    }
    for name, value in worse.items():
        lane = msgspec.structs.replace(policy.lanes["local"], **{name: value})
        changed = msgspec.structs.replace(policy, lanes={"local": lane})
        missed = lanes.misses(bar, msgspec.structs.replace(report, policies={HEADWAY: changed}))
        assert len(missed) == 1, name


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
