"""What each kind of failure does to the unit and to its lane."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec import structs
from tests.unit.drive import (
    ONE_BY_ONE,
    Run,
    Step,
    failed,
    good,
    lane_spec,
    ok,
    play,
    started_at,
    units,
    unreached,
)

from headway.core.commands import Start
from headway.core.events import Cancelled, CancelUnit, Finished, RequestAccepted
from headway.core.lanes.breaker import OVERLOADS, PATIENCE_S, UNREACHED_S
from headway.core.model import Estimate, Kind, LaneLimits, RetryPolicy, Settings, Unit
from headway.core.reasons import Wait, WaitCode
from headway.core.retry import backoff_s
from headway.reason_text import notice_text, wait_text

ONE_AT_A_TIME = lane_spec(limits=ONE_BY_ONE)


# -- retries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.OVERLOAD, Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH])
def test_a_failed_attempt_goes_back_with_an_instant_and_a_reason_and_holds_nothing(kind: Kind) -> None:
    run = Run(units(1))
    run.at(0.0)
    step = run.at(5.0, failed(0, kind, "what was said"))
    requeue = step.requeues[0]
    assert (requeue.unit.index, requeue.not_before, requeue.kind) == (0, 6.0, kind)
    assert requeue.reason == "what was said"
    assert run.out == []
    assert run.lane().in_flight == 0
    assert step.wake_at == 6.0
    assert run.at(6.0).started == [0]


def test_the_backoff_has_the_units_own_jitter() -> None:
    retry = RetryPolicy(base_s=2.0, cap_s=60.0, jitter=0.2)
    run = Run(units(8), lane_spec(limits=LaneLimits(max_concurrency=8), retry=retry))
    run.at(0.0)
    step = run.at(10.0, failed(3, Kind.TRANSIENT))
    assert step.requeues[0].not_before == pytest.approx(10.0 + backoff_s(retry, 3, 0))
    assert 10.0 + 1.6 <= step.requeues[0].not_before <= 10.0 + 2.4


@pytest.mark.parametrize(
    ("kind", "status"),
    [(Kind.OVERLOAD, "failed"), (Kind.TRANSIENT, "failed"), (Kind.TIMEOUT, "timed_out")],
)
def test_the_last_attempt_ends_the_unit(kind: Kind, status: str) -> None:
    run = Run(units(1), lane_spec(retry=RetryPolicy(max_attempts=3, jitter=0.0)))
    run.at(0.0)
    waits = []
    for second in (10.0, 20.0):
        step = run.at(second, failed(0, kind))
        waits.append(step.requeues[0].not_before - second)
        run.at(second + 9.0)
    step = run.at(30.0, failed(0, kind, "enough"))
    assert waits == [1.0, 2.0]
    assert step.ended == {0: status}
    assert (step.finish_of(0).code, step.finish_of(0).message) == (kind, "enough")


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY, Kind.HOLD])
def test_a_throttle_spends_no_attempt(kind: Kind) -> None:
    run = Run(units(1), lane_spec(retry=RetryPolicy(max_attempts=1, max_throttles=5)))
    run.at(0.0)
    for count in range(5):
        step = run.at(100.0 * count + 50.0, failed(0, kind, retry_after_s=1.0))
        assert step.requeues
        assert run.at(100.0 * count + 99.0).started == [0]
    assert run.at(600.0, ok(0)).ended == {0: "succeeded"}


def test_a_unit_that_is_throttled_too_often_fails_with_the_reason_and_what_to_do() -> None:
    run = Run(units(1), lane_spec(retry=RetryPolicy(max_throttles=2, jitter=0.0)))
    run.at(0.0)
    for second in (10.0, 20.0):
        run.at(second, failed(0, Kind.RATE, "Limit 500, used 500", retry_after_s=1.0))
        run.at(second + 5.0)
    end = run.at(30.0, failed(0, Kind.RATE, "Limit 500, used 500")).finish_of(0)
    assert (end.status, end.code) == ("failed", "rate")
    assert "Limit 500, used 500" in end.message
    assert "reduce --concurrency or try again later" in end.message


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_hint_is_when_the_unit_may_come_back(kind: Kind) -> None:
    run = Run(units(1))
    run.at(0.0)
    assert run.at(5.0, failed(0, kind, retry_after_s=20.0)).requeues[0].not_before == 25.0


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_throttle_without_a_hint_backs_off(kind: Kind) -> None:
    run = Run(units(1))
    run.at(0.0)
    assert run.at(5.0, failed(0, kind)).requeues[0].not_before == 6.0


def test_too_many_at_once_shrinks_the_window_once_for_the_whole_burst() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(max_concurrency=16)))
    run.at(0.0)
    run.at(1.0, *(failed(index, Kind.CONCURRENCY) for index in range(10)))
    assert run.view(1.0).window == 8


# -- ends ---------------------------------------------------------------------------------------------


def test_an_invalid_unit_fails_at_once_and_the_lane_goes_on() -> None:
    run = Run(units(2), ONE_AT_A_TIME)
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.INVALID, "unknown field"))
    assert step.finish_of(0).status == "failed"
    assert (step.finish_of(0).code, step.finish_of(0).message) == ("invalid", "unknown field")
    assert step.started == [1]


def test_a_unit_that_the_provider_finds_too_large_fails_at_once() -> None:
    run = Run(units(2), ONE_AT_A_TIME)
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.TOO_LARGE, "Limit 8000, requested 10098"))
    assert step.finish_of(0).code == "too_large"
    assert step.finish_of(0).message == "Limit 8000, requested 10098"
    assert step.started == [1]


def test_a_unit_larger_than_the_limit_fails_unsent_with_both_numbers() -> None:
    large = Unit(0, "a", Estimate(input_tokens=10_098.0))
    run = Run([large, *units(1, first=1)], lane_spec(limits=LaneLimits(tpm=8000.0)))
    step = run.at(0.0)
    assert (step.finish_of(0).status, step.finish_of(0).code) == ("failed", "too_large")
    assert "10,098" in step.finish_of(0).message
    assert "8,000" in step.finish_of(0).message
    assert step.started == [1]


# -- suspects: units whose worker died twice ------------------------------------------------------------


def suspected(run: Run, index: int, at: float) -> float:
    """Let a unit's worker die twice, while others succeed; returns the instant of the second death."""
    deaths = 0
    while deaths < 2:
        assert at < 100.0
        died = index in run.out
        run.at(at, *(failed(each, Kind.CRASH, "signal 9") if each == index else ok(each) for each in run.out))
        deaths += died
        at += 1.0
    return at - 1.0


