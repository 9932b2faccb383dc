"""Holds: the lane closes until an instant, says so once, and parks if that is later than max_hold allows."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, good, lane_spec, ok, play, units

from headway.core.events import Event, ReopenLane, RequestAccepted
from headway.core.lanes.lane_memory import LaneRecord, export_lane, import_lane
from headway.core.model import Kind, LaneLimits, RetryPolicy, Settings
from headway.core.reasons import WaitCode
from headway.reason_text import notice_text


def test_a_hold_closes_the_lane_until_the_hint_and_a_margin() -> None:
    run = Run(units(5), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(hold_margin_s=2.0)))
    run.at(0.0)
    step = run.at(10.0, failed(0, Kind.HOLD, "resets 4pm", retry_after_s=3600.0))
    assert step.started == []
    assert step.requeues[0].not_before == step.wake_at == 10.0 + 3600.0 + 2.0
    assert run.at(3611.0).started == []
    assert run.at(3612.0).started == [0]


def test_a_hold_of_unknown_length_closes_the_lane_for_the_default_wait() -> None:
    run = Run(units(9), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(default_wait_s=60.0)))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.HOLD, "You've hit your session limit"))
    assert step.started == []
    assert step.wake_at is not None
    assert step.wake_at >= 61.0


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_hint_over_a_minute_is_a_hold(kind: Kind) -> None:
    run = Run(units(5), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    step = run.at(10.0, failed(0, kind, retry_after_s=61.0))
    assert step.told == ["held"]
    assert step.wake_at == 10.0 + 61.0 + 2.0


@pytest.mark.parametrize("kind", [Kind.RATE, Kind.CONCURRENCY])
def test_a_hint_of_a_minute_is_no_hold(kind: Kind) -> None:
    run = Run(units(5), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    assert run.at(10.0, failed(0, kind, retry_after_s=60.0)).told == []


@pytest.mark.parametrize("kind", [Kind.OVERLOAD, Kind.TRANSIENT])
def test_a_long_hint_is_a_hold_for_every_kind(kind: Kind) -> None:
    run = Run(units(9), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    step = run.at(1.0, failed(0, kind, retry_after_s=3600.0))
    assert (step.told, step.started) == (["held"], [])


def test_a_hold_is_announced_once_with_its_reason_and_its_end() -> None:
    run = Run(units(20), lane_spec(limits=LaneLimits(max_concurrency=4)))
    run.at(0.0)
    step = run.at(1.0, *(failed(index, Kind.HOLD, "daily quota", retry_after_s=100.0) for index in range(4)))
    notices = [(notice.what, notice_text(notice.reason), notice.until) for notice in step.notices]
    assert notices == [("held", "daily quota", 103.0)]


def test_a_hold_that_is_extended_is_announced_again() -> None:
    run = Run(units(20))
    assert run.held(50.0, "first").at(0.0).told == ["held"]
    assert run.held(50.0, "again").at(1.0).told == []
    assert run.held(90.0, "longer").at(2.0).told == ["held"]


def test_a_hold_that_attempts_in_flight_meet_one_after_another_is_announced_once() -> None:
    run = Run(
        units(20), lane_spec(limits=LaneLimits(max_concurrency=4), retry=RetryPolicy(hold_margin_s=0.0))
    )
    run.at(0.0)
    told = []
    for index, at in enumerate((1.0, 1.2, 2.0, 5.5)):
        told += run.at(at, failed(index, Kind.HOLD, "You've hit your limit", retry_after_s=100.0)).told
    assert told == ["held"]
    assert run.at(105.4).started == [], "the later end counts, told or not"
    assert run.at(105.5).told == ["released"]


@pytest.mark.parametrize(
    ("ends_at", "later", "news"),
    [(60.0, 64.0, False), (60.0, 67.0, True), (3600.0, 3900.0, False), (3600.0, 4000.0, True)],
)
def test_a_hold_is_announced_again_only_where_it_ends_much_later(
    ends_at: float, later: float, news: bool
) -> None:
    run = Run(units(3))
    run.held(ends_at, "first").at(0.0)
    assert run.held(later, "again").at(1.0).told == (["held"] if news else [])


def test_small_extensions_of_a_hold_add_up_to_a_notice() -> None:
    run = Run(units(3))
    run.held(60.0, "first").at(0.0)
    told = [run.held(60.0 + 2 * at, "again").at(at).told for at in (1.0, 2.0, 3.0, 4.0)]
    assert told == [[], [], [], ["held"]]


def test_the_next_hold_is_another_one() -> None:
    run = Run(units(9))
    run.held(5.0, "one").at(0.0)
    assert run.at(5.0).told == ["released"]
    assert run.held(8.0, "two").at(5.5).told == ["held"]
    view = run.view(20.0)
    assert (view.holds, view.held_for) == (2, "two")


def test_the_end_of_a_hold_is_announced() -> None:
    run = Run(units(9))
    run.held(5.0, "closed").at(0.0)
    assert run.at(5.0).told == ["released"]


def test_a_shorter_hold_opens_nothing() -> None:
    run = Run(units(3))
    run.held(50.0, "long").at(0.0)
    assert run.held(20.0, "short").at(1.0).wake_at == 50.0
    assert run.at(20.0).started == []


def test_attempts_in_flight_go_on_during_a_hold() -> None:
    run = Run(units(2), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.held(50.0, "closed").at(1.0)
    step = run.at(2.0, ok(0))
    assert step.ended == {0: "succeeded"}
    assert step.started == []


def test_a_retry_due_during_a_hold_waits_for_its_end() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.held(50.0).at(1.0, failed(0, Kind.TRANSIENT))
    assert run.at(2.0).started == []
    assert run.at(50.0).started == [0]


def test_failures_during_a_hold_open_no_breaker() -> None:
    run = Run(units(20), lane_spec(limits=LaneLimits(max_concurrency=20)))
    run.at(0.0)
    run.held(50.0, "closed").at(1.0)
    step = run.at(2.0, *(failed(index, Kind.OVERLOAD) for index in range(20)))
    assert step.told == []


def test_a_hold_spends_none_of_the_units_attempts() -> None:
    run = Run(units(1), lane_spec(retry=RetryPolicy(max_attempts=1)))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.HOLD, retry_after_s=10.0))
    assert run.at(13.0).started == [0]
    assert run.at(14.0, ok(0)).done == "complete"


def test_reopening_lifts_a_hold() -> None:
    run = Run(units(1))
    run.held(500.0, "closed").at(0.0)
    step = run.at(1.0, ReopenLane("a"))
    assert step.started == [0]
    assert step.told == ["reopened"]


def test_units_that_waited_for_a_hold_start_when_the_lane_is_reopened() -> None:
    run = Run(units(3))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.HOLD, retry_after_s=500.0), failed(1, Kind.RATE, retry_after_s=20.0))
    run.at(1.5, failed(2, Kind.OVERLOAD))
    assert run.at(1.6, ReopenLane("a")).started == [0]
    assert run.at(1.7, ok(0)).started == [1]  # The refusals have made its window small.
    assert run.at(1.8, ok(1)).started == []  # This one failed by itself: it keeps its pause.
    assert run.at(30.0).started == [2]


def test_a_hold_longer_than_anyone_wants_to_wait_parks_the_lane() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE), settings=Settings(max_hold_s=600.0))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.HOLD, "resets tomorrow", retry_after_s=3600.0))
    assert [(notice.what, notice_text(notice.reason)) for notice in step.notices] == [
        ("stopped", "resets tomorrow")
    ]
    assert step.notices[0].until == pytest.approx(1.0 + 3600.0 + 2.0)
    assert step.finishes == []
    assert step.done == "parked"


@pytest.mark.parametrize("absurd_s", [1e300, float("inf"), float("nan"), -5.0, 400 * 86_400.0])
@pytest.mark.parametrize("kind", [Kind.HOLD, Kind.RATE, Kind.OVERLOAD])
def test_a_wait_that_cannot_be_meant_is_as_good_as_none(kind: Kind, absurd_s: float) -> None:
    run, plain = (Run(units(3), lane_spec(limits=ONE_BY_ONE)) for _ in range(2))
    run.at(0.0)
    plain.at(0.0)
    step = run.at(1.0, failed(0, kind, "later", retry_after_s=absurd_s))
    assert step.requeues == plain.at(1.0, failed(0, kind, "later")).requeues
    assert step.requeues[0].not_before < 100.0


def test_an_absurd_hold_on_record_is_not_taken_over() -> None:
    run = Run(units(1))
    import_lane(run.lane(), LaneRecord("a", 1000.0, 1e300, "for ever"), 0.0, 1030.0)
    assert run.at(0.0).started == [0]


def test_a_hold_within_max_hold_parks_nothing() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE), settings=Settings(max_hold_s=600.0))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.HOLD, retry_after_s=500.0))
    assert step.told == ["held"]
    assert step.done is None


def test_the_other_lanes_finish_before_a_run_is_parked() -> None:
    run = Run(
        [*units(2, "a"), *units(2, "b", first=2)],
        lane_spec("a"),
        lane_spec("b"),
        settings=Settings(max_hold_s=60.0),
    )
    step = run.held(1000.0, "closed").at(0.0)
    assert step.started == [2, 3]
    assert step.done is None
    assert run.at(1.0, ok(2), ok(3)).done == "parked"


def test_a_parked_lane_that_had_nothing_left_does_not_park_the_run() -> None:
    run = Run(units(1), settings=Settings(max_hold_s=60.0))
    run.at(0.0)
    run.held(1000.0, "closed").at(1.0)
    assert run.at(2.0, ok(0)).done == "complete"


def test_a_hold_remembered_from_an_earlier_run_is_kept() -> None:
    run = Run(units(1))
    import_lane(run.lane(), LaneRecord("a", 1000.0, 1090.0, "resets at four"), 0.0, 1030.0)
    step = run.at(0.0)
    assert (step.started, step.wake_at) == ([], 60.0)
    assert run.at(60.0).started == [0]


def test_a_recorded_hold_beyond_max_hold_parks_the_run() -> None:
    run = Run(units(1), settings=Settings(max_hold_s=60.0))
    import_lane(run.lane(), LaneRecord("a", 0.0, 36_000.0, "resets at four"), 0.0, 0.0)
    assert run.at(0.0).done == "parked"


def test_a_whole_run_goes_on_by_itself_after_a_hold() -> None:
    run = Run(units(20), lane_spec(limits=LaneLimits(max_concurrency=3)))
    steps = play(run.held(3600.0), good)
    assert steps[-1][1].done == "complete"
    assert 3600.0 < steps[-1][0] < 3610.0


def test_the_end_of_a_hold_is_announced_once() -> None:
    run = Run(units(9), lane_spec(limits=ONE_BY_ONE))
    run.held(5.0, "closed").at(0.0)
    assert run.at(5.0).told == ["released"]
    assert run.at(6.0, ok(0)).told == []


def test_a_remembered_hold_is_announced() -> None:
    run = Run(units(1))
    import_lane(run.lane(), LaneRecord("a", 1000.0, 1090.0, "resets at four"), 0.0, 1030.0)
    notices = run.at(0.0).notices
    assert [(notice.what, notice_text(notice.reason), notice.until) for notice in notices] == [
        ("held", "resets at four", 60.0)
    ]


def test_the_same_hold_after_a_reopening_is_announced_again() -> None:
    run = Run(units(9), lane_spec(limits=ONE_BY_ONE))
    run.held(50.0, "closed").at(0.0)
    run.at(1.0, ReopenLane("a"))
    assert run.held(50.0, "closed").at(2.0).told == ["held"]


def _ahead(most: int = 4) -> Run:
    spec = msgspec.structs.replace(lane_spec(limits=LaneLimits(max_concurrency=most)), one_ahead=True)
    return Run(units(12), spec)


@pytest.mark.parametrize(
    "news",
    [ok(0), RequestAccepted(0), failed(0, Kind.INVALID, "no such file"), failed(0, Kind.CRASH, "segfault")],
)
def test_one_goes_ahead_and_the_rest_once_it_has_met_no_limit(news: Event) -> None:
    run = _ahead()
    assert run.at(0.0).started == [0]
    assert run.at(1.0).started == []
    wait = run.view(1.0).wait
    assert wait is not None
    assert wait.code is WaitCode.ONE_AHEAD
    started = run.at(2.0, news).started
    assert len(started) == (3 if isinstance(news, RequestAccepted) else 4)


def test_after_a_refusal_one_goes_ahead_again_despite_late_answers() -> None:
    run = _ahead()
    run.at(0.0)
    assert run.at(1.0, ok(0)).started == [1, 2, 3, 4]
    assert run.at(2.0, failed(1, Kind.HOLD, "come back", retry_after_s=100.0), ok(2)).started == []
    assert run.at(3.0, ok(3), failed(4, Kind.HOLD, "come back", retry_after_s=99.0)).started == []
    (ahead,) = run.at(104.0).started
    assert run.at(105.0).started == []
    assert len(run.at(106.0, ok(ahead)).started) == 4


def test_a_lane_with_one_ahead_holds_no_global_place_for_the_rest() -> None:
    spec = msgspec.structs.replace(lane_spec("a", LaneLimits(max_concurrency=4)), one_ahead=True)
    run = Run([*units(4), *units(4, "b", first=4)], spec, lane_spec("b"), settings=Settings(concurrency=4))
    assert sorted(run.at(0.0).started) == [0, 4, 5, 6]


def test_a_window_that_was_learned_comes_back_after_the_one_ahead() -> None:
    run = _ahead(8)
    lane = run.scheduler.lanes["a"]
    import_lane(lane, LaneRecord("a", recorded_utc=0.0, window=3), 0.0, 0.0)
    assert run.at(0.0).started == [0]
    assert export_lane(lane, 0.0, 0.0).window == 3, "that one goes ahead is nothing to remember"
    assert run.at(1.0, ok(0)).started == [1, 2, 3]
