"""Three trials of one job, a quick, a likely and a slow one, summed up for each lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from headway.core.lanes.lane import Lane
from headway.core.model import MINUTE_S, Price, Usage
from headway.forecast.account import WINDOWS, account_of, glimpsed, in_flight
from headway.forecast.figures import Forecast, ForecastRoute, LaneForecast, LaneKnowledge, Range, RunOptions
from headway.forecast.habits import LEAST_DOUBT, DrawnUsage
from headway.forecast.survey import KEPT, Load
from headway.forecast.trial import Trial, TrialUnit, choose, try_out
from headway.sim.world import LaneLog

#: What the engine itself takes of one core for a request (bench/RESULTS.md, overhead): no run is faster.
OWN_S: Final = 0.0005
MINDS: Final = ("estimate", "low", "high")
#: A lane this much slower than its limits allow is still looking for the depth of its buckets.
SLOWER: Final = 1.5
OWN: Final = "this machine"
LATENCY: Final = "latency"
#: What a run may take before its first request and after its last answer.
AROUND_S: Final = 0.5
#: The share of answers that were cut off from which on that is said.
TELLING: Final = 0.05
TEACH: Final = "'headway run FILE --limit 20' shows it"


class _Part(msgspec.Struct, frozen=True):
    """What one lane comes to in one trial."""

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
    courses: Sequence[ForecastRoute],
    lanes: dict[str, LaneKnowledge],
    way: RunOptions,
    *,
    utc: float,
    most: int = KEPT,
) -> Forecast:
    """What these loads will take, each on its course."""
    serial = way.serial or any(row.serial for load in loads for row in load.sample)
    chosen = choose(loads, courses, most, together=bool(way.concurrency) or serial)
    parts: dict[str, dict[str, _Part]] = {key: {} for key in lanes}
    for mind in MINDS:
        trial = try_out(chosen, courses, lanes, way, mind, utc)
        for key in lanes:
            parts[key][mind] = _part(_LaneTrial(key, mind, loads, courses, way), lanes[key], trial)
    figures = [_lane(lanes[key], parts[key], *_of_lane(key, loads, courses)) for key in lanes]
    notes = [note for key in lanes for note in _notes(key, lanes[key], courses, parts[key]["estimate"])]
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
        list(dict.fromkeys(course.name for course in courses if course.price is None)),
    )


def _sum(ranges: list[Range]) -> Range:
    return sum(ranges, Range(0.0, 0.0, 0.0))


def _longest(ranges: list[Range]) -> Range:
    return Range(*(max((getattr(one, name) for one in ranges), default=0.0) for name in MINDS))


def _lane(
    known: LaneKnowledge, parts: dict[str, _Part], loads: list[Load], courses: list[ForecastRoute]
) -> LaneForecast:
    estimate = parts["estimate"]
    costs = [parts[mind].cost_usd for mind in MINDS]
    known_costs = [cost for cost in costs if cost is not None]
    return LaneForecast(
        known.name,
        estimate.requests,
        Range.of(*(parts[mind].input_tokens for mind in MINDS)),
        Range.of(*(parts[mind].output_tokens for mind in MINDS)),
        Range.of(*known_costs) if len(known_costs) == len(costs) else None,
        _time(*(parts[mind].time_s for mind in MINDS)),
        estimate.binding,
        estimate.refused,
        sum(course.habits.answers for course in courses),
        sum(load.max_output_tokens for load in loads),
        sum(load.open_ended for load in loads),
    )


def _time(estimate: float, low: float, high: float) -> Range:
    """Even a time that a limit makes is met only so exactly, and a run has a beginning and an end."""
    return Range.of(estimate, low * (1.0 - LEAST_DOUBT), high * (1.0 + LEAST_DOUBT) + AROUND_S)


def _of_lane(
    key: str, loads: Sequence[Load], courses: Sequence[ForecastRoute]
) -> tuple[list[Load], list[ForecastRoute]]:
    own = [place for place, course in enumerate(courses) if course.lane == key]
    return [loads[place] for place in own], [courses[place] for place in own]


# -- one lane in one trial --------------------------------------------------------------------------------------------


class _LaneTrial(msgspec.Struct, frozen=True):
    """Which lane of which trial it is about."""

    key: str
    mind: str
    loads: Sequence[Load]
    courses: Sequence[ForecastRoute]
    way: RunOptions

    @property
    def own(self) -> list[int]:
        """The places of the lane's loads."""
        return [place for place, course in enumerate(self.courses) if course.lane == self.key]