def test_a_suspect_runs_alone_once_the_queue_is_empty_and_a_third_death_quarantines_it() -> None:
    run = Run(units(1))
    assert run.at(0.0).starts[0].alone is False
    died_at = suspected(run, 0, 1.0)
    step = run.at(died_at + 2.0)
    assert [(start.unit.index, start.alone) for start in step.starts] == [(0, True)]
    end = run.at(died_at + 3.0, failed(0, Kind.CRASH, "signal 9")).finish_of(0)
    assert (end.status, end.code) == ("failed", "crash")
    assert end.message == "quarantined: it killed its worker 3 times, the last time alone; signal 9"


def test_a_suspect_that_succeeds_alone_was_innocent() -> None:
    run = Run(units(1))
    run.at(0.0)
    died_at = suspected(run, 0, 1.0)
    run.at(died_at + 2.0)
    assert run.at(died_at + 3.0, ok(0)).ended == {0: "succeeded"}


def test_a_suspect_waits_for_the_rest_of_its_lane() -> None:
    run = Run(units(20), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    at = suspected(run, 0, 1.0) + 3.0  # Its backoff is over.
    started: list[int] = []
    while 0 not in started:
        assert at < 50.0
        started = run.at(at, *(ok(index) for index in run.out)).started
        at += 1.0
    assert started == [0]
    assert run.out == [0]
    assert run.lane().succeeded == 19


def test_a_suspect_waits_no_longer_than_a_minute_and_the_wait_has_a_name() -> None:
    run = Run(units(1000), ONE_AT_A_TIME)
    run.at(0.0)
    died_at = suspected(run, 0, 1.0)
    started = []
    for second in range(1, 80):
        step = run.at(died_at + second, *(ok(index) for index in run.out))
        started += [(second, start.unit.index) for start in step.starts if start.alone]
    assert started == [(60, 0)]


def test_a_lane_says_that_it_waits_for_a_suspects_turn() -> None:
    run = Run(units(2), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.CRASH))
    run.at(2.0)
    died_at = 3.0
    run.at(died_at, failed(0, Kind.CRASH))  # Unit 1 is in flight all the time.
    run.at(died_at + 3.0)
    wait = run.view(died_at + 3.0).wait
    assert wait is not None
    assert wait_text(wait) == "crash: a unit whose worker died twice waits to run alone"
    assert wait.until == died_at + 60.0


