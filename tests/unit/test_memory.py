"""What a lane knows outlives its process: holds, reported limits, depths and the window; levels come from starts."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import entry_of, one_lane

from headway.core.lane import Lane
from headway.core.memory import LaneRecord, export_lane, import_lane, rebuild_levels
from headway.core.model import DAY_S, Costs, Dimension, Hint, Kind, Limits, Outcome, Report
from headway.core.queue import ALWAYS
from headway.core.window import Window

#: The engine's clock and the wall's in the first life and in the second.
NOW, UTC = 100.0, 1_800_000_000.0
LATER, LATER_UTC = 7.0, UTC + 60.0


def reborn(lane: Lane, limits: Limits | None = None) -> Lane:
    """A new lane that knows what the old one wrote down, a minute later on another clock."""
    record = export_lane(lane, NOW, UTC)
    stored = msgspec.json.decode(msgspec.json.encode(record), type=LaneRecord)
    assert stored == record
    new = Lane(one_lane(lane.limits if limits is None else limits).spec, LATER, {})
    import_lane(new, stored, LATER, LATER_UTC)
    return new


def reported(limits: Limits, *reports: Report) -> Lane:
    lane = one_lane(limits)
    entry = entry_of(lane)
    lane.charge(entry, 0.0)
    lane.release(entry, Outcome(hint=Hint(reports)), 0.5)
    return lane


def test_a_lane_that_learned_nothing_writes_nothing() -> None:
    record = export_lane(one_lane(Limits(rpm=60.0, burst_s=1.0, max_concurrency=4)), NOW, UTC)
    assert record == LaneRecord("a", UTC)


def test_a_hold_ends_at_the_same_instant_of_the_wall_clock() -> None:
    lane = one_lane()
    lane.hold(NOW + 300.0, "resets at four")
    new = reborn(lane)
    assert new.held_until == pytest.approx(LATER + 240.0)
    assert new.hold_reason == "resets at four"


def test_a_hold_that_ended_between_the_two_lives_is_over() -> None:
    lane = one_lane()
    lane.hold(NOW + 59.0, "soon over")
    assert reborn(lane).held_until == ALWAYS


def test_a_hold_that_was_over_is_not_written() -> None:
    lane = one_lane()
    lane.hold(NOW - 1.0, "over")
    record = export_lane(lane, NOW, UTC)
    assert record.held_until_utc is None
    assert record.hold_reason == ""


def test_reported_limits_are_in_force_from_the_start() -> None:
    lane = reported(
        Limits(), Report(Dimension.REQUESTS, 500.0, 400.0), Report(Dimension.TOKENS, 9e6, 8e6, period_s=DAY_S)
    )
    meters = {(meter.name, meter.limit, meter.reported) for meter in reborn(lane).meters}
    assert meters == {("requests per minute", 500.0, True), ("tokens per day", 9e6, True)}


def test_a_configured_limit_below_a_remembered_one_still_counts() -> None:
    new = reborn(reported(Limits(), Report(Dimension.REQUESTS, 500.0, 400.0)), Limits(rpm=100.0))
    assert min(meter.limit for meter in new.meters) == 100.0


def test_a_new_report_corrects_a_remembered_limit() -> None:
    new = reborn(reported(Limits(), Report(Dimension.REQUESTS, 500.0, 400.0)))
    entry = entry_of(new)
    new.charge(entry, LATER)
    new.admitted(entry, Hint((Report(Dimension.REQUESTS, 200.0, 100.0),)), LATER + 0.1)
    assert [meter.limit for meter in new.meters] == [200.0]


def test_a_remembered_rate_opens_the_window_at_once() -> None:
    assert reborn(reported(Limits(), Report(Dimension.REQUESTS, 500.0, 400.0))).window.open


def test_a_proven_depth_is_remembered() -> None:
    lane = one_lane(Limits(rpm=600.0))
    lane.meters[0].deepen(17.0)
    new = reborn(lane)
    assert new.meters[0].depth_s == pytest.approx(17.0)
    assert new.meters[0].level(LATER) == pytest.approx(170.0)


def test_a_configured_depth_is_stronger_than_a_remembered_one() -> None:
    lane = one_lane(Limits(rpm=600.0))
    lane.meters[0].deepen(17.0)
    assert reborn(lane, Limits(rpm=600.0, burst_s=2.0)).meters[0].depth_s == pytest.approx(2.0)


def test_a_window_that_was_cut_goes_on_where_it_was() -> None:
    lane = one_lane(Limits(max_concurrency=64))
    entry = entry_of(lane)
    for _ in range(64):
        lane.charge(entry, 0.0)
    outcome = Outcome(Kind.CONCURRENCY)
    lane.release(entry, outcome, 1.0)
    lane.throttled(entry, outcome, 1.0)
    assert reborn(lane).window.size == 32


def test_a_remembered_window_never_exceeds_what_is_configured_now() -> None:
    lane = one_lane(Limits(max_concurrency=64))
    lane.window.refused(lane.window.epoch, 64)
    assert reborn(lane, Limits(max_concurrency=10)).window.size == 10


def test_a_window_that_learned_nothing_follows_the_new_configuration() -> None:
    lane = one_lane(Limits(max_concurrency=10))
    assert reborn(lane, Limits(max_concurrency=64)).window.size == 64


def test_a_warm_start_is_no_slower_than_a_cold_one() -> None:
    def after_rounds(window: Window, rounds: int) -> int:
        for _ in range(rounds):
            for _ in range(window.size):
                window.succeeded(window.size, first_try=True)
        return window.size

    cold = one_lane(Limits())
    after_rounds(cold.window, 1)
    warm = Lane(cold.spec, 0.0, {})
    import_lane(warm, export_lane(cold, 0.0, 0.0), 0.0, 0.0)
    assert after_rounds(warm.window, 4) >= after_rounds(one_lane(Limits()).window, 4)


def test_levels_are_rebuilt_from_the_starts_of_the_earlier_life() -> None:
    lane = Lane(one_lane(Limits(rpm=60.0, tpm=6000.0, burst_s=60.0)).spec, LATER, {})
    costs: Costs = (1.0, 500.0, 400.0, 100.0)
    rebuild_levels(lane, [(LATER - 2.0, costs), (LATER - 2.0, costs), (LATER - 1.0, costs)])
    requests, tokens = lane.meters
    assert requests.level(LATER) == pytest.approx(60.0 - 3.0 + 2.0)
    assert tokens.level(LATER) == pytest.approx(6000.0 - 1500.0 + 200.0)


def test_a_burst_before_a_restart_is_not_repeated_after_it() -> None:
    lane = Lane(one_lane(Limits(rpm=60.0, burst_s=60.0)).spec, LATER, {})
    rebuild_levels(lane, [(LATER - 1.0, (1.0, 0.0, 0.0, 0.0))] * 60)
    assert lane.start_at(entry_of(lane)) > LATER - 1e-9
    assert lane.meters[0].level(LATER) == pytest.approx(1.0)


def test_no_starts_leave_full_buckets() -> None:
    lane = Lane(one_lane(Limits(rpm=60.0, burst_s=60.0)).spec, LATER, {})
    rebuild_levels(lane, [])
    assert lane.meters[0].level(LATER) == pytest.approx(60.0)
