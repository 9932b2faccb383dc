"""Runs the scenario of a flow under each policy and compares the makespan with the critical path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import exp
from random import Random
from typing import Final

import msgspec

from headway.core.model import Estimate, LaneLimits, LaneSpec, Unit, Usage
from headway.core.scheduler import Scheduler
from headway.errors import UsageError
from headway.flows.running.steps.node_run import NextUnit
from headway.flows.simulated.critical_path import CriticalPath, critical_path
from headway.flows.simulated.scenario import FlowScenario, SimNode, spec_of
from headway.flows.simulated.virtual_flow import FlowUnit, NextUnits, VirtualFlow, real_order
from headway.flows.simulated.wave import WaveRun
from headway.flows.spec import FlowSpec
from headway.sim.bound import lane_bound_s
from headway.sim.scenario import LaneWork, Lognormal, ProviderSpec, Scenario, SimLane
from headway.sim.workload import Truth, Workload
from headway.sim.world import World

HEADWAY: Final = "headway"
WAVE: Final = "wave"
#: Which units come next. Below both, the same scheduler keeps to the limits of the lanes.
FLOW_POLICIES: Final[Mapping[str, Callable[[FlowSpec], NextUnits]]] = {HEADWAY: real_order, WAVE: WaveRun}
#: The lane of nodes without one: nothing limits it.
FREE: Final = "(no lane)"
_FREE_LANE: Final = SimLane(LaneWork(1), ProviderSpec())
_FREE_LIMITS: Final = LaneLimits(rpm=0, tpm=0, max_concurrency=1_000_000)
#: A run is stopped at so many times its bound.
STUCK: Final = 100.0


class StepTimes(msgspec.Struct, frozen=True):
    """When the first unit of a node was handed out, and when the last one ended."""

    start_s: float
    end_s: float
    units: int


class FlowPolicyResult(msgspec.Struct, frozen=True):
    """The result of one policy. Over several seeds: those of the worst ratio, and the most 429s.

    `bound_s` is the critical path, or the bound of the busiest lane if that is longer; `path` are the steps of the critical path.
    """

    makespan_s: float
    bound_s: float
    ratio: float
    critical_path_s: float
    path: list[str]
    rejected_per_1000: float
    unfinished: int
    nodes: dict[str, StepTimes]


class FlowSimulationReport(msgspec.Struct, frozen=True):
    """The result of `headway simulate` for a flow."""

    scenario: str
    about: str
    seeds: tuple[int, ...]
    policies: dict[str, FlowPolicyResult]


def simulate_flow(
    name: str,
    scenario: FlowScenario,
    policies: Iterable[str] = tuple(FLOW_POLICIES),
    *,
    progress: Callable[[str, int], None] = lambda policy, seed: None,
) -> FlowSimulationReport:
    """Run every policy over every seed of a scenario."""
    results = {}
    for policy in policies:
        if policy not in FLOW_POLICIES:
            raise UsageError(
                f"there is no policy '{policy}' for flows", hint=f"policies: {', '.join(FLOW_POLICIES)}"
            )
        runs = []
        for seed in scenario.seeds:
            progress(policy, seed)
            runs.append(run_flow_once(scenario, policy, seed))
        worst = max(runs, key=lambda run: run.ratio)
        most = max(run.rejected_per_1000 for run in runs)
        results[policy] = msgspec.structs.replace(worst, rejected_per_1000=most)
    return FlowSimulationReport(name, scenario.about, scenario.seeds, results)


def run_flow_once(scenario: FlowScenario, policy: str, seed: int) -> FlowPolicyResult:
    """Run one policy once."""
    spec = spec_of(scenario.flow)
    lanes = {name: lane.sim_lane for name, lane in scenario.lanes.items()} | {FREE: _FREE_LANE}
    workload = Workload([], [])
    world = World(Scenario(lanes), workload, seed)
    flow = VirtualFlow(FLOW_POLICIES[policy](spec), _scheduler(lanes), _UnitModel(scenario, seed), workload)
    world.run(flow, most_s=STUCK * max(1.0, _longest_s(scenario)))
    path = _path(scenario, spec, flow.units, workload)
    bounds = [lane_bound_s(lane.provider, workload.of(name)) for name, lane in lanes.items()]
    bound_s = max(path.length_s, *bounds)
    makespan_s = max((unit.ended_at or world.ended_at for unit in flow.units), default=0.0)
    refused = sum(len(log.refused) for log in world.logs.values())
    return FlowPolicyResult(
        makespan_s=makespan_s,
        bound_s=bound_s,
        ratio=makespan_s / bound_s if bound_s else 1.0,
        critical_path_s=path.length_s,
        path=path.steps,
        rejected_per_1000=1000.0 * refused / max(1, len(flow.units)),
        unfinished=sum(unit.ended_at is None for unit in flow.units),
        nodes=_times(flow.units),
    )


def _path(
    scenario: FlowScenario, spec: FlowSpec, units: Iterable[FlowUnit], workload: Workload
) -> CriticalPath:
    truths: dict[str, list[Truth]] = {}
    # In the order of items, whatever order they were handed out in.
    for unit, truth in sorted(zip(units, workload.truths, strict=True), key=lambda one: _place(one[0].id)):
        truths.setdefault(unit.node, []).append(truth)
    durations = {node: [truth.duration_s for truth in own] for node, own in truths.items()}
    bounds = {
        node: lane_bound_s(scenario.lanes[lane].provider, own)
        for node, own in truths.items()
        if (lane := scenario.flow.nodes[node].lane)
    }
    return critical_path(spec, durations, bounds)


def _scheduler(lanes: Mapping[str, SimLane]) -> Scheduler:
    specs = []
    for name, lane in lanes.items():
        limits = _FREE_LIMITS if name == FREE else lane.limits
        specs.append(
            LaneSpec(name, limits, counting=lane.provider.core_counting, follow_throughput=name != FREE)
        )
    return Scheduler(specs)


def _longest_s(scenario: FlowScenario) -> float:
    """About as long as everything takes, one after the other."""
    return 60.0 + sum((one.items or 1) * _mean(one.seconds or 10.0) for one in scenario.flow.nodes.values())


def _times(units: Iterable[FlowUnit]) -> dict[str, StepTimes]:
    times: dict[str, StepTimes] = {}
    for unit in units:
        ended_s = unit.ended_at if unit.ended_at is not None else unit.ready_at
        known = times.get(unit.node) or StepTimes(unit.ready_at, ended_s, 0)
        times[unit.node] = StepTimes(
            min(known.start_s, unit.ready_at), max(known.end_s, ended_s), known.units + 1
        )
    return times


def _place(unit: str) -> tuple[int, int]:
    """The item or iteration of a unit's group, and its own: `stage#7[2]`."""
    name, _, own = unit.partition("[")
    turn = name.partition("#")[2]
    return int(turn or 0), int(own.rstrip("]") or 0)


