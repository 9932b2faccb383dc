"""A meter admits what the provider's bucket would admit, and learns its level and depth from reports."""

from __future__ import annotations

from math import ceil
from random import Random

import pytest

from headway.core.lanes.meters.depth_ramp import BOLD, FIRST_DEPTH_S, LATE_S, DepthRamp
from headway.core.lanes.meters.meter import GUARD_S, GUARD_SHARE, TOKEN_SAFETY, Meter
from headway.core.model import DAY_S, Dimension, LimitReport
from headway.sim.virtual_bucket import VirtualBucket

REQUESTS, TOKENS = Dimension.REQUESTS, Dimension.TOKENS


def deep(limit: float = 60.0, depth_s: float = 60.0) -> Meter:
    """A reported meter of a known depth."""
    return Meter(REQUESTS, limit, burst_s=depth_s, reported=True)


def left(remaining: float, reset_s: float | None = None, *, limit: float = 60.0) -> LimitReport:
    """An exact report."""
    return LimitReport(REQUESTS, limit, remaining, reset_s, remaining_precision=0.0)


# -- admission ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", list(Dimension))
def test_without_a_burst_it_is_plain_spacing(dimension: Dimension) -> None:
    random = Random(1)
    limit = 90.0
    meter = Meter(dimension, limit, burst_s=0.0)
    next_at = now = 0.0
    for _ in range(200):
        now += random.expovariate(1.0)
        cost = random.uniform(0.1, 5.0)
        assert meter.ready_at(cost) == pytest.approx(next_at)
        meter.reserve(cost, now)
        next_at = max(next_at, now) + cost * 60.0 / limit


@pytest.mark.parametrize("depth_s", [0.5, 1.0, 10.0, 60.0])
@pytest.mark.parametrize("seed", range(5))
def test_it_admits_exactly_what_a_bucket_with_a_level_admits(depth_s: float, seed: int) -> None:
    random = Random(f"{depth_s}/{seed}")
    meter, bucket = Meter(REQUESTS, 120.0, burst_s=depth_s), VirtualBucket(2.0, depth_s)
    now, decisions = 0.0, {True: 0, False: 0}
    for _ in range(400):
        now += random.choice([0.0, random.expovariate(2.0)])
        cost = random.uniform(0.1, 4.0)
        short_by = bucket.short_by(cost, now)
        if 0.0 < short_by < 1e-6:
            continue  # A tie: floats may say either.
        admitted = meter.ready_at(cost) <= now + 1e-9
        assert admitted == (short_by == 0.0)
        decisions[admitted] += 1
        if admitted:
            meter.reserve(cost, now)
            bucket.charge(cost, now)
            assert meter.level(now) == pytest.approx(bucket.level)
    assert min(decisions.values()) > 20


def test_ready_at_is_the_first_instant_that_a_bucket_with_a_level_admits() -> None:
    random = Random(7)
    meter, bucket = Meter(REQUESTS, 300.0, burst_s=3.0), VirtualBucket(5.0, 3.0)
    now = 0.0
    for _ in range(200):
        cost = random.uniform(0.5, 12.0)
        ready_at = meter.ready_at(cost)
        if ready_at > now + 0.01:
            assert bucket.short_by(cost, ready_at - 0.01) == pytest.approx(0.05)
            now = ready_at
        assert bucket.short_by(cost, now) == pytest.approx(0.0, abs=1e-6)
        meter.reserve(cost, now)
        bucket.charge(cost, now)


def test_a_cost_above_the_depth_waits_for_a_full_bucket() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(4.0, 0.0)
    assert meter.ready_at(25.0) == pytest.approx(4.0)
    meter.reserve(25.0, 4.0)
    assert meter.ready_at(1.0) == pytest.approx(4.0 + 25.0 - 10.0 + 1.0)


def test_caution_keeps_that_many_guards_in_the_bucket() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(9.0, 0.0)
    assert meter.ready_at(1.0, caution=0.0) == pytest.approx(0.0)
    assert meter.ready_at(1.0, caution=1.0) == pytest.approx(GUARD_S)
    assert meter.ready_at(1.0, caution=3.0) == pytest.approx(3.0 * GUARD_S)


