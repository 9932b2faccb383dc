"""What a simulated fleet reached, lane by lane and in total, beside its bars."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from time import perf_counter
from typing import Final

import msgspec

from bench.scale.fleet import Fleet, lane_specs, records_of
from bench.scale.fleet_plan import FleetPlan
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.sim.scenario import ProviderSpec, Scenario
from headway.sim.workload import Truth, Workload, draw, settled_costs
from headway.sim.world import World

#: A simulation ends after this many times its work at the latest.
MOST: Final = 3.0
#: How long the earlier run has work for, and how long before the fleet it ended.
WARM_S: Final = 15.0
LONG_AGO_S: Final = 3_600.0
#: A lane has work for all engines until this share of its units was admitted.
BUSY: Final = 0.95
#: By then the buckets that were full at the start are used, and all engines have begun.
FULL_S: Final = 10.0
#: Fairness is measured from here until this share of the time for which there is work.
FAIR_FROM_S: Final = 10.0
FAIR_UNTIL: Final = 0.8
#: What a partition causes comes within this time of its end.
AFTER_S: Final = 10.0


class LaneUse(msgspec.Struct, frozen=True):
    """One lane: the share of its limit that was used while there was work, and its refusals."""

    name: str
    units: int
    used: float
    refused: int
    #: Around each partition: how many requests were refused, and how many admitted.
    around: list[tuple[int, int]]

    @property
    def refused_per_1000(self) -> float:
        """429s per 1000 units."""
        return 1000.0 * self.refused / max(1, self.units)


class FleetResult(msgspec.Struct, frozen=True):
    """The result of one plan."""

    engines: int
    lanes: list[LaneUse]
    units: int
    #: How often a unit was recorded as ended more than once, or never.
    doubled: int
    lost: int
    #: Requests that were admitted beyond one for each unit: their first answers died with an engine.
    sent_again: int
    #: Requests that engines sent though they had lost the database longer ago than a grant lasts.
    late_starts: int
    takeovers: int
    fenced: int
    #: The least and the most that a job used of what is its due by weight.
    fairness: tuple[float, float]
    #: By the database.
    reads_per_s: float
    rows_read_per_s: float
    commits_per_s: float
    claims_written_per_s: float
    notes_per_s: float
    server_cores: float
    commit_s: float
    #: Seconds of CPU of this machine for a second of one engine: its scheduler, and its share in the sharing of lanes.
    scheduler_cpu: float
    sharing_cpu: float
    virtual_s: float
    took_s: float

    @property
    def used(self) -> float:
        """The share of all limits that was used, in the mean of the lanes."""
        return sum(lane.used for lane in self.lanes) / len(self.lanes)

    @property
    def refused_per_1000(self) -> float:
        """429s per 1000 units of all lanes."""
        return 1000.0 * sum(lane.refused for lane in self.lanes) / self.units

    @property
    def beyond(self) -> float:
        """The most that was sent beyond the limits around one partition, as a share of what they admitted."""
        spans = zip(*(lane.around for lane in self.lanes), strict=True)
        return max((_share(list(span)) for span in spans), default=0.0)


def _share(around: list[tuple[int, int]]) -> float:
    return sum(refused for refused, _ in around) / max(1, sum(admitted for _, admitted in around))


def run_fleet(plan: FleetPlan) -> FleetResult:
    """Run a plan to the end of all jobs, or until it is clear that they do not end."""
    began = perf_counter()
    scenario = plan.scenario()
    workload = draw(scenario, plan.seed)
    world = World(scenario, workload, plan.seed)
    fleet = Fleet(plan, scenario, workload, _earlier(plan) if plan.warm else {})
    world.run(fleet, most_s=MOST * plan.work_s + plan.lease_s)
    return _result(plan, scenario, workload, world, fleet, perf_counter() - began)


def _earlier(plan: FleetPlan) -> dict[str, bytes]:
    """What one engine alone records of the lanes, long enough before that all buckets are full again."""
    short = msgspec.structs.replace(plan, work_s=WARM_S, seed=plan.seed + 1_000)
    scenario = short.scenario()
    workload = draw(scenario, short.seed)
    alone = FedScheduler(Scheduler(lane_specs(scenario)), ListSource(workload.units))
    world = World(scenario, workload, short.seed)
    world.run(alone, most_s=MOST * WARM_S)
    return records_of(alone.scheduler, world.ended_at, -LONG_AGO_S)


def _result(
    plan: FleetPlan, scenario: Scenario, workload: Workload, world: World, fleet: Fleet, took_s: float
) -> FleetResult:
    database, seconds = fleet.database, world.ended_at
    times = Counter(database.ended)
    admitted = sum(len(log.admitted) for log in world.logs.values())
    ran_s = max(1.0, fleet.ran_s(seconds))
    return FleetResult(
        engines=plan.engines,
        lanes=[_lane(plan, name, lane.provider, workload, world) for name, lane in scenario.lanes.items()],
        units=len(workload.units),
        doubled=sum(count > 1 for count in times.values()),
        lost=len(workload.units) - len(times),
        sent_again=admitted - len({index for log in world.logs.values() for _, index in log.admitted}),
        late_starts=fleet.late_starts,
        takeovers=fleet.takeovers,
        fenced=fleet.fenced,
        fairness=_fairness(plan, world, fleet),
        reads_per_s=database.reads / seconds,
        rows_read_per_s=database.rows_read / seconds,
        commits_per_s=database.commits / seconds,
        claims_written_per_s=database.claims_written / seconds,
        notes_per_s=fleet.notes / seconds,
        server_cores=database.busy_s / seconds,
        commit_s=database.commit_s / max(1, database.commits),
        scheduler_cpu=fleet.cpu.scheduler_s / ran_s,
        sharing_cpu=fleet.cpu.sharing_s / ran_s,
        virtual_s=seconds,
        took_s=took_s,
    )


def _lane(plan: FleetPlan, name: str, provider: ProviderSpec, workload: Workload, world: World) -> LaneUse:
    log = world.logs[name]
    first: dict[int, float] = {}
    for at, index in log.admitted:
        first.setdefault(index, at)
    units = sum(unit.lane == name for unit in workload.units)
    busy_until = sorted(first.values())[min(len(first), int(BUSY * units)) - 1]
    during = [index for at, index in log.admitted if FULL_S <= at <= busy_until]
    return LaneUse(
        name,
        units,
        _used(provider, [workload.truths[index] for index in during], busy_until - FULL_S),
        len(log.refused),
        [_around(world, name, *span) for span in _spans(plan)],
    )


def _used(provider: ProviderSpec, truths: list[Truth], seconds: float) -> float:
    """The share of the limit that was used in so many seconds."""
    if provider.max_concurrency:
        spent_s = sum(truth.duration_s for truth in truths)
        return spent_s / (provider.max_concurrency * seconds)
    limits = {"requests": provider.rpm, "tokens": provider.tpm}
    costs = [settled_costs(provider, truth) for truth in truths]
    return max(
        sum(cost[name] for cost in costs) / (limit / 60.0 * seconds)
        for name, limit in limits.items()
        if limit
    )


def _spans(plan: FleetPlan) -> Iterator[tuple[float, float]]:
    """When each partition may cause refusals."""
    for trouble in plan.troubles:
        if trouble.lasts_s is not None:
            yield trouble.at_s, trouble.at_s + trouble.lasts_s + AFTER_S


def _around(world: World, name: str, since: float, until: float) -> tuple[int, int]:
    log = world.logs[name]
    refused = sum(since <= at < until for at in log.refused)
    admitted = bisect_left(log.admitted, (until, -1)) - bisect_left(log.admitted, (since, -1))
    return refused, admitted


def _fairness(plan: FleetPlan, world: World, fleet: Fleet) -> tuple[float, float]:
    """The least and the most that a job without trouble was given of what is its due by weight."""
    troubled = {host for _, hosts in plan.chosen_hosts() for host in hosts}
    given: Counter[int] = Counter()
    due: dict[int, float] = dict.fromkeys(set(range(plan.engines)) - troubled, 0.0)
    for name, log in world.logs.items():
        left = {job: sum(unit.lane == name for unit in fleet.units[job]) for job in due}
        _deal(plan, left, [(at, fleet.job_of[index]) for at, index in log.admitted], given, due)
    parts = [given[job] / of for job, of in due.items() if of]
    return min(parts, default=0.0), max(parts, default=0.0)


def _deal(
    plan: FleetPlan,
    left: dict[int, int],
    admitted: list[tuple[float, int]],
    given: Counter[int],
    due: dict[int, float],
) -> None:
    """Count what each job was given on one lane, and what was its due: of each request the weight of the job beside all that have work left."""
    weights = plan.weights
    waiting = {job for job, units in left.items() if units}
    for at, of_job in admitted:
        if of_job not in waiting:
            continue
        if FAIR_FROM_S <= at < FAIR_UNTIL * plan.work_s:
            given[of_job] += 1
            total = sum(weights[job] for job in waiting)
            for job in waiting:
                due[job] += weights[job] / total
        left[of_job] -= 1
        if not left[of_job]:
            waiting.discard(of_job)
