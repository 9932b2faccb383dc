"""One run of the real scheduler in virtual time over a sample of the rows, against assumed providers.

Of a long file only a sample runs. The pace of the second half of the sample, when buckets are drained and their depth is
found, is the pace of the rest, and no lane is faster than its limits allow in total.
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
from headway.engine.run_spec import UnitGroups, UnitRoute
from headway.engine.units.unit_cursors import unit_of
from headway.forecast.answer_model import DrawnUsage
from headway.forecast.assumed_provider import (
    WINDOWS,
    assumed_provider,
    has_no_known_limit,
    met_rate,
    set_buckets,
)
from headway.forecast.figures import ForecastRoute, LaneKnowledge, RunOptions
from headway.forecast.survey import Load, Sampled
from headway.sim.scenario import LaneWork, Scenario, SimLane
from headway.sim.workload import Truth, Workload
from headway.sim.world import LaneLog, World
from headway.stores.records import PendingUnit

#: A trial ends after a year of virtual time.
LONGEST_S: Final = 365 * 86_400.0
#: The way to the provider, and the way back; the durations of earlier answers include it.
NETWORK_S: Final = 0.0005


class TrialUnit(msgspec.Struct, frozen=True, gc=False):
    """A row of the sample, its load, and its usage in this trial."""

    row: Sampled
    load: int
    drawn: DrawnUsage


class Trial(msgspec.Struct, frozen=True):
    """The result of a trial: the scheduler before it began, and the log of each lane."""

    fresh: Scheduler
    tried: list[TrialUnit]
    logs: dict[str, LaneLog]


def choose(
    loads: Sequence[Load], routes: Sequence[ForecastRoute], most: int, *, together: bool
) -> list[list[Sampled]]:
    """The rows of each load that run: at most `most` of a lane, and the same share of each of its loads.

    If lanes share a limit (`together`), the share is the same for all lanes.
    """
    totals: dict[str, int] = {}
    for load, route in zip(loads, routes, strict=True):
        totals[route.lane] = totals.get(route.lane, 0) + load.requests
    shares = {lane: min(1.0, most / total) for lane, total in totals.items()}
    if together and shares:
        shares = dict.fromkeys(shares, min(shares.values()))
    chosen = []
    for load, route in zip(loads, routes, strict=True):
        wanted = min(len(load.sample), max(1, round(load.requests * shares[route.lane])))
        rows = load.sample
        if wanted < len(rows):
            rows = sorted(Random(wanted).sample(rows, wanted), key=lambda row: row.index)
        chosen.append(rows)
    return chosen


def try_out(
    chosen: Sequence[list[Sampled]],
    routes: Sequence[ForecastRoute],
    lanes: dict[str, LaneKnowledge],
    options: RunOptions,
    variant: str,
    utc: float,
) -> Trial:
    """Run the sample once."""
    tried = _drawn(chosen, routes, variant)
    units = [_unit(place, one, routes, options.groups) for place, one in enumerate(tried)]
    truths = [truth_of(one.drawn, one.row.max_tokens) for one in tried]
    source = ListSource([] if options.serial else [unit for unit, one in zip(units, tried, strict=True) if not one.row.serial],
                        serial=[unit for unit, one in zip(units, tried, strict=True) if options.serial or one.row.serial])  # fmt: skip
    scheduler = restored_scheduler(lanes, options, variant, utc)
    fresh = restored_scheduler(lanes, options, variant, utc)
    accounts = {key: assumed_provider(lane, lanes[key], variant, 0.0) for key, lane in fresh.lanes.items()}
    scenario = Scenario({key: SimLane(LaneWork(1), provider) for key, (provider, _) in accounts.items()})
    world = World(scenario, Workload(units, truths), seed=1)
    for key, (_, buckets) in accounts.items():
        set_buckets(world.providers[key], buckets)
    world.run(FedScheduler(scheduler, source), LONGEST_S)
    return Trial(fresh, tried, world.logs)


def _drawn(chosen: Sequence[list[Sampled]], routes: Sequence[ForecastRoute], variant: str) -> list[TrialUnit]:
    """The sample in the order of the file, each row with its usage. The same for each trial of a variant."""
    tried = []
    for load, (rows, route) in enumerate(zip(chosen, routes, strict=True)):
        chance = evenly(len(rows), load)
        factors = route.answer_model.variants[variant]
        tried += [
            TrialUnit(row, load, route.answer_model.draw(row.chars, row.max_tokens, factors, chance))
            for row in rows
        ]
    tried.sort(key=lambda one: one.row.index)
    return tried


def evenly(n: int, seed: int) -> Callable[[], float]:
    """Random numbers for `n` rows that draw twice each: evenly spaced over 0 to 1, in random order.

    So the sum over all rows is the expected one, without the noise of the draw.
    """
    shuffle = Random(seed).sample
    parts = [(place + 0.5) / n for place in range(n)]
    draws = zip(shuffle(parts, n), shuffle(parts, n), strict=True)
    return chain.from_iterable(draws).__next__


def _unit(place: int, one: TrialUnit, routes: Sequence[ForecastRoute], groups: UnitGroups | None) -> Unit:
    """A unit as the engine's source makes it. Its family is new, as in a new job."""
    row = one.row
    pending = PendingUnit(place, row.chars, row.max_tokens, row.priority, -1 - one.load)
    unit = unit_of(pending, UnitRoute(routes[one.load].lane))
    return unit if groups is None else msgspec.structs.replace(unit, group=groups.of(row.index))


def truth_of(drawn: DrawnUsage, max_tokens: int) -> Truth:
    """What a unit with this usage really takes."""
    service_s = max(0.0, drawn.took_s - 2.0 * NETWORK_S)
    usage = Usage(drawn.input_tokens, drawn.output_tokens, drawn.cached_tokens)
    most = max(0, max_tokens) or drawn.output_tokens
    return Truth(usage, float(most), NETWORK_S, NETWORK_S, service_s, service_s)


def restored_scheduler(
    lanes: dict[str, LaneKnowledge], options: RunOptions, variant: str, utc: float
) -> Scheduler:
    """The scheduler as the engine would restore it now."""
    groups = 0 if options.groups is None else options.groups.most
    settings = Settings(concurrency=options.concurrency, max_groups=groups, delay_s=options.delay_s)
    scheduler = Scheduler([known.spec for known in lanes.values()], settings, 0.0)
    for key, known in lanes.items():
        lane = scheduler.lanes[key]
        recorded_at = float("inf")
        if known.record is not None:
            recorded_at = min(0.0, known.record.recorded_utc - utc)
            import_lane(lane, known.record, 0.0, max(utc, known.record.recorded_utc))
        rebuild_levels(lane, [(-ago_s, costs) for ago_s, costs in known.starts], recorded_at)
        if (
            met_rate(lane, known, variant) is None
            and has_no_known_limit(lane)
            and (known.record is None or variant == "high")
        ):
            lane.configure(LaneLimits(max_concurrency=WINDOWS[variant]), 0.0)
    return scheduler