def test_suspects_go_one_after_another() -> None:
    run = Run(units(3), lane_spec(limits=LaneLimits(max_concurrency=3)))
    run.at(0.0)
    for at in (1.0, 4.0):
        run.at(at, *(failed(index, Kind.CRASH) for index in range(3)))
        run.at(at + 1.0)
    order = []
    for at in (20.0, 21.0, 22.0, 23.0):
        step = run.at(at, *(ok(index) for index in run.out))
        order += [start.unit.index for start in step.starts]
        assert len(run.out) <= 1
        if len(order) in (1, 2):
            assert run.view(at).wait == Wait(
                WaitCode.CRASHED_TWICE
            )  # The next one waits for this one to end.
    assert sorted(order) == [0, 1, 2]


def test_a_suspect_that_is_cancelled_makes_room_for_the_next() -> None:
    run = Run(units(2), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    for at in (1.0, 4.0):
        run.at(at, *(failed(index, Kind.CRASH) for index in range(2)))
        run.at(at + 1.0)
    run.at(20.0)
    (first,) = run.out
    run.at(21.0, CancelUnit(first), Cancelled(first))
    assert run.out == [1 - first]
    assert run.at(22.0, ok(1 - first)).done == "complete"


def test_a_late_answer_of_a_finished_unit_changes_nothing() -> None:
    run = Run(units(2), ONE_AT_A_TIME)
    run.at(0.0)
    run.at(1.0, ok(0))
    before = run.seen(2.0)
    late = run.at(2.0, ok(0), failed(0, Kind.AUTH), RequestAccepted(0))
    assert late.finishes == []
    assert late.notices == []
    assert run.seen(2.0) == before


def test_a_good_answer_of_an_attempt_being_cancelled_counts() -> None:
    run = Run(units(1))
    run.at(0.0)
    assert run.at(1.0, CancelUnit(0)).cancels == [0]
    assert run.at(1.1, ok(0)).ended == {0: "succeeded"}


# -- the lane stops -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.QUOTA, Kind.AUTH])
def test_out_of_credit_or_keys_the_lane_stops_with_one_notice_and_its_units_stay_pending(kind: Kind) -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(max_concurrency=4)))
    run.at(0.0)
    first = run.at(1.0, failed(0, kind, "spend limit reached"))
    assert [(notice.lane, notice.what) for notice in first.notices] == [("a", "stopped")]
    assert notice_text(first.notices[0].reason) == f"{kind}: spend limit reached"
    assert [requeue.unit.index for requeue in first.requeues] == [0]
    rest = run.at(2.0, *(failed(index, kind, "spend limit reached") for index in (1, 2, 3)))
    assert rest.notices == []
    assert [requeue.unit.index for requeue in rest.requeues] == [1, 2, 3]
    assert first.finishes == rest.finishes == []
    assert first.started == rest.started == []
    assert rest.done == "stopped"


