"""A look at a run: counts, levels, what each lane waits for and until when, which limit binds, and when it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, good, lane_spec, ok, play, units, unreached

from headway.core.commands import Start
from headway.core.events import (
    Abort,
    CancelUnit,
    Event,
    Finished,
    Pause,
    ReopenLane,
    RequestAccepted,
)
from headway.core.lanes.breaker import OVERLOADS
from headway.core.lanes.lane_memory import FoundRecord
from headway.core.lanes.meters.meter import GUARD_S
from headway.core.model import (
    Dimension,
    Estimate,
    Hint,
    Kind,
    LaneLimits,
    LimitReport,
    RetryPolicy,
    Settings,
    Unit,
    Usage,
)
from headway.core.reasons import Wait
from headway.reason_text import wait_text
from headway.sim.virtual_bucket import VirtualBucket

TWO = (lane_spec("a"), lane_spec("b"))


def shown(wait: Wait | None) -> tuple[str, float | None]:
    """What is waited for, in words, and until when."""
    assert wait is not None
    return wait_text(wait), wait.until


# -- counts -------------------------------------------------------------------------------------------


def test_a_lane_counts_the_outcomes_of_its_units() -> None:
    run = Run(units(300), lane_spec(limits=LaneLimits(max_concurrency=4)))
    run.at(0.0)
    run.at(1.0, failed(2, Kind.CONCURRENCY, retry_after_s=9.0), ok(0), failed(1, Kind.INVALID))
    view = run.view(1.0)
    assert (view.started, view.succeeded, view.failed, view.refused) == (5, 1, 1, 1)
    assert view.in_flight == 2
    assert view.delayed == 1
    assert view.remaining == 300 - 2 - 2


def test_a_total_is_the_sum_over_lanes() -> None:
    run = Run(
        [*units(5, "a"), *units(5, "b", first=5)], lane_spec("a", ONE_BY_ONE), lane_spec("b", ONE_BY_ONE)
    )
    run.at(0.0)
    run.at(1.0, ok(0), failed(5, Kind.INVALID))
    seen = run.seen(1.0)
    assert (seen.started, seen.succeeded, seen.failed, seen.refused) == (4, 1, 1, 0)
    assert seen.in_flight == 2
    assert seen.remaining == 6
    assert [view.key for view in seen.lanes] == ["a", "b"]


def test_the_sum_of_all_places_never_jumps() -> None:
    chain = [Unit(500 + index, "b", after=(499 + index,) if index else (), leads=True) for index in range(5)]
    run = Run([*units(300, "a"), *chain], lane_spec("a", LaneLimits(max_concurrency=7)), lane_spec("b"))

    def total(now: float) -> int:
        seen = run.seen(now)
        return seen.remaining + seen.in_flight + seen.succeeded + seen.failed

    assert total(0.0) == 305
    step = run.at(0.0)
    for second in range(1, 40):
        out = run.out
        kinds = [Kind.TRANSIENT if index % 5 == 0 and second < 5 else None for index in out]
        events = [
            ok(index) if kind is None else failed(index, kind) for index, kind in zip(out, kinds, strict=True)
        ]
        step = run.at(float(second), *events)
        assert total(float(second)) == 305
        if step.done:
            break


def test_units_that_wait_for_others_are_counted_in_their_lane() -> None:
    chain = [Unit(0, "a", leads=True), Unit(1, "a", after=(0,), leads=True), Unit(2, "b", after=(0, 1))]
    run = Run(chain, *TWO)
    run.at(0.0)
    assert run.seen(0.0).waiting_for_others == 2
    assert [(view.remaining, view.waiting_for_others, view.queued) for view in run.seen(0.0).lanes] == [
        (1, 1, 0),
        (1, 1, 0),
    ]
    run.at(1.0, CancelUnit(2))
    assert (run.view(1.0, "b").remaining, run.seen(1.0).waiting_for_others) == (0, 1)
    run.at(2.0, ok(0))
    assert (run.view(2.0, "a").remaining, run.seen(2.0).waiting_for_others) == (0, 0)


def test_a_unit_whose_request_is_being_made_is_among_those_that_remain() -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "a", after=(0,), late=True)])
    run.at(0.0)
    assert run.at(1.0, ok(0)).renders == [1]
    assert run.view(1.0).remaining == 1


def test_a_cancelled_unit_is_not_counted_as_queued() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, CancelUnit(2))
    assert (run.view(1.0).queued, run.view(1.0).remaining) == (1, 1)


def test_looking_changes_nothing() -> None:
    run, twin = (Run(units(50), lane_spec(limits=LaneLimits(rpm=60.0, max_concurrency=3))) for _ in range(2))
    run.at(0.0)
    twin.at(0.0)
    assert run.seen(0.5) == run.seen(0.5)
    assert run.at(1.0, ok(0)).commands == twin.at(1.0, ok(0)).commands


def test_money_spent_is_shown_under_a_cap() -> None:
    run = Run(units(2, estimate=Estimate(cost_usd=1.0)), settings=Settings(max_cost_usd=9.0))
    run.at(0.0)
    run.at(1.0, ok(0, Usage(cost_usd=0.4)))
    assert run.seen(1.0).spent_usd == pytest.approx(0.4)


def test_money_spent_is_shown_without_a_cap_too() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, ok(0, Usage(cost_usd=0.4)))
    assert run.seen(1.0).spent_usd == pytest.approx(0.4)


# -- meters and window --------------------------------------------------------------------------------


def test_a_meter_shows_its_limit_and_its_level() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=30.0, max_concurrency=4)))
    run.at(0.0)
    meter = run.view(2.0).meters[0]
    assert (meter.name, meter.limit, meter.reported) == ("requests per minute", 60.0, False)
    assert meter.level == pytest.approx(30.0 - 4.0 + 2.0)
    assert meter.depth_s == 30.0


def test_a_reported_limit_is_marked_as_such() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(burst_s=60.0)))
    run.at(0.0)
    run.at(0.1, RequestAccepted(0, Hint((LimitReport(Dimension.REQUESTS, 60.0, 50.0),))))
    assert [(meter.limit, meter.reported) for meter in run.view(0.2).meters] == [(60.0, True)]


def test_the_level_shown_is_the_reported_one() -> None:
    run = Run(units(1), lane_spec(limits=LaneLimits()))
    run.at(0.0)
    run.at(0.0, ok(0, hint=Hint((LimitReport(Dimension.REQUESTS, 60.0, 10.0, 50.0),))))
    assert run.view(0.0).meters[0].level == pytest.approx(10.0, abs=1.0)


def test_the_window_is_shown_unless_it_is_open() -> None:
    assert Run(units(1), lane_spec(limits=LaneLimits(max_concurrency=4))).view(0.0).window == 4
    assert Run(units(1), lane_spec(limits=LaneLimits(rpm=60.0))).view(0.0).window is None


def test_the_rate_counts_recent_starts_and_fades() -> None:
    run = Run(units(400), lane_spec(limits=LaneLimits(rpm=240.0, burst_s=0.0)))
    play(run, good, until=60.0)
    assert run.view(60.0).rate_per_s == pytest.approx(4.0, rel=0.1)
    assert run.view(100.0).rate_per_s < 0.6


@pytest.mark.parametrize("second", [19.0, 21.0, 30.0])
def test_the_rate_shown_does_not_fall_while_the_pace_is_steady(second: float) -> None:
    """From the 20th second on the moving average is shown, which stands at 63 % of the truth then."""
    run = Run(units(200), lane_spec(limits=ONE_BY_ONE))
    play(run, good, until=second)
    assert run.view(second).rate_per_s == pytest.approx(2.0, rel=0.2)


# -- which limit binds --------------------------------------------------------------------------------


def test_the_binding_limit_is_the_one_used_most() -> None:
    work = units(400, estimate=Estimate(input_tokens=100.0))
    limits = LaneLimits(rpm=600.0, tpm=12_000.0, burst_s=1.0, max_concurrency=50)
    run = Run(work, lane_spec(limits=limits))
    play(run, good, until=60.0)
    view = run.view(60.0)
    assert view.binding == "tokens per minute"
    assert view.used_of_binding == pytest.approx(1.0, abs=0.15)


def test_a_full_window_binds_where_nothing_else_does() -> None:
    run = Run(units(400), lane_spec(limits=LaneLimits(rpm=60_000.0, burst_s=1.0, max_concurrency=2)))
    run.at(0.0)
    view = run.view(0.0)
    assert (view.binding, view.used_of_binding) == ("concurrency", 1.0)


def test_an_idle_lane_is_bound_by_nothing() -> None:
    run = Run([], lane_spec(limits=LaneLimits(rpm=60.0, max_concurrency=4)))
    run.at(0.0)
    assert run.view(0.0).binding == ""


# -- every wait has a name ----------------------------------------------------------------------------


def test_no_wait_where_there_is_nothing_left_to_start() -> None:
    run = Run(units(3))
    run.at(0.0)
    assert run.view(0.0).wait is None


def test_a_stopped_lane_says_why() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.QUOTA, "no money"))
    assert shown(run.view(1.0).wait) == ("stopped: quota: no money", None)


def test_a_paused_run_says_so() -> None:
    run = Run(units(3))
    run.at(0.0, Pause())
    assert shown(run.view(0.0).wait) == ("paused", None)


def test_an_aborted_run_says_so() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, Abort("drain"))
    assert shown(run.view(1.0).wait) == ("the run was interrupted: nothing new starts", None)


def test_a_held_lane_says_why_and_until_when() -> None:
    run = Run(units(3))
    run.held(50.0, "resets 4pm").at(0.0)
    assert shown(run.view(1.0).wait) == ("hold: resets 4pm", 50.0)


def test_a_hold_that_is_over_is_no_wait() -> None:
    run = Run(units(3))
    run.held(50.0, "resets 4pm").at(0.0)
    assert run.view(50.0).wait is None


def test_a_full_window_is_named_with_its_size() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    assert shown(run.view(0.0).wait) == ("concurrency: 2 in flight", None)


def test_the_global_cap_is_named_with_its_size() -> None:
    run = Run([*units(5, "a"), *units(5, "b", first=5)], *TWO, settings=Settings(concurrency=2))
    run.at(0.0)
    assert shown(run.view(0.0, "b").wait) == ("global cap: 2 in flight", None)


def test_a_retry_after_is_named_with_its_end() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=600.0, burst_s=1.0, max_concurrency=2)))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.RATE, retry_after_s=20.0))
    assert shown(run.view(2.0).wait) == ("retry-after", 21.0)


def test_a_meter_is_named_with_the_instant_at_which_the_next_fits() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=0.0)))
    step = run.at(0.0)
    assert shown(run.view(0.5).wait) == ("requests per minute", step.wake_at)


def test_the_meter_named_is_the_one_that_takes_longest() -> None:
    work = units(9, estimate=Estimate(input_tokens=50.0))
    run = Run(work, lane_spec(limits=LaneLimits(rpm=60.0, tpm=600.0, burst_s=0.0)))
    run.at(0.0)
    assert shown(run.view(0.5).wait) == ("tokens per minute", 5.0)


def test_a_minimum_gap_is_named() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=0, min_gap_s=4.0)))
    run.at(0.0)
    assert shown(run.view(0.5).wait) == ("minimum gap", 4.0)


def test_a_delay_between_all_starts_is_a_wait_with_a_name() -> None:
    run = Run(units(2), settings=Settings(delay_s=5.0))
    run.at(0.0)
    wait = run.view(1.0).wait
    assert wait is not None
    assert wait.until == 5.0


def test_a_reserve_that_must_stay_in_the_bucket_is_part_of_the_wait() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=20.0)))
    run.at(0.0)
    wait = run.view(0.0).wait
    assert wait is not None
    assert wait.until == pytest.approx(GUARD_S)


def test_a_backoff_is_named_with_its_reason_and_its_end() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.OVERLOAD))
    assert shown(run.view(1.5).wait) == ("backoff: overload", 2.0)


def test_a_backoff_of_an_unreachable_provider_names_the_error() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, unreached(0, "no connection to host:1 (connection refused)"))
    assert shown(run.view(1.5).wait) == ("backoff: no connection to host:1 (connection refused)", 2.0)


def test_a_broken_lane_names_its_next_probe() -> None:
    run = Run(
        units(99), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(max_attempts=9, base_s=60.0, jitter=0.0))
    )
    run.at(0.0)
    for index in range(OVERLOADS):
        run.at(1.0, failed(index, Kind.OVERLOAD))
    assert shown(run.view(1.5).wait) == (
        "overload (too many failures: a single request tests the provider then)",
        2.0,
    )


def test_the_end_of_a_probe_in_flight_is_not_an_instant_in_the_past() -> None:
    run = Run(units(99), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(max_attempts=9, jitter=0.0)))
    run.at(0.0)
    for index in range(OVERLOADS):
        run.at(1.0, failed(index, Kind.OVERLOAD))
    run.at(2.0)
    assert shown(run.view(5.0).wait) == (
        "overload (too many failures: a single request tests the provider now)",
        None,
    )


def test_a_lane_that_the_budget_stops_says_so() -> None:
    run = Run(units(9, estimate=Estimate(cost_usd=1.0)), settings=Settings(max_cost_usd=1.0))
    run.at(0.0)
    assert shown(run.view(0.0).wait) == ("budget", None)


def test_a_lane_behind_serial_units_says_so() -> None:
    run = Run(units(3, "b", first=1), *TWO, serial=[Unit(0, "a")])
    run.at(0.0)
    assert shown(run.view(0.0, "b").wait) == ("serial units run first", None)


def test_a_serial_unit_whose_lane_was_reopened_waits_for_the_one_that_is_in_flight() -> None:
    run = Run([], *TWO, serial=[Unit(0, "a"), Unit(1, "a"), Unit(2, "b")])
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.AUTH, "no key")).started == [2]
    assert run.at(2.0, ReopenLane("a")).started == []
    assert shown(run.view(2.0, "a").wait) == ("serial units run first", None)


def test_a_lane_whose_units_wait_for_other_units_says_so() -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "b", after=(0,))], *TWO)
    run.at(0.0)
    assert shown(run.view(0.0, "b").wait) == ("other units that must finish first", None)
    assert run.view(0.0, "a").wait is None


@pytest.mark.parametrize(
    ("limits", "first", "then"),
    [
        (LaneLimits(rpm=60.0, burst_s=0.0), (), ()),
        (LaneLimits(rpm=0, min_gap_s=4.0), (), ()),
        (LaneLimits(max_concurrency=1), (), (failed(0, Kind.HOLD, retry_after_s=50.0),)),
        (LaneLimits(rpm=600.0, burst_s=0.0), (), (failed(0, Kind.RATE, retry_after_s=20.0),)),
        (LaneLimits(max_concurrency=1), (), (failed(0, Kind.TRANSIENT), CancelUnit(1))),
    ],
)
def test_the_instant_that_is_shown_is_the_one_to_wake_up_at(
    limits: LaneLimits, first: tuple[Event, ...], then: tuple[Event, ...]
) -> None:
    run = Run(units(2), lane_spec(limits=limits))
    run.at(0.0, *first)
    step = run.at(0.01, *then)
    wait = run.view(0.01).wait
    assert wait is not None
    assert step.wake_at is not None
    assert wait.until == pytest.approx(step.wake_at)


# -- when it ends -------------------------------------------------------------------------------------


def test_the_time_left_is_the_remaining_work_over_its_limit() -> None:
    run = Run(units(130), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=0.0)))
    play(run, good, until=9.0)
    view = run.view(9.0)
    assert view.remaining == 120
    assert view.eta_s == pytest.approx(120.0 + 0.5)


def test_tokens_count_by_what_units_took_so_far() -> None:
    work = units(104, estimate=Estimate(input_tokens=50.0))
    run = Run(work, lane_spec(limits=LaneLimits(rpm=6000.0, tpm=600.0, burst_s=0.0)))
    play(run, good, until=15.0)
    assert run.view(15.0).eta_s == pytest.approx(100 * 5.0 + 0.5)


def test_a_hold_is_added() -> None:
    run = Run(units(60), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=0.0)))
    run.held(500.0, "closed").at(0.0)
    assert run.view(100.0).eta_s == pytest.approx(400.0 + 59.0)


def test_without_a_limit_the_rate_achieved_decides() -> None:
    run = Run(units(200), lane_spec(limits=ONE_BY_ONE))
    play(run, good, until=50.0)
    view = run.view(50.0)
    assert view.eta_s == pytest.approx(view.remaining / 2.0, rel=0.1)


def test_the_time_left_is_not_less_than_what_a_full_window_allows() -> None:
    def slow(start: Start, now: float) -> tuple[float, Finished]:
        return 1.0, ok(start.unit.index)

    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=6000.0, burst_s=1.0, max_concurrency=1)))
    play(run, slow, until=40.0)
    eta_s = run.view(40.0).eta_s
    assert eta_s is not None
    assert eta_s > 50.0


def test_the_time_left_is_unknown_without_any_facts() -> None:
    run = Run([*units(9, "a"), *units(9, "b", first=9)], lane_spec("a"), lane_spec("b", LaneLimits(rpm=60.0)))
    assert run.view(0.0, "a").eta_s is None
    assert run.seen(0.0).eta_s is None


def test_a_lane_with_nothing_left_or_stopped_takes_no_time() -> None:
    run = Run(units(2))
    run.at(0.0)
    run.at(1.0, ok(0), ok(1))
    assert run.view(1.0).eta_s == 0.0
    stopped = Run(units(2), lane_spec(limits=ONE_BY_ONE))
    stopped.at(0.0)
    stopped.at(1.0, failed(0, Kind.AUTH, "x"))
    assert stopped.view(1.0).eta_s == 0.0


def test_the_run_takes_as_long_as_its_slowest_lane() -> None:
    run = Run(
        [*units(60, "a"), *units(60, "b", first=60)],
        lane_spec("a", LaneLimits(rpm=60.0, burst_s=0.0)),
        lane_spec("b", LaneLimits(rpm=600.0, burst_s=0.0)),
    )
    assert run.seen(0.0).eta_s == pytest.approx(59.0)


def test_the_rate_shown_is_right_from_the_first_seconds_on() -> None:
    run = Run(units(200), lane_spec(limits=ONE_BY_ONE))
    play(run, good, until=5.0)
    assert run.view(5.0).rate_per_s == pytest.approx(2.0, rel=0.3)


def test_units_that_wait_for_each_other_take_their_time_one_after_the_other() -> None:
    fast = LaneLimits(rpm=60_000.0)
    chain = [Unit(index, "a", after=(index - 1,) if index else (), leads=True) for index in range(5)]
    run = Run(
        [*chain, Unit(5, "b", after=(0, 4)), Unit(6, "b", after=(1,))],
        lane_spec("a", fast),
        lane_spec("b", fast),
    )
    run.at(0.0)
    assert run.seen(0.0).eta_s is None, "no attempt has ended"
    run = Run(chain, lane_spec("a", fast))
    play(run, slow, until=10.0)
    assert left_s(run, 14.0) == pytest.approx(6.0 + 3 * 10.0)
    run = Run([*chain, Unit(5, "b", after=(0, 4))], lane_spec("a", fast), lane_spec("b", fast))
    play(run, slow, until=10.0)
    assert left_s(run, 14.0) == pytest.approx(6.0 + 4 * 10.0)
    assert run.view(14.0, "a").eta_s == pytest.approx(6.0 + 3 * 10.0)
    run.held(200.0, lane="b")
    assert left_s(run, 14.0) == pytest.approx(200.0 - 14.0 + 10.0)


def test_the_limits_of_a_lane_count_for_units_that_wait_too() -> None:
    chain = [Unit(index, "a", after=(index - 1,) if index else (), leads=True) for index in range(11)]
    run = Run(chain, lane_spec("a", LaneLimits(rpm=6.0, burst_s=0.0)))
    play(run, good, until=10.0)
    assert run.view(10.0).remaining == 9
    assert left_s(run, 10.0) == pytest.approx(9 * 10.0, rel=0.02)


# -- how long it takes, early on ----------------------------------------------------------------------


def slow(start: Start, now: float) -> tuple[float, Finished]:
    """Every attempt takes ten seconds."""
    return 10.0, ok(start.unit.index)


def left_s(run: Run, now: float) -> float:
    eta_s = run.seen(now).eta_s
    assert eta_s is not None
    return eta_s


def test_what_a_window_of_slow_attempts_takes_is_not_known_before_one_has_ended() -> None:
    run = Run(units(108), lane_spec(limits=LaneLimits(rpm=60_000.0, max_concurrency=8)))
    play(run, slow, until=5.0)
    assert (run.seen(5.0).eta_s, run.view(5.0).rate_per_s) == (None, 0.0)
    run = Run(units(108), lane_spec(limits=LaneLimits(rpm=60_000.0, max_concurrency=8)))
    play(run, slow, until=10.5)
    assert left_s(run, 10.5) == pytest.approx(92 * 10.0 / 8 + 10.0)
    assert run.view(12.5).rate_per_s == pytest.approx(0.8, rel=0.3)


def test_what_units_are_expected_to_take_counts_before_any_was_sent() -> None:
    work = units(100, estimate=Estimate(input_tokens=50.0))
    run = Run(work, lane_spec(limits=LaneLimits(rpm=6000.0, tpm=600.0, burst_s=0.0)))
    run.held(60.0, "closed").at(0.0)
    assert left_s(run, 0.0) == pytest.approx(60.0 + 99 * 5.0, abs=5.0)


def test_the_content_of_the_bucket_takes_no_time() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=60.0)))
    run.held(10.0, "closed").at(0.0)
    assert left_s(run, 0.0) == pytest.approx(10.0 + 40.0)


def test_a_pace_that_is_still_searched_for_is_no_limit() -> None:
    run = Run(units(1000), lane_spec(limits=LaneLimits()))
    play(run, good, until=1.0)
    assert run.seen(1.0).eta_s is None, "the first pace is only where the search begins"


def test_a_pace_that_was_found_is_one_also_while_the_lane_climbs_back_to_it() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits()))
    lane = run.lane()
    found = FoundRecord((2.0, 0.0, 0.0, 0.0), Dimension.REQUESTS, depth_s=1.0, evidence_s=30.0)
    lane.limits.recall_found(found, 30.0, 0.0)
    assert lane.limits.finder is not None
    lane.limits.finder.meter.set_limit(6.0, 0.0)
    run.held(10.0, "closed").at(0.0)
    assert left_s(run, 0.0) == pytest.approx(10.0 + 100 / 2.0, rel=0.05)


def test_the_last_attempts_in_flight_take_the_mean_duration() -> None:
    run = Run(units(2), lane_spec(limits=ONE_BY_ONE))
    play(run, slow, until=14.0)
    assert left_s(run, 14.0) == pytest.approx(6.0)


def test_a_cap_on_all_lanes_takes_its_time() -> None:
    lanes = [lane_spec(key, LaneLimits(rpm=60_000.0)) for key in ("a", "b")]
    run = Run([*units(52, "a"), *units(52, "b", first=52)], *lanes, settings=Settings(concurrency=4))
    run.at(0.0)
    assert run.seen(0.0).eta_s is None
    run = Run([*units(54, "a"), *units(54, "b", first=54)], *lanes, settings=Settings(concurrency=4))
    play(run, slow, until=10.0)
    assert left_s(run, 10.0) == pytest.approx(100 * 10.0 / 4)


def test_a_delay_between_starts_does_too() -> None:
    run = Run(units(11), lane_spec(limits=LaneLimits(rpm=6000.0)), settings=Settings(delay_s=5.0))
    play(run, good, until=1.0)
    assert left_s(run, 1.0) == pytest.approx(10 * 5.0)


def test_a_limit_that_was_met_and_not_measured_counts_by_what_went_through() -> None:
    run = Run(units(1000), lane_spec(limits=LaneLimits()))
    play(run, refusing(per_s=10.0), until=1.5)
    finder = run.lane().limits.finder
    assert finder is not None
    assert not finder.found
    assert 1000 / 40.0 < left_s(run, 1.5) < 1000 / 2.5


def refusing(per_s: float) -> Callable[[Start, float], tuple[float, Finished]]:
    """A provider with a bucket of one second that says nothing but "too fast"."""
    bucket = VirtualBucket(per_s, 1.0)

    def answer(start: Start, now: float) -> tuple[float, Finished]:
        if bucket.short_by(1.0, now):
            return 0.01, failed(start.unit.index, Kind.RATE)
        bucket.charge(1.0, now)
        return 0.2, ok(start.unit.index)

    return answer
