"""One lane: which meters are in force, when a unit may start, and what is learned from each answer."""

from __future__ import annotations

import pytest
from tests.unit.drive import entry_of, lane_spec, one_lane, units

from headway.core.lanes.lane import CANARY_S, LAST_RESERVE_S, LaneState
from headway.core.lanes.learning.rate_finder import LEARNED
from headway.core.lanes.learning.rate_ramp import FIRST_RATE
from headway.core.lanes.meters.caution import ALARMED, CALM, CAUTION_GROWTH
from headway.core.lanes.meters.depth_ramp import BEYOND, GROWTH, PAUSE_S, STEP_PACE
from headway.core.lanes.meters.meter import GUARD_S
from headway.core.lanes.queueing.queue import ALWAYS, NEVER, Entry
from headway.core.model import (
    DAY_S,
    MINUTE_S,
    NO_ESTIMATE,
    Counting,
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LimitReport,
    Outcome,
    RetryPolicy,
    Unit,
    Usage,
)
from headway.core.reasons import AccountRefused
from headway.core.retry import LONGEST_HINT_S

REQUESTS, TOKENS, INPUT = Dimension.REQUESTS, Dimension.TOKENS, Dimension.INPUT
#: Sixty a minute out of a bucket of a minute.
DEEP = LaneLimits(rpm=60.0, burst_s=60.0)
#: Counts the input at first and the output as it comes, gives cached input back.
AS_IT_COMES = Counting(reserve_max_output=False, settle_output=True, cached_free=True)


def sent(lane: LaneState, now: float, estimate: Estimate = NO_ESTIMATE, probe: str = "") -> Entry:
    """An attempt begins."""
    entry = entry_of(lane, Unit(lane.traffic.started, lane.key, estimate))
    lane.charge(entry, now, probe)
    return entry


def refused(
    lane: LaneState, entry: Entry, now: float, kind: Kind = Kind.RATE, hint: Hint | None = None
) -> float:
    """The attempt comes back with a refusal; returns when its unit may try again."""
    outcome = Outcome(kind, hint=hint)
    lane.release(entry, outcome, now)
    at = lane.throttled(entry, outcome, now)
    lane.drop_probe(entry)
    return at


def succeeded(lane: LaneState, entry: Entry, now: float, usage: Usage | None = None) -> None:
    lane.release(entry, Outcome(usage=usage), now)


def says(remaining: float | None = None, limit: float = 60.0, dimension: Dimension = REQUESTS) -> Hint:
    """Exact headers."""
    return Hint((LimitReport(dimension, limit, remaining, remaining_precision=0.0),))


def in_force(lane: LaneState) -> list[tuple[str, float, bool]]:
    return [(meter.name, meter.limit, meter.reported) for meter in lane.limits.meters]


# -- limits -------------------------------------------------------------------------------------------


def test_every_configured_limit_is_a_meter() -> None:
    lane = one_lane(LaneLimits(rpm=1, tpm=2, input_tpm=3, output_tpm=4, rpd=5, tpd=6, min_gap_s=10.0))
    assert in_force(lane) == [
        ("requests per minute", 1, False),
        ("tokens per minute", 2, False),
        ("input tokens per minute", 3, False),
        ("output tokens per minute", 4, False),
        ("requests per day", 5, False),
        ("tokens per day", 6, False),
        ("minimum gap", 6.0, False),
    ]


def test_a_limit_of_zero_is_unlimited() -> None:
    assert in_force(one_lane(LaneLimits(rpm=0, tpm=100))) == [("tokens per minute", 100, False)]


def test_a_lower_reported_limit_takes_the_place_of_the_configured_one() -> None:
    lane = one_lane(DEEP)
    lane.admitted(sent(lane, 0.0), says(10.0, limit=30.0), 0.1)
    assert in_force(lane) == [("requests per minute", 30.0, True)]


def test_a_higher_reported_limit_never_lifts_the_configured_one() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, burst_s=0.0))
    lane.admitted(sent(lane, 0.0), says(599.0, limit=600.0), 0.1)
    assert ("requests per minute", 60.0, False) in in_force(lane)
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(1.0)


def test_a_reported_limit_that_changes_is_followed() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0))
    lane.admitted(sent(lane, 0.0), says(10.0, limit=60.0), 0.1)
    lane.admitted(sent(lane, 1.0), says(5.0, limit=30.0), 1.1)
    assert in_force(lane) == [("requests per minute", 30.0, True)]


def test_an_old_answer_does_not_bring_an_old_limit_back() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0))
    lane.admitted(sent(lane, 0.0), says(10.0, limit=60.0), 0.1)
    old, new = sent(lane, 1.0), sent(lane, 2.0)
    lane.admitted(new, says(5.0, limit=30.0), 2.1)
    lane.admitted(old, says(5.0, limit=60.0), 2.2)
    assert in_force(lane) == [("requests per minute", 30.0, True)]


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_a_reported_limit_of_nothing_is_unknown(limit: float) -> None:
    lane = one_lane(LaneLimits())
    lane.admitted(sent(lane, 0.0), says(0.0, limit=limit), 0.1)
    assert in_force(lane) == [(LEARNED, FIRST_RATE * MINUTE_S, False)]


