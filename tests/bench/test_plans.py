"""A short run of two scenarios. The cost is nearly exact; the time includes the start-up."""

from __future__ import annotations

import pytest
from bench.planning import plans

#: How near the estimate of the time is, is measured by `make bench`: here the machine may be busy, and start-up matters in a run of a few
#: seconds. The run lies in the range of the plan.
LENGTH_S = 6.0
BUSY_S = 3.0


@pytest.mark.parametrize("name", ["requests in flight bind", "two lanes, two limits"])
def test_a_plan_matches_its_run(name: str) -> None:
    [scenario] = [one for one in plans.SCENARIOS if one.name == name]
    result = plans.measure(scenario, LENGTH_S, sample=100)
    _, low_s, high_s = result.time_s
    assert low_s <= result.took_s <= high_s + BUSY_S, result
    assert abs(result.cost_off) < 2 * plans.COST_BAR, result


def test_every_kind_of_limit_has_a_scenario() -> None:
    assert len(plans.SCENARIOS) >= 5


def test_a_sample_is_as_good_as_all_rows() -> None:
    assert abs(plans.sampling(6_000, 2_000).off) < plans.SAMPLING_BAR


def test_a_missed_bar_is_reported() -> None:
    result = plans.Result("x", "", 1, (11.2, 1.0, 20.0), 10.0, 1.06, 1.0)
    assert len(plans.misses(result)) == 2
