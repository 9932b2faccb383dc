"""What a lane knows outlives its process: holds, reported limits, depths and the window; levels come from starts."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import Run, entry_of, good, lane_spec, one_lane, play, started_at, units

from headway.core.lanes.estimate import ENOUGH
from headway.core.lanes.lane import LaneState
from headway.core.lanes.lane_memory import (
    FORGOTTEN_S,
    FoundRecord,
    LaneRecord,
    export_lane,
    import_lane,
    rebuild_levels,
)
from headway.core.lanes.learning.rate_finder import LEARNED, LEAST_EVIDENCE_S, RateFinder
from headway.core.lanes.queueing.queue import ALWAYS, NEVER
from headway.core.model import (
    DAY_S,
    Costs,
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

#: The engine's clock and the wall's in the first life and in the second.
NOW, UTC = 100.0, 1_800_000_000.0
LATER, LATER_UTC = 7.0, UTC + 60.0


def reborn(lane: LaneState, limits: LaneLimits | None = None) -> LaneState:
    """A new lane that knows what the old one wrote down, a minute later on another clock."""
    record = export_lane(lane, NOW, UTC)
    stored = msgspec.json.decode(msgspec.json.encode(record), type=LaneRecord)
    assert stored == record
    new = LaneState(one_lane(lane.limits.settings if limits is None else limits).spec, LATER, {})
    import_lane(new, stored, LATER, LATER_UTC)
    return new


def reported(limits: LaneLimits, *reports: LimitReport) -> LaneState:
    lane = one_lane(limits)
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    lane.release(entry, Outcome(hint=Hint(reports)), 0.5)
    return lane


def test_a_lane_that_learned_nothing_writes_nothing() -> None:
    record = export_lane(one_lane(LaneLimits(rpm=60.0, burst_s=1.0, max_concurrency=4)), NOW, UTC)
    assert record == LaneRecord("a", UTC)


def test_a_hold_ends_at_the_same_instant_of_the_wall_clock() -> None:
    lane = one_lane()
    lane.hold.extend(NOW + 300.0, "resets at four")
    new = reborn(lane)
    assert new.hold.until == pytest.approx(LATER + 240.0)
    assert new.hold.reason == "resets at four"


def test_a_hold_that_ended_between_the_two_lives_is_over() -> None:
    lane = one_lane()
    lane.hold.extend(NOW + 59.0, "soon over")
    assert reborn(lane).hold.until == ALWAYS


def test_a_hold_that_was_over_is_not_written() -> None:
    lane = one_lane()
    lane.hold.extend(NOW - 1.0, "over")
    record = export_lane(lane, NOW, UTC)
    assert record.held_until_utc is None
    assert record.hold_reason == ""


def test_reported_limits_are_in_force_from_the_start() -> None:
    lane = reported(
        LaneLimits(),
        LimitReport(Dimension.REQUESTS, 500.0, 400.0),
        LimitReport(Dimension.TOKENS, 9e6, 8e6, period_s=DAY_S),
    )
    meters = {(meter.name, meter.limit, meter.reported) for meter in reborn(lane).limits.meters}
    assert meters == {("requests per minute", 500.0, True), ("tokens per day", 9e6, True)}


def test_a_configured_limit_below_a_remembered_one_still_counts() -> None:
    new = reborn(reported(LaneLimits(), LimitReport(Dimension.REQUESTS, 500.0, 400.0)), LaneLimits(rpm=100.0))
    assert min(meter.limit for meter in new.limits.meters) == 100.0


def test_a_new_report_corrects_a_remembered_limit() -> None:
    new = reborn(reported(LaneLimits(), LimitReport(Dimension.REQUESTS, 500.0, 400.0)))
    entry = entry_of(new)
    new.charge(entry, LATER)
    new.admitted(entry, Hint((LimitReport(Dimension.REQUESTS, 200.0, 100.0),)), LATER + 0.1)
    assert [meter.limit for meter in new.limits.meters] == [200.0]


def test_a_remembered_rate_opens_the_window_at_once() -> None:
    assert reborn(reported(LaneLimits(), LimitReport(Dimension.REQUESTS, 500.0, 400.0))).window.open


def test_a_proven_depth_is_remembered() -> None:
    lane = one_lane(LaneLimits(rpm=600.0))
    lane.limits.meters[0].deepen(17.0)
    new = reborn(lane)
    assert new.limits.meters[0].depth_s == pytest.approx(17.0)
    assert new.limits.meters[0].level(LATER) == pytest.approx(170.0)


def test_a_configured_depth_is_stronger_than_a_remembered_one() -> None:
    lane = one_lane(LaneLimits(rpm=600.0))
    lane.limits.meters[0].deepen(17.0)
    assert reborn(lane, LaneLimits(rpm=600.0, burst_s=2.0)).limits.meters[0].depth_s == pytest.approx(2.0)


def test_a_window_that_was_cut_goes_on_where_it_was() -> None:
    lane = one_lane(LaneLimits(max_concurrency=64))
    entry = entry_of(lane)
    for _ in range(64):
        lane.charge(entry, 0.0)
    outcome = Outcome(Kind.CONCURRENCY)
    lane.release(entry, outcome, 1.0)
    lane.throttled(entry, outcome, 1.0)
    assert reborn(lane).window.size == 32


def test_a_remembered_window_never_exceeds_what_is_configured_now() -> None:
    lane = one_lane(LaneLimits(max_concurrency=64))
    lane.window.refused(lane.window.epoch, 64)
    assert reborn(lane, LaneLimits(max_concurrency=10)).window.size == 10


def test_a_window_that_learned_nothing_follows_the_new_configuration() -> None:
    lane = one_lane(LaneLimits(max_concurrency=10))
    assert reborn(lane, LaneLimits(max_concurrency=64)).window.size == 64


def test_a_warm_start_is_no_slower_than_a_cold_one() -> None:
    def starts_by(run: Run, until: float) -> int:
        return len(started_at(play(run, good, until=until)))

    spec = lane_spec(limits=LaneLimits())
    cold = Run(units(2000), spec)
    starts_by(cold, 2.0)
    warm = Run(units(2000), spec)
    import_lane(warm.lane(), export_lane(cold.lane(), 2.0, UTC), 0.0, UTC)
    assert starts_by(warm, 5.0) >= starts_by(Run(units(2000), spec), 5.0)


def test_levels_are_rebuilt_from_the_starts_of_the_earlier_life() -> None:
    lane = LaneState(one_lane(LaneLimits(rpm=60.0, tpm=6000.0, burst_s=60.0)).spec, LATER, {})
    costs: Costs = (1.0, 500.0, 400.0, 100.0)
    rebuild_levels(lane, [(LATER - 2.0, costs), (LATER - 2.0, costs), (LATER - 1.0, costs)])
    requests, tokens = lane.limits.meters
    assert requests.level(LATER) == pytest.approx(60.0 - 3.0 + 2.0)
    assert tokens.level(LATER) == pytest.approx(6000.0 - 1500.0 + 200.0)


def test_starts_that_set_too_much_aside_leave_no_debt_beyond_the_bucket() -> None:
    """Accepted requests fitted into the bucket; a guess at unknown answers is no reason to wait for minutes."""
    lane = one_lane(LaneLimits(tpm=6000.0, burst_s=5.0))
    rebuild_levels(lane, [(at, (1.0, 3000.0, 10.0, 0.0)) for at in (-3.0, -2.0, -1.0)])
    assert lane.limits.meters[0].full_at == pytest.approx(-1.0 + 5.0)


def test_a_burst_before_a_restart_is_not_repeated_after_it() -> None:
    lane = LaneState(one_lane(LaneLimits(rpm=60.0, burst_s=60.0)).spec, LATER, {})
    rebuild_levels(lane, [(LATER - 1.0, (1.0, 0.0, 0.0, 0.0))] * 60)
    assert lane.when(entry_of(lane), NEVER)[0] > LATER - 1e-9
    assert lane.limits.meters[0].level(LATER) == pytest.approx(1.0)


def test_no_starts_leave_full_buckets() -> None:
    lane = LaneState(one_lane(LaneLimits(rpm=60.0, burst_s=60.0)).spec, LATER, {})
    rebuild_levels(lane, [])
    assert lane.limits.meters[0].level(LATER) == pytest.approx(60.0)


# -- what was found without being told ------------------------------------------------------------------

FOUND = FoundRecord((10.0, 1000.0, 800.0, 200.0), Dimension.TOKENS, 12.0, 100.0)


def finder_after(record: LaneRecord, age_s: float) -> RateFinder:
    """What a new lane makes of a record of this age."""
    lane = one_lane(LaneLimits())
    import_lane(lane, record, 0.0, UTC + age_s)
    assert lane.limits.finder is not None
    return lane.limits.finder


def test_a_found_rate_survives() -> None:
    lane = one_lane(LaneLimits())
    import_lane(lane, LaneRecord("a", UTC, found=FOUND), 0.0, UTC)
    new = reborn(lane)
    assert new.limits.finder is not None
    assert new.limits.finder.rates == pytest.approx(FOUND.rates)
    assert new.limits.finder.depth_s == pytest.approx(FOUND.depth_s)
    assert [(meter.name, meter.dimension, meter.rate) for meter in new.limits.meters] == [
        (LEARNED, Dimension.TOKENS, 1000.0)
    ]


def test_windows_that_were_found_survive_with_their_length() -> None:
    found = FoundRecord((5.0, 500.0, 400.0, 100.0), Dimension.TOKENS, 60.0, 100.0, window_s=60.0)
    lane = one_lane(LaneLimits())
    import_lane(lane, LaneRecord("a", UTC, found=found), 0.0, UTC)
    finder = reborn(lane).limits.finder
    assert finder is not None
    assert finder.windows is not None
    assert (finder.windows.allowance, finder.windows.limit) == (30_000.0, 30_000.0)
    written = export_lane(lane, 0.0, 0.0).found
    assert written is not None
    assert (written.window_s, written.rates) == (60.0, found.rates)


def test_a_lane_that_found_nothing_yet_remembers_nothing() -> None:
    assert export_lane(one_lane(LaneLimits()), NOW, UTC).found is None


def test_a_found_rate_is_of_no_use_where_a_limit_is_configured() -> None:
    lane = one_lane(LaneLimits(rpm=60.0))
    import_lane(lane, LaneRecord("a", UTC, found=FOUND), 0.0, UTC)
    assert [meter.name for meter in lane.limits.meters] == ["requests per minute"]


def test_a_report_is_stronger_than_a_found_rate() -> None:
    lane = one_lane(LaneLimits())
    import_lane(lane, LaneRecord("a", UTC, found=FOUND), 0.0, UTC)
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    lane.admitted(entry, Hint((LimitReport(Dimension.REQUESTS, 500.0, 400.0),)), 0.1)
    assert [meter.name for meter in lane.limits.meters] == ["requests per minute"]


@pytest.mark.parametrize(
    ("age_s", "left_s"),
    [
        (-60.0, 100.0),
        (0.0, 100.0),
        (0.25 * FORGOTTEN_S, 75.0),
        (0.5 * FORGOTTEN_S, 50.0),
        (FORGOTTEN_S, LEAST_EVIDENCE_S),
        (9.0 * FORGOTTEN_S, LEAST_EVIDENCE_S),
    ],
)
def test_trust_in_a_found_rate_shrinks_with_age_and_is_gone_after_a_week(age_s: float, left_s: float) -> None:
    finder = finder_after(LaneRecord("a", UTC, found=FOUND), age_s)
    assert finder.evidence_s == pytest.approx(left_s)


def test_however_old_it_is_a_found_rate_is_the_one_to_start_with() -> None:
    finder = finder_after(LaneRecord("a", UTC, found=FOUND), 9.0 * FORGOTTEN_S)
    assert finder.meter.rate == pytest.approx(1000.0)


def test_learned_usage_survives_a_restart() -> None:
    lane = one_lane()
    for index in range(ENOUGH):
        entry = entry_of(lane, Unit(index, "a", chars=900, family="prompt"))
        lane.charge(entry, 0.0)
        lane.release(entry, Outcome(usage=Usage(input_tokens=300.0, output_tokens=70.0)), 1.0)
    unit = Unit(99, "a", chars=1200, family="prompt")
    assert (
        entry_of(reborn(lane), unit).estimate == entry_of(lane, unit).estimate == Estimate(400.0, 70.0, 70.0)
    )


def test_a_lane_without_usage_remembers_no_estimates() -> None:
    assert export_lane(one_lane(), NOW, UTC).estimates is None


def test_a_level_that_was_reported_lower_than_our_own_starts_explain_survives() -> None:
    """If other clients have used the bucket, or a refusal showed it empty, the next run starts without a burst."""
    reported = one_lane(LaneLimits())
    first = entry_of(reported)
    reported.charge(first, 100.0)
    reported.learn(first, (LimitReport(Dimension.REQUESTS, 600.0, 10.0, 59.0),), 100.0)
    record = export_lane(reported, 100.0, 5_000.0)
    again = one_lane(LaneLimits())
    import_lane(again, record, 7.0, 5_002.0)
    rebuild_levels(again, [(6.5, (1.0, 0.0, 0.0, 0.0))], recorded_at=5.0)
    (meter,) = again.limits.meters
    assert meter.full_at == pytest.approx(reported.limits.meters[0].full_at - 100.0 + 5.0 + 0.1)


def test_a_pace_that_is_only_a_place_to_start_from_owes_nothing() -> None:
    lane = one_lane(LaneLimits())
    rebuild_levels(lane, [(LATER - 1.0, (1.0, 0.0, 0.0, 0.0))] * 500)
    assert lane.when(entry_of(lane), NEVER)[0] <= LATER


def test_whether_anybody_ever_answered_outlives_the_process() -> None:
    silent, heard, answered = one_lane(), one_lane(), one_lane()
    heard.breaker.ever_answered = True
    answered.succeeded = 1
    assert [reborn(lane).breaker.ever_answered for lane in (silent, heard, answered)] == [False, True, True]


def test_a_limit_that_was_met_but_not_measured_is_recorded_for_plans_only() -> None:
    lane = one_lane(LaneLimits())
    finder = lane.limits.finder
    assert finder is not None
    before = finder.glimpsed
    assert before is None, "nothing was met"
    for _ in range(20):
        finder.sent((1.0, 0.0, 0.0, 0.0), 0.0)
    finder.refused(2.0, 20, [], (1.0, 0.0, 0.0, 0.0), 2.0)
    assert finder.glimpsed == pytest.approx((2.5, 10.0))
    record = export_lane(lane, NOW, UTC)
    assert record.glimpsed == finder.glimpsed
    new = reborn(lane)
    assert new.limits.finder is not None
    assert not new.limits.finder.found


def test_a_record_of_an_earlier_version_is_recognised_by_its_limits() -> None:
    lane = one_lane(LaneLimits(rpm=60.0))
    probed = export_lane(lane, NOW, UTC)
    import_lane(lane, probed, NOW, UTC)
    assert not lane.breaker.ever_answered, "a configured limit is no answer of the provider"
    found = FoundRecord((1.0, 0.0, 0.0, 0.0), Dimension.REQUESTS, 1.0, 5.0)
    import_lane(lane, LaneRecord("a", UTC, found=found), NOW, UTC)
    assert lane.breaker.ever_answered


def test_the_depth_that_headers_implied_bounds_the_ramp_of_the_next_run() -> None:
    """600 requests a minute, and headers that imply five seconds of depth: a resumed run must not burst beyond that."""
    lane = reported(LaneLimits(), LimitReport(Dimension.REQUESTS, 600.0, 49.0, 0.1))
    (meter,) = lane.limits.meters
    assert meter.ceiling_s == pytest.approx(5.0, abs=0.3)
    (again,) = reborn(lane).limits.meters
    assert again.ceiling_s == meter.ceiling_s
    again.begin_ramp(1.0, careful=False)
    assert again.reach_s <= again.ceiling_s