def test_limits_a_minute_and_a_day_stand_beside_each_other() -> None:
    lane = one_lane(LaneLimits(rpm=60.0))
    hint = Hint((LimitReport(REQUESTS, 1000.0, 900.0, period_s=DAY_S),))
    lane.admitted(sent(lane, 0.0), hint, 0.1)
    assert in_force(lane) == [("requests per minute", 60.0, False), ("requests per day", 1000.0, True)]


def test_a_first_report_counts_requests_sent_since() -> None:
    out: dict[int, Entry] = {}
    lane = LaneState(one_lane(LaneLimits(burst_s=60.0)).spec, 0.0, out)
    for index in range(3):
        out[index] = sent(lane, 10.0 + index)
    lane.admitted(out[0], says(20.0), 12.5)
    assert lane.limits.meters[0].level(12.0) == pytest.approx(20.0 + 2.0 - 2.0)


def test_the_first_report_takes_the_place_of_the_search() -> None:
    lane = one_lane(LaneLimits())
    assert in_force(lane) == [(LEARNED, FIRST_RATE * MINUTE_S, False)]
    lane.admitted(sent(lane, 0.0), says(20.0), 0.1)
    assert in_force(lane) == [("requests per minute", 60.0, True)]
    assert lane.window.open


def test_a_configured_limit_takes_the_place_of_the_search() -> None:
    lane = one_lane(LaneLimits())
    lane.configure(LaneLimits(rpm=30.0), 1.0)
    assert in_force(lane) == [("requests per minute", 30.0, False)]


def test_new_configured_limits_keep_the_level() -> None:
    lane = one_lane(DEEP)
    for _ in range(30):
        sent(lane, 0.0)
    lane.configure(LaneLimits(rpm=120.0, burst_s=60.0), 10.0)
    meter = lane.limits.meters[0]
    assert meter.limit == 120.0
    assert meter.depth_s * meter.rate - meter.level(10.0) == pytest.approx(20.0)


def test_a_limit_no_longer_configured_no_longer_counts() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, tpm=100.0))
    lane.configure(LaneLimits(tpm=100.0), 1.0)
    assert in_force(lane) == [("tokens per minute", 100.0, False)]


# -- when may it start --------------------------------------------------------------------------------


def test_a_start_waits_for_the_latest_of_hold_pause_and_meters() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, burst_s=0.0, min_gap_s=3.0))
    assert lane.when(entry_of(lane), NEVER)[0] <= 0.0
    first = sent(lane, 0.0)
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(3.0)
    refused(lane, first, 1.0, hint=Hint(retry_after_s=10.0))
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(11.0)
    lane.hold.extend(20.0, "until then")
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(20.0)


def test_the_slowest_meter_decides() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, tpm=600.0, burst_s=0.0))
    unit = Estimate(input_tokens=50.0)
    sent(lane, 0.0, unit)
    assert lane.when(entry_of(lane, Unit(1, "a", unit)), NEVER)[0] == pytest.approx(5.0)
    binding = lane.binding(entry_of(lane, Unit(1, "a", unit)))
    assert binding is not None
    assert binding.name == "tokens per minute"


def test_a_minimum_gap_does_not_depend_on_the_size() -> None:
    lane = one_lane(LaneLimits(rpm=0, min_gap_s=2.0))
    sent(lane, 0.0, Estimate(input_tokens=1e6))
    assert lane.when(entry_of(lane, Unit(1, "a", Estimate(input_tokens=1e6))), NEVER)[0] == pytest.approx(2.0)


def test_a_shorter_hold_never_opens_a_longer_one() -> None:
    lane = one_lane()
    lane.hold.extend(20.0, "long")
    lane.hold.extend(10.0, "short")
    assert (lane.hold.until, lane.hold.reason) == (20.0, "long")


def test_a_unit_above_a_limit_can_never_fit_and_both_numbers_are_named() -> None:
    lane = one_lane(LaneLimits(tpm=8000.0))
    problem = lane.limits.too_large(entry_of(lane, Unit(0, "a", Estimate(input_tokens=10_098.0))))
    assert "10,098 tokens" in problem
    assert "8,000 tokens per minute" in problem


def test_a_unit_above_the_depth_but_within_the_limit_fits() -> None:
    lane = one_lane(LaneLimits(tpm=8000.0, burst_s=1.0))
    entry = entry_of(lane, Unit(0, "a", Estimate(input_tokens=7000.0)))
    assert lane.limits.too_large(entry) == ""
    assert lane.when(entry, NEVER)[0] <= 0.0


