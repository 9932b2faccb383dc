"""Other clients of a key show in the reports and are announced once; a refusal about growth sets a cap."""

from __future__ import annotations

import pytest
from tests.unit.drive import Run, entry_of, failed, lane_spec, ok, one_lane, units

from headway.core.events import Event, Finished, RequestAccepted
from headway.core.lanes.learning.other_clients import LOOK_S, WORTH_SAYING, OtherClients
from headway.core.lanes.meters.growth_cap import GROWTH_CAP, GROWTH_DROP
from headway.core.lanes.meters.meter import Meter
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


def meter_with(foreign_s: float, *, reset: bool = True) -> Meter:
    """A meter for which so much is missing; with or without a reset in its reports."""
    meter = Meter(Dimension.REQUESTS, RPM, reported=True)
    meter.foreign_s = foreign_s
    if reset:
        meter.implied = (59.0, 60.0)
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


def test_without_a_reset_others_are_reported_after_a_whole_period() -> None:
    watch = OtherClients(0.0)
    looks = [LOOK_S * look for look in range(1, 20)]
    reported = [now for now in looks if watch.look([meter_with(0.5 * now, reset=False)], now)]
    assert reported == [now for now in looks if now >= 60.0 + 2 * LOOK_S]


def notices_behind_a_gateway(per_s: float, *, begins_at: float) -> list[str]:
    """What a lane says about other clients in ten clock minutes of a gateway that reports what is left, and no reset."""
    run = Run(units(10_000), lane_spec(limits=LaneLimits(rpm=0, max_concurrency=4)))
    minute, used = -1, 0.0
    notices: list[str] = []
    now = begins_at
    step = run.at(now)
    while now < 600.0:
        notices += [notice_text(notice.reason) for notice in step.notices if notice.what == "shared"]
        now = now + 1.0 / per_s if step.started else max(now, step.wake_at or now)
        if int(now // 60.0) != minute:
            minute, used = int(now // 60.0), 0.0
        events: list[Event] = []
        for index in step.started:
            used += 1.0
            hint = Hint((LimitReport(Dimension.REQUESTS, RPM, max(0.0, RPM - used), None),))
            if used > RPM:
                events.append(Finished(index, Outcome(Kind.RATE, hint=hint)))
            else:
                events += [RequestAccepted(index, hint), ok(index)]
        step = run.at(now, *events)
    return notices


@pytest.mark.parametrize("begins_at", [0.0, 20.0, 50.0])
@pytest.mark.parametrize("per_s", [0.5, 2.0, 5.0, 9.0, 40.0])
def test_a_fixed_window_without_a_reset_is_not_another_client(per_s: float, begins_at: float) -> None:
    """LiteLLM's proxy reports `remaining` and `limit` of a clock minute, and no reset."""
    assert notices_behind_a_gateway(per_s, begins_at=begins_at) == []


def at_a_shared_key(own_share: float, tokens_off: float = 0.0, *, reset: bool = True) -> list[str]:
    """What a lane says if its answers report the level of a bucket of which it makes only this share of the use."""
    limits = LaneLimits(rpm=0, max_concurrency=1)
    run = Run(units(1_000, estimate=Estimate(input_tokens=100.0)), lane_spec(limits=limits))
    per_s = RPM * 100.0 / 60.0
    used, last = 0.0, 0.0
    notices: list[str] = []
    step, now = run.at(0.0), 0.0
    while now < 120.0:
        notices += [notice_text(notice.reason) for notice in step.notices if notice.what == "shared"]
        now = now + 0.2 if step.started else max(now, step.wake_at or now)
        events: list[Event] = []
        for index in step.started:
            used = max(0.0, used - (now - last) * per_s) + (100.0 + tokens_off) / own_share
            last = now
            reset_s = used / per_s if reset else None
            hint = Hint((LimitReport(Dimension.TOKENS, RPM * 100.0, RPM * 100.0 - used, reset_s),))
            events += [RequestAccepted(index, hint), ok(index, Usage(100.0 + tokens_off, 0.0))]
        step = run.at(now, *events)
    return notices


@pytest.mark.parametrize(("own_share", "reset"), [(0.5, True), (0.4, False)])
def test_a_second_client_is_reported_once(own_share: float, reset: bool) -> None:
    notices = at_a_shared_key(own_share, reset=reset)
    assert len(notices) == 1
    assert "other users of this key take" in notices[0]


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
    pace = lane.traffic.rate_at(10.0) * 50.0 * 60.0
    lane.throttled(entries[-1], Outcome(Kind.RATE, hint=GROWING), 10.0)
    cap = next(meter for meter in lane.limits.meters if meter.name == GROWTH_CAP)
    assert cap.dimension is Dimension.INPUT
    assert cap.limit == pytest.approx(pace * GROWTH_DROP)


def test_ten_such_refusals_of_one_burst_lower_it_once() -> None:
    lane = one_lane()
    entries = [entry_of(lane, Unit(index, "a")) for index in range(10)]
    for entry in entries:
        lane.charge(entry, 0.0)
    for entry in entries:
        lane.throttled(entry, Outcome(Kind.RATE, hint=GROWING), 1.0)
    cap = next(meter for meter in lane.limits.meters if meter.name == GROWTH_CAP)
    assert cap.limit == pytest.approx(lane.traffic.rate_at(1.0) * 60.0 * GROWTH_DROP)


def test_it_grows_again_from_there() -> None:
    lane = one_lane()
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    lane.throttled(entry, Outcome(Kind.RATE, hint=GROWING), 1.0)
    first = lane.limits.growth_rule
    assert first is not None
    lane.charge(entry_of(lane), 1.0 + first.period_s)
    cap = next(meter for meter in lane.limits.meters if meter.name == GROWTH_CAP)
    assert cap.limit == pytest.approx(first.free_per_minute * first.growth)


def test_a_cap_keeps_its_dimension_and_is_announced() -> None:
    run = Run(units(5, estimate=Estimate(input_tokens=10.0)), lane_spec())
    run.at(0.0)
    step = run.at(1.0, Finished(0, Outcome(Kind.RATE, hint=GROWING, message="slow down")))
    assert any("grew too fast" in notice_text(notice.reason) for notice in step.notices)
    first = run.lane().limits.growth_rule
    assert first is not None
    assert run.at(60.0).started == [0]
    run.at(61.0, Finished(0, Outcome(Kind.RATE, hint=GROWING, message="slow down")))
    second = run.lane().limits.growth_rule
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
    assert run.scheduler.lanes["a"].limits.growth_rule is None