def test_the_guard_of_a_shallow_bucket_is_a_share_of_it() -> None:
    meter = Meter(REQUESTS, 600.0, burst_s=1.0)
    meter.reserve(9.0, 0.0)
    assert meter.ready_at(1.0, caution=1.0) == pytest.approx(GUARD_SHARE)


def test_tokens_must_fit_with_a_margin_because_they_are_estimates() -> None:
    requests, tokens = Meter(REQUESTS, 60.0, burst_s=10.0), Meter(TOKENS, 60.0, burst_s=10.0)
    for meter in (requests, tokens):
        meter.reserve(5.0, 0.0)
    assert requests.ready_at(5.0) == pytest.approx(0.0)
    assert tokens.ready_at(5.0) == pytest.approx((TOKEN_SAFETY - 1.0) * 5.0)
    assert tokens.reserve(5.0, 1.0) == pytest.approx(10.0)


def test_a_day_quota_may_be_used_at_once() -> None:
    meter = Meter(REQUESTS, 1000.0, DAY_S)
    for _ in range(1000):
        assert meter.ready_at(1.0) <= 0.0
        meter.reserve(1.0, 0.0)
    assert meter.ready_at(1.0) == pytest.approx(DAY_S / 1000.0)


def test_a_level_starts_full_and_refills_no_further() -> None:
    meter = Meter(REQUESTS, 60.0, now=5.0, burst_s=10.0)
    assert meter.level(5.0) == pytest.approx(10.0)
    meter.reserve(4.0, 5.0)
    assert meter.level(5.0) == pytest.approx(6.0)
    assert meter.level(7.0) == pytest.approx(8.0)
    assert meter.level(99.0) == pytest.approx(10.0)


def test_names_are_as_people_say_them() -> None:
    assert Meter(Dimension.INPUT, 1.0).name == "input tokens per minute"
    assert Meter(REQUESTS, 1.0, DAY_S).name == "requests per day"


# -- settling -----------------------------------------------------------------------------------------


def test_a_refund_comes_back_at_once() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(10.0, 0.0)
    meter.adjust(-4.0)
    assert meter.level(0.0) == pytest.approx(4.0)


def test_an_extra_charge_may_leave_less_than_nothing() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(8.0, 0.0)
    meter.adjust(7.0)
    assert meter.level(0.0) == pytest.approx(-5.0)
    assert meter.ready_at(1.0) == pytest.approx(6.0)


def test_refunds_never_fill_a_bucket_beyond_its_depth() -> None:
    meter, bucket = Meter(REQUESTS, 60.0, burst_s=10.0), VirtualBucket(1.0, 10.0)
    meter.reserve(6.0, 0.0)
    bucket.charge(6.0, 0.0)
    meter.adjust(-6.0)
    bucket.charge(-6.0, 5.0)
    meter.reserve(3.0, 5.0)
    bucket.charge(3.0, 5.0)
    assert meter.level(5.0) == pytest.approx(bucket.level)


def test_a_refusal_empties_the_bucket() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(2.0, 0.0)
    meter.empty(1.0)
    assert meter.level(1.0) == pytest.approx(0.0)


def test_a_refusal_outweighs_a_report_that_much_is_left() -> None:
    """The report speaks of a minute, and a bucket of one second refused: only the refused request's own charge is given back."""
    meter = Meter(REQUESTS, 60.0, reported=True)
    first = meter.reserve(1.0, 10.0)
    meter.sync(left(59.0), first, 10.0, seq=1, cost=1.0)
    meter.reserve(2.0, 10.0)
    refused = meter.reserve(1.0, 10.0)
    meter.sync(left(59.0), refused, 10.0, seq=3, cost=1.0, refused=True)
    assert meter.full_at == pytest.approx(13.0)


def test_a_refusal_never_adds_to_a_level_below_nothing() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(15.0, 0.0)
    meter.empty(1.0)
    assert meter.level(1.0) == pytest.approx(-4.0)