def test_attempts_in_flight_when_the_lane_stops_may_still_succeed() -> None:
    run = Run(units(3), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.QUOTA))
    step = run.at(2.0, ok(1))
    assert step.ended == {1: "succeeded"}
    assert step.done == "stopped"


def test_many_identical_invalid_answers_stop_the_lane() -> None:
    run = Run(units(100), ONE_AT_A_TIME, settings=Settings(max_identical_invalid=4))
    run.at(0.0)
    steps = [run.at(1.0 + index, failed(index, Kind.INVALID, "unknown model")) for index in range(4)]
    assert [step.told for step in steps] == [[], [], [], ["stopped"]]
    assert "unknown model" in notice_text(steps[-1].notices[0].reason)
    assert steps[-1].done == "stopped"


def test_different_invalid_answers_do_not_stop_the_lane() -> None:
    run = Run(units(50), ONE_AT_A_TIME, settings=Settings(max_identical_invalid=4))
    run.at(0.0)
    for index in range(49):
        assert run.at(1.0 + index, failed(index, Kind.INVALID, f"row {index}")).told == []


def test_a_success_between_them_starts_the_count_of_invalid_ones_anew() -> None:
    run = Run(units(50), ONE_AT_A_TIME, settings=Settings(max_identical_invalid=4))
    run.at(0.0)
    for index in range(40):
        event = ok(index) if index % 4 == 3 else failed(index, Kind.INVALID, "the same")
        assert run.at(1.0 + index, event).told == []


def test_quick_invalid_answers_are_weighed_against_unanswered_attempts() -> None:
    """Ten bad rows among 161 in flight come back first: the lane goes on, and the good ones succeed."""
    run = Run(units(500), lane_spec(limits=LaneLimits(max_concurrency=161)))
    run.at(0.0)
    bad = range(100, 110)
    steps = [run.at(0.1 + 0.01 * n, failed(index, Kind.INVALID, "bad row")) for n, index in enumerate(bad)]
    assert [step.told for step in steps] == [[]] * 10
    good_ones = [index for index in range(161) if index not in bad]
    assert run.at(2.0, *map(ok, good_ones)).told == []


def test_quick_invalid_answers_of_a_paced_lane_are_weighed_against_slow_answers() -> None:
    """One send each 0.1 s, every fifth row bad: complaints come back after 0.1 s, answers after 9 s."""
    run = Run(units(90), lane_spec(limits=LaneLimits(rpm=600, burst_s=0.0)))
    told, at = [], 0.0
    for _ in range(90):
        bad = [index for index in run.out if index % 5 == 0]
        told += run.at(at, *(failed(index, Kind.INVALID, "bad row") for index in bad)).told
        at += 0.1
    assert "stopped" not in told
    assert len(run.out) > 60


def test_a_lane_whose_every_answer_is_the_same_complaint_stops_although_much_is_in_flight() -> None:
    run = Run(units(2000), lane_spec(limits=LaneLimits(max_concurrency=161)))
    run.at(0.0)
    answered = 0
    for index in range(2000):
        answered += 1
        if "stopped" in run.at(0.1 + 0.001 * index, failed(index, Kind.INVALID, "unknown model")).told:
            break
    assert 100 < answered <= 161


def test_a_lane_with_nothing_left_to_do_is_not_stopped_for_bad_rows() -> None:
    run = Run(
        units(4), lane_spec(limits=LaneLimits(max_concurrency=4)), settings=Settings(max_identical_invalid=4)
    )
    run.at(0.0)
    step = run.at(1.0, *(failed(index, Kind.INVALID, "bad row") for index in range(4)))
    assert (step.told, step.done) == ([], "complete")


