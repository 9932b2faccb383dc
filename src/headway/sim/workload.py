"""Draws the units of a scenario: the true cost of each, and the estimate that the client has."""

from __future__ import annotations

from math import exp
from random import Random

import msgspec

from headway.core.model import Estimate, Unit, Usage
from headway.sim.scenario import Latency, Lognormal, ProviderSpec, Scenario, SimLane


class Truth(msgspec.Struct, frozen=True, gc=False):
    """The true cost of a unit. Only the provider knows it until it answers."""

    usage: Usage
    max_tokens: float
    to_server_s: float
    from_server_s: float
    first_token_s: float
    service_s: float

    @property
    def duration_s(self) -> float:
        """From the send to the last byte, as the client sees it."""
        return self.to_server_s + self.service_s + self.from_server_s


class Workload(msgspec.Struct, frozen=True):
    """All units of a scenario by index, and the true cost of each."""

    units: list[Unit]
    truths: list[Truth]

    def of(self, lane: str) -> list[Truth]:
        """The true costs of one lane."""
        return [truth for unit, truth in zip(self.units, self.truths, strict=True) if unit.lane == lane]


def draw(scenario: Scenario, seed: int) -> Workload:
    """The workload of one seed. Lanes are mixed evenly over the indices; each lane has its own random generator."""
    rows: list[tuple[float, str, Truth, Estimate]] = []
    ratios = {name: lane.work.chars_per_token for name, lane in scenario.lanes.items()}
    for name, lane in scenario.lanes.items():
        random = Random(f"{seed}/{name}")
        count = lane.work.units
        for place in range(count):
            truth = _truth(lane, random)
            rows.append(
                ((place + 0.5) / count, name, truth, _estimate(truth, scenario.estimate_noise, random))
            )
    rows.sort(key=lambda row: row[0])
    units = [
        _unit(index, name, estimate, ratios[name], scenario.lanes[name].provider.latency)
        for index, (_, name, _, estimate) in enumerate(rows)
    ]
    return Workload(units, [row[2] for row in rows])


def _unit(index: int, lane: str, estimate: Estimate, ratio: float | None, latency: Latency) -> Unit:
    """A unit with its estimate, or with its length in characters only."""
    if ratio is None:
        return Unit(index, lane, estimate, expected_s=_expected_s(estimate, latency))
    unknown = Estimate(max_output_tokens=estimate.max_output_tokens)
    return Unit(index, lane, unknown, chars=round(estimate.input_tokens * ratio), family=lane)


def _truth(lane: SimLane, random: Random) -> Truth:
    work, latency = lane.work, lane.provider.latency
    tokens_in = round(_draw(work.input_tokens, random))
    tokens_out = round(_draw(work.output_tokens, random))
    max_tokens = work.max_tokens or tokens_out
    tokens_out = max(1, min(tokens_out, round(max_tokens)))
    cached = round(tokens_in * random.uniform(0.0, 2.0 * work.cached)) if work.cached else 0
    return Truth(
        usage=Usage(tokens_in, tokens_out, cached),
        max_tokens=max_tokens,
        to_server_s=_network_s(latency, random),
        from_server_s=_network_s(latency, random),
        first_token_s=latency.first_token_s,
        service_s=latency.first_token_s + latency.per_token_s * tokens_out,
    )


def _network_s(latency: Latency, random: Random) -> float:
    return latency.network_s + random.uniform(0.0, latency.jitter_s)


def _draw(spread: Lognormal, random: Random) -> float:
    value = spread.mean
    if spread.sigma:
        value *= exp(random.gauss(-(spread.sigma**2) / 2.0, spread.sigma))
    return min(value, spread.max) if spread.max is not None else value


def _estimate(truth: Truth, noise: float, random: Random) -> Estimate:
    """A client's estimate: right on average, with an error of `noise`."""
    usage = truth.usage
    return Estimate(
        input_tokens=usage.input_tokens * exp(random.gauss(-(noise**2) / 2.0, noise)),
        output_tokens=usage.output_tokens * exp(random.gauss(-(noise**2) / 2.0, noise)),
        max_output_tokens=truth.max_tokens,
    )


def _expected_s(estimate: Estimate, latency: Latency) -> float:
    return latency.first_token_s + latency.per_token_s * estimate.output_tokens


def settled_costs(provider: ProviderSpec, truth: Truth) -> dict[str, float]:
    """The final cost of a unit in each of the provider's limits."""
    usage = truth.usage
    if provider.counting == "reserved":
        paid_in = usage.input_tokens
        tokens = paid_in + truth.max_tokens
    else:
        paid_in = usage.input_tokens - usage.cached_input_tokens
        tokens = paid_in + usage.output_tokens
    return {"requests": 1.0, "tokens": tokens, "input_tokens": paid_in, "output_tokens": usage.output_tokens}
