"""The shortest time in which a lane could do its work under any policy.

For each meter: (work − full bucket) ÷ rate, plus the shortest answer. For a cap on requests in flight: the longest answer, or the
sum of all answers ÷ slots, whichever is larger. The bound is the largest of these. The duration of an answer is from the
send to the last byte as the client sees it, because a permit is held that long.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from math import ceil

from headway.sim.scenario import ProviderSpec
from headway.sim.workload import Truth, settled_costs


def meter_bound_s(costs: Iterable[float], rate: float, depth_s: float) -> float:
    """The earliest time at which a bucket that is full at the start can have admitted all of these costs."""
    return max(0.0, sum(costs) / rate - depth_s)


def in_flight_bound_s(durations: Sequence[float], slots: int) -> float:
    """The earliest end of these answers if at most `slots` run at once."""
    return max(max(durations, default=0.0), sum(durations) / slots)


def lane_bound_s(provider: ProviderSpec, truths: Sequence[Truth]) -> float:
    """The bound of one lane."""
    return max(lane_bounds(provider, truths).values())


def lane_bounds(provider: ProviderSpec, truths: Sequence[Truth]) -> dict[str, float]:
    """The bound by each limit of a lane, by name."""
    if not truths:
        return {"nothing": 0.0}
    costs = [settled_costs(provider, truth) for truth in truths]
    shortest_s = min(truth.duration_s for truth in truths)
    bounds = {"latency": max(truth.duration_s for truth in truths)}
    for name, limit in _limits(provider).items():
        if limit:
            work_s = sum(cost[name] for cost in costs) / (limit / 60.0)
            bounds[f"{name.replace('_', ' ')}/min"] = _admitted_s(work_s, provider) + shortest_s
    if provider.rpd:
        bounds["requests/day"] = (len(truths) - 1) // provider.rpd * provider.day_s + shortest_s
    if provider.max_concurrency:
        durations = [truth.duration_s for truth in truths]
        bounds["concurrency"] = in_flight_bound_s(durations, provider.max_concurrency)
    return bounds


def granted_s(provider: ProviderSpec, until_s: float) -> float:
    """Seconds of its full rate that the provider has granted until an instant, including the full bucket at the start."""
    closed_spans = [(span.from_s, span.until_s) for span in (*provider.outages, *provider.holds)]
    edges = {
        0.0,
        until_s,
        *(change.at_s for change in provider.changes),
        *(edge for span in closed_spans for edge in span),
    }
    times = sorted(edge for edge in edges if edge <= until_s)
    granted = provider.depth_s
    for earlier, later in itertools.pairwise(times):
        closed = any(begin <= earlier < end for begin, end in closed_spans)
        granted += min(later - earlier, provider.depth_s if closed else later) * _factor(provider, earlier)
    return granted


def used_share(
    provider: ProviderSpec, truths: Sequence[Truth], admitted_by_s: float, makespan_s: float
) -> float:
    """The used share of the binding limit: of what was granted until the last admission, or of the slots."""
    granted = granted_s(provider, admitted_by_s)
    costs = [settled_costs(provider, truth) for truth in truths]
    shares = [
        sum(cost[name] for cost in costs) / (limit / 60.0 * granted)
        for name, limit in _limits(provider).items()
        if limit
    ]
    if provider.max_concurrency and makespan_s:
        shares.append(sum(truth.duration_s for truth in truths) / (provider.max_concurrency * makespan_s))
    return max(shares, default=0.0)


def _limits(provider: ProviderSpec) -> dict[str, float]:
    return {
        "requests": provider.rpm,
        "tokens": provider.tpm,
        "input_tokens": provider.input_tpm,
        "output_tokens": provider.output_tpm,
    }


def _admitted_s(work_s: float, provider: ProviderSpec) -> float:
    """The earliest time at which work of so many seconds can have been admitted.

    Windows that begin during the run grant more than a bucket that is full at the start and then refills.
    """
    needed_s = max(0.0, work_s - provider.depth_s)
    if provider.fixed_windows:
        last_window = ceil(work_s / provider.depth_s) - 1
        offset_s = provider.window_offset_s % provider.depth_s
        needed_s = min(needed_s, max(0.0, last_window * provider.depth_s - offset_s))
    return _stretched_s(needed_s, provider)


def _stretched_s(needed_s: float, provider: ProviderSpec) -> float:
    """When `needed_s` seconds at the full rate are over, given changes of the rate and closed spans.

    The bucket fills during a closed span, and grows when a limit rises. Both are credited in full, so that
    this stays a lower bound.
    """
    closed_spans = [(span.from_s, span.until_s) for span in (*provider.outages, *provider.holds)]
    edges = sorted(
        {
            0.0,
            *(change.at_s for change in provider.changes),
            *(edge for span in closed_spans for edge in span),
        }
    )
    before = 1.0
    for edge, until in zip(edges, [*edges[1:], float("inf")], strict=True):
        factor = _factor(provider, edge)
        needed_s -= max(0.0, factor - before) * provider.depth_s
        before = factor
        if any(begin <= edge < end for begin, end in closed_spans):
            needed_s -= min(until - edge, provider.depth_s) * factor
            continue
        if (until - edge) * factor >= needed_s:
            return edge + max(0.0, needed_s) / factor
        needed_s -= (until - edge) * factor
    return float("inf")


def _factor(provider: ProviderSpec, at_s: float) -> float:
    """The share of its first limits that the provider grants at an instant."""
    past = [change for change in provider.changes if change.at_s <= at_s]
    return max(past, key=lambda change: change.at_s).factor if past else 1.0


def limit_at(provider: ProviderSpec, name: str, at_s: float) -> float:
    """A limit per minute at an instant; 0 if there is none."""
    return _limits(provider)[name] * _factor(provider, at_s)