def test_identical_invalid_answers_never_stop_a_lane_if_the_number_is_zero() -> None:
    run = Run(units(9), lane_spec(limits=ONE_BY_ONE), settings=Settings(max_identical_invalid=0))
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.INVALID, "bad")).told == []


# -- the breaker --------------------------------------------------------------------------------------

#: Enough attempts that units outlive the tests.
PATIENT = lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(max_attempts=99, jitter=0.0))


def broken(kind: Kind = Kind.OVERLOAD) -> tuple[Run, float]:
    """A run whose lane has just failed so often that its breaker opened, and that instant."""
    run = Run(units(1000), PATIENT)
    run.at(0.0)
    for index in range(OVERLOADS):
        step = run.at(0.1 * (index + 1), failed(index, kind))
    assert step.told == ["breaker_opened"]
    return run, 0.1 * OVERLOADS


@pytest.mark.parametrize("kind", [Kind.OVERLOAD, Kind.TRANSIENT, Kind.TIMEOUT])
def test_a_run_of_failures_opens_the_breaker_and_nothing_more_starts(kind: Kind) -> None:
    run, opened_at = broken(kind)
    assert run.out == []
    assert run.at(opened_at + 0.5).started == []


def test_probes_go_one_at_a_time() -> None:
    run, opened_at = broken()
    step = run.at(opened_at + 1.0)
    assert len(step.started) == 1
    assert run.at(opened_at + 50.0).started == []


def test_probes_come_ever_later() -> None:
    run, opened_at = broken()
    now, gaps = opened_at, []
    for _ in range(4):
        wakes = now
        while not (step := run.at(wakes)).started:
            assert step.wake_at is not None
            wakes = step.wake_at
        gaps.append(wakes - now)
        now = wakes
        run.at(now, failed(step.started[0], Kind.OVERLOAD))
    assert gaps == pytest.approx([1.0, 2.0, 4.0, 8.0])


def test_a_probe_that_meets_an_overload_spends_none_of_its_units_attempts() -> None:
    retry = RetryPolicy(max_attempts=2, jitter=0.0, base_s=0.01)
    run = Run(units(1000), lane_spec(limits=ONE_BY_ONE, retry=retry))
    run.at(0.0)
    for index in range(OVERLOADS):
        run.at(0.001 * (index + 1), failed(index, Kind.OVERLOAD))
    now, ended = 0.0, 0
    for _ in range(20):
        now += 20.0
        step = run.at(now)
        ended += len(run.at(now, failed(step.started[0], Kind.OVERLOAD)).finishes)
    assert ended == 0


def test_a_successful_probe_closes_the_breaker_and_says_so() -> None:
    run, opened_at = broken()
    probe = run.at(opened_at + 1.0).started[0]
    step = run.at(opened_at + 1.5, ok(probe))
    assert step.told == ["breaker_closed"]
    assert len(step.started) == 1
    assert run.lane().in_flight == 1


def test_the_notice_that_it_opened_says_why_and_when_the_next_probe_goes() -> None:
    run = Run(units(10), PATIENT)
    run.at(0.0)
    for index in range(OVERLOADS):
        step = run.at(1.0, failed(index, Kind.OVERLOAD))
    notice = step.notices[0]
    assert "overload" in notice_text(notice.reason)
    assert notice.until == pytest.approx(2.0)


def test_a_lane_that_only_fails_is_stopped_in_the_end_and_its_units_stay_pending() -> None:
    run = Run(units(100), PATIENT)
    steps = play(run, lambda start, now: (0.1, failed(start.unit.index, Kind.OVERLOAD, "503")))
    ended_at, last = steps[-1]
    assert last.done == "stopped"
    assert PATIENCE_S <= ended_at <= PATIENCE_S + 60.0
    assert [told for _, step in steps for told in step.told] == ["breaker_opened", "stopped"]
    assert [step.ended for _, step in steps if step.ended] == []