@pytest.mark.parametrize("limit", [30.0, 600.0])
def test_a_new_limit_keeps_the_debt_in_units_of_cost(limit: float) -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=60.0)
    meter.reserve(20.0, 0.0)
    meter.set_limit(limit, 5.0)
    owed = meter.depth_s * meter.rate - meter.level(5.0)
    assert owed == pytest.approx(15.0)
    assert meter.rate == pytest.approx(limit / 60.0)


def test_a_new_limit_owes_nothing_where_nothing_was_owed() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=10.0)
    meter.reserve(2.0, 0.0)
    meter.set_limit(6.0, 30.0)
    assert meter.level(30.0) == pytest.approx(10.0 * 0.1)


def test_levels_are_rebuilt_from_recorded_starts() -> None:
    random = Random(3)
    lived = Meter(REQUESTS, 60.0, burst_s=30.0)
    starts, at = [], 0.0
    for _ in range(50):
        at += random.expovariate(1.0)
        cost = random.uniform(0.1, 2.0)
        starts.append((at, cost))
        lived.reserve(cost, at)
    rebuilt = Meter(REQUESTS, 60.0, now=at + 3.0, burst_s=30.0)
    rebuilt.rebuild(starts)
    assert rebuilt.level(at + 3.0) == pytest.approx(lived.level(at + 3.0))


def test_starts_long_past_are_paid_off() -> None:
    meter = Meter(REQUESTS, 60.0, now=1000.0, burst_s=30.0)
    meter.rebuild([(0.0, 30.0), (10.0, 30.0)])
    assert meter.level(1000.0) == pytest.approx(30.0)


def test_rebuilding_from_nothing_leaves_a_full_bucket() -> None:
    meter = Meter(REQUESTS, 60.0, now=7.0, burst_s=30.0)
    meter.rebuild([])
    assert meter.level(7.0) == pytest.approx(30.0)


# -- header replay ------------------------------------------------------------------------------------


@pytest.mark.parametrize("remaining", [5.0, 30.0, 58.0])
def test_a_reported_level_replaces_the_one_that_was_thought(remaining: float) -> None:
    meter = deep()
    mark = meter.reserve(1.0, 10.0)
    meter.sync(left(remaining), mark, 10.0, seq=1)
    assert meter.level(10.0) == pytest.approx(remaining)


def test_a_reported_level_may_be_higher_than_thought() -> None:
    meter = deep()
    meter.reserve(40.0, 0.0)
    mark = meter.reserve(1.0, 10.0)
    assert meter.level(10.0) == pytest.approx(29.0)
    meter.sync(left(45.0), mark, 10.0, seq=2, cost=1.0)
    assert meter.level(10.0) == pytest.approx(45.0)


def test_requests_sent_since_a_report_stay_charged() -> None:
    meter = deep()
    mark = meter.reserve(1.0, 10.0)
    meter.reserve(7.0, 11.0)
    meter.reserve(3.0, 12.0)
    meter.sync(left(30.0), mark, 10.0, seq=1)
    assert meter.level(12.0) == pytest.approx(30.0 + 2.0 - 7.0 - 3.0)


def test_requests_sent_since_a_report_of_a_full_bucket_stay_charged() -> None:
    meter = Meter(Dimension.REQUESTS, 60.0, burst_s=60.0, reported=True)
    meter.reserve(50.0, 0.0)
    mark = meter.reserve(1.0, 10.0)
    meter.reserve(5.0, 20.0)
    meter.sync(left(59.0), mark, 10.0, seq=2, cost=1.0)
    assert meter.level(20.0) == pytest.approx(55.0)


def test_replay_follows_a_bucket_that_someone_else_uses_too() -> None:
    random = Random(11)
    meter, bucket = deep(limit=600.0), VirtualBucket(10.0, 60.0)
    now = 0.0
    for seq in range(1, 200):
        now += random.expovariate(3.0) + 0.2
        mark = meter.reserve(2.0, now)
        bucket.charge(2.0 + random.choice([0.0, 1.5]), now)
        meter.sync(left(bucket.level, limit=600.0), mark, now, seq, cost=2.0)
        assert meter.level(now) == pytest.approx(bucket.level)


