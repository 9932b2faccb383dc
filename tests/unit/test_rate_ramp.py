"""How fast an unknown lane sends until its first refusal, and what it learns from what it sent too much."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.blind import Blind
from tests.unit.drive import Run, lane_spec, units

from headway.core.events import Units
from headway.core.lanes.learning.rate_ramp import (
    DEEP_S,
    FIRST_RATE,
    HANDFUL,
    HELD_UP_S,
    MANY,
    MOST_REFUSED,
    OVERSHOOT_S,
    REFUSED_AFTER_S,
    SHALLOW_S,
    SHARE,
    TWO_HANDFULS,
    Overshoot,
    overshoot_rate,
    ramp_pace,
)
from headway.core.lanes.queueing.stock import Stock
from headway.core.model import LaneLimits

UNKNOWN = float("inf")


def overshoot(accepted: int, left: float) -> float:
    return ramp_pace(accepted, left) * REFUSED_AFTER_S


def test_the_pace_never_falls_while_more_is_accepted() -> None:
    paces = [ramp_pace(accepted, UNKNOWN) for accepted in range(1, 5_000)]
    assert paces[0] == FIRST_RATE
    assert all(after >= before for before, after in pairwise(paces))


@pytest.mark.parametrize(
    ("accepted", "most"), [(20, HANDFUL), (60, HANDFUL), (150, MANY), (500, MANY), (1_000, SHARE * 1_000)]
)
def test_the_end_of_a_bucket_costs_a_handful_then_a_small_share(accepted: int, most: float) -> None:
    assert overshoot(accepted, UNKNOWN) == pytest.approx(most)


def test_a_job_that_is_nearly_done_hurries() -> None:
    assert overshoot(300, 100) > 1.5 * overshoot(300, 10_000)
    assert overshoot(300, 10_000) == overshoot(300, UNKNOWN)


def test_a_short_job_may_overshoot_by_a_hundredth_of_it() -> None:
    assert overshoot(30, 370) == pytest.approx(HANDFUL)
    assert overshoot(30, 770) == pytest.approx(8.0)
    assert overshoot(30, 1_400) == pytest.approx(TWO_HANDFULS)
    assert overshoot(30, 50_000) == pytest.approx(HANDFUL)
    assert overshoot(30, UNKNOWN) == pytest.approx(HANDFUL)


def test_a_small_job_does_not_send_its_whole_rest_at_once() -> None:
    assert overshoot(60, 10) <= 10.0


def test_nothing_left_is_no_division_by_zero() -> None:
    assert ramp_pace(5, 0.0) >= FIRST_RATE


def test_what_was_accepted_of_an_overshoot_shows_the_rate() -> None:
    slow, fast = overshoot_rate(0, 0.1, 300.0, 3.0), overshoot_rate(8, 0.1, 300.0, 3.0)
    assert slow < fast / 4.0


def test_no_bucket_is_deeper_than_a_minute_or_shallower_than_a_second() -> None:
    assert overshoot_rate(0, 10.0, 630.0, 3.0) == pytest.approx(630.0 / (DEEP_S + 3.0))
    assert overshoot_rate(90, 0.1, 12.0, 1.0) == pytest.approx(12.0 / (SHALLOW_S + 1.0))


@pytest.mark.parametrize(("rate", "depth_s"), [(8.0, 60.0), (8.0, 10.0), (50.0, 10.0), (100.0, 1.0)])
def test_a_ramp_meets_few_refusals_and_the_climb_after_it_fewer(rate: float, depth_s: float) -> None:
    blind = Blind(rate, depth_s)
    blind.play(until=15.0)
    first = blind.refused[0]
    ramp = sum(at < first + 0.1 for at in blind.refused)
    given = sum(at < first for at in blind.accepted)
    assert ramp <= max(HANDFUL, min(0.1 * given, MANY), SHARE * given) + 2.0
    assert sum(first + 0.1 <= at < first + 5.0 for at in blind.refused) <= max(6.0, 0.1 * rate)


def test_a_refusal_that_is_back_at_once_does_not_end_the_measurement() -> None:
    overshoot = Overshoot(5.0, 5.001, 0)
    ended = [overshoot.ended]
    for at in (5.05, 5.01 + OVERSHOOT_S):
        assert overshoot.start(at)
        ended.append(overshoot.ended)
    assert ended == [False, False, True]
    assert overshoot.lasted_s == pytest.approx(0.01 + OVERSHOOT_S)
    assert not overshoot.start(5.2)


def test_enough_refusals_end_it_sooner() -> None:
    overshoot = Overshoot(5.0, 5.001, 0)
    for _ in range(MOST_REFUSED - 1):
        assert overshoot.refused(5.01)
    assert overshoot.start(5.02)
    assert overshoot.ended
    assert not overshoot.refused(4.9)


def test_a_slow_refusal_has_given_the_measurement_its_time() -> None:
    overshoot = Overshoot(5.0, 5.3, 12)
    assert overshoot.ended
    assert overshoot.lasted_s == pytest.approx(0.3)


def test_a_lane_that_was_held_up_measures_only_what_it_had_sent() -> None:
    overshoot = Overshoot(5.0, 5.001, 0)
    assert overshoot.start(5.01)
    assert not overshoot.start(5.02 + HELD_UP_S)
    assert overshoot.lasted_s == REFUSED_AFTER_S


@pytest.mark.parametrize("refusal_s", [0.001, 0.02, 0.05, 0.09])
def test_the_climb_starts_near_the_rate_however_quickly_refusals_are_back(refusal_s: float) -> None:
    blind = Blind(100.0, 1.0, answer_s=0.25, refusal_s=refusal_s)
    blind.play(until=8.0)
    first = blind.refused[0]
    assert blind.used(first, first + 2.0) > 0.5
    assert blind.used(first + 1.0, first + 3.0) > 0.8
    assert sum(at < first + 1.0 for at in blind.refused) <= MANY


def test_a_lane_knows_how_many_units_have_yet_to_start() -> None:
    run = Run(units(500), lane_spec(limits=LaneLimits()))
    run.at(0.0)
    lane = run.lane()
    assert lane.unstarted == 500 - lane.traffic.started


def test_a_source_that_does_not_say_how_many_it_has_leaves_the_number_unknown() -> None:
    stock = Stock()
    stock.fetched(1.0, more=True)
    assert stock.left == UNKNOWN
    stock.fetched(1.0, more=True, left=7)
    assert stock.left == 7.0
    stock.more_work()
    assert stock.left == UNKNOWN
    assert Units("a", (), more=False).left == 0