def unreachable(start: Start, now: float) -> tuple[float, Finished]:
    """The connection is refused at once."""
    return 0.001, unreached(start.unit.index, "no connection to host:1 (connection refused)")


def test_a_lane_without_any_answer_is_stopped_within_a_minute_and_its_units_stay_pending() -> None:
    run = Run(units(100), lane_spec())
    steps = play(run, unreachable)
    ended_at, last = steps[-1]
    assert (last.done, last.ended) == ("stopped", {})
    assert UNREACHED_S < ended_at < 60.0
    assert [step.ended for _, step in steps if step.ended] == []
    text = notice_text(last.notices[0].reason)
    assert text.startswith("transient: no answer in ")
    assert "host:1 (connection refused)" in text


def test_a_connection_that_times_out_is_waited_for_about_as_long() -> None:
    def late(start: Start, now: float) -> tuple[float, Finished]:
        return 30.0, unreached(start.unit.index, "no connection to host:1 within 30 s")

    ended_at, last = play(Run(units(100), lane_spec(limits=LaneLimits(max_concurrency=8))), late)[-1]
    assert last.done == "stopped"
    assert ended_at < 70.0


def test_a_lane_that_answered_before_has_the_patience_for_an_outage() -> None:
    def once(start: Start, now: float) -> tuple[float, Finished]:
        return (0.1, ok(start.unit.index)) if start.unit.index == 0 else unreachable(start, now)

    ended_at, last = play(Run(units(100), PATIENT), once)[-1]
    assert last.done == "stopped"
    assert ended_at > PATIENCE_S


def test_an_answer_that_was_a_failure_is_an_answer_too() -> None:
    def refused_once(start: Start, now: float) -> tuple[float, Finished]:
        return unreachable(start, now) if now else (0.1, failed(start.unit.index, Kind.OVERLOAD, "503"))

    ended_at, last = play(Run(units(100), PATIENT), refused_once)[-1]
    assert last.done == "stopped"
    assert ended_at > PATIENCE_S


def test_a_lane_without_answers_delays_no_other() -> None:
    def one_dead(start: Start, now: float) -> tuple[float, Finished]:
        return unreachable(start, now) if start.unit.lane == "dead" else good(start, now)

    alive = units(50, "alive", first=100)
    lanes = [lane_spec(key, LaneLimits(rpm=60.0, burst_s=1.0)) for key in ("dead", "alive")]
    both = play(Run([*units(50, "dead"), *alive], *lanes), one_dead)
    alone = play(Run(alive, lanes[1]), good)
    assert started_at(both, "alive") == started_at(alone, "alive")


def test_a_crash_is_the_units_fault_and_opens_no_breaker() -> None:
    run = Run(units(100), ONE_AT_A_TIME)
    run.at(0.0)
    for index in range(3 * OVERLOADS):
        step = run.at(0.01 * (index + 1), failed(index, Kind.CRASH))
        assert step.told == []


def test_a_provider_that_takes_requests_and_never_answers_opens_the_breaker() -> None:
    run = Run(units(99), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(max_attempts=2, jitter=0.0)))
    index = run.at(0.0).started[0]
    told: list[str] = []
    for second in range(1, 40):
        run.at(float(second), RequestAccepted(index))
        step = run.at(second + 0.5, failed(index, Kind.TRANSIENT, "stream broke off"))
        told += step.told
        if not step.started:
            break
        index = step.started[0]
    assert told == ["breaker_opened"]


def test_probes_of_a_broken_lane_that_crash_are_paused_too() -> None:
    run = Run(units(999), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(max_attempts=9, jitter=0.0)))
    run.at(0.0)
    for index in range(OVERLOADS):
        run.at(0.5, failed(index, Kind.OVERLOAD))
    probe = run.at(1.5).started[0]
    assert run.at(1.6, failed(probe, Kind.CRASH)).started == []