def test_the_report_on_the_latest_request_wins_in_any_order_of_arrival() -> None:
    meter = deep()
    first = meter.reserve(1.0, 10.0)
    second = meter.reserve(1.0, 20.0)
    meter.sync(left(40.0), second, 20.0, seq=2)
    meter.sync(left(10.0), first, 10.0, seq=1)
    assert meter.level(20.0) == pytest.approx(40.0)


def test_reports_in_send_order_each_correct_the_one_before() -> None:
    meter = deep()
    meter.reserve(30.0, 0.0)
    first = meter.reserve(1.0, 10.0)
    second = meter.reserve(1.0, 20.0)
    meter.sync(left(25.0), first, 10.0, seq=1)
    assert meter.level(20.0) == pytest.approx(25.0 + 10.0 - 1.0)
    meter.sync(left(12.0), second, 20.0, seq=2)
    assert meter.level(20.0) == pytest.approx(12.0)


def test_the_first_reports_of_a_burst_free_nothing_however_late_they_come() -> None:
    """They were the first to arrive, so they do not count what was sent at the same instant."""
    meter = deep(6000.0)
    meter.sync(left(6000.0, 0.0, limit=6000.0), meter.reserve(0.0, 0.0), 0.0, 1)
    marks = [meter.reserve(1.0, 1.0) for _ in range(3000)]
    for step in range(100):  # Twenty seconds, in which a little is sent again and again.
        meter.reserve(1.0, 2.0 + 0.2 * step)
    before = meter.full_at
    meter.sync(left(5999.0, 0.01, limit=6000.0), marks[-1], 1.0, 3001, 1.0)
    assert meter.full_at == pytest.approx(before)


def test_a_report_without_a_level_moves_nothing() -> None:
    meter = deep()
    mark = meter.reserve(1.0, 10.0)
    meter.sync(LimitReport(REQUESTS, 60.0), mark, 10.0, seq=1)
    assert meter.level(10.0) == pytest.approx(59.0)
    assert meter.synced_seq < 1


@pytest.mark.parametrize("remaining", [57.0, 59.0, 61.0])
def test_a_difference_within_the_rounding_of_a_report_moves_nothing(remaining: float) -> None:
    meter = deep()
    mark = meter.reserve(1.0, 10.0)
    meter.sync(LimitReport(REQUESTS, 60.0, remaining, remaining_precision=2.0), mark, 10.0, seq=1)
    assert meter.level(10.0) == pytest.approx(59.0)


def test_a_difference_beyond_the_rounding_moves_only_by_the_rest() -> None:
    meter = deep()
    mark = meter.reserve(1.0, 10.0)
    meter.sync(LimitReport(REQUESTS, 60.0, 39.0, remaining_precision=2.0), mark, 10.0, seq=1)
    assert meter.level(10.0) == pytest.approx(41.0)


def test_a_refund_that_passed_a_request_on_its_way_is_not_counted_twice() -> None:
    meter = deep()
    meter.reserve(30.0, 0.0)
    mark = meter.reserve(1.0, 10.0)
    meter.credit(12.0, 10.05)
    known = meter.level(10.1)
    # The provider gave the refund before the request reached it, so the report contains it already.
    meter.sync(left(60.0 - 30.0 + 10.0 - 1.0 + 12.0), mark, 10.0, seq=2)
    assert meter.level(10.1) == pytest.approx(known)


def test_a_refund_long_after_the_send_is_not_in_its_report() -> None:
    meter = deep()
    meter.reserve(30.0, 0.0)
    mark = meter.reserve(1.0, 10.0)
    meter.credit(12.0, 11.0)
    meter.sync(left(60.0 - 30.0 + 10.0 - 1.0), mark, 10.0, seq=2)
    assert meter.level(11.0) == pytest.approx(60.0 - 30.0 + 11.0 - 1.0 + 12.0)