class _UnitModel:
    """Draws what a unit takes: the same for each unit of a seed, in whatever order the units come."""

    def __init__(self, scenario: FlowScenario, seed: int) -> None:
        self._scenario, self._seed = scenario, seed

    def __call__(self, index: int, unit: NextUnit) -> tuple[Unit, Truth]:
        random = Random(f"{self._seed}/{unit.id}")
        node = self._scenario.flow.nodes[unit.node]
        if not node.lane:
            seconds = _drawn(node.seconds or 0.0, random)
            return Unit(index, FREE, expected_s=seconds), Truth(Usage(), 0.0, 0.0, 0.0, seconds, seconds)
        return self._request(index, node, random)

    def _request(self, index: int, node: SimNode, random: Random) -> tuple[Unit, Truth]:
        latency = self._scenario.lanes[node.lane].provider.latency
        tokens_in = max(1.0, round(_drawn(node.input_tokens, random)))
        tokens_out = max(1.0, round(_drawn(node.output_tokens, random)))
        to_s, back_s = (latency.network_s + random.uniform(0.0, latency.jitter_s) for _ in range(2))
        service_s = latency.first_token_s + latency.per_token_s * tokens_out
        if node.seconds is not None:
            service_s = max(0.0, _drawn(node.seconds, random) - to_s - back_s)
        first_s = min(latency.first_token_s, service_s)
        truth = Truth(Usage(tokens_in, tokens_out), tokens_out, to_s, back_s, first_s, service_s)
        noise = self._scenario.estimate_noise
        estimate = Estimate(
            input_tokens=tokens_in * exp(random.gauss(-(noise**2) / 2.0, noise)),
            output_tokens=tokens_out * exp(random.gauss(-(noise**2) / 2.0, noise)),
            max_output_tokens=tokens_out,
        )
        return Unit(index, node.lane, estimate, expected_s=service_s), truth


def _mean(spread: Lognormal | float) -> float:
    return spread.mean if isinstance(spread, Lognormal) else spread


def _drawn(spread: Lognormal | float, random: Random) -> float:
    if not isinstance(spread, Lognormal):
        return spread
    value = spread.mean
    if spread.sigma:
        value *= exp(random.gauss(-(spread.sigma**2) / 2.0, spread.sigma))
    return min(value, spread.max) if spread.max is not None else value