@pytest.mark.parametrize("kind", [Kind.INVALID, Kind.TOO_LARGE])
def test_a_probe_that_is_refused_as_wrong_shows_that_the_provider_answers(kind: Kind) -> None:
    run, opened_at = broken()
    probe = run.at(opened_at + 1.0).started[0]
    assert run.at(opened_at + 1.5, failed(probe, kind, "bad row")).told == ["breaker_closed"]


def test_the_failed_unit_of_a_probe_lets_another_one_go_next() -> None:
    """One that fails for a reason of its own must not be what a lane is judged by for a quarter of an hour."""

    def bad_first(start: Start, now: float) -> tuple[float, Finished]:
        index = start.unit.index
        if now < 1.0 or index == 0:
            return 0.1, failed(index, Kind.TRANSIENT, "reset")
        return 0.1, ok(index)

    run = Run(units(20), lane_spec(limits=LaneLimits(max_concurrency=5)))
    steps = play(run, bad_first)
    assert (
        steps[-1][0] < 60.0
    )  # The second probe is another unit's: the lane answers, and only one unit fails.


@pytest.mark.parametrize(
    ("kind", "opens"), [(Kind.TRANSIENT, False), (Kind.TIMEOUT, False), (Kind.OVERLOAD, True)]
)
def test_where_failures_are_the_units_own_only_overload_opens_the_breaker(kind: Kind, opens: bool) -> None:
    spec = structs.replace(lane_spec(limits=LaneLimits(max_concurrency=2 * OVERLOADS)), own_failures=True)
    run = Run(units(2 * OVERLOADS), spec)
    run.at(0.0)
    run.at(1.0, *(failed(index, kind) for index in range(2 * OVERLOADS)))
    assert run.lane().breaker.open is opens


def _attempts(steps: list[tuple[float, Step]]) -> Counter[int]:
    return Counter(start.unit.index for _, step in steps for start in step.starts)


@pytest.mark.parametrize("kind", [Kind.TRANSIENT, Kind.TIMEOUT])
def test_bad_units_that_are_left_use_up_their_attempts_and_no_more(kind: Kind) -> None:
    """They failed while the lane served others, so it is not the lane that fails now."""

    def bad(start: Start, now: float) -> tuple[float, Finished]:
        index = start.unit.index
        return 0.1, ok(index) if index % 10 else failed(index, kind, "500")

    retry = RetryPolicy(max_attempts=4, jitter=0.0)
    steps = play(Run(units(300), lane_spec(limits=LaneLimits(max_concurrency=10), retry=retry)), bad)
    assert steps[-1][1].done == "complete"
    assert steps[-1][0] < 20.0
    assert [_attempts(steps)[index] for index in range(0, 300, 10)] == [4] * 30


def test_units_that_failed_in_an_earlier_run_say_nothing_about_the_lane() -> None:
    """`retry --failed`: all that is left to do may be bad."""
    retry = RetryPolicy(max_attempts=2, jitter=0.0)
    again = [structs.replace(unit, failed_before=True) for unit in units(50)]
    steps = play(
        Run(again, lane_spec(limits=LaneLimits(max_concurrency=10), retry=retry)),
        lambda start, now: (0.1, failed(start.unit.index, Kind.TRANSIENT, "500")),
    )
    assert (steps[-1][1].done, _attempts(steps)) == ("complete", Counter(dict.fromkeys(range(50), 2)))
    assert steps[-1][0] < 10.0
    assert [told for _, step in steps for told in step.told] == []


def test_only_bad_units_get_no_more_attempts_than_allowed_and_end_the_run() -> None:
    """Nobody can tell them from an outage at first: probes go slowly, each uses an attempt, and the units take turns."""
    retry = RetryPolicy(max_attempts=2, jitter=0.0)
    steps = play(
        Run(units(8), lane_spec(retry=retry)),
        lambda start, now: (0.1, failed(start.unit.index, Kind.TRANSIENT, "500")),
    )
    assert (steps[-1][1].done, _attempts(steps)) == ("complete", Counter(dict.fromkeys(range(8), 2)))
    assert steps[-1][0] < 120.0


