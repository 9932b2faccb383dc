"""The oracle is never refused and stays close to the bound, so that others can be measured against it."""

from __future__ import annotations

from typing import Any

import pytest

from headway.core.model import RetryPolicy
from headway.sim.runner import HEADWAY, ORACLE, run_once, simulate
from headway.sim.scenario import KnownLimits, LaneWork, Latency, Lognormal, ProviderSpec, Scenario, SimLane
from headway.sim.workload import draw


def scenario(**provider: Any) -> Scenario:
    spread = Lognormal(300, sigma=0.5)
    work = LaneWork(300, input_tokens=spread, output_tokens=Lognormal(50), max_tokens=100, cached=0.2)
    return Scenario({"one": SimLane(work, ProviderSpec(**provider), KnownLimits())}, seeds=(1, 2))


@pytest.mark.parametrize("depth_s", [60, 10, 1])
@pytest.mark.parametrize(
    "provider",
    [
        {"rpm": 300},
        {"tpm": 120_000},
        {"input_tpm": 90_000, "counting": "used"},
        {"rpm": 600, "latency": Latency(connect_s=0.2)},
        {"rpm": 300, "fixed_windows": True},
        {"rpm": 300, "fixed_windows": True, "window_offset_s": 0.7},
    ],
    ids=["requests", "tokens", "used", "connections", "windows", "clock"],
)
def test_it_is_never_refused_and_stays_close_to_the_bound(provider: dict[str, Any], depth_s: float) -> None:
    one = scenario(depth_s=depth_s, **provider)
    result = simulate("s", one, (ORACLE,)).policies[ORACLE].lanes["one"]
    assert result.rejected_per_1000 == 0.0
    assert result.makespan_s < 1.1 * result.bound_s + 1.0


def test_it_respects_the_slots() -> None:
    one = scenario(max_concurrency=8)
    result = simulate("s", one, (ORACLE,)).policies[ORACLE].lanes["one"]
    assert (result.rejected_per_1000, result.unfinished) == (0.0, 0)


def test_a_connection_is_reused() -> None:
    """One at a time: only the first request waits for a connection."""
    opened, kept = (scenario(max_concurrency=1, latency=Latency(connect_s=one)) for one in (1.0, 0.0))
    with_s, without_s = (run_once(one, draw(one, 1), ORACLE, 1).ended_at for one in (opened, kept))
    assert 0.5 <= with_s - without_s <= 1.5


@pytest.mark.parametrize("seed", [1, 2])
def test_the_scheduler_is_not_faster(seed: int) -> None:
    one = scenario(tpm=120_000, depth_s=10, headers="openai")
    mine_s, best_s = (run_once(one, draw(one, seed), policy, seed).ended_at for policy in (HEADWAY, ORACLE))
    assert mine_s >= best_s


def test_the_oracle_gives_a_unit_up_as_the_scheduler_does() -> None:
    one = scenario(rpm=600, depth_s=1, errors=1.0)
    log = run_once(one, draw(one, 1), ORACLE, 1).logs["one"]
    assert (log.failed, len(log.started)) == (300, 300 * RetryPolicy().max_attempts)
