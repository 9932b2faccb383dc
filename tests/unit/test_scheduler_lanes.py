"""Changes while it runs: more work, new lanes, new limits, reopened lanes, limits that a provider reports."""

from __future__ import annotations

import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, good, lane_spec, ok, play, units, unreached

from headway.core.events import (
    Finished,
    InputClosed,
    MoreWork,
    OpenLane,
    ReopenLane,
    RequestAccepted,
    SetLimits,
)
from headway.core.model import (
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LimitReport,
    Outcome,
    Settings,
    Unit,
    Usage,
)
from headway.core.reasons import WaitCode
from headway.reason_text import notice_text

OPEN_INPUT = Settings(input_open=True)


def reported(limit: float, remaining: float, dimension: Dimension = Dimension.REQUESTS) -> Hint:
    return Hint((LimitReport(dimension, limit, remaining, remaining_precision=0.0),))


# -- more work ----------------------------------------------------------------------------------------


def test_a_run_with_open_input_waits_for_more() -> None:
    run = Run(units(1), settings=OPEN_INPUT)
    run.at(0.0)
    assert run.at(1.0, ok(0)).done is None
    run.source.add(Unit(1, "a"))
    assert run.at(2.0, MoreWork("a")).started == [1]


def test_a_run_ends_when_its_input_is_closed_and_all_is_done() -> None:
    run = Run(units(1), settings=OPEN_INPUT)
    run.at(0.0)
    assert run.at(1.0, InputClosed()).done is None
    assert run.at(2.0, ok(0)).done == "complete"


def test_closing_an_input_that_has_run_dry_is_the_end() -> None:
    run = Run(units(1), settings=OPEN_INPUT)
    run.at(0.0)
    run.at(1.0, ok(0))
    assert run.at(2.0, InputClosed()).done == "complete"


def test_work_added_while_the_lane_is_busy_is_read_too() -> None:
    run = Run(units(1), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.source.add(Unit(1, "a"))
    run.at(1.0, MoreWork("a"))
    assert run.at(2.0, ok(0)).started == [1]


def test_an_empty_run_is_complete_at_once() -> None:
    assert Run([]).at(0.0).done == "complete"


# -- lanes --------------------------------------------------------------------------------------------


def test_a_lane_opened_while_running_runs_its_units() -> None:
    run = Run([*units(1, "a"), *units(2, "new", first=1)], lane_spec("a"))
    assert run.at(0.0).started == [0]
    assert run.at(1.0, OpenLane(lane_spec("new"))).started == [1, 2]
    assert run.at(2.0, ok(0), ok(1), ok(2)).done == "complete"


def test_a_stopped_lane_says_so_once_and_keeps_its_units() -> None:
    run = Run(units(4), lane_spec(limits=LaneLimits(max_concurrency=3)))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.AUTH, "no key"))
    assert [notice.what for notice in step.notices] == ["stopped"]
    assert notice_text(step.notices[0].reason) == "auth: no key"
    assert run.at(2.0, failed(1, Kind.AUTH, "again")).notices == []
    last = run.at(3.0, ok(2))
    assert last.ended == {2: "succeeded"}
    assert last.done == "stopped"


def test_a_reopened_lane_goes_on() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.AUTH, "bad key"))
    step = run.at(60.0, ReopenLane("a"))
    assert step.told == ["reopened"]
    assert step.started == [0]


def test_a_reopened_lane_may_stop_again_and_says_so_again() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.AUTH, "bad key"))
    run.at(60.0, ReopenLane("a"))
    assert run.at(61.0, failed(0, Kind.AUTH, "bad key")).told == ["stopped"]


def test_reopening_closes_a_breaker() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(max_concurrency=8)))
    run.at(0.0)
    step = run.at(1.0, *(failed(index, Kind.OVERLOAD) for index in range(8)))
    assert (step.told, step.started) == (["breaker_opened"], [])
    assert len(run.at(1.1, ReopenLane("a")).started) == 1


def _closed(most: int = 4) -> Run:
    """A lane that a refusal has closed for an hour, with attempts 1 to 3 still in flight."""
    run = Run(units(99), lane_spec(limits=LaneLimits(max_concurrency=most)))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.HOLD, "daily quota", retry_after_s=3600.0))
    return run