def test_in_an_outage_the_units_take_turns_with_the_probes() -> None:
    """Ten minutes of 500s cost no unit all its attempts, and when they are over nothing waits for its turn."""

    def outage(start: Start, now: float) -> tuple[float, Finished]:
        index = start.unit.index
        return 0.1, failed(index, Kind.TRANSIENT, "500") if 10.0 < now < 610.0 else ok(index)

    retry = RetryPolicy(max_attempts=3, jitter=0.0)
    limits = LaneLimits(rpm=600.0, burst_s=0.0, max_concurrency=4)
    steps = play(Run(units(1000), lane_spec(limits=limits, retry=retry)), outage)
    assert steps[-1][1].done == "complete"
    assert {status for _, step in steps for status in step.ended.values()} == {"succeeded"}
    assert steps[-1][0] < 610.0 + 15.0 + 95.0


def test_an_overload_of_all_units_that_are_left_is_the_lanes() -> None:
    def overloaded(start: Start, now: float) -> tuple[float, Finished]:
        index = start.unit.index
        return 0.1, failed(index, Kind.OVERLOAD, "529") if now < 300.0 else ok(index)

    retry = RetryPolicy(max_attempts=3, jitter=0.0)
    again = [structs.replace(unit, failed_before=True) for unit in units(4)]
    steps = play(Run(again, lane_spec(retry=retry)), overloaded)
    assert {status for _, step in steps for status in step.ended.values()} == {"succeeded"}


def test_own_failures_of_probes_stop_no_lane() -> None:
    """A worker's lane was overloaded; what is left are items on which the function raises."""

    def raises(start: Start, now: float) -> tuple[float, Finished]:
        return 0.1, failed(start.unit.index, Kind.OVERLOAD if now < 1.0 else Kind.TRANSIENT, "no")

    spec = lane_spec(limits=LaneLimits(max_concurrency=10), retry=RetryPolicy(max_attempts=3, jitter=0.0))
    steps = play(Run(units(10), structs.replace(spec, own_failures=True)), raises)
    assert steps[-1][1].done == "complete"
    assert max(_attempts(steps).values()) == 3


# -- units with their own policy --------------------------------------------------------------------------------------


def own(retry: RetryPolicy) -> list[Unit]:
    return [structs.replace(unit, retry=retry) for unit in units(1)]


def test_a_unit_with_its_own_policy_has_its_own_attempts_and_waits() -> None:
    run = Run(own(RetryPolicy(max_attempts=3, base_s=3.0, jitter=0.0, linear=True)))
    run.at(0.0)
    assert run.at(10.0, failed(0, Kind.TRANSIENT)).requeues[0].not_before == 13.0
    run.at(13.0)
    assert run.at(20.0, failed(0, Kind.TRANSIENT)).requeues[0].not_before == 26.0
    run.at(26.0)
    assert [str(end.status) for end in run.at(30.0, failed(0, Kind.TRANSIENT)).finishes] == ["failed"]


def test_a_throttle_spends_no_attempt_of_a_unit_with_its_own_policy() -> None:
    run = Run(own(RetryPolicy(max_attempts=1, max_throttles=2, jitter=0.0)))
    run.at(0.0)
    now = 1.0
    for _ in range(2):
        [requeue] = run.at(now, failed(0, Kind.RATE)).requeues
        now = requeue.not_before
        while run.out == []:
            wake_at = run.at(now).wake_at
            now = now if run.out else wake_at or now + 1.0
        now += 1.0
    assert [str(end.status) for end in run.at(now, failed(0, Kind.RATE)).finishes] == ["failed"]
