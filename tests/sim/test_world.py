"""The simulated world: under every policy every unit finishes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.sim.runner import POLICIES, run_once, simulate
from headway.sim.scenario import (
    KnownLimits,
    LaneWork,
    Latency,
    Lognormal,
    ProviderSpec,
    Scenario,
    SimLane,
    Span,
)
from headway.sim.workload import draw


def scenario(**provider: object) -> Scenario:
    spec = ProviderSpec(rpm=600, depth_s=1, **provider)  # type: ignore[arg-type]
    return Scenario({"one": SimLane(LaneWork(60), spec, KnownLimits())})


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "provider",
    [
        {},
        {"headers": "openai"},
        {"errors": 0.2},
        {"outages": (Span(2, 5),)},
        {"holds": (Span(2, 90),)},
        {"max_concurrency": 2},
    ],
    ids=lambda provider: next(iter(provider), "plain"),
)
def test_every_policy_finishes_every_unit(policy: str, provider: dict[str, object]) -> None:
    one = scenario(**provider)
    world = run_once(one, draw(one, 1), policy, 1)
    assert len(world.logs["one"].finished) == 60
    assert world.providers["one"].in_flight == 0


def test_a_refusal_takes_its_own_time() -> None:
    first = {}
    for refusal_s in (0.0, 0.7):
        latency = Latency(network_s=0.01, jitter_s=0.0, refusal_s=refusal_s)
        one = scenario(latency=latency)
        world = run_once(one, draw(one, 1), "pool-32", 1)
        first[refusal_s] = min(world.logs["one"].refused)
    assert first[0.0] == pytest.approx(0.02)
    assert first[0.7] == pytest.approx(0.72)


def test_a_run_is_reproducible() -> None:
    first, second = (simulate("s", scenario(errors=0.1)) for _ in range(2))
    assert first == second


def test_figures_are_the_worst_of_the_seeds() -> None:
    several = Scenario(scenario(errors=0.1).lanes, seeds=(1, 2, 3))
    worst = simulate("s", several, ("headway",)).policies["headway"].lanes["one"]
    singles = [
        simulate("s", Scenario(several.lanes, seeds=(seed,)), ("headway",)).policies["headway"].lanes["one"]
        for seed in (1, 2, 3)
    ]
    assert worst.ratio == max(single.ratio for single in singles)
    assert worst.rejected_per_1000 == max(single.rejected_per_1000 for single in singles)


def test_units_that_never_fit_fail_and_do_not_count_in_the_bound() -> None:
    huge = Scenario(
        {"one": SimLane(LaneWork(5, input_tokens=Lognormal(9000)), ProviderSpec(tpm=6000), told="truth")}
    )
    result = simulate("s", huge, ("headway",)).policies["headway"].lanes["one"]
    assert (result.failed, result.unfinished, result.ratio) == (5, 0, 0.0)


def test_the_binding_limit_is_named() -> None:
    both = Scenario(
        {
            "one": SimLane(
                LaneWork(200, input_tokens=Lognormal(500)), ProviderSpec(rpm=600, tpm=6000, depth_s=1)
            )
        }
    )
    assert simulate("s", both, ("headway",)).policies["headway"].lanes["one"].binds == "tokens/min"


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_a_plot_is_written(tmp_path: Path, suffix: str) -> None:
    from headway.sim.plot import plot

    path = tmp_path / f"lanes.{suffix}"
    plot(
        path,
        "s",
        Scenario(
            {
                **scenario(max_concurrency=0).lanes,
                "two": SimLane(LaneWork(20), ProviderSpec(max_concurrency=2)),
            }
        ),
    )
    head = path.read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if suffix == "png" else b"<?xml" in head