def test_a_long_minimum_gap_makes_no_unit_too_large() -> None:
    lane = one_lane(LaneLimits(rpm=0, min_gap_s=3600.0))
    assert lane.limits.too_large(entry_of(lane)) == ""


# -- settling -----------------------------------------------------------------------------------------

TOKEN_LANE = LaneLimits(tpm=6000.0, burst_s=60.0)
ESTIMATE = Estimate(input_tokens=1000.0, output_tokens=100.0, max_output_tokens=500.0)


def left(lane: LaneState, now: float) -> float:
    return lane.limits.meters[0].level(now)


def test_a_reservation_is_replaced_by_the_usage() -> None:
    lane = one_lane(TOKEN_LANE, counting=Counting(settle_output=True))
    entry = sent(lane, 0.0, ESTIMATE)
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1500.0)
    succeeded(lane, entry, 0.0, Usage(input_tokens=900.0, output_tokens=50.0))
    assert left(lane, 0.0) == pytest.approx(6000.0 - 950.0)


def test_usage_beyond_the_reservation_is_charged() -> None:
    lane = one_lane(TOKEN_LANE, counting=AS_IT_COMES)
    entry = sent(lane, 0.0, ESTIMATE)
    succeeded(lane, entry, 0.0, Usage(input_tokens=1000.0, output_tokens=4000.0))
    assert left(lane, 0.0) == pytest.approx(6000.0 - 5000.0)


@pytest.mark.parametrize("kind", [Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH, Kind.OVERLOAD, Kind.INVALID])
def test_a_failure_that_reports_its_usage_is_settled_by_it(kind: Kind) -> None:
    lane = one_lane(TOKEN_LANE, counting=Counting(settle_output=True))
    entry = sent(lane, 0.0, ESTIMATE)
    lane.release(entry, Outcome(kind, usage=Usage(input_tokens=1000.0, output_tokens=10.0)), 0.0)
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1010.0)


@pytest.mark.parametrize("kind", [Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH])
def test_a_failure_after_some_work_stays_charged(kind: Kind) -> None:
    lane = one_lane(TOKEN_LANE)
    lane.release(sent(lane, 0.0, ESTIMATE), Outcome(kind), 0.0)
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1500.0)


@pytest.mark.parametrize("kind", [Kind.OVERLOAD, Kind.QUOTA, Kind.AUTH, Kind.INVALID, Kind.CONCURRENCY])
def test_a_refusal_before_any_work_is_refunded(kind: Kind) -> None:
    lane = one_lane(TOKEN_LANE)
    lane.release(sent(lane, 0.0, ESTIMATE), Outcome(kind), 0.0)
    assert left(lane, 0.0) == pytest.approx(6000.0)


def test_input_counted_early_and_usage_at_the_end_are_one_charge() -> None:
    lane = one_lane(TOKEN_LANE, counting=AS_IT_COMES)
    entry = sent(lane, 0.0, ESTIMATE)
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1100.0)
    usage = Usage(input_tokens=1200.0, cached_input_tokens=300.0)
    lane.admitted(entry, None, 0.0, usage)
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1200.0 + 300.0 - 100.0)
    succeeded(lane, entry, 0.0, Usage(input_tokens=1200.0, output_tokens=40.0, cached_input_tokens=300.0))
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1200.0 + 300.0 - 40.0)


def test_early_input_is_counted_once_even_if_it_is_reported_twice() -> None:
    lane = one_lane(TOKEN_LANE, counting=AS_IT_COMES)
    entry = sent(lane, 0.0, ESTIMATE)
    usage = Usage(input_tokens=1200.0, cached_input_tokens=300.0)
    lane.admitted(entry, None, 0.0, usage)
    lane.admitted(entry, None, 0.0, usage)
    assert left(lane, 0.0) == pytest.approx(6000.0 - 1200.0 + 300.0 - 100.0)


def test_a_refusal_after_early_input_refunds_everything() -> None:
    lane = one_lane(TOKEN_LANE, counting=AS_IT_COMES)
    entry = sent(lane, 0.0, ESTIMATE)
    lane.admitted(entry, None, 0.0, Usage(input_tokens=1200.0, cached_input_tokens=300.0))
    lane.release(entry, Outcome(Kind.OVERLOAD), 0.0)
    assert left(lane, 0.0) == pytest.approx(6000.0)


def test_a_reported_level_is_not_moved_by_usage_again() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0), counting=Counting(settle_output=True))
    entry = sent(lane, 0.0, ESTIMATE)
    lane.admitted(entry, says(4000.0, 6000.0, TOKENS), 0.0)
    succeeded(lane, entry, 0.0, Usage(input_tokens=900.0, output_tokens=50.0))
    assert left(lane, 0.0) == pytest.approx(4000.0)


