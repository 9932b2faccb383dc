"""Runs three trials of a job, a quick, a likely and a slow one, and sums them up for each lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headway.core.lanes.lane import LaneState
from headway.core.model import MINUTE_S, Price, Usage
from headway.forecast.answer_model import LEAST_DOUBT, DrawnUsage
from headway.forecast.assumed_provider import WINDOWS, assumed_provider, met_rate, most_in_flight
from headway.forecast.figures import Forecast, ForecastRoute, LaneForecast, LaneKnowledge, Range, RunOptions
from headway.forecast.survey import KEPT, Load
from headway.forecast.trial import Trial, TrialUnit, choose, try_out
from headway.sim.world import LaneLog

#: CPU seconds of the engine for a request (bench/RESULTS.md, overhead): no run is faster.
OWN_S: Final = 0.0005
VARIANTS: Final = ("estimate", "low", "high")
#: A lane that is so many times slower than its limits allow is still finding the depth of its buckets.
SLOWER: Final = 1.5
OWN: Final = "this machine"
LATENCY: Final = "latency"
#: Seconds of a run before its first request and after its last answer.
AROUND_S: Final = 0.5
#: From this share on a note mentions that answers were cut off.
CUT_OFF_NOTED: Final = 0.05
LEARN_HINT: Final = "'headway run FILE --limit 20' shows it"


class _LaneResult(msgspec.Struct, frozen=True):
    """The figures of one lane in one trial."""

    requests: int
    input_tokens: float
    output_tokens: float
    cost_usd: float | None
    time_s: float
    binding: str
    refused: int
    failed: int


def forecast(
    loads: Sequence[Load],
    routes: Sequence[ForecastRoute],
    lanes: dict[str, LaneKnowledge],
    options: RunOptions,
    *,
    utc: float,
    most: int = KEPT,
) -> Forecast:
    """The forecast of these loads, each on its route."""
    serial = options.serial or any(row.serial for load in loads for row in load.sample)
    chosen = choose(
        loads, routes, most, together=bool(options.concurrency) or serial or options.groups is not None
    )
    results: dict[str, dict[str, _LaneResult]] = {key: {} for key in lanes}
    for variant in VARIANTS:
        trial = try_out(chosen, routes, lanes, options, variant, utc)
        for key in lanes:
            results[key][variant] = _lane_result(
                _TrialOfLane(key, variant, loads, routes, options), lanes[key], trial
            )
    figures = [_lane(lanes[key], results[key], *_of_lane(key, loads, routes)) for key in lanes]
    notes = [note for key in lanes for note in _notes(key, lanes[key], routes, results[key]["estimate"])]
    costs = [lane.cost_usd for lane in figures if lane.cost_usd is not None]
    return Forecast(
        figures,
        sum(lane.requests for lane in figures),
        _sum([lane.input_tokens for lane in figures]),
        _sum([lane.output_tokens for lane in figures]),
        _sum(costs) if costs else None,
        _longest([lane.time_s for lane in figures]),
        sum(map(len, chosen)),
        notes,
        list(dict.fromkeys(route.name for route in routes if route.price is None)),
    )


def _sum(ranges: list[Range]) -> Range:
    return sum(ranges, Range(0.0, 0.0, 0.0))


def _longest(ranges: list[Range]) -> Range:
    return Range(*(max((getattr(one, name) for one in ranges), default=0.0) for name in VARIANTS))


def _lane(
    known: LaneKnowledge, results: dict[str, _LaneResult], loads: list[Load], routes: list[ForecastRoute]
) -> LaneForecast:
    estimate = results["estimate"]
    costs = [results[variant].cost_usd for variant in VARIANTS]
    known_costs = [cost for cost in costs if cost is not None]
    return LaneForecast(
        known.name,
        estimate.requests,
        Range.of(*(results[variant].input_tokens for variant in VARIANTS)),
        Range.of(*(results[variant].output_tokens for variant in VARIANTS)),
        Range.of(*known_costs) if len(known_costs) == len(costs) else None,
        _time(*(results[variant].time_s for variant in VARIANTS)),
        estimate.binding,
        estimate.refused,
        sum(route.answer_model.answers for route in routes),
        sum(load.max_output_tokens for load in loads),
        sum(load.open_ended for load in loads),
    )


def _time(estimate: float, low: float, high: float) -> Range:
    """The range of a time, widened by the least error and by the beginning and the end of a run."""
    return Range.of(estimate, low * (1.0 - LEAST_DOUBT), high * (1.0 + LEAST_DOUBT) + AROUND_S)


def _of_lane(
    key: str, loads: Sequence[Load], routes: Sequence[ForecastRoute]
) -> tuple[list[Load], list[ForecastRoute]]:
    own = [place for place, route in enumerate(routes) if route.lane == key]
    return [loads[place] for place in own], [routes[place] for place in own]


# -- one lane in one trial --------------------------------------------------------------------------------------------


class _TrialOfLane(msgspec.Struct, frozen=True):
    """One lane in one variant of the forecast."""

    key: str
    variant: str
    loads: Sequence[Load]
    routes: Sequence[ForecastRoute]
    options: RunOptions

    @property
    def own(self) -> list[int]:
        """The positions of the lane's loads."""
        return [place for place, route in enumerate(self.routes) if route.lane == self.key]


