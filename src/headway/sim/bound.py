"""The shortest time in which a lane could do its work, whatever the policy.

For each meter (work − full bucket) ÷ rate, plus the shortest answer; for an in-flight cap the larger of the
longest answer and all answers shared over its slots. The bound is the largest of these (DESIGN §8). An
answer lasts from its send to its last byte as the client sees it: a permit is held that long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headway.sim.scenario import Provider
from headway.sim.workload import Truth, settled_costs


def meter_bound_s(costs: Iterable[float], rate: float, depth_s: float) -> float:
    """When the last of these costs can be admitted by a bucket that is full at the start."""
    return max(0.0, sum(costs) / rate - depth_s)


def in_flight_bound_s(durations: Sequence[float], slots: int) -> float:
    """When the last of these can be over if at most `slots` run at once."""
    return max(max(durations, default=0.0), sum(durations) / slots)


def lane_bound_s(provider: Provider, truths: Sequence[Truth]) -> float:
    """The bound of one lane whose limits stay as they are."""
    if not truths:
        return 0.0
    limits = {
        "requests": provider.rpm,
        "tokens": provider.tpm,
        "input_tokens": provider.input_tpm,
        "output_tokens": provider.output_tpm,
    }
    costs = [settled_costs(provider, truth) for truth in truths]
    shortest_s = min(truth.duration_s for truth in truths)
    bounds = [max(truth.duration_s for truth in truths)]
    for name, limit in limits.items():
        if limit:
            admitted_s = meter_bound_s((cost[name] for cost in costs), limit / 60.0, provider.depth_s)
            bounds.append(_stretched_s(admitted_s, provider) + shortest_s)
    if provider.max_concurrency:
        bounds.append(in_flight_bound_s([truth.duration_s for truth in truths], provider.max_concurrency))
    return max(bounds)


def _stretched_s(needed_s: float, provider: Provider) -> float:
    """When `needed_s` seconds at the full rate are over, if the rate changes on the way and spans are lost.

    The bucket fills during a lost span, and grows with a limit that rises; both are credited in full, so that
    this stays a bound.
    """
    lost = [(span.from_s, span.until_s) for span in (*provider.outages, *provider.holds)]
    edges = sorted(
        {0.0, *(change.at_s for change in provider.changes), *(edge for span in lost for edge in span)}
    )
    before = 1.0
    for edge, until in zip(edges, [*edges[1:], float("inf")], strict=True):
        factor = _factor(provider, edge)
        needed_s -= max(0.0, factor - before) * provider.depth_s
        before = factor
        if any(begin <= edge < end for begin, end in lost):
            needed_s -= min(until - edge, provider.depth_s) * factor
            continue
        if (until - edge) * factor >= needed_s:
            return edge + max(0.0, needed_s) / factor
        needed_s -= (until - edge) * factor
    return float("inf")


def _factor(provider: Provider, at_s: float) -> float:
    """What share of its first limits the provider grants at an instant."""
    past = [change for change in provider.changes if change.at_s <= at_s]
    return max(past, key=lambda change: change.at_s).factor if past else 1.0