def _part(told: _LaneTrial, known: LaneKnowledge, trial: Trial) -> _Part:
    requests = sum(told.loads[place].requests for place in told.own)
    work = _Work(told, known, trial.tried)
    bounds = _bounds(told, known, trial.fresh.lanes[told.key], work, requests)
    log = trial.logs[told.key]
    bound_s = max(bounds.values())
    time_s = max(bound_s, _time_s(log, requests))
    if time_s > SLOWER * bound_s:  # Its buckets could hold it all, if they are as deep as that.
        bounds = _bounds(told, known, trial.fresh.lanes[told.key], work, requests, full=False)
    binding = max(bounds, key=lambda name: bounds[name])
    share = requests / max(1, work.tried)
    return _Part(
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
    """When the last of so many would be done, if the rest goes on at the pace of the second half of the sample."""
    sent = len(log.admitted)
    ended_s = max(log.finished, default=0.0)
    if len(log.finished) >= requests or sent < 2:
        return ended_s
    half = sent // 2
    span_s = log.admitted[-1][0] - log.admitted[half][0]
    return ended_s + (requests - sent) * span_s / max(1, sent - 1 - half)


class _Work:
    """All that a lane's units take together, reckoned from its sample."""

    def __init__(self, told: _LaneTrial, known: LaneKnowledge, tried: list[TrialUnit]) -> None:
        self.tried = 0
        self.input_tokens = self.output_tokens = self.took_s = self.longest_s = 0.0
        self.cost_usd: float | None = 0.0
        self.shortest_s = float("inf")
        #: Requests, tokens, input tokens, output tokens as the lane's limits count them.
        self.costs = [0.0, 0.0, 0.0, 0.0]
        samples: dict[int, list[TrialUnit]] = {place: [] for place in told.own}
        for one in tried:
            if one.load in samples:
                samples[one.load].append(one)
        for place, sample in samples.items():
            self._add(told, known, place, sample)

    def _add(self, told: _LaneTrial, known: LaneKnowledge, place: int, sample: list[TrialUnit]) -> None:
        load, course = told.loads[place], told.courses[place]
        share = load.requests / len(sample)
        tokens_in = course.habits.input_tokens(load.requests, load.chars, course.habits.minds[told.mind])
        tokens_out = share * sum(one.drawn.output_tokens for one in sample)
        cached = tokens_in * course.habits.cached
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
        if self.cost_usd is not None and course.price is not None:
            whole = Usage(tokens_in, tokens_out, cached)
            self.cost_usd += _cost(course.price, whole, [one.drawn for one in sample], share)
        else:
            self.cost_usd = None


def _cost(price: Price, whole: Usage, sample: list[DrawnUsage], share: float) -> float:
    """What everything costs; where long requests have a price of their own, each by itself."""
    if not price.above:
        return price.cost(whole)
    usages = (Usage(one.input_tokens, one.output_tokens, one.cached_tokens) for one in sample)
    return share * sum(map(price.cost, usages))


def _bounds(
    told: _LaneTrial, known: LaneKnowledge, lane: Lane, work: _Work, requests: int, *, full: bool = True
) -> dict[str, float]:
    """What each limit makes the shortest time, by its name; with what its bucket holds, or as if that were nothing."""
    way = told.way
    bounds = {LATENCY: work.longest_s, OWN: OWN_S * requests}
    _, buckets = account_of(lane, known, told.mind, 0.0)
    for meter in lane.meters:
        if lane.finder is not None and not lane.finder.found and meter is lane.finder.meter:
            continue
        bucket = buckets.get(meter.dimension)
        here = bucket is not None and bucket.rate == meter.rate
        left = bucket.level if here and bucket is not None else max(0.0, meter.level(0.0))
        needed_s = max(0.0, work.costs[meter.place] - (left if full else 0.0)) / meter.rate
        bounds[f"{meter.limit:,.0f} {meter.name}"] = needed_s + work.shortest_s
    if rate := glimpsed(lane, known, told.mind):
        bounds[f"about {rate * MINUTE_S:,.0f} requests per minute"] = (requests - 1) / rate + work.shortest_s
    if slots := in_flight(lane):
        bounds[f"{slots:,} in flight"] = max(work.longest_s, work.took_s / slots)
    if way.concurrency:
        bounds["--concurrency"] = max(work.longest_s, work.took_s / way.concurrency)
    if way.serial:
        bounds["one at a time"] = max(work.took_s, (requests - 1) * way.delay_s + work.shortest_s)
    if lane.hold.until > 0.0:
        hold = f"a hold ({lane.hold.reason})" if lane.hold.reason else "a hold"
        bounds[hold] = lane.hold.until + max(bounds[LATENCY], work.shortest_s)
    return bounds


# -- what has to be said ------------------------------------------------------------------------------------------------


def _notes(key: str, known: LaneKnowledge, courses: Sequence[ForecastRoute], part: _Part) -> list[str]:
    """What a lane's figures rest on, where that is not what was seen; and what will go wrong."""
    own = [course for course in courses if course.lane == key]
    notes = []
    if any(not course.habits.answers and not course.habits.others for course in own):
        notes.append(
            f"{known.name}: no answers to learn from yet. Assumed: 4 characters a token; answers a quarter as long as "
            f"max_tokens, or 256 tokens; half a second and 20 ms a token. {TEACH}"
        )
    if any(course.habits.others for course in own):
        notes.append(
            f"{known.name}: no job like this yet (prompt, schema, parameters). Other answers tell how fast it is, not how long "
            f"these will be: anything from one token to max_tokens, or 4,096 where none is set. {TEACH}"
        )
    if any(course.habits.cut_off >= TELLING for course in own):
        share = max(course.habits.cut_off for course in own)
        notes.append(
            f"{known.name}: {share:.0%} of the answers that tell how long these will be were cut off at a lower max_tokens: these "
            "may be as long as theirs allows"
        )
    if any(course.habits.other_rows for course in own):
        notes.append(
            f"{known.name}: the rows that were answered are of another kind than the rest (prompt). They do not tell how long its "
            "answers will be: anything from one token to max_tokens, or 16 times as long where none is set"
        )
    if (record := known.record) is not None and record.glimpsed is not None and not known.spec.limits.known:
        least, most = (MINUTE_S * rate for rate in record.glimpsed)
        notes.append(
            f"{known.name}: its limit was met and not measured yet: between {least:,.0f} and {most:,.0f} requests per minute "
            "went so far, and its time is a guess from that"
        )
    elif _unlimited(known) and known.record is None:
        notes.append(
            f"{known.name}: no limit is known. Its time is a guess from latency and a window of {WINDOWS['estimate']}"
        )
    elif _unlimited(known):
        notes.append(f"{known.name}: no limit is known, and none was met. Its time is a guess from latency")
    if any(course.price is None for course in own):
        notes.append(
            f"{known.name}: its price is not known, so neither is its cost: set input and output in "
            f"{', '.join(dict.fromkeys(course.price_table for course in own if course.price is None))}, USD a million tokens"
        )
    if part.failed:
        notes.append(f"{known.name}: {part.failed:,} of its requests are larger than a limit and would fail")
    return notes


def _unlimited(known: LaneKnowledge) -> bool:
    """Whether neither the settings nor what was learned limit this lane."""
    record = known.record
    learned = record is not None and bool(record.meters or record.found or record.window)
    return not learned and not known.spec.limits.known
