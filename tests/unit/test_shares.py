"""How much of a limit a lane used over a run, and which one held it back."""

from __future__ import annotations

import pytest
from tests.unit.drive import Run, failed, lane_spec, ok, play, units

from headway.core.commands import Start
from headway.core.events import Finished, Pause, Resume
from headway.core.lanes.lane import LaneState
from headway.core.lanes.meters.limit_usage import CONCURRENCY, LimitUsage
from headway.core.model import (
    Counting,
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LaneSpec,
    LimitReport,
    Outcome,
    Settings,
    Usage,
)
from headway.display.usage_text import held_back_text

SECOND = 1.0


def quick(start: Start, now: float) -> tuple[float, Finished]:
    return 0.2, ok(start.unit.index)


def top(run: Run, now: float = 1e4) -> LimitUsage:
    return run.view(now).shares[0]


def test_a_rate_that_was_used_to_the_full() -> None:
    run = Run(units(300), lane_spec(limits=LaneLimits(rpm=600, burst_s=SECOND)))
    play(run, quick)
    share = top(run)
    assert (share.name, share.limit, share.found) == ("requests per minute", 600.0, False)
    assert share.used == pytest.approx(1.0, abs=0.03)
    assert share.binds
    assert run.view(1e4).held_back_by == share


def test_a_limit_that_nothing_waited_for_was_not_reached() -> None:
    """Twelve requests of a bucket of twenty: more than half of what could have been used, and no wait."""
    run = Run(units(12), lane_spec(limits=LaneLimits(rpm=1200, burst_s=SECOND)))
    play(run, quick)
    view = run.view(1e4)
    assert view.succeeded == 12
    assert view.shares[0].binds, "the share that was used"
    assert view.held_back_by is None
    assert held_back_text(view) == "no limit was reached"
    run.lane().work_time.total_s = run.lane().work_time.shared_s = 0.1  # A slow start of the program.
    assert held_back_text(run.view(1e4)) == "no limit was reached"


def test_fewer_requests_than_may_be_in_flight_were_not_held_back_by_that() -> None:
    run = Run(units(3), lane_spec(limits=LaneLimits(max_concurrency=8)))
    play(run, quick)
    assert run.view(1e4).held_back_by is None
    assert held_back_text(run.view(1e4)) == "no limit was reached"
    run = Run(units(3), settings=Settings(concurrency=8))
    play(run, quick)
    assert held_back_text(run.view(1e4)) == "no limit was reached"


def test_two_requests_at_one_a_second_were_held_back() -> None:
    run = Run(units(4), lane_spec(limits=LaneLimits(rpm=60, burst_s=SECOND)))
    play(run, quick)
    assert held_back_text(run.view(1e4)).startswith("limited by 60 requests per minute (")


def test_a_job_that_fits_into_the_bucket_was_not_held_back() -> None:
    run = Run(units(5), lane_spec(limits=LaneLimits(rpm=6000, burst_s=SECOND)))
    play(run, quick)
    assert top(run).used < 0.1
    assert not top(run).binds


def test_the_initial_content_of_a_bucket_counts_as_well_as_its_refill() -> None:
    """Ninety requests at sixty a minute: half a minute's work after a bucket that lasts for a minute."""
    run = Run(units(90), lane_spec(limits=LaneLimits(rpm=60, burst_s=60.0)))
    play(run, quick)
    assert top(run).used == pytest.approx(1.0, abs=0.05)


def test_a_bucket_that_was_empty_is_not_counted() -> None:
    run = Run(units(60), lane_spec(limits=LaneLimits(rpm=60, burst_s=60.0)))
    run.lane().limits.meters[0].full_at = 60.0
    play(run, quick)
    assert top(run).used == pytest.approx(1.0, abs=0.05)
    assert run.view(1e4).held_back_by == top(run)


def test_the_tokens_that_were_used_count_and_not_those_set_aside() -> None:
    counting = Counting(settle_output=True)
    run = Run(
        units(200, estimate=Estimate(input_tokens=10.0, max_output_tokens=90.0)),
        lane_spec(limits=LaneLimits(tpm=6000, burst_s=2.0), counting=counting),
    )
    steps = play(run, lambda start, now: (0.2, ok(start.unit.index, Usage(10.0, 10.0))))
    took_s = steps[-1][0]
    assert top(run).used == pytest.approx(200 * 20 / (took_s * 100 + 200), rel=0.05)


def test_so_many_at_once_was_the_limit() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=6000, max_concurrency=4)))
    play(run, lambda start, now: (1.0, ok(start.unit.index)))
    share = top(run)
    assert (share.name, share.limit) == (CONCURRENCY, 4)
    assert share.used == pytest.approx(1.0)
    assert run.view(1e4).held_back_by == share
    rate = run.view(1e4).shares[1]
    assert rate.used == pytest.approx(4 / 100, abs=0.02)