def test_a_held_lane_that_is_reopened_sends_one_and_the_rest_when_it_is_accepted() -> None:
    run = _closed(8)
    run.at(2.0, *(ok(index) for index in range(1, 8)))
    step = run.at(10.0, ReopenLane("a"))
    assert (step.started, step.told) == ([0], ["reopened"])
    wait = run.view(10.0).wait
    assert wait is not None
    assert wait.code is WaitCode.ONE_AHEAD
    assert run.at(11.0).started == []
    step = run.at(12.0, RequestAccepted(0))
    assert len(step.started) == 7
    assert step.told == ["breaker_closed"]


def test_a_reopened_lane_that_is_refused_again_has_sent_one() -> None:
    run = _closed()
    run.at(2.0, *(ok(index) for index in range(1, 4)))
    assert run.at(10.0, ReopenLane("a")).started == [0]
    step = run.at(11.0, failed(0, Kind.HOLD, "daily quota", retry_after_s=100.0))
    assert (step.started, step.told) == ([], ["held"])
    assert len(run.at(113.0).started) == 1, "after the hold the next one goes ahead, too"


def test_the_first_of_a_reopened_lane_does_not_wait_for_what_was_sent_before() -> None:
    run = _closed()
    assert run.at(10.0, ReopenLane("a")).started == [0]
    assert run.at(11.0, ok(1), ok(2)).started == [], "they were sent before the lane was closed"
    assert run.at(12.0, ReopenLane("a")).started == [], "one is on its way"
    assert len(run.at(13.0, ok(0)).started) == 3


def test_a_lane_that_stopped_for_failures_sends_one_at_a_time_until_one_succeeds() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(max_concurrency=8)))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.AUTH, "bad key"), *(ok(index) for index in range(1, 8)))
    assert run.at(10.0, ReopenLane("a")).started == [0]
    assert run.at(10.5, unreached(0, "no connection")).started == []
    [second] = run.at(12.5).started
    assert second != 0
    assert len(run.at(13.0, ok(second)).started) == 8


def test_reopening_a_lane_that_is_open_changes_nothing() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(max_concurrency=8)))
    run.at(0.0)
    run.at(1.0, ReopenLane("a"))
    assert len(run.at(2.0, *(ok(index) for index in range(8))).started) == 8


# -- limits -------------------------------------------------------------------------------------------


def test_a_lower_limit_slows_the_lane_from_now_on() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=0.0)))
    run.at(0.0)
    step = run.at(1.0, SetLimits("a", LaneLimits(rpm=6.0, burst_s=0.0)))
    assert step.started == [1]
    assert step.wake_at == pytest.approx(11.0)
    assert step.told == ["limit"]


def test_a_higher_limit_speeds_the_lane_up_at_once() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=1.0, burst_s=0.0)))
    assert run.at(0.0).wake_at == pytest.approx(60.0)
    assert run.at(1.0, SetLimits("a", LaneLimits(rpm=60.0, burst_s=0.0))).wake_at == pytest.approx(
        1.0 + 59.0 / 60.0
    )


def test_a_wider_window_lets_more_out_at_once() -> None:
    run = Run(units(9), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    assert run.at(1.0, SetLimits("a", LaneLimits(max_concurrency=4))).started == [1, 2, 3]


def test_a_smaller_window_lets_attempts_in_flight_finish() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(max_concurrency=4)))
    run.at(0.0)
    run.at(1.0, SetLimits("a", LaneLimits(max_concurrency=2)))
    assert run.at(2.0, ok(0), ok(1)).started == []
    assert run.at(3.0, ok(2)).started == [4]


def test_a_limit_removed_frees_the_lane() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=1.0, burst_s=0.0)))
    run.at(0.0)
    assert len(run.at(1.0, SetLimits("a", LaneLimits(rpm=0.0))).started) == 8


def test_a_unit_that_no_longer_fits_fails_with_the_new_numbers() -> None:
    run = Run(units(2, estimate=Estimate(input_tokens=700.0)), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    end = run.at(1.0, SetLimits("a", LaneLimits(tpm=500.0, max_concurrency=1))).finish_of(1)
    assert (end.status, end.code) == ("failed", "too_large")
    assert "700" in end.message
    assert "500" in end.message


def test_a_newly_reported_limit_is_announced_and_obeyed() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(burst_s=60.0)))
    since = run.at(0.0).started[1:]
    step = run.at(0.1, RequestAccepted(0, reported(60.0, 20.0)))
    assert step.told == ["limit"]
    assert "60 requests per minute" in notice_text(step.notices[0].reason)
    # Twenty were left when the first came; some were sent since, and one stays in reserve.
    assert len(step.started) == 20 - len(since) - 1


