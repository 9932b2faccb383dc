"""Runs a scenario under each policy and summarises the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from headway.core.lanes.lane_memory import LaneRecord, export_lane, import_lane
from headway.core.model import LaneSpec, Settings, Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.errors import UsageError
from headway.sim.baselines import FileWorkers, GlobalPool, HalvingWindows, KnownRate
from headway.sim.bound import lane_bound_s, lane_bounds, used_share
from headway.sim.oracle import Oracle
from headway.sim.scenario import ProviderSpec, Scenario
from headway.sim.several_clients import SeparateClients, SharingJobs
from headway.sim.workload import Workload, draw
from headway.sim.world import Policy, World

#: A run is stopped at this many times its bound; the rest is reported as unfinished.
STUCK: Final = 30.0
#: A lane that starts nothing for this long has stalled.
STALL_S: Final = 3.0

HEADWAY: Final = "headway"
ORACLE: Final = "oracle"
#: The seed of the earlier run whose knowledge a warm start has.
WARMING_SEED: Final = 1000


class LaneResult(msgspec.Struct, frozen=True):
    """The result of one lane. Over several seeds: the worst of each figure; makespan and bound of the worst ratio.

    The bound is that of the units that succeeded; `binds` is the limit that determines it.
    """

    makespan_s: float
    bound_s: float
    ratio: float
    binds: str
    rejected_per_1000: float
    utilisation: float
    stalls: int
    stalled_s: float
    failed: int
    unfinished: int
    longest_queue: int = 0


class PolicyResult(msgspec.Struct, frozen=True):
    """The result of one policy, in total and for each lane."""

    makespan_s: float
    bound_s: float
    ratio: float
    rejected_per_1000: float
    lanes: dict[str, LaneResult]


class SimulationReport(msgspec.Struct, frozen=True):
    """The result of `headway simulate`."""

    scenario: str
    about: str
    seeds: tuple[int, ...]
    policies: dict[str, PolicyResult]


def _headway(scenario: Scenario, units: list[Unit], records: Iterable[LaneRecord] = ()) -> FedScheduler:
    specs = [
        LaneSpec(
            name,
            lane.limits,
            counting=lane.provider.core_counting,
            order=scenario.order,
            follow_throughput=True,
        )
        for name, lane in scenario.lanes.items()
    ]
    scheduler = Scheduler(specs, Settings(concurrency=scenario.concurrency))
    for record in records:
        import_lane(scheduler.lanes[record.lane], record, 0.0, record.recorded_utc)
    return FedScheduler(scheduler, ListSource(units))


def _warmed(scenario: Scenario, units: list[Unit]) -> FedScheduler:
    """The scheduler with what it learned in an earlier run over similar work."""
    earlier = draw(scenario, WARMING_SEED)
    earlier_run = _headway(scenario, earlier.units)
    world = World(scenario, earlier, WARMING_SEED)
    world.run(earlier_run, most_s=STUCK * max(bounds(scenario, earlier).values()))
    records = [export_lane(lane, world.ended_at, 0.0) for lane in earlier_run.scheduler.lanes.values()]
    return _headway(scenario, units, records)


def _clients(scenario: Scenario, workload: Workload) -> Policy:
    units = workload.units
    make = _warmed if scenario.warm_start else _headway
    weights = scenario.weights
    several = len(weights) or scenario.clients
    clients = [make(scenario, units[place::several]) for place in range(several)]
    if several == 1:
        return clients[0]
    return SharingJobs(clients, weights, units) if weights else SeparateClients(clients, units)


POLICIES: Final[Mapping[str, Callable[[Scenario, Workload], Policy]]] = {
    HEADWAY: _clients,
    ORACLE: Oracle,
    "known-rate": lambda scenario, workload: KnownRate(workload.units, scenario),
    "halving": lambda scenario, workload: HalvingWindows(workload.units, scenario.lanes),
    "pool-128": lambda scenario, workload: GlobalPool(workload.units, 128),
    "pool-32": lambda scenario, workload: GlobalPool(workload.units, 32),
    "pool-4": lambda scenario, workload: FileWorkers(workload.units, 4),
}
#: Compared in every scenario that names no policies. Four workers are too few for most.
USUAL: Final = tuple(name for name in POLICIES if name != "pool-4")


def simulate(
    name: str,
    scenario: Scenario,
    policies: Iterable[str] = (),
    *,
    progress: Callable[[str, int], None] = lambda policy, seed: None,
) -> SimulationReport:
    """Run every policy over every seed of a scenario. Without `policies`: those that the scenario names, or the usual ones."""
    results: dict[str, PolicyResult] = {}
    for policy in tuple(policies) or scenario.policies or USUAL:
        runs = []
        for seed in scenario.seeds:
            progress(policy, seed)
            workload = draw(scenario, seed)
            runs.append(_summarise(scenario, workload, run_once(scenario, workload, policy, seed)))
        results[policy] = _worst_of(runs)
    return SimulationReport(name, scenario.about, scenario.seeds, results)


def run_once(scenario: Scenario, workload: Workload, policy: str, seed: int) -> World:
    """Run one policy over one workload; the returned world has the logs."""
    if policy not in POLICIES:
        raise UsageError(f"unknown policy '{policy}'", hint=f"one of {', '.join(POLICIES)}")
    world = World(scenario, workload, seed)
    longest_s = max(bounds(scenario, workload).values())
    world.run(POLICIES[policy](scenario, workload), most_s=STUCK * longest_s)
    return world


def bounds(scenario: Scenario, workload: Workload) -> dict[str, float]:
    """The theoretical bound of each lane."""
    return {name: lane_bound_s(lane.provider, workload.of(name)) for name, lane in scenario.lanes.items()}


def _summarise(scenario: Scenario, workload: Workload, world: World) -> PolicyResult:
    lanes = {
        name: _summarise_lane(lane.provider, world, name, workload) for name, lane in scenario.lanes.items()
    }
    makespan_s = max(lane.makespan_s for lane in lanes.values())
    bound_s = max(lane.bound_s for lane in lanes.values())
    refused = sum(len(log.refused) for log in world.logs.values())
    return PolicyResult(
        makespan_s,
        bound_s,
        _ratio(makespan_s, bound_s),
        1000.0 * refused / max(1, len(workload.units)),
        lanes,
    )


def _ratio(makespan_s: float, bound_s: float) -> float:
    return makespan_s / bound_s if bound_s else 0.0


def _summarise_lane(provider: ProviderSpec, world: World, name: str, workload: Workload) -> LaneResult:
    log = world.logs[name]
    truths = [workload.truths[index] for index in log.succeeded]
    by_limit = lane_bounds(provider, truths)
    binds = max(by_limit, key=lambda limit: by_limit[limit])
    units = sum(unit.lane == name for unit in workload.units)
    unfinished = units - len(log.finished)
    makespan_s = max(log.finished, default=0.0) if not unfinished else world.ended_at
    last_admission_s = log.admitted[-1][0] if log.admitted else makespan_s
    gaps = [later - earlier for earlier, later in zip(log.started, log.started[1:], strict=False)]
    stalls = [gap for gap in gaps if gap > STALL_S]
    return LaneResult(
        makespan_s=makespan_s,
        bound_s=by_limit[binds],
        ratio=_ratio(makespan_s, by_limit[binds]),
        binds=binds,
        rejected_per_1000=1000.0 * len(log.refused) / max(1, units),
        utilisation=used_share(provider, truths, last_admission_s, makespan_s),
        stalls=len(stalls),
        stalled_s=sum(stalls),
        failed=log.failed,
        unfinished=unfinished,
        longest_queue=world.providers[name].longest_queue,
    )


def _worst_of(runs: list[PolicyResult]) -> PolicyResult:
    worst = max(runs, key=lambda run: run.ratio)
    lanes = {name: _worst_lane([run.lanes[name] for run in runs]) for name in worst.lanes}
    return msgspec.structs.replace(
        worst, rejected_per_1000=max(run.rejected_per_1000 for run in runs), lanes=lanes
    )


def _worst_lane(results: list[LaneResult]) -> LaneResult:
    worst = max(results, key=lambda result: result.ratio)
    return msgspec.structs.replace(
        worst,
        rejected_per_1000=max(result.rejected_per_1000 for result in results),
        utilisation=min(result.utilisation for result in results),
        stalls=max(result.stalls for result in results),
        stalled_s=max(result.stalled_s for result in results),
        failed=max(result.failed for result in results),
        unfinished=max(result.unfinished for result in results),
        longest_queue=max(result.longest_queue for result in results),
    )