def test_a_window_that_is_hardly_used_does_not_bind() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=600, burst_s=SECOND, max_concurrency=64)))
    play(run, quick)
    shares = {share.name: share.used for share in run.view(1e4).shares}
    assert shares[CONCURRENCY] < 0.1
    assert shares["requests per minute"] > 0.9


def test_a_cap_over_all_lanes() -> None:
    run = Run(
        [*units(20, "a"), *units(20, "b", first=20)],
        lane_spec("a"),
        lane_spec("b"),
        settings=Settings(concurrency=2),
    )
    play(run, lambda start, now: (1.0, ok(start.unit.index)))
    cap = run.seen(1e4).cap
    assert cap is not None
    assert cap.limit == 2
    assert cap.used == pytest.approx(1.0)
    assert run.view(1e4, "a").held_back_by_cap
    assert Run(units(1)).seen(0.0).cap is None


def test_a_limit_that_a_header_tells_is_measured_from_then_on() -> None:
    run = Run(units(1500), lane_spec(limits=LaneLimits()))
    bucket = {"level": 600.0, "at": 0.0}

    def told(start: Start, now: float) -> tuple[float, Finished]:
        bucket["level"] = min(600.0, bucket["level"] + (now - bucket["at"]) * 10.0) - 1.0
        bucket["at"] = now
        report = LimitReport(Dimension.REQUESTS, 600.0, bucket["level"], (600.0 - bucket["level"]) / 10.0)
        return 0.1, Finished(start.unit.index, Outcome(hint=Hint(reports=(report,))))

    play(run, told)
    share = top(run)
    assert (share.name, share.limit) == ("requests per minute", 600.0)
    assert share.used == pytest.approx(1.0, abs=0.05)


def test_a_pace_that_was_only_begun_is_no_limit_and_one_that_was_found_is() -> None:
    run = Run(units(30), lane_spec(limits=LaneLimits()))
    play(run, quick)
    assert [share for share in run.view(1e4).shares if share.found] == []

    accepted: list[float] = []

    def at_most_ten_a_second(start: Start, now: float) -> tuple[float, Finished]:
        if sum(at > now - 1.0 for at in accepted) >= 10:
            return 0.05, failed(start.unit.index, Kind.RATE)
        accepted.append(now)
        return 0.05, ok(start.unit.index)

    run = Run(units(3000), lane_spec(limits=LaneLimits()))
    play(run, at_most_ten_a_second)
    share = top(run)
    assert share.found
    assert share.limit == pytest.approx(600.0, rel=0.25)
    assert share.used > 0.9


def test_a_hold_is_reported_and_does_not_count_as_unused_time() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=600, burst_s=SECOND)))
    play(run.held(1000.0), quick)
    view = run.view(2000.0)
    assert view.held_s == pytest.approx(1000.0)
    assert view.shares[0].used > 0.9


def test_a_present_hold_is_reported() -> None:
    run = Run(units(3))
    run.held(1000.0, "asked").at(5.0)
    run.held(2000.0, "asked again").at(6.0)
    view = run.view(25.0)
    assert view.held_s == pytest.approx(20.0)
    assert (view.holds, view.held_for) == (1, "asked again")


def test_a_pause_is_no_time_that_the_limit_was_left_unused() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=600, burst_s=SECOND)))
    run.at(0.0, Pause())
    steps = [run.at(500.0, Resume())]
    now = 500.0
    while not steps[-1].done:
        done = [ok(start.unit.index) for start in steps[-1].starts]
        now = steps[-1].wake_at or now + 0.1
        steps.append(run.at(now, *done))
    assert top(run).used > 0.9


def test_a_last_unit_that_waits_for_its_next_try_does_not_spoil_the_figure() -> None:
    tries = {"last": 0}

    def answer(start: Start, now: float) -> tuple[float, Finished]:
        if start.unit.index == 199 and tries["last"] < 3:
            tries["last"] += 1
            return 0.1, failed(199, Kind.TRANSIENT, retry_after_s=50.0)
        return quick(start, now)

    run = Run(units(200), lane_spec(limits=LaneLimits(rpm=600, burst_s=SECOND)))
    steps = play(run, answer)
    assert steps[-1][0] > 150.0
    assert top(run).used > 0.9


def test_a_minimum_gap_is_reported_in_seconds() -> None:
    spec = lane_spec(limits=LaneLimits(rpm=0, min_gap_s=0.5))
    run = Run(units(20), LaneSpec(spec.key, spec.limits))
    play(run, quick)
    share = top(run)
    assert share.name == "minimum gap"
    assert share.limit == pytest.approx(0.5)
    assert share.used > 0.9


def test_a_window_that_was_only_suspected_for_a_moment_was_no_limit() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=600, burst_s=SECOND)))
    lane = run.lane()
    lane.window.suspect(3, 0.0)
    play(run, lambda start, now: (_clear(lane, now), ok(start.unit.index)))
    assert [share.name for share in run.view(1e4).shares] == ["requests per minute"]


def _clear(lane: LaneState, now: float) -> float:
    if now > 0.5:
        lane.window.clear()
    return 0.2