def test_a_reported_limit_without_a_level_is_still_settled_by_usage() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0), counting=Counting(settle_output=True))
    hint = Hint((LimitReport(Dimension.TOKENS, 6000.0),))
    for index in range(2):
        entry = entry_of(lane, Unit(index, "a", Estimate(100.0, 10.0, 2000.0)))
        lane.charge(entry, 0.0)
        lane.release(entry, Outcome(usage=Usage(100.0, 10.0), hint=hint), 0.0)
    assert lane.limits.meters[0].level(0.0) == pytest.approx(6000.0 - 220.0)


def test_a_reported_level_has_the_early_input_right_already() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0), counting=Counting(reserve_max_output=False))
    lane.admitted(sent(lane, 0.0, ESTIMATE), says(5000.0, 6000.0, TOKENS), 0.0)
    old, new = sent(lane, 0.0, ESTIMATE), sent(lane, 0.0, ESTIMATE)
    lane.admitted(new, says(2500.0, 6000.0, TOKENS), 0.0)
    lane.admitted(old, None, 0.0, Usage(input_tokens=1300.0))
    assert left(lane, 0.0) == pytest.approx(2500.0)


def test_a_refusal_with_a_level_is_not_refunded_on_top() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0))
    succeeded(lane, sent(lane, 0.0), 0.0)
    lane.admitted(sent(lane, 0.0), says(30.0), 0.0)
    refused(lane, sent(lane, 10.0), 10.0, hint=says(0.0))
    assert left(lane, 10.0) == pytest.approx(0.0)


# -- refusals -----------------------------------------------------------------------------------------


def test_a_rate_refusal_empties_the_meter_and_leaves_the_rate_alone() -> None:
    lane = one_lane(DEEP)
    refused(lane, sent(lane, 0.0), 1.0)
    assert left(lane, 1.0) == pytest.approx(0.0)
    assert lane.limits.meters[0].limit == 60.0


def test_ten_refusals_of_one_burst_raise_the_reserve_once() -> None:
    lane = one_lane(DEEP)
    for entry in [sent(lane, 0.0) for _ in range(10)]:
        refused(lane, entry, 1.0)
    assert lane.caution.level == pytest.approx(CALM * CAUTION_GROWTH)
    refused(lane, sent(lane, 2.0), 3.0)
    assert lane.caution.level == pytest.approx(CALM * CAUTION_GROWTH**2)


def test_the_reserve_has_an_end_and_that_is_the_lanes_floor() -> None:
    lane = one_lane(DEEP)
    assert not lane.at_floor
    for time in range(20):
        refused(lane, sent(lane, 0.3 * time), 0.3 * time + 0.1)
    assert lane.caution.level == ALARMED
    assert lane.at_floor


def test_the_reserve_decays_with_success_and_never_below_calm() -> None:
    lane = one_lane(DEEP)
    refused(lane, sent(lane, 0.0), 1.0)
    raised = lane.caution.level
    for _ in range(350):
        succeeded(lane, sent(lane, 2.0), 3.0)
    assert lane.caution.level - CALM == pytest.approx((raised - CALM) / 2.0, rel=0.02)
    for _ in range(10_000):
        succeeded(lane, sent(lane, 2.0), 3.0)
    assert lane.caution.level == pytest.approx(CALM)


def test_a_refusal_that_names_a_dimension_empties_only_that() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, tpm=6000.0, burst_s=60.0))
    refused(lane, sent(lane, 0.0), 0.0, hint=Hint(dimension=TOKENS))
    requests, tokens = lane.limits.meters
    assert tokens.level(0.0) == pytest.approx(0.0)
    assert requests.level(0.0) == pytest.approx(60.0)


def test_a_refusal_that_names_nothing_empties_the_meter_nearest_to_its_end() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, tpm=6000.0, burst_s=60.0))
    for _ in range(40):
        succeeded(lane, sent(lane, 0.0), 0.0)
    refused(lane, sent(lane, 0.0), 0.0)
    requests, tokens = lane.limits.meters
    assert requests.level(0.0) == pytest.approx(0.0)
    assert tokens.level(0.0) == pytest.approx(6000.0)


def test_a_refusal_a_minute_long_leaves_the_days_quota_alone() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, rpd=1000.0, burst_s=60.0))
    refused(lane, sent(lane, 0.0), 0.0, hint=Hint(dimension=REQUESTS))
    minute, day = lane.limits.meters
    assert minute.level(0.0) == pytest.approx(0.0)
    assert day.level(0.0) == pytest.approx(1000.0)


def test_a_refusal_never_empties_a_whole_days_quota() -> None:
    lane = one_lane(LaneLimits(rpd=10_000.0))
    refused(lane, sent(lane, 0.0), 1.0)
    assert left(lane, 1.0) > 9000.0


def test_a_retry_after_pauses_the_whole_lane() -> None:
    lane = one_lane(DEEP)
    assert refused(lane, sent(lane, 0.0), 1.0, hint=Hint(retry_after_s=20.0)) == pytest.approx(21.0)
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(21.0)


