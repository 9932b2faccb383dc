"""The theoretical bound is a bound, and a tight one: compared with brute force on small cases."""

from __future__ import annotations

from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.core.model import Usage
from headway.sim.bound import granted_s, in_flight_bound_s, lane_bound_s, meter_bound_s, used_share
from headway.sim.scenario import LimitChange, ProviderSpec, Span
from headway.sim.workload import Truth


def admitted_at(costs: tuple[float, ...], rate: float, depth_s: float) -> list[float]:
    """The earliest admission of each cost in this order, by a bucket that starts full."""
    level, now, times = rate * depth_s, 0.0, []
    for cost in costs:
        wait_s = max(0.0, (cost - level) / rate)
        now += wait_s
        level = min(rate * depth_s, level + wait_s * rate) - cost
        times.append(now)
    return times


def shortest_by_force(costs: list[float], latencies: list[float], rate: float, depth_s: float) -> float:
    """The best makespan over every order."""
    best = float("inf")
    for order in permutations(range(len(costs))):
        times = admitted_at(tuple(costs[place] for place in order), rate, depth_s)
        best = min(best, max(at + latencies[place] for at, place in zip(times, order, strict=True)))
    return best


small_costs = st.lists(st.integers(1, 10), min_size=1, max_size=6)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(small_costs, st.data())
def test_no_order_beats_the_bound_of_a_meter(costs: list[int], data: st.DataObject) -> None:
    latencies = data.draw(st.lists(st.integers(1, 9), min_size=len(costs), max_size=len(costs)))
    depth_s = data.draw(st.integers(5, 10))  # At a rate of 2: no cost is larger than the bucket.
    bound = meter_bound_s(costs, 2.0, depth_s) + min(latencies)
    best = shortest_by_force([float(cost) for cost in costs], [float(one) for one in latencies], 2.0, depth_s)
    assert best >= bound - 1e-9


@settings(deadline=None, derandomize=True, max_examples=100)
@given(small_costs)
def test_some_order_reaches_the_bound_if_all_answers_take_equally_long(costs: list[int]) -> None:
    best = shortest_by_force([float(cost) for cost in costs], [3.0] * len(costs), 2.0, 5.0)
    assert best == pytest.approx(meter_bound_s(costs, 2.0, 5.0) + 3.0)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=7), st.integers(1, 3))
def test_no_assignment_beats_the_bound_of_slots(durations: list[int], slots: int) -> None:
    loads = (
        [
            sum(one for one, slot in zip(durations, plan, strict=True) if slot == place)
            for place in range(slots)
        ]
        for plan in product(range(slots), repeat=len(durations))
    )
    best = min(max(load) for load in loads)
    bound = in_flight_bound_s([float(one) for one in durations], slots)
    assert bound <= best <= 2 * bound


def truth(tokens: float = 100.0, service_s: float = 1.0) -> Truth:
    return Truth(Usage(tokens, 0.0), 0.0, 0.0, 0.0, 0.1, service_s)


def test_a_lane_is_bound_by_the_slowest_of_its_limits() -> None:
    units = [truth() for _ in range(120)]
    by_requests = ProviderSpec(rpm=60, depth_s=1)
    by_tokens = ProviderSpec(rpm=60, tpm=3000, depth_s=1)
    by_slots = ProviderSpec(rpm=60, tpm=3000, depth_s=1, max_concurrency=1)
    assert lane_bound_s(by_requests, units) == pytest.approx(119 + 1)
    assert lane_bound_s(by_tokens, units) == pytest.approx(239 + 1)
    assert lane_bound_s(by_slots, units[:5]) == pytest.approx(9 + 1)
    assert lane_bound_s(ProviderSpec(max_concurrency=2), [truth(service_s=7.0), truth()]) == 7.0


def test_a_falling_limit_raises_the_bound() -> None:
    units = [truth() for _ in range(120)]
    halved = ProviderSpec(rpm=60, depth_s=0, changes=(LimitChange(60, 0.5),))
    assert lane_bound_s(halved, units) == pytest.approx(60 + 60 / 0.5 + 1)
    risen = ProviderSpec(rpm=60, depth_s=10, changes=(LimitChange(0, 0.5), LimitChange(20, 1.0)))
    # 110 to admit besides the bucket: 10 until second 20, 5 by which the bucket grows, 95 after that.
    assert lane_bound_s(risen, units) == pytest.approx(20 + 95 + 1)


def test_a_closed_span_costs_its_length_minus_the_refill_of_the_bucket() -> None:
    units = [truth() for _ in range(120)]
    held = ProviderSpec(rpm=60, depth_s=10, holds=(Span(30, 90),))
    assert lane_bound_s(held, units) == pytest.approx(30 + 60 + (110 - 30 - 10) + 1)


def test_granted_is_the_inverse_of_the_bound() -> None:
    provider = ProviderSpec(rpm=60, depth_s=10, holds=(Span(30, 90),), changes=(LimitChange(100, 0.5),))
    units = [truth() for _ in range(120)]
    last_admission_s = lane_bound_s(provider, units) - 1.0
    assert granted_s(provider, last_admission_s) == pytest.approx(120)
    assert used_share(provider, units, last_admission_s, last_admission_s + 1) == pytest.approx(1.0)


def test_fixed_windows_grant_their_allowance_at_their_boundaries() -> None:
    units = [truth() for _ in range(120)]
    at_boundary = ProviderSpec(rpm=60, depth_s=60, fixed_windows=True)
    assert lane_bound_s(at_boundary, units) == pytest.approx(60 + 1)
    within = ProviderSpec(rpm=60, depth_s=60, fixed_windows=True, window_offset_s=50)
    assert lane_bound_s(within, units) == pytest.approx(10 + 1)