@pytest.mark.parametrize("late_first", [False, True])
def test_two_sends_that_arrive_the_other_way_round_never_add_to_the_level(late_first: bool) -> None:
    meter = deep()
    meter.reserve(20.0, 0.0)
    first = (meter.reserve(1.0, 10.0), 10.0, 1)
    second = (meter.reserve(1.0, 10.02), 10.02, 2)
    # At the provider the second came first: its report does not know of the other.
    reports = [(left(60.0 - 20.0 + 10.0 - 2.0), *first), (left(60.0 - 20.0 + 10.0 - 1.0), *second)]
    for report, mark, sent_at, seq in reports[::-1] if late_first else reports:
        meter.sync(report, mark, sent_at, seq, cost=1.0)
    assert 48.02 - 1.0 - 1e-6 <= meter.level(10.02) <= 48.02 + 1e-6


# -- depth --------------------------------------------------------------------------------------------


def test_an_unknown_depth_starts_at_one_second_of_refill() -> None:
    meter = Meter(REQUESTS, 600.0)
    assert meter.depth_s == FIRST_DEPTH_S == 1.0
    assert meter.level(0.0) == pytest.approx(10.0)


def test_remaining_and_reset_imply_the_most_that_the_bucket_can_hold() -> None:
    meter = Meter(REQUESTS, 60.0, reported=True)
    mark = meter.reserve(1.0, 10.0)
    meter.sync(left(7.0, 3.0), mark, 10.0, seq=1)
    assert meter.ceiling_s == pytest.approx(10.0)
    assert meter.depth_s == pytest.approx(1.0)


@pytest.mark.parametrize("depth_s", [2.0, 10.0, 60.0])
def test_rounded_resets_narrow_the_ceiling_down_to_the_truth(depth_s: float) -> None:
    random = Random(f"{depth_s}")
    meter, bucket = Meter(REQUESTS, 600.0, reported=True), VirtualBucket(10.0, depth_s)
    now = 0.0
    for seq in range(1, 60):
        now += random.uniform(0.2, 1.5)
        mark = meter.reserve(1.0, now)
        bucket.charge(random.uniform(0.0, 12.0), now)
        bucket.level = max(0.0, bucket.level)
        reset_s = ceil(now + bucket.full_in_s()) - now
        report = LimitReport(
            REQUESTS, 600.0, bucket.level, reset_s, reset_precision_s=1.0, remaining_precision=0.0
        )
        meter.sync(report, mark, now, seq)
        # Half the rounding at first, and ever less.
        assert meter.ceiling_s == pytest.approx(depth_s, abs=0.5 + 1e-6)
    assert meter.ceiling_s == pytest.approx(depth_s, abs=0.2)


def test_without_a_reset_a_bucket_holds_no_more_than_was_ever_seen_in_it() -> None:
    meter = Meter(REQUESTS, 3000.0, reported=True)
    mark = meter.reserve(1.0, 0.0)
    meter.sync(left(49.0, limit=3000.0), mark, 0.0, 1, 1.0)
    assert meter.ceiling_s == pytest.approx(
        1.0
    )  # A second's worth: the rest of the minute's bucket is unused.
    assert meter.ready_at(1.0) <= 0.0
    mark = meter.reserve(20.0, 10.0)
    meter.sync(left(130.0, limit=3000.0), mark, 10.0, 2, 20.0)
    assert meter.ceiling_s == pytest.approx(3.0)
    assert meter.level(10.0, meter.ceiling_s) == pytest.approx(130.0)


def test_the_level_of_a_daily_limit_says_nothing_about_its_depth() -> None:
    meter = Meter(REQUESTS, 1000.0, DAY_S, reported=True)
    mark = meter.reserve(1.0, 0.0)
    meter.sync(
        LimitReport(REQUESTS, 1000.0, 400.0, period_s=DAY_S, remaining_precision=0.0), mark, 0.0, 1, 1.0
    )
    assert meter.ceiling_s == DAY_S
    assert meter.level(0.0) == pytest.approx(400.0)