def test_a_retry_after_that_was_rounded_up_pauses_the_lane_no_longer_than_it_may_have_meant() -> None:
    lane = one_lane(DEEP)
    hint = Hint(retry_after_s=20.0, precision_s=1.0)
    assert refused(lane, sent(lane, 0.0), 1.0, hint=hint) == pytest.approx(21.0)
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(20.0)


def test_without_any_meter_a_rate_refusal_halves_the_window_once() -> None:
    lane = one_lane(LaneLimits(max_concurrency=10))
    for entry in [sent(lane, 0.0) for _ in range(10)]:
        refused(lane, entry, 1.0)
    assert lane.window.size == 5


def test_a_refusal_slows_a_lane_that_has_only_a_minimum_gap() -> None:
    lane = one_lane(LaneLimits(min_gap_s=0.01))
    entries = [sent(lane, 0.0) for _ in range(3)]
    before = lane.when(entry_of(lane), NEVER)[0]
    refused(lane, entries[-1], 1.0)
    assert lane.when(entry_of(lane), NEVER)[0] > max(1.0, before)


def test_too_many_at_once_halves_the_window_once_and_leaves_the_meters_alone() -> None:
    lane = one_lane(LaneLimits(rpm=60.0, burst_s=60.0, max_concurrency=10))
    for entry in [sent(lane, 0.0) for _ in range(10)]:
        refused(lane, entry, 0.0, Kind.CONCURRENCY)
    assert lane.window.size == 5
    assert lane.caution.level == CALM
    assert left(lane, 0.0) == pytest.approx(60.0)


def test_an_open_window_is_cut_to_half_of_what_was_in_flight() -> None:
    lane = one_lane(LaneLimits(rpm=6000.0, burst_s=60.0))
    for entry in [sent(lane, 0.0) for _ in range(40)]:
        refused(lane, entry, 0.0, Kind.CONCURRENCY)
    assert lane.window.size == 20


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_hint_over_a_minute_is_a_hold_with_the_margin(kind: Kind) -> None:
    lane = one_lane(DEEP, RetryPolicy(hold_margin_s=2.0))
    at = refused(lane, sent(lane, 0.0), 1.0, kind, Hint(retry_after_s=LONGEST_HINT_S + 1.0))
    assert at == lane.hold.until == pytest.approx(1.0 + 61.0 + 2.0)


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_hint_of_a_minute_is_none(kind: Kind) -> None:
    lane = one_lane(DEEP)
    assert refused(lane, sent(lane, 0.0), 1.0, kind, Hint(retry_after_s=60.0)) == pytest.approx(61.0)
    assert lane.hold.until == ALWAYS


def test_a_hold_closes_the_lane_however_short_it_is() -> None:
    lane = one_lane(DEEP, RetryPolicy(hold_margin_s=3.0))
    refused(lane, sent(lane, 0.0), 1.0, Kind.HOLD, Hint(retry_after_s=5.0))
    assert lane.hold.until == pytest.approx(9.0)


def test_reopening_lifts_hold_pause_and_stop() -> None:
    lane = one_lane()
    lane.hold.extend(50.0, "x")
    refused(lane, sent(lane, 0.0), 1.0, hint=Hint(retry_after_s=30.0))
    setattr(lane, "stopped", AccountRefused(Kind.QUOTA, "no credit"))  # noqa: B010  # mypy would take it to stay
    lane.reopen(0.0)
    assert lane.when(entry_of(lane), NEVER) == (0.0, "breaker")
    assert (lane.stopped, lane.hold.reason) == (None, "")


# -- the ramp of the depth, canaries ------------------------------------------------------------------


def burst(lane: LaneState, now: float, out: dict[int, Entry]) -> list[Entry]:
    """Everything that the lane sends one after the other, with no more than a step's gap between two."""
    begun: list[Entry] = []
    while len(begun) < 10_000 and (at := lane.when(entry_of(lane), now)[0]) <= now + 1.0 / STEP_PACE:
        now = max(now, at)
        begun.append(sent(lane, now))
        out[begun[-1].unit.index] = begun[-1]
    return begun


def test_a_step_of_the_ramp_goes_at_a_pace_that_a_refusal_can_stop() -> None:
    lane, out = ramping(LaneLimits(rpm=600.0))
    lane.limits.depth_ramp.proven_s = 9.0
    lane.limits.meters[0].deepen(9.0)
    begun = burst(lane, 0.0, out)
    assert begun[-1].started_at - begun[0].started_at == pytest.approx(len(begun) / STEP_PACE, abs=0.03)


def ramping(limits: LaneLimits) -> tuple[LaneState, dict[int, Entry]]:
    """A lane whose attempts in flight it can see."""
    out: dict[int, Entry] = {}
    return LaneState(one_lane(limits).spec, 0.0, out), out


