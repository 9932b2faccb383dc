"""A cap on acceleration: a refusal about growth sets it, and from then on the rate may only grow so fast."""

from __future__ import annotations

import pytest
from tests.unit.drive import STEADY, UNLIMITED, entry_of

from headway.core.lanes.lane import LaneState
from headway.core.lanes.meters.growth_cap import GROWTH_CAP, GrowthCap
from headway.core.lanes.queueing.queue import NEVER
from headway.core.model import (
    Dimension,
    Estimate,
    GrowthRule,
    Hint,
    Kind,
    LaneLimits,
    LaneSpec,
    Outcome,
    Unit,
)

#: Six hundred requests a minute: ten a second.
RULE = GrowthRule(Dimension.REQUESTS, 600.0)


def refused(limits: LaneLimits = UNLIMITED, estimate: Estimate | None = None) -> LaneState:
    """A lane whose use grew too fast, at 100 requests in the first second."""
    lane = LaneState(LaneSpec("a", limits, STEADY), 0.0, {})
    entries = [entry_of(lane, Unit(index, "a", estimate or Estimate())) for index in range(100)]
    for entry in entries:
        lane.charge(entry, 0.0)
    lane.throttled(entries[0], Outcome(Kind.RATE, hint=Hint(growing=True)), 1.0)
    return lane


@pytest.mark.parametrize(("minutes", "factor"), [(0.0, 1.0), (15.0, 1.5), (30.0, 2.25), (60.0, 5.0625)])
def test_it_grows_by_half_every_quarter_of_an_hour(minutes: float, factor: float) -> None:
    cap = GrowthCap(RULE, 10.0)
    cap.ease(10.0 + minutes * 60.0)
    assert cap.meter.limit == pytest.approx(600.0 * factor)


def test_the_growth_and_its_period_are_settings() -> None:
    cap = GrowthCap(GrowthRule(Dimension.REQUESTS, 600.0, growth=2.0, period_s=60.0), 0.0)
    cap.ease(120.0)
    assert cap.meter.limit == pytest.approx(2400.0)


def test_every_start_raises_it_by_the_time_that_has_passed() -> None:
    lane = refused()
    assert lane.limits.growth_rule is not None
    lane.charge(entry_of(lane), 1.0 + lane.limits.growth_rule.period_s)
    cap = next(meter for meter in lane.limits.meters if meter.name == GROWTH_CAP)
    assert cap.limit == pytest.approx(
        lane.limits.growth_rule.free_per_minute * lane.limits.growth_rule.growth
    )


def test_it_counts_in_its_own_dimension() -> None:
    lane = refused(estimate=Estimate(input_tokens=60.0))
    assert lane.limits.growth_rule is not None
    assert lane.limits.growth_rule.dimension is Dimension.INPUT
    large = entry_of(lane, Unit(0, "a", Estimate(input_tokens=lane.limits.growth_rule.free_per_minute / 6.0)))
    lane.charge(large, 2.0)
    assert lane.when(large, NEVER)[0] == pytest.approx(12.0, abs=0.5)


def test_the_meter_is_named_as_what_binds() -> None:
    lane = refused()
    for _ in range(200):
        lane.charge(entry_of(lane), 1.0)
    binding = lane.binding(entry_of(lane))
    assert binding is not None
    assert binding.name == GROWTH_CAP


def test_it_stands_beside_the_configured_limits_and_the_lower_one_decides() -> None:
    lane = refused(LaneLimits(rpm=60.0, burst_s=0.0))
    assert {meter.name for meter in lane.limits.meters} == {"requests per minute", GROWTH_CAP}
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(100.0)


def test_it_makes_no_unit_too_large() -> None:
    """too_large() exempted the learned pace only; a cap that will rise is no bucket that a unit must fit."""
    lane = refused(estimate=Estimate(input_tokens=1.0))
    assert lane.limits.too_large(entry_of(lane, Unit(0, "a", Estimate(input_tokens=1e9)))) == ""