def test_as_long_as_a_whole_period_fits_a_bucket_is_taken_to_hold_that() -> None:
    """A Date and a reset of whole seconds leave two seconds of doubt: the middle of them would be off by one."""
    meter = Meter(TOKENS, 6000.0, reported=True)
    for seq, (left_s, reset_s) in enumerate(((59.5, 2.0), (59.9, 1.0), (59.3, 1.0))):
        mark = meter.reserve(1.0, float(seq))
        report = LimitReport(TOKENS, 6000.0, left_s * 100.0, reset_s, reset_precision_s=2.0)
        meter.sync(report, mark, float(seq), seq, 1.0)
        assert meter.ceiling_s == 60.0
    mark = meter.reserve(1.0, 9.0)
    meter.sync(LimitReport(TOKENS, 6000.0, 5770.0, 2.0, reset_precision_s=2.0), mark, 9.0, 9, 1.0)
    assert meter.ceiling_s == pytest.approx(
        59.5, abs=0.3
    )  # It cannot be 60: at 57.7 it is full after 2 s at the latest.


def test_a_reset_that_cannot_be_is_not_believed() -> None:
    meter = Meter(TOKENS, 150_000.0, reported=True)
    mark = meter.reserve(16.0, 0.0)
    meter.sync(LimitReport(TOKENS, 150_000.0, 149_984.0, 360.0), mark, 0.0, seq=1)
    assert meter.ceiling_s == pytest.approx(60.0)


def test_a_provider_that_changes_its_depth_is_believed() -> None:
    meter = Meter(REQUESTS, 60.0, reported=True)
    meter.sync(left(50.0, 10.0), meter.reserve(1.0, 1.0), 1.0, seq=1)
    assert meter.ceiling_s == pytest.approx(60.0)
    meter.sync(left(5.0, 5.0), meter.reserve(1.0, 2.0), 2.0, seq=2)
    assert meter.ceiling_s == pytest.approx(10.0)


def accepted(meter: Meter, debt_s: float, now: float = 0.0, *, careful: bool = False) -> None:
    """A request of one second's refill was taken at this debt."""
    meter.accepted(debt_s, meter.rate, now, careful=careful)


def test_an_accepted_request_proves_the_debt_that_it_was_sent_at() -> None:
    meter = Meter(REQUESTS, 60.0)
    accepted(meter, 5.0)
    assert meter.depth_s == pytest.approx(5.0)


def test_an_accepted_request_within_the_depth_proves_nothing_new() -> None:
    meter = Meter(REQUESTS, 600.0)
    accepted(meter, 0.3)
    assert meter.depth_s == pytest.approx(1.0)


def test_nothing_proves_a_bucket_to_be_deeper_than_its_ceiling() -> None:
    meter = Meter(REQUESTS, 60.0, reported=True)
    meter.sync(left(9.0, 1.0), meter.reserve(1.0, 0.0), 0.0, seq=1)
    accepted(meter, 30.0)
    assert meter.depth_s == meter.reach_s == pytest.approx(10.0)
    assert not meter.shallow


def test_a_refusal_ends_the_depth_where_the_attempt_before_stood() -> None:
    meter = Meter(REQUESTS, 60.0)
    accepted(meter, 20.0)
    meter.overreached(10.0)
    assert meter.depth_s == pytest.approx(10.0)


def test_a_refusal_never_takes_a_bucket_below_its_first_depth() -> None:
    meter = Meter(REQUESTS, 60.0)
    accepted(meter, 20.0)
    meter.overreached(0.2)
    assert meter.depth_s == pytest.approx(FIRST_DEPTH_S)


def test_a_configured_depth_is_not_in_doubt() -> None:
    meter = Meter(REQUESTS, 60.0, burst_s=5.0)
    meter.begin_ramp(1.0, careful=False)
    assert meter.reach_s == meter.depth_s == pytest.approx(5.0)
    meter.overreached(1.0)
    assert meter.depth_s == pytest.approx(5.0)
    assert not meter.shallow


def test_the_reserve_is_kept_at_the_ceiling_and_not_while_a_depth_is_tested() -> None:
    meter = Meter(REQUESTS, 6000.0)
    meter.begin_ramp(1.0, careful=False)
    assert meter.reach_s > meter.depth_s
    assert meter.guard_s == 0.0
    accepted(meter, 59.0)
    assert meter.guard_s == GUARD_S