def test_a_cold_lane_sends_a_second_of_refill_and_a_few_beyond() -> None:
    lane, out = ramping(LaneLimits(rpm=600.0))
    assert len(burst(lane, 0.0, out)) == 10 + int(BEYOND)


def test_each_round_trip_goes_further_in_proportion_to_what_was_accepted() -> None:
    lane, out = ramping(LaneLimits(rpm=6000.0))
    proven = 0
    for trip in range(2):
        proven = proven or len(burst(lane, 0.0, out))
        now = max(entry.started_at for entry in out.values())
        for entry in list(out.values()):
            lane.admitted(entry, None, now)
        further = len(burst(lane, now, out))
        assert proven + further == pytest.approx(min(GROWTH * proven, 1010), rel=0.2), trip
        proven += further


def test_a_ramp_stops_at_ten_seconds_until_a_few_beyond_are_accepted() -> None:
    lane, out = ramping(LaneLimits(rpm=600.0))
    lane.limits.meters[0].begin_ramp(1.0, careful=False)
    lane.limits.depth_ramp.proven_s = 9.0
    lane.limits.meters[0].deepen(9.0)
    assert len(burst(lane, 0.0, out)) == pytest.approx(100 + int(BEYOND), abs=3)
    for entry in list(out.values()):
        lane.admitted(entry, None, 0.3)
    assert len(burst(lane, 0.3, out)) > 200


def test_headers_that_imply_a_minute_take_the_ramp_from_stop_to_stop() -> None:
    lane, out = ramping(LaneLimits())
    first = sent(lane, 0.0)
    lane.admitted(first, Hint((LimitReport(REQUESTS, 600.0, 599.0, 0.1),)), 0.1)
    sizes = []
    for trip in range(3):
        begun = burst(lane, 0.1, out)
        sizes.append(len(begun))
        total = 1 + sum(sizes)
        lane.admitted(
            begun[-1], Hint((LimitReport(REQUESTS, 600.0, 600.0 - total, total / 10.0),)), 0.1 + trip / 1e9
        )
    assert sizes[0] == pytest.approx(12, abs=1)
    assert sum(sizes[:2]) == pytest.approx(102, abs=2)
    assert sum(sizes) > 560


def test_a_refusal_ends_the_ramp_at_what_was_accepted_and_is_no_congestion() -> None:
    lane, out = ramping(LaneLimits(rpm=600.0))
    begun = burst(lane, 0.0, out)
    for entry in begun[-2:]:
        del out[entry.unit.index]
        refused(lane, entry, 0.1)
    assert lane.caution.level == CALM
    assert (
        lane.limits.meters[0].depth_s
        == lane.limits.meters[0].reach_s
        == pytest.approx((len(begun) - 2) / 10.0)
    )
    assert lane.limits.depth_ramp.rest_until == pytest.approx(0.1 + PAUSE_S)


def test_refusals_of_one_burst_in_any_order_find_the_same_depth() -> None:
    """A burst arrives in any order: the refused ones need not be those that were sent last."""
    lane, out = ramping(LaneLimits(rpm=600.0))
    begun = burst(lane, 0.0, out)
    for entry in begun[2:4]:
        del out[entry.unit.index]
        refused(lane, entry, 0.1)
    assert lane.limits.meters[0].depth_s == pytest.approx((len(begun) - 2) / 10.0)
    assert lane.caution.level == CALM


def test_after_the_pause_one_more_is_tried_and_a_refusal_doubles_the_pause() -> None:
    lane, out = ramping(LaneLimits(rpm=600.0))
    begun = burst(lane, 0.0, out)
    refused(lane, out.pop(begun[-1].unit.index), 0.1)
    proven_s = lane.limits.meters[0].depth_s
    later = 1.0 + PAUSE_S
    lane.admitted(sent(lane, later), None, later)
    assert lane.limits.meters[0].reach_s == pytest.approx(proven_s + 0.1)
    begun = burst(lane, later + 60.0, out)
    refused(lane, out.pop(begun[-1].unit.index), later + 60.1)
    assert lane.limits.depth_ramp.rest_until == pytest.approx(later + 60.1 + 2.0 * PAUSE_S)


def test_a_refusal_within_what_is_proven_is_congestion_and_rests_the_ramp() -> None:
    lane, out = ramping(LaneLimits(rpm=600.0))
    for entry in burst(lane, 0.0, out):
        lane.admitted(entry, None, 0.1)
    out.clear()
    refused(lane, sent(lane, 100.0), 100.1)
    assert lane.caution.level > CALM
    assert lane.limits.meters[0].reach_s == lane.limits.meters[0].depth_s
    assert lane.limits.depth_ramp.rest_until < 100.0 + PAUSE_S