def test_a_limit_is_announced_once() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(burst_s=60.0)))
    run.at(0.0)
    run.at(0.1, RequestAccepted(0, reported(60.0, 10.0)))
    assert run.at(0.2, RequestAccepted(1, reported(60.0, 9.0))).told == []
    assert run.at(30.0, RequestAccepted(5, reported(90.0, 9.0))).told == ["limit"]


def test_headers_of_an_answer_without_an_early_word_count_too() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(burst_s=60.0)))
    run.at(0.0)
    run.at(0.1, ok(0, hint=reported(60.0, 10.0)))
    assert run.view(0.1).meters[0].limit == 60.0


def test_a_good_answer_counts_with_any_headers() -> None:
    run = Run(units(1))
    run.at(0.0)
    hint = Hint((LimitReport(Dimension.REQUESTS, 60.0, 0.0, 9999.0),), retry_after_s=900.0)
    assert run.at(1.0, ok(0, hint=hint)).ended == {0: "succeeded"}


def test_a_window_grows_by_answers_that_come_without_an_early_word() -> None:
    run = Run(units(500), lane_spec(limits=LaneLimits(max_concurrency=8)))
    run.lane().window.resume(1)
    play(run, good, until=60.0)
    assert run.lane().window.size > 1


def test_an_unknown_lane_grows_by_answers_that_come_without_an_early_word() -> None:
    run = Run(units(500), lane_spec(limits=LaneLimits()))
    before = run.view(0.0).meters[0].limit
    play(run, good, until=10.0)
    assert run.view(10.0).meters[0].limit > 2.0 * before


def test_a_new_depth_takes_effect_while_running() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=1.0)))
    run.at(0.0)
    run.at(1.0, SetLimits("a", LaneLimits(rpm=60.0, burst_s=30.0)))
    assert run.view(1.0).meters[0].depth_s == 30.0


def test_a_limit_first_reported_at_the_end_of_an_attempt_is_announced() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(burst_s=60.0)))
    run.at(0.0)
    assert run.at(0.1, ok(0, hint=reported(60.0, 10.0))).told == ["limit"]


def test_less_than_one_request_a_minute_is_slow_but_not_impossible() -> None:
    run = Run(units(2), lane_spec(limits=LaneLimits(rpm=0.5)))
    assert run.at(0.0).started == [0]


def test_a_configured_depth_is_kept_where_headers_report_a_deeper_bucket() -> None:
    run = Run(units(500), lane_spec(limits=LaneLimits(rpm=600.0, burst_s=1.0)))
    level, now, started = 600.0, 0.0, 0
    step = run.at(0.0)
    while now < 2.0:
        level -= len(step.started)
        started += len(step.started)
        hint = Hint((LimitReport(Dimension.REQUESTS, 600.0, level, (600.0 - level) / 10.0),))
        events = [ok(index, hint=hint) for index in step.started]
        now += 0.05
        level = min(600.0, level + 0.5)
        step = run.at(now, *events)
    assert started <= 10 + 20 + 1


def test_a_lane_opened_a_second_time_keeps_its_units() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, OpenLane(lane_spec(limits=ONE_BY_ONE)))
    assert run.at(2.0, ok(0)).started == [1]


def test_an_impossible_usage_is_announced_once_a_lane() -> None:
    lie = Outcome(disbelieved=Usage(5.0, 1e12))
    work = [*units(3), *units(2, "b", first=3)]
    run = Run(work, lane_spec(), lane_spec("b"))
    run.at(0.0)
    [notice] = run.at(1.0, Finished(0, lie), Finished(1, lie)).notices
    assert (notice.lane, notice.what) == ("a", "usage")
    assert notice_text(notice.reason) == (
        "the provider reports 5 tokens in and 1,000,000,000,000 out, which is impossible: "
        "such answers are charged by estimate"
    )
    odd = Outcome(Kind.INVALID, disbelieved=Usage(float("inf"), 3.0))
    [notice] = run.at(2.0, Finished(2, odd), Finished(3, odd), ok(4)).notices
    assert notice.lane == "b"
    assert "an impossible number of tokens in and 3 out" in notice_text(notice.reason)
