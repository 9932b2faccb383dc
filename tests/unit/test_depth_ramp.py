"""How far the ramp of a depth goes: far in a short job, in small steps while much work is left."""

from __future__ import annotations

from headway.core.lanes.meters.depth_ramp import GROWTH, DepthRamp


def reach_s(ramp: DepthRamp, proven_s: float, *, reported: bool = False) -> float:
    """The reach of small requests beyond the first stop."""
    return ramp.reach_s(proven_s, 0.001, 0.0, GROWTH, reported=reported)


def test_without_a_pace_the_reach_is_a_multiple_of_the_proven_debt() -> None:
    assert reach_s(DepthRamp(), 2.0) == 2.0 * GROWTH


def test_much_work_makes_small_steps_and_little_work_large_ones() -> None:
    ramp = DepthRamp()
    ramp.pace(0.5, 600.0)
    patient = reach_s(ramp, 2.0)
    assert 2.0 < patient < 2.2
    ramp.pace(0.5, 6.0)
    assert patient < reach_s(ramp, 2.0) < 2.0 * GROWTH
    ramp.pace(5.0, 6.0)
    assert reach_s(ramp, 2.0) == 2.0 * GROWTH


def test_a_ramp_with_a_pace_is_over_before_the_work_is() -> None:
    ramp, left_s, trip_s, proven_s = DepthRamp(), 100.0, 0.5, 1.1
    while proven_s < 60.0:
        ramp.pace(trip_s, left_s)
        proven_s = reach_s(ramp, proven_s)
        left_s -= trip_s
        assert left_s > 30.0


def test_reports_need_no_pace() -> None:
    ramp = DepthRamp()
    ramp.pace(0.5, 600.0)
    assert reach_s(ramp, 2.0, reported=True) == 2.0 * GROWTH


def test_the_end_of_the_work_is_not_waited_for() -> None:
    ramp = DepthRamp()
    ramp.pace(0.5, 600.0)
    ramp.hurry()
    assert reach_s(ramp, 2.0) == 2.0 * GROWTH