def test_guessed_sizes_make_the_ramp_take_small_steps() -> None:
    """Characters are no tokens: until answers have come the debt is a guess, and the ramp goes a few requests at a time."""
    reaches = []
    for chars in (0, 400):
        lane, out = ramping(LaneLimits(tpm=600_000.0))
        for index in range(130):
            unit = Unit(index, lane.key, Estimate(input_tokens=100.0), chars=chars)
            entry = entry_of(lane, unit)
            lane.charge(entry, 0.0)
            out[index] = entry
        for entry in out.values():
            lane.admitted(entry, None, 0.1)
        reaches.append(lane.limits.meters[0].reach_s - lane.limits.meters[0].depth_s)
    sure, guessed = reaches
    assert guessed < 0.1 < sure


@pytest.mark.parametrize(
    ("limits", "braced"), [(LaneLimits(tpm=6_000.0), True), (LaneLimits(rpm=600.0), False)]
)
def test_a_large_step_of_estimated_tokens_keeps_more_in_reserve_for_a_while(
    limits: LaneLimits, braced: bool
) -> None:
    """Tokens are estimated, and many estimates are wrong in sum. Requests are counted."""
    lane, _ = ramping(limits)
    lane.limits.meters[0].deepen(60.0)
    sent(lane, 0.0)
    assert (lane.caution.level > 2.0 * CALM) is braced


def test_a_shallow_bucket_that_a_refusal_calls_empty_is_no_debt_of_a_minute() -> None:
    """ "Limit 6000, Used 6000" of a bucket one second deep: the pace goes on, a minute's silence would be wrong."""
    lane = one_lane(LaneLimits(rpm=6000.0))
    for _ in range(100):
        sent(lane, 0.0)
    told = Hint((LimitReport(Dimension.REQUESTS, 6000.0, 0.0, None),), dimension=Dimension.REQUESTS)
    refused(lane, sent(lane, 0.0), 0.1, hint=told)
    assert 0.0 < lane.when(entry_of(lane), NEVER)[0] < 1.0


def test_a_configured_depth_is_never_exceeded() -> None:
    lane, out = ramping(DEEP)
    assert 55 < len(burst(lane, 0.0, out)) < 60
    for entry in list(out.values()):
        lane.admitted(entry, None, 0.1)
    assert burst(lane, 0.1, out) == []


def test_a_silent_lane_with_headers_sends_a_canary() -> None:
    lane = one_lane(LaneLimits(burst_s=60.0), counting=Counting(reserve_max_output=False))
    unit = Estimate(input_tokens=1.0)
    first = sent(lane, 0.0, unit)
    lane.admitted(first, says(50.0, 60.0, TOKENS), 0.1)
    heavy = sent(lane, 1.0, unit)
    lane.admitted(heavy, None, 1.1, Usage(input_tokens=600.0))
    succeeded(lane, first, 2.0)
    succeeded(lane, heavy, 2.0)
    waits_until = lane.when(entry_of(lane, Unit(2, "a", unit)), NEVER)[0]
    assert waits_until > 100.0
    assert lane.sooner(entry_of(lane, Unit(2, "a", unit)), waits_until) == (1.0 + CANARY_S, "canary")


def test_no_canary_where_nothing_is_reported_or_the_pace_explains_the_silence() -> None:
    unreported = one_lane(LaneLimits(tpm=60.0, burst_s=0.0))
    unit = Unit(1, "a", Estimate(input_tokens=30.0))
    succeeded(unreported, sent(unreported, 0.0, unit.estimate), 0.1)
    assert unreported.sooner(entry_of(unreported, unit), 30.0) == (30.0, "")
    slow = one_lane(LaneLimits(burst_s=60.0))
    first = sent(slow, 0.0, unit.estimate)
    slow.admitted(first, says(0.0, 60.0, TOKENS), 0.1)
    succeeded(slow, first, 0.2)
    waits_until = slow.when(entry_of(slow, unit), NEVER)[0]
    assert CANARY_S < waits_until < 60.0
    assert slow.sooner(entry_of(slow, unit), waits_until) == (waits_until, "")


def test_a_reserve_stays_in_the_bucket() -> None:
    lane = one_lane(DEEP)
    for _ in range(59):
        sent(lane, 0.0)
    assert lane.when(entry_of(lane), NEVER)[0] == pytest.approx(CALM * GUARD_S)


# -- what it did --------------------------------------------------------------------------------------


def test_the_rate_counts_recent_starts() -> None:
    lane = one_lane()
    for tenth in range(1000):
        sent(lane, tenth / 10.0)
    assert lane.traffic.rate_at(100.0) == pytest.approx(10.0, rel=0.05)
    assert lane.traffic.rate_at(200.0) < 0.1


def test_mean_costs_are_those_of_started_units() -> None:
    lane = one_lane(counting=Counting(reserve_max_output=False))
    sent(lane, 0.0, Estimate(input_tokens=100.0, output_tokens=10.0))
    sent(lane, 0.0, Estimate(input_tokens=300.0, output_tokens=30.0))
    assert lane.traffic.mean_costs() == pytest.approx((1.0, 220.0, 200.0, 20.0))


