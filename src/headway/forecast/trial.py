"""One run of the real scheduler in virtual time over a sample of the rows, against providers made of what is known.

A file that is too long is tried in part: what its lanes reach in the second half of the sample, when buckets are
drained and probes are over, is the pace of the rest, and no lane is faster than its limits allow in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from typing import Final

import msgspec

from headway.core.lanes.lane_memory import import_lane, rebuild_levels
from headway.core.model import LaneLimits, Settings, Unit, Usage
from headway.core.scheduler import Scheduler
from headway.core.unit_source import FedScheduler, ListSource
from headway.engine.run_spec import UnitRoute
from headway.engine.units.unit_cursors import unit_of
from headway.forecast.account import WINDOWS, account_of, blind, furnish, glimpsed
from headway.forecast.figures import ForecastRoute, LaneKnowledge, RunOptions
from headway.forecast.habits import DrawnUsage
from headway.forecast.survey import Load, Sampled
from headway.sim.scenario import LaneWork, Scenario, SimLane
from headway.sim.workload import Truth, Workload
from headway.sim.world import LaneLog, World
from headway.stores.records import PendingUnit

#: A trial that takes longer than a year does not end.
LONGEST_S: Final = 365 * 86_400.0
#: On its way to the provider and back; what earlier answers took has it in it.
NETWORK_S: Final = 0.0005


class TrialUnit(msgspec.Struct, frozen=True, gc=False):
    """A row of the sample, the load that it is of, and what it takes in this trial."""

    row: Sampled
    load: int
    drawn: DrawnUsage


class Trial(msgspec.Struct, frozen=True):
    """What came of a trial: the scheduler as it was before it began, and every lane's log."""

    fresh: Scheduler
    tried: list[TrialUnit]
    logs: dict[str, LaneLog]


def choose(
    loads: Sequence[Load], courses: Sequence[ForecastRoute], most: int, *, together: bool
) -> list[list[Sampled]]:
    """The rows to try of each load: at the most so many of a lane, of each of its loads the same share.

    Where lanes share anything (`together`) the share is the same for all of them.
    """
    totals: dict[str, int] = {}
    for load, course in zip(loads, courses, strict=True):
        totals[course.lane] = totals.get(course.lane, 0) + load.requests
    shares = {lane: min(1.0, most / total) for lane, total in totals.items()}
    if together:
        shares = dict.fromkeys(shares, min(shares.values()))
    chosen = []
    for load, course in zip(loads, courses, strict=True):
        wanted = min(len(load.sample), max(1, round(load.requests * shares[course.lane])))
        rows = load.sample
        if wanted < len(rows):
            rows = sorted(Random(wanted).sample(rows, wanted), key=lambda row: row.index)
        chosen.append(rows)
    return chosen


def try_out(
    chosen: Sequence[list[Sampled]],
    courses: Sequence[ForecastRoute],
    lanes: dict[str, LaneKnowledge],
    way: RunOptions,
    mind: str,
    utc: float,
) -> Trial:
    """Run the sample once."""
    tried = _drawn(chosen, courses, mind)
    units = [_unit(place, one, courses) for place, one in enumerate(tried)]
    truths = [_truth(one) for one in tried]
    source = ListSource([] if way.serial else [unit for unit, one in zip(units, tried, strict=True) if not one.row.serial],
                        serial=[unit for unit, one in zip(units, tried, strict=True) if way.serial or one.row.serial])  # fmt: skip
    scheduler = _scheduler(lanes, way, mind, utc)
    fresh = _scheduler(lanes, way, mind, utc)
    accounts = {key: account_of(lane, lanes[key], mind, 0.0) for key, lane in fresh.lanes.items()}
    scenario = Scenario({key: SimLane(LaneWork(1), provider) for key, (provider, _) in accounts.items()})
    world = World(scenario, Workload(units, truths), seed=1)
    for key, (_, buckets) in accounts.items():
        furnish(world.providers[key], buckets)
    world.run(FedScheduler(scheduler, source), LONGEST_S)
    return Trial(fresh, tried, world.logs)


def _drawn(chosen: Sequence[list[Sampled]], courses: Sequence[ForecastRoute], mind: str) -> list[TrialUnit]:
    """The sample in the order of the file, each row with what it takes; of one mind it is always the same."""
    tried = []
    for load, (rows, course) in enumerate(zip(chosen, courses, strict=True)):
        chance = evenly(len(rows), load)
        factors = course.habits.minds[mind]
        tried += [
            TrialUnit(row, load, course.habits.draw(row.chars, row.max_tokens, factors, chance))
            for row in rows
        ]
    tried.sort(key=lambda one: one.row.index)
    return tried


def evenly(n: int, seed: int) -> Callable[[], float]:
    """What chance gives `n` rows that draw twice each: every part of the range as often as any other, in an order by chance.

    So the sum over all rows is the one that is to be expected, and not one that happens to be drawn.
    """
    shuffle = Random(seed).sample
    parts = [(place + 0.5) / n for place in range(n)]
    draws = zip(shuffle(parts, n), shuffle(parts, n), strict=True)
    return chain.from_iterable(draws).__next__


def _unit(place: int, one: TrialUnit, courses: Sequence[ForecastRoute]) -> Unit:
    """As the engine's source makes it. Its family is nobody's: a new job's routes have new numbers."""
    row = one.row
    pending = PendingUnit(place, row.chars, row.max_tokens, row.priority, -1 - one.load)
    return unit_of(pending, UnitRoute(courses[one.load].lane))


def _truth(one: TrialUnit) -> Truth:
    drawn = one.drawn
    service_s = max(0.0, drawn.took_s - 2.0 * NETWORK_S)
    usage = Usage(drawn.input_tokens, drawn.output_tokens, drawn.cached_tokens)
    most = max(0, one.row.max_tokens) or drawn.output_tokens
    return Truth(usage, float(most), NETWORK_S, NETWORK_S, service_s, service_s)


def _scheduler(lanes: dict[str, LaneKnowledge], way: RunOptions, mind: str, utc: float) -> Scheduler:
    """The scheduler as the engine would have it at this moment."""
    settings = Settings(concurrency=way.concurrency, delay_s=way.delay_s)
    scheduler = Scheduler([known.spec for known in lanes.values()], settings, 0.0)
    for key, known in lanes.items():
        lane = scheduler.lanes[key]
        recorded_at = float("inf")
        if known.record is not None:
            recorded_at = min(0.0, known.record.recorded_utc - utc)
            import_lane(lane, known.record, 0.0, max(utc, known.record.recorded_utc))
        rebuild_levels(lane, [(-ago_s, costs) for ago_s, costs in known.starts], recorded_at)
        if glimpsed(lane, known, mind) is None and blind(lane) and (known.record is None or mind == "high"):
            lane.configure(LaneLimits(max_concurrency=WINDOWS[mind]), 0.0)
    return scheduler
