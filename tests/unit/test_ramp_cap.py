"""A cap on acceleration: what is free goes at once, and from then on the rate may only grow so fast."""

from __future__ import annotations

import pytest
from tests.unit.drive import STEADY, UNLIMITED, Run, entry_of, good, play, started_at, units

from headway.core.lanes.growth_cap import RAMP_CAP
from headway.core.lanes.lane import Lane
from headway.core.lanes.queue import NEVER
from headway.core.model import Dimension, Estimate, LaneLimits, LaneSpec, Ramp, Unit

#: Six hundred requests a minute are free: ten a second.
RAMP = Ramp(Dimension.REQUESTS, 600.0)


def capped(ramp: Ramp = RAMP, limits: LaneLimits = UNLIMITED) -> Lane:
    return Lane(LaneSpec("a", limits, STEADY, ramp=ramp), 0.0, {})


def limit_of(lane: Lane) -> float:
    return next(meter.limit for meter in lane.meters if meter.name == RAMP_CAP)


def use_all(lane: Lane, now: float) -> None:
    """Two seconds' worth at once: the cap binds."""
    for _ in range(20):
        lane.charge(entry_of(lane), now)


def test_what_is_free_is_the_rate_to_begin_with() -> None:
    run = Run(units(100), LaneSpec("a", UNLIMITED, STEADY, ramp=RAMP))
    starts = [at for at, _ in started_at(play(run, good))]
    assert starts[-1] == pytest.approx(100 / 10.0 - 0.7, abs=0.15)


@pytest.mark.parametrize(("minutes", "factor"), [(0.0, 1.0), (15.0, 1.5), (30.0, 2.25), (60.0, 5.0625)])
def test_it_grows_by_half_every_quarter_of_an_hour(minutes: float, factor: float) -> None:
    lane = capped()
    use_all(lane, 10.0)
    lane.charge(entry_of(lane), 10.0 + minutes * 60.0)
    assert limit_of(lane) == pytest.approx(600.0 * factor)


def test_it_does_not_grow_before_it_was_ever_used() -> None:
    lane = capped()
    lane.charge(entry_of(lane), 3600.0)
    assert limit_of(lane) == pytest.approx(600.0)


def test_the_growth_and_its_period_are_settings() -> None:
    lane = capped(Ramp(Dimension.REQUESTS, 600.0, growth=2.0, period_s=60.0))
    use_all(lane, 0.0)
    lane.charge(entry_of(lane), 120.0)
    assert limit_of(lane) == pytest.approx(2400.0)


def test_it_counts_in_its_own_dimension() -> None:
    lane = capped(Ramp(Dimension.INPUT, 6000.0))
    large = Unit(0, "a", Estimate(input_tokens=500.0))
    lane.charge(entry_of(lane, large), 0.0)
    assert lane.when(entry_of(lane, large), NEVER)[0] == pytest.approx(5.0)


def test_the_meter_is_named_as_what_binds() -> None:
    lane = capped()
    use_all(lane, 0.0)
    binding = lane.binding(entry_of(lane))
    assert binding is not None
    assert binding.name == RAMP_CAP


def test_it_stands_beside_the_configured_limits_and_the_lower_one_decides() -> None:
    lane = capped(limits=LaneLimits(rpm=60.0, burst_s=0.0))
    lane.charge(entry_of(lane), 0.0)
    assert {meter.name for meter in lane.meters} == {"requests per minute", RAMP_CAP}
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(1.0)