def test_the_limits_in_force_are_listed() -> None:
    limits = one_lane(LaneLimits(rpm=3000, tpm=200_000)).limits.in_force()
    assert limits == ((3000, "requests per minute"), (200_000, "tokens per minute"))


def test_attempts_in_flight_at_the_first_report_of_a_limit_report_on_it_too() -> None:
    out: dict[int, Entry] = {}
    lane = LaneState(one_lane(LaneLimits(burst_s=60.0)).spec, 0.0, out)
    for index in range(2):
        out[index] = sent(lane, 10.0 + index)
    lane.admitted(out[0], says(20.0), 11.5)
    lane.admitted(out[1], says(5.0), 12.0)
    assert lane.limits.meters[0].level(11.0) == pytest.approx(5.0)


@pytest.mark.parametrize(("size", "at_floor"), [(1, True), (2, False)])
def test_a_window_of_one_is_the_floor_too(size: int, at_floor: bool) -> None:
    assert one_lane(LaneLimits(max_concurrency=size)).at_floor is at_floor


def test_a_new_depth_counts_for_reported_minutes_and_leaves_days_alone() -> None:
    lane = one_lane(LaneLimits())
    day = LimitReport(REQUESTS, 1000.0, 900.0, period_s=DAY_S)
    lane.admitted(sent(lane, 0.0), Hint((*says(50.0).reports, day)), 0.1)
    lane.configure(LaneLimits(burst_s=7.0), 1.0)
    assert [meter.depth_s for meter in lane.limits.meters] == pytest.approx([7.0, DAY_S])


def test_at_first_sight_an_earlier_send_of_the_same_burst_may_not_have_been_counted_yet() -> None:
    """Twenty go at once and arrive in any order: the first header knows of those that came before it, no more."""
    out: dict[int, Entry] = {}
    lane = LaneState(lane_spec("a", LaneLimits(rpm=600.0, burst_s=60.0)), 0.0, out)
    entries = [sent(lane, 0.0) for _ in range(20)]
    out.update(enumerate(entries))
    lane.learn(entries[10], (LimitReport(Dimension.REQUESTS, 600.0, 596.0, 0.4),), 0.2)
    (meter,) = lane.limits.meters
    assert meter.level(0.0) == pytest.approx(596.0 - 19.0, abs=1.0)


def test_a_short_text_whose_size_is_only_learned_waits_instead_of_failing() -> None:
    """One unit took 900,000 tokens for a few characters. That says nothing of the next one."""
    lane = one_lane(LaneLimits(tpm=800_000.0))
    short = lane.entry(Unit(1, "a", chars=20))
    short.costs = (1.0, 900_000.0, 900_000.0, 0.0)
    assert lane.limits.too_large(short) == ""
    long = lane.entry(Unit(2, "a", chars=4_000_000))
    long.costs = (1.0, 900_000.0, 900_000.0, 0.0)
    assert "900,000 tokens" in lane.limits.too_large(long)


def test_the_last_units_use_the_reserve_that_nothing_else_will_need() -> None:
    lane = one_lane(LaneLimits(tpm=60_000, burst_s=20.0))
    lane.stock.fetched(1.0, more=False)
    meter = lane.limits.meters[0]
    entry = entry_of(lane)
    entry.costs = (1.0, 100.0, 80.0, 20.0)
    meter.full_at = 100.0
    alone, _ = lane.when(entry, 0.0)
    for unit in units(40):
        lane.queue.push(entry_of(lane, unit))
    before_others, _ = lane.when(entry, 0.0)
    assert before_others - alone == pytest.approx(GUARD_S - LAST_RESERVE_S)


def test_the_pace_of_a_fast_lane_is_known_within_its_first_second() -> None:
    lane = one_lane(LaneLimits())
    for _ in range(100):
        sent(lane, 10.0)
    assert lane.pace_at(10.1) == pytest.approx(
        100.0, rel=0.05
    )  # A burst alone says nothing: no answer has come.
    lane.succeeded = 90
    assert lane.pace_at(10.1) == pytest.approx(900.0)
    assert lane.pace_at(12.0) < 100.0


def test_a_job_beside_others_leaves_them_the_reserve() -> None:
    lane = one_lane(LaneLimits(tpm=60_000, burst_s=20.0))
    lane.stock.fetched(1.0, more=False)
    entry = entry_of(lane)
    entry.costs = (1.0, 100.0, 80.0, 20.0)
    lane.limits.meters[0].full_at = 100.0
    alone, _ = lane.when(entry, 0.0)
    lane.limits.part = 0.99
    beside, _ = lane.when(entry, 0.0)
    assert beside - alone == pytest.approx(GUARD_S - LAST_RESERVE_S)