def _lane_result(lane_trial: _TrialOfLane, known: LaneKnowledge, trial: Trial) -> _LaneResult:
    requests = sum(lane_trial.loads[place].requests for place in lane_trial.own)
    work = _Work(lane_trial, known, trial.tried)
    bounds = _bounds(lane_trial, known, trial.fresh.lanes[lane_trial.key], work, requests)
    log = trial.logs[lane_trial.key]
    bound_s = max(bounds.values())
    time_s = max(bound_s, _time_s(log, requests))
    if time_s > SLOWER * bound_s:  # The buckets would hold everything if they were that deep.
        bounds = _bounds(lane_trial, known, trial.fresh.lanes[lane_trial.key], work, requests, full=False)
    binding = max(bounds, key=lambda name: bounds[name])
    share = requests / max(1, work.tried)
    return _LaneResult(
        requests,
        work.input_tokens,
        work.output_tokens,
        work.cost_usd,
        time_s,
        binding,
        round(len(log.refused) * share),
        round(log.failed * share),
    )


def _time_s(log: LaneLog, requests: int) -> float:
    """When the last request ends, if the rest has the pace of the second half of the sample."""
    sent = len(log.admitted)
    ended_s = max(log.finished, default=0.0)
    if len(log.finished) >= requests or sent < 2:
        return ended_s
    half = sent // 2
    span_s = log.admitted[-1][0] - log.admitted[half][0]
    return ended_s + (requests - sent) * span_s / max(1, sent - 1 - half)


class _Work:
    """The total work of a lane, extrapolated from its sample."""

    def __init__(self, lane_trial: _TrialOfLane, known: LaneKnowledge, tried: list[TrialUnit]) -> None:
        self.tried = 0
        self.input_tokens = self.output_tokens = self.took_s = self.longest_s = 0.0
        self.cost_usd: float | None = 0.0
        self.shortest_s = float("inf")
        #: Requests, tokens, input tokens and output tokens as the limits of the lane count them.
        self.costs = [0.0, 0.0, 0.0, 0.0]
        samples: dict[int, list[TrialUnit]] = {place: [] for place in lane_trial.own}
        for one in tried:
            if one.load in samples:
                samples[one.load].append(one)
        for place, sample in samples.items():
            self._add(lane_trial, known, place, sample)
        #: Seconds of all groups, one after the other, if the units of a group run at once.
        self.groups_s = _groups_s(lane_trial, samples)

    def _add(
        self, lane_trial: _TrialOfLane, known: LaneKnowledge, place: int, sample: list[TrialUnit]
    ) -> None:
        load, route = lane_trial.loads[place], lane_trial.routes[place]
        share = load.requests / len(sample)
        tokens_in = route.answer_model.input_tokens(
            load.requests, load.chars, route.answer_model.variants[lane_trial.variant]
        )
        tokens_out = share * sum(one.drawn.output_tokens for one in sample)
        cached = tokens_in * route.answer_model.cached
        counting = known.spec.counting
        reserved = share * sum(max(0, one.row.max_tokens) or one.drawn.output_tokens for one in sample)
        paid_in = tokens_in - (cached if counting.cached_free else 0.0)
        counted = tokens_out if counting.settle_output else reserved
        for dimension, cost in enumerate((load.requests, paid_in + counted, paid_in, tokens_out)):
            self.costs[dimension] += cost
        self.tried += len(sample)
        self.input_tokens += tokens_in
        self.output_tokens += tokens_out
        self.took_s += share * sum(one.drawn.took_s for one in sample)
        self.longest_s = max(self.longest_s, *(one.drawn.took_s for one in sample))
        self.shortest_s = min(self.shortest_s, *(one.drawn.took_s for one in sample))
        if self.cost_usd is not None and route.price is not None:
            whole = Usage(tokens_in, tokens_out, cached)
            self.cost_usd += _cost(route.price, whole, [one.drawn for one in sample], share)
        else:
            self.cost_usd = None


def _groups_s(lane_trial: _TrialOfLane, samples: dict[int, list[TrialUnit]]) -> float:
    if lane_trial.options.groups is None:
        return 0.0
    longest: dict[int, float] = {}
    for one in (one for sample in samples.values() for one in sample):
        group = lane_trial.options.groups.of(one.row.index)
        longest[group] = max(longest.get(group, 0.0), one.drawn.took_s)
    requests = sum(lane_trial.loads[place].requests for place in samples)
    return sum(longest.values()) * requests / max(1, sum(map(len, samples.values())))


def _cost(price: Price, whole: Usage, sample: list[DrawnUsage], share: float) -> float:
    """The cost of everything; request by request if long requests have another price."""
    if not price.above:
        return price.cost(whole)
    usages = (Usage(one.input_tokens, one.output_tokens, one.cached_tokens) for one in sample)
    return share * sum(map(price.cost, usages))