def test_a_ramp_in_tokens_leaves_the_same_margin_for_estimates() -> None:
    meter = Meter(TOKENS, 6000.0)
    meter.reserve(6000.0, 0.0)
    assert meter.ready_at(50.0) == pytest.approx(60.0 - meter.reach_s + 50.0 * TOKEN_SAFETY / 100.0)


def test_a_ceiling_below_the_proven_depth_takes_the_depth_down_with_it() -> None:
    meter = Meter(REQUESTS, 60.0, reported=True)
    accepted(meter, 30.0)
    assert meter.depth_s == pytest.approx(30.0)
    meter.sync(left(5.0, 5.0), meter.reserve(1.0, 1.0), 1.0, seq=1)
    assert meter.depth_s == meter.ceiling_s == pytest.approx(10.0)


def test_the_debt_that_a_report_proves_is_the_one_it_tells() -> None:
    meter = Meter(REQUESTS, 60.0, reported=True)
    meter.sync(left(50.0, 10.0), meter.reserve(1.0, 0.0), 0.0, seq=1)
    assert meter.reported_debt_s((left(40.0, 20.0),)) == pytest.approx(20.0)
    assert meter.reported_debt_s((LimitReport(TOKENS, 60.0, 40.0, 20.0),)) == 0.0


def test_a_level_without_a_reset_proves_nothing_before_the_bucket_was_seen() -> None:
    meter = Meter(REQUESTS, 60.0, reported=True)
    assert meter.reported_debt_s((left(1.0),)) == 0.0


def test_a_report_on_what_was_sent_before_a_new_limit_is_understood_after_it() -> None:
    meter = deep()
    meter.reserve(30.0, 0.0)
    mark = meter.reserve(1.0, 10.0)
    meter.set_limit(120.0, 10.0)
    meter.sync(left(20.0, limit=120.0), mark, 10.0, seq=1, cost=1.0)
    assert meter.level(10.0) == pytest.approx(20.0)


def test_a_reported_bucket_may_be_deeper_than_the_configured_burst() -> None:
    meter = Meter(REQUESTS, 600.0, burst_s=1.0, reported=True)
    mark = meter.reserve(10.0, 0.0)
    meter.sync(left(590.0, 1.0, limit=600.0), mark, 0.0, seq=1, cost=10.0)
    assert meter.level(0.0) == pytest.approx(0.0)
    assert meter.level(0.0, meter.ceiling_s) == pytest.approx(590.0)
    assert not meter.shallow


def test_another_depth_can_be_wanted_later() -> None:
    meter = Meter(REQUESTS, 600.0, burst_s=1.0)
    meter.reserve(10.0, 0.0)
    meter.redeepen(Meter(REQUESTS, 600.0, burst_s=5.0))
    assert meter.level(0.0) == pytest.approx(40.0)
    meter.redeepen(Meter(REQUESTS, 600.0))
    assert meter.shallow


@pytest.mark.parametrize("rate", [5.0, 33.0, 333.0])
def test_a_report_just_beyond_a_stop_passes_it_however_small_requests_are(rate: float) -> None:
    """A report may be off by one request, and the bucket refills while a burst arrives: the reach allows for both."""
    ramp = DepthRamp()
    reach_s = ramp.reach_s(1.0, 1.0 / rate, 0.0, BOLD, reported=True)
    proven_s = reach_s - LATE_S - 1.0 / rate
    assert ramp.reach_s(proven_s, 1.0 / rate, 0.0, BOLD, reported=True) > 5.0


def test_a_bucket_that_is_proven_nearly_whole_is_used_as_a_whole() -> None:
    meter = Meter(Dimension.REQUESTS, 600.0)
    meter.begin_ramp(1.0, careful=False)
    meter.deepen(0.975 * 60.0, 0.0)
    assert meter.reach_s == 60.0
    assert meter.ramp is not None
    meter.ramp.end(0.0, 1)
    meter.deepen(0.975 * 60.0, 0.0)
    assert meter.reach_s == pytest.approx(0.975 * 60.0)
