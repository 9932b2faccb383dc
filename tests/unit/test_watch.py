"""Somebody else on the key shows in the reports, and is told of once; a refusal about growth sets a cap."""

from __future__ import annotations

import pytest
from tests.unit.drive import Run, entry_of, failed, lane_spec, ok, one_lane, units

from headway.core.events import Event, Finished, RequestAccepted
from headway.core.lanes.growth_cap import GROWTH_CAP, GROWTH_DROP
from headway.core.lanes.meter import Meter
from headway.core.lanes.other_clients import LOOK_S, WORTH_SAYING, OtherClients
from headway.core.model import (
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LimitReport,
    Outcome,
    Unit,
    Usage,
)
from headway.reason_text import notice_text

RPM = 600.0


def meter_with(foreign_s: float) -> Meter:
    meter = Meter(Dimension.REQUESTS, RPM, reported=True)
    meter.foreign_s = foreign_s
    return meter


def test_one_look_is_not_enough() -> None:
    watch = OtherClients(0.0)
    assert watch.look([meter_with(0.0)], LOOK_S) == 0.0
    assert watch.look([meter_with(10.0)], 2 * LOOK_S) == 0.0
    assert watch.look([meter_with(20.0)], 3 * LOOK_S) == pytest.approx(10.0 / LOOK_S)


def test_a_difference_that_disappears_is_not_another_client() -> None:
    watch = OtherClients(0.0)
    shares = [
        watch.look([meter_with(foreign_s)], LOOK_S * look) for look, foreign_s in enumerate((0, 10, 0, 10), 1)
    ]
    assert shares == [0.0] * 4


def test_a_little_is_not_worth_a_word() -> None:
    watch = OtherClients(0.0)
    step_s = LOOK_S * WORTH_SAYING * 0.9
    assert not any(watch.look([meter_with(look * step_s)], LOOK_S * look) for look in range(1, 6))


def at_a_shared_key(own_share: float, tokens_off: float = 0.0) -> list[str]:
    """What a lane says whose answers report a level that others, with the rest of the use, have lowered too."""
    limits = LaneLimits(rpm=0, max_concurrency=1)
    run = Run(units(1_000, estimate=Estimate(input_tokens=100.0)), lane_spec(limits=limits))
    per_s = RPM * 100.0 / 60.0
    used, last = 0.0, 0.0
    told: list[str] = []
    step, now = run.at(0.0), 0.0
    while now < 120.0:
        told += [notice_text(notice.reason) for notice in step.notices if notice.what == "shared"]
        now = now + 0.2 if step.started else max(now, step.wake_at or now)
        events: list[Event] = []
        for index in step.started:
            used = max(0.0, used - (now - last) * per_s) + (100.0 + tokens_off) / own_share
            last = now
            hint = Hint((LimitReport(Dimension.TOKENS, RPM * 100.0, RPM * 100.0 - used, used / per_s),))
            events += [RequestAccepted(index, hint), ok(index, Usage(100.0 + tokens_off, 0.0))]
        step = run.at(now, *events)
    return told


def test_a_second_client_is_noticed_once() -> None:
    told = at_a_shared_key(0.5)
    assert len(told) == 1
    assert "other users of this key take" in told[0]


@pytest.mark.parametrize("tokens_off", [0.0, 60.0, -40.0])
def test_without_other_clients_none_is_reported_even_with_wrong_estimates(tokens_off: float) -> None:
    assert at_a_shared_key(1.0, tokens_off) == []


# -- a cap on growth ---------------------------------------------------------------------------------------

GROWING = Hint(growing=True)


def test_a_refusal_about_growth_lowers_the_pace_to_somewhat_below_the_present_pace() -> None:
    lane = one_lane()
    entries = [entry_of(lane, Unit(index, "a", Estimate(input_tokens=50.0))) for index in range(100)]
    for place, entry in enumerate(entries):
        lane.charge(entry, place * 0.1)
    pace = lane.rate_at(10.0) * 50.0 * 60.0
    lane.throttled(entries[-1], Outcome(Kind.RATE, hint=GROWING), 10.0)
    cap = next(meter for meter in lane.meters if meter.name == GROWTH_CAP)
    assert cap.dimension is Dimension.INPUT
    assert cap.limit == pytest.approx(pace * GROWTH_DROP)


def test_ten_such_refusals_of_one_burst_lower_it_once() -> None:
    lane = one_lane()
    entries = [entry_of(lane, Unit(index, "a")) for index in range(10)]
    for entry in entries:
        lane.charge(entry, 0.0)
    for entry in entries:
        lane.throttled(entry, Outcome(Kind.RATE, hint=GROWING), 1.0)
    cap = next(meter for meter in lane.meters if meter.name == GROWTH_CAP)
    assert cap.limit == pytest.approx(lane.rate_at(1.0) * 60.0 * GROWTH_DROP)


def test_it_grows_again_from_there() -> None:
    lane = one_lane()
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    lane.throttled(entry, Outcome(Kind.RATE, hint=GROWING), 1.0)
    first = lane.growth_rule
    assert first is not None
    lane.charge(entry_of(lane), 1.0 + first.period_s)
    cap = next(meter for meter in lane.meters if meter.name == GROWTH_CAP)
    assert cap.limit == pytest.approx(first.free_per_minute * first.growth)


def test_a_cap_keeps_its_dimension_and_is_announced() -> None:
    run = Run(units(5, estimate=Estimate(input_tokens=10.0)), lane_spec())
    run.at(0.0)
    step = run.at(1.0, Finished(0, Outcome(Kind.RATE, hint=GROWING, message="slow down")))
    assert any("grew too fast" in notice_text(notice.reason) for notice in step.notices)
    first = run.lane().growth_rule
    assert first is not None
    assert run.at(60.0).started == [0]
    run.at(61.0, Finished(0, Outcome(Kind.RATE, hint=GROWING, message="slow down")))
    second = run.lane().growth_rule
    assert second is not None
    assert second is not first
    assert (second.dimension, second.growth, second.period_s) == (
        Dimension.INPUT,
        first.growth,
        first.period_s,
    )


def test_an_ordinary_refusal_sets_no_cap() -> None:
    run = Run(units(5), lane_spec())
    run.at(0.0)
    run.at(1.0, failed(0, Kind.RATE))
    assert run.scheduler.lanes["a"].growth_rule is None