def _bounds(
    lane_trial: _TrialOfLane,
    known: LaneKnowledge,
    lane: LaneState,
    work: _Work,
    requests: int,
    *,
    full: bool = True,
) -> dict[str, float]:
    """The shortest time that each limit allows, by its name. `full`: with the content of its bucket; otherwise without."""
    options = lane_trial.options
    bounds = {LATENCY: work.longest_s, OWN: OWN_S * requests}
    _, buckets = assumed_provider(lane, known, lane_trial.variant, 0.0)
    for meter in lane.limits.meters:
        if (
            lane.limits.finder is not None
            and not lane.limits.finder.found
            and meter is lane.limits.finder.meter
        ):
            continue
        bucket = buckets.get(meter.dimension)
        here = bucket is not None and bucket.rate == meter.rate
        left = bucket.level if here and bucket is not None else max(0.0, meter.level(0.0))
        needed_s = max(0.0, work.costs[meter.place] - (left if full else 0.0)) / meter.rate
        bounds[f"{meter.limit:,.0f} {meter.name}"] = needed_s + work.shortest_s
    if rate := met_rate(lane, known, lane_trial.variant):
        bounds[f"about {rate * MINUTE_S:,.0f} requests per minute"] = (requests - 1) / rate + work.shortest_s
    if slots := most_in_flight(lane):
        bounds[f"{slots:,} in flight"] = max(work.longest_s, work.took_s / slots)
    if options.concurrency:
        bounds["--concurrency"] = max(work.longest_s, work.took_s / options.concurrency)
    if options.groups is not None:
        bounds["--concurrency"] = max(work.longest_s, work.groups_s / options.groups.most)
    if options.serial:
        bounds["one at a time"] = max(work.took_s, (requests - 1) * options.delay_s + work.shortest_s)
    if lane.hold.until > 0.0:
        hold = f"a hold ({lane.hold.reason})" if lane.hold.reason else "a hold"
        bounds[hold] = lane.hold.until + max(bounds[LATENCY], work.shortest_s)
    return bounds


# -- notes ----------------------------------------------------------------------------------------------------------------


def _notes(key: str, known: LaneKnowledge, routes: Sequence[ForecastRoute], result: _LaneResult) -> list[str]:
    """Notes on the figures of a lane: what was assumed, and what will fail."""
    own = [route for route in routes if route.lane == key]
    notes = []
    if any(not route.answer_model.answers and not route.answer_model.others for route in own):
        notes.append(
            f"{known.name}: no answers to learn from yet. Assumed: 4 characters per token; answers a quarter as long as "
            f"max_tokens, or 256 tokens; half a second and 20 ms per token. {LEARN_HINT}"
        )
    if any(route.answer_model.others for route in own):
        notes.append(
            f"{known.name}: no job like this yet (prompt, schema, parameters). Other answers show how fast it is, but not how "
            f"long these will be: from one token to max_tokens, or to 4,096 without max_tokens. {LEARN_HINT}"
        )
    if any(route.answer_model.cut_off >= CUT_OFF_NOTED for route in own):
        share = max(route.answer_model.cut_off for route in own)
        notes.append(
            f"{known.name}: {share:.0%} of the answers that this estimate is based on were cut off at a lower max_tokens: these "
            "answers may be longer"
        )
    if any(route.answer_model.other_rows for route in own):
        notes.append(
            f"{known.name}: the rows answered so far have other prompts than the rest, so the lengths of its answers are unknown: from one "
            "token to max_tokens, or up to 16 times the estimate without max_tokens"
        )
    if (record := known.record) is not None and record.glimpsed is not None and not known.spec.limits.known:
        least, most = (MINUTE_S * rate for rate in record.glimpsed)
        notes.append(
            f"{known.name}: it has a limit that is not measured yet: between {least:,.0f} and {most:,.0f} requests per minute were "
            "accepted so far, and the time is estimated from that"
        )
    elif _unlimited(known) and known.record is None:
        notes.append(
            f"{known.name}: no limit is known; the time is estimated from the latency and {WINDOWS['estimate']} requests in flight"
        )
    elif _unlimited(known):
        notes.append(
            f"{known.name}: no limit is known, and no request was refused; the time is estimated from the latency"
        )
    if any(route.price is None for route in own):
        notes.append(
            f"{known.name}: the price is unknown, and so is the cost: set "
            f"{', '.join(dict.fromkeys(route.price_place for route in own if route.price is None))}"
        )
    if result.failed:
        notes.append(
            f"{known.name}: {result.failed:,} of its requests are larger than a limit and would fail"
        )
    return notes


def _unlimited(known: LaneKnowledge) -> bool:
    """Whether neither the settings nor the record have a limit of this lane."""
    record = known.record
    learned = record is not None and bool(record.meters or record.found or record.window)
    return not learned and not known.spec.limits.known
