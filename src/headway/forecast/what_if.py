"""How long a job would have taken with other limits: its own units, run again by the real scheduler in virtual time.

The units of a lane are a sample of those that the job ran, each with the tokens that its limits were charged and the time that its
answer took. The lane has the limits that it had, and the buckets that it had found. First the job is run as it was: what that says
can be compared with what happened. Then one thing is changed at a time.

Nothing is drawn at random, so the same job gives the same figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from headway.core.lanes.lane_memory import LaneRecord, MeterRecord, import_lane
from headway.core.model import DIMENSIONS, MINUTE_S, Dimension, Estimate, LaneLimits, LaneSpec, Settings, Unit
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.forecast.answer_model import DrawnUsage
from headway.forecast.trial import LONGEST_S, NETWORK_S, truth_of
from headway.sim.scenario import LaneWork, ProviderSpec, Scenario, SimLane
from headway.sim.virtual_bucket import VirtualBucket
from headway.sim.workload import Truth, Workload
from headway.sim.world import LaneLog, World

#: The least depth of a bucket, in seconds.
LEAST_DEPTH_S: Final = 1.0
TWICE: Final = 2.0


class ReplayUnit(msgspec.Struct, frozen=True, gc=False):
    """An attempt that succeeded: what the limits were charged for it, and how long its answer took."""

    input_tokens: float
    output_tokens: float
    took_s: float


class ReplayLane(msgspec.Struct, frozen=True):
    """A lane: how many requests it answered, a sample of them in the order of the input, and its limits by dimension: so much a minute,
    and the depth of the bucket in seconds.

    `most_in_flight`: 0 is no limit. `keys`: so many accounts share the work.
    """

    name: str
    requests: int
    units: Sequence[ReplayUnit]
    limits: dict[Dimension, tuple[float, float]]
    most_in_flight: int = 0
    keys: int = 1


class ReplayJob(msgspec.Struct, frozen=True):
    """A job: its lanes, and the cap on requests in flight over all of them (0: none)."""

    lanes: Sequence[ReplayLane]
    concurrency: int = 0


class ReplayTime(msgspec.Struct, frozen=True):
    """How long a job takes, and the lane that takes longest."""

    seconds: float
    slowest: str


class Change(msgspec.Struct, frozen=True):
    """One thing that is different. `what`: tokens, requests, key, in_flight or concurrency. `lane`: "" is the whole job."""

    what: str
    lane: str = ""


def replay(job: ReplayJob) -> ReplayTime:
    """Run a job in virtual time."""
    parts = {key: lane for lane in job.lanes for key, lane in _accounts(lane)}
    units: list[Unit] = []
    truths: list[Truth] = []
    for key, drawn in _in_order(job.lanes):
        units.append(_unit(len(units), key, drawn))
        truths.append(truth_of(drawn, int(drawn.output_tokens)))
    specs = [LaneSpec(key, _limits(lane)) for key, lane in parts.items()]
    scheduler = Scheduler(specs, Settings(concurrency=job.concurrency), 0.0)
    scenario = Scenario({key: SimLane(LaneWork(1), _provider(lane)) for key, lane in parts.items()})
    world = World(scenario, Workload(units, truths), seed=1)
    for key, lane in parts.items():
        import_lane(scheduler.lanes[key], _record(key, lane), 0.0, 0.0)
        world.providers[key].buckets.update(_buckets(lane))
    world.run(FedScheduler(scheduler, ListSource(units)), LONGEST_S)
    times = {lane.name: _lane_s(lane, [world.logs[key] for key, _ in _accounts(lane)]) for lane in job.lanes}
    slowest = max(times, key=lambda name: times[name])
    return ReplayTime(times[slowest], slowest)


def changes(job: ReplayJob, slowest: str) -> Iterator[tuple[Change, ReplayJob]]:
    """What could have made a job faster: more of what its slowest lane has, and each as a job."""
    lane = next(one for one in job.lanes if one.name == slowest)
    tokens: set[Dimension] = {dimension for dimension in lane.limits if dimension is not Dimension.REQUESTS}
    if tokens:
        yield Change("tokens", slowest), _with_lane(job, _raised(lane, tokens))
    if Dimension.REQUESTS in lane.limits:
        yield Change("requests", slowest), _with_lane(job, _raised(lane, {Dimension.REQUESTS}))
    if lane.limits or lane.most_in_flight:
        yield Change("key", slowest), _with_lane(job, msgspec.structs.replace(lane, keys=lane.keys + 1))
    if lane.most_in_flight:
        more = msgspec.structs.replace(lane, most_in_flight=2 * lane.most_in_flight)
        yield Change("in_flight", slowest), _with_lane(job, more)
    if job.concurrency:
        yield Change("concurrency"), msgspec.structs.replace(job, concurrency=2 * job.concurrency)


def _with_lane(job: ReplayJob, lane: ReplayLane) -> ReplayJob:
    lanes = [lane if one.name == lane.name else one for one in job.lanes]
    return msgspec.structs.replace(job, lanes=lanes)


def _raised(lane: ReplayLane, dimensions: set[Dimension]) -> ReplayLane:
    limits = {
        name: (limit * (TWICE if name in dimensions else 1.0), depth_s)
        for name, (limit, depth_s) in lane.limits.items()
    }
    return msgspec.structs.replace(lane, limits=limits)


def _accounts(lane: ReplayLane) -> list[tuple[str, ReplayLane]]:
    """The lane of each key, by its name in the simulation."""
    return [(f"{lane.name}#{n}", lane) for n in range(lane.keys)]


def _in_order(lanes: Sequence[ReplayLane]) -> Iterator[tuple[str, DrawnUsage]]:
    """The units of all lanes, evenly mixed, each with its account."""
    rows = []
    for lane in lanes:
        accounts = _accounts(lane)
        for place, unit in enumerate(lane.units):
            key = accounts[place % len(accounts)][0]
            rows.append(((place + 0.5) / len(lane.units), key, unit))
    rows.sort(key=lambda row: row[:2])
    for _, key, unit in rows:
        yield key, DrawnUsage(unit.input_tokens, unit.output_tokens, 0.0, unit.took_s)


def _unit(index: int, lane: str, drawn: DrawnUsage) -> Unit:
    estimate = Estimate(drawn.input_tokens, drawn.output_tokens, drawn.output_tokens)
    return Unit(index, lane, estimate)


def _limits(lane: ReplayLane) -> LaneLimits:
    """The lane as if all of its limits were configured; what has no limit is known to be unlimited."""
    rpm, tpm, input_tpm, output_tpm = _rates(lane)
    return LaneLimits(rpm, tpm, input_tpm, output_tpm, max_concurrency=lane.most_in_flight)


def _record(key: str, lane: ReplayLane) -> LaneRecord:
    """What the lane knows of the depth of its buckets: all."""
    meters = tuple(
        MeterRecord(dimension, MINUTE_S, limit, depth_s, True, ceiling_s=depth_s, bottom=True)
        for dimension, (limit, depth_s) in lane.limits.items()
    )
    return LaneRecord(key, 0.0, meters=meters, answered=True)


def _provider(lane: ReplayLane) -> ProviderSpec:
    rpm, tpm, input_tpm, output_tpm = _rates(lane)
    return ProviderSpec(rpm, tpm, input_tpm, output_tpm, lane.most_in_flight)


def _buckets(lane: ReplayLane) -> dict[Dimension, VirtualBucket]:
    return {name: VirtualBucket(limit / MINUTE_S, depth_s) for name, (limit, depth_s) in lane.limits.items()}


def _rates(lane: ReplayLane) -> tuple[float, float, float, float]:
    rpm, tpm, input_tpm, output_tpm = (lane.limits.get(name, (0.0, 0.0))[0] for name in DIMENSIONS)
    return rpm, tpm, input_tpm, output_tpm


def _lane_s(lane: ReplayLane, logs: Sequence[LaneLog]) -> float:
    """When the last request of a lane ends. Beyond the sample, its limits and the pace of the second half of the sample decide."""
    ended_s = max((at for log in logs for at in log.finished), default=0.0)
    tried = len(lane.units)
    if lane.requests <= tried or tried < 2:
        return ended_s
    sent = sorted(at for log in logs for at, _ in log.admitted)
    half = len(sent) // 2
    pace_s = (sent[-1] - sent[half]) / max(1, len(sent) - 1 - half) if sent else 0.0
    return max(ended_s + (lane.requests - tried) * pace_s, _bound_s(lane))


def _bound_s(lane: ReplayLane) -> float:
    """The shortest time in which the limits of the lane allow all of its requests, with buckets that are full at the start."""
    share = lane.requests / len(lane.units)
    costs = {
        Dimension.REQUESTS: float(lane.requests),
        Dimension.TOKENS: share * sum(one.input_tokens + one.output_tokens for one in lane.units),
        Dimension.INPUT: share * sum(one.input_tokens for one in lane.units),
        Dimension.OUTPUT: share * sum(one.output_tokens for one in lane.units),
    }
    shortest_s = min(one.took_s for one in lane.units) + 2 * NETWORK_S
    bounds = [
        max(0.0, costs[dimension] / lane.keys * MINUTE_S / limit - depth_s) + shortest_s
        for dimension, (limit, depth_s) in lane.limits.items()
    ]
    if slots := lane.most_in_flight * lane.keys:
        bounds.append(share * sum(one.took_s for one in lane.units) / slots)
    return max(bounds, default=0.0)
