"""When units start: each as early as hold, meters, gaps and windows allow, in its order, and no lane for another."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.drive import (
    ONE_BY_ONE,
    STEADY,
    UNLIMITED,
    Run,
    failed,
    good,
    lane_spec,
    ok,
    play,
    started_at,
    units,
)

from headway.core.commands import Start
from headway.core.events import Event, Finished
from headway.core.lanes.queueing.stock import BATCH, LOW
from headway.core.model import Estimate, Kind, LaneLimits, LaneSpec, Settings, Unit

#: One a second, no burst.
SPACED = LaneLimits(rpm=60.0, burst_s=0.0)


def in_an_hour(start: Start, now: float) -> tuple[float, Finished]:
    """No attempt is answered in time for anything."""
    return 3600.0, ok(start.unit.index)


def order_of(run: Run) -> list[int]:
    """The order in which a lane of one at a time starts its units."""
    return [index for _, index in started_at(play(run, good))]


# -- start_at -----------------------------------------------------------------------------------------


def test_without_limits_everything_starts_at_once_in_input_order() -> None:
    assert Run(units(50)).at(0.0).started == list(range(50))


def test_a_meter_spaces_the_starts_and_says_when_to_come_again() -> None:
    run = Run(units(3), lane_spec(limits=SPACED))
    first = run.at(0.0)
    assert (first.started, first.wake_at) == ([0], 1.0)
    early = run.at(0.6)
    assert (early.started, early.wake_at) == ([], 1.0)
    assert run.at(1.0).started == [1]


def test_a_hold_beyond_the_meter_decides() -> None:
    run = Run(units(3), lane_spec(limits=SPACED))
    run.at(0.0)
    assert run.held(5.0, "closed").at(0.5).wake_at == 5.0
    assert run.at(4.9).started == []
    assert run.at(5.0).started == [1]


def test_a_retry_after_beyond_the_meter_decides() -> None:
    run = Run(units(3), lane_spec(limits=SPACED))
    run.at(0.0)
    assert run.at(0.5, failed(0, Kind.RATE, retry_after_s=7.0)).wake_at == 7.5


def test_a_unit_that_waits_delays_no_other() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.TRANSIENT)).started == [1]
    assert run.at(1.5, ok(1)).started == [2]
    step = run.at(1.7, ok(2))
    assert (step.started, step.wake_at) == ([], 2.0)
    assert run.at(2.0).started == [0]


def test_following_the_wake_ups_alone_keeps_the_exact_pace() -> None:
    run = Run(units(100), lane_spec(limits=LaneLimits(rpm=7000.0, burst_s=0.0)))
    steps = play(run, good)
    starts = [at for at, _ in started_at(steps)]
    assert starts == pytest.approx([index * 60.0 / 7000.0 for index in range(100)])


def test_no_step_is_wasted_on_waiting() -> None:
    run = Run(units(100), lane_spec(limits=SPACED))
    steps = play(run, good)
    assert len(steps) <= 201


def test_a_burst_goes_at_once_and_then_the_rate() -> None:
    run = Run(units(40), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=20.0)))
    assert len(run.at(0.0).started) == 19
    starts = [at for at, _ in started_at(play(run, good))]
    assert starts[-1] == pytest.approx(20.3)  # The last one keeps no more than 0.3 s in reserve.


def test_tokens_and_requests_both_bind() -> None:
    work = units(3, estimate=Estimate(input_tokens=100.0))
    run = Run(work, lane_spec(limits=LaneLimits(rpm=60.0, tpm=1200.0, burst_s=0.0)))
    assert [at for at, _ in started_at(play(run, good))] == pytest.approx([0.0, 5.0, 10.0])


def test_a_minimum_gap_holds_no_slot_while_it_waits() -> None:
    run = Run(units(2), lane_spec(limits=LaneLimits(max_concurrency=1, min_gap_s=4.0)))
    run.at(0.0)
    step = run.at(1.0, ok(0))
    assert (step.started, step.wake_at) == ([], 4.0)
    assert run.lane().in_flight == 0
    assert run.at(4.0).started == [1]


def test_a_window_lets_as_many_out_as_it_is_wide() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(max_concurrency=3)))
    assert run.at(0.0).started == [0, 1, 2]
    assert run.at(1.0, ok(1)).started == [3]
    assert run.at(2.0, ok(0), ok(2)).started == [4, 5]


def test_an_unknown_lane_begins_with_a_handful() -> None:
    assert 3 <= len(Run(units(99), lane_spec(limits=LaneLimits())).at(0.0).started) <= 10


def test_an_unknown_lane_that_hears_nothing_starts_ten_a_second_and_then_waits() -> None:
    run = Run(units(99), lane_spec(limits=LaneLimits()))
    starts = [at for at, _ in started_at(play(run, in_an_hour, until=100.0))]
    gaps = [after - before for before, after in pairwise(starts) if after > before]
    assert gaps[0] <= 0.1 + 1e-9
    assert gaps[1:] == pytest.approx([0.1] * len(gaps[1:]))
    assert len(starts) == 20


def test_an_unknown_lane_grows_with_accepted_requests() -> None:
    starts = [at for at, _ in started_at(play(Run(units(2000), lane_spec(limits=LaneLimits())), good))]
    in_second = [sum(second <= at < second + 1 for at in starts) for second in range(6)]
    assert in_second[0] <= 30
    assert in_second[0] < in_second[2] < in_second[4] <= in_second[5]
    assert in_second[5] > 5 * in_second[0]


def test_no_more_than_twenty_or_as_many_as_were_answered_are_unanswered_on_an_unknown_lane() -> None:
    run = Run(units(2000), lane_spec(limits=LaneLimits()))
    started = answered = 0
    for _, step in play(run, good):
        started += len(step.started)
        answered += len(step.finishes)
        assert started - answered <= max(20, answered + 1)
    assert answered == 2000


def test_virtual_time_is_charged_only_when_a_unit_starts() -> None:
    run = Run(units(9), lane_spec(limits=LaneLimits(rpm=60.0, burst_s=60.0, max_concurrency=2)))
    run.at(0.0)
    for tenth in range(1, 10):
        run.at(tenth / 10.0)
    assert run.lane().limits.meters[0].level(0.0) == pytest.approx(58.0)


def test_attempts_are_numbered_over_all_tries_throttled_ones_included() -> None:
    run = Run(units(1))
    numbers = [run.at(0.0).starts[0].attempt]
    for second, kind in ((10.0, Kind.RATE), (20.0, Kind.TRANSIENT), (30.0, Kind.CONCURRENCY)):
        run.at(second, failed(0, kind))
        numbers.append(run.at(second + 9.0).starts[0].attempt)
    assert numbers == [1, 2, 3, 4]


def test_a_delay_between_any_two_starts_holds_across_lanes() -> None:
    run = Run(
        [*units(3, "a"), *units(3, "b", first=3)],
        lane_spec("a"),
        lane_spec("b"),
        settings=Settings(delay_s=2.0),
    )
    steps = play(run, good)
    starts = sorted(at for lane in "ab" for at, _ in started_at(steps, lane))
    assert starts == pytest.approx([0.0, 2.0, 4.0, 6.0, 8.0, 10.0])


def test_a_delay_between_all_starts_starves_no_lane() -> None:
    run = Run(
        [*units(20, "a"), *units(20, "b", first=20)],
        lane_spec("a"),
        lane_spec("b"),
        settings=Settings(delay_s=1.0),
    )
    steps = play(run, good, until=9.0)
    lanes = [start.unit.lane for _, step in steps for start in step.starts]
    assert lanes.count("b") >= 4


# -- order --------------------------------------------------------------------------------------------


def test_a_higher_priority_goes_first_then_input_order() -> None:
    work = [Unit(0, "a"), Unit(1, "a", priority=1), Unit(2, "a", priority=2), Unit(3, "a", priority=1)]
    assert order_of(Run(work, lane_spec(limits=ONE_BY_ONE))) == [2, 1, 3, 0]


def test_the_longest_goes_first_where_the_lane_asks_for_it() -> None:
    work = [Unit(index, "a", expected_s=float(length)) for index, length in enumerate((3, 9, 1, 9, 5))]
    longest = LaneSpec("a", ONE_BY_ONE, STEADY, order="longest")
    assert order_of(Run(work, longest)) == [1, 3, 4, 0, 2]
    assert order_of(Run(work, lane_spec(limits=ONE_BY_ONE))) == [0, 1, 2, 3, 4]


def test_a_retried_unit_goes_before_later_units() -> None:
    run = Run(units(5), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.TRANSIENT))
    assert run.at(5.0, ok(1)).started == [0]


# -- the source ---------------------------------------------------------------------------------------


def test_a_lane_keeps_only_a_small_stock_in_memory() -> None:
    run = Run(units(10_000), lane_spec(limits=ONE_BY_ONE))
    steps = play(run, good, until=300.0)
    assert len(started_at(steps)) > 500
    assert sum(1 for _ in run.scheduler.in_memory()) <= BATCH + LOW


def test_rows_of_a_held_lane_at_the_front_delay_no_other_lane() -> None:
    run = Run([*units(5000, "a"), *units(3, "b", first=5000)], lane_spec("a"), lane_spec("b"))
    step = run.held(1e6, "closed for today").at(0.0)
    assert step.started == [5000, 5001, 5002]


def test_every_unit_is_started_and_finished_once() -> None:
    run = Run(units(1000), lane_spec(limits=LaneLimits(max_concurrency=7)))
    steps = play(run, good)
    assert sorted(index for _, index in started_at(steps)) == list(range(1000))
    finished = [finish.unit.index for _, step in steps for finish in step.finishes]
    assert sorted(finished) == list(range(1000))
    assert [step.done for _, step in steps if step.done] == ["complete"]


# -- a lane's trouble stays in its lane ---------------------------------------------------------------

TROUBLES: dict[str, tuple[Event, ...]] = {
    "told to come back later": (failed(0, Kind.RATE, retry_after_s=50.0),),
    "held by the provider": (failed(0, Kind.HOLD, retry_after_s=500.0),),
    "out of credit": (failed(0, Kind.QUOTA, "no money"),),
    "too many at once": tuple(failed(index, Kind.CONCURRENCY) for index in range(10)),
    "overloaded": tuple(failed(index, Kind.OVERLOAD) for index in range(10)),
    "slow": (),
}


@pytest.mark.parametrize("trouble", list(TROUBLES))
def test_trouble_in_a_lane_does_not_affect_another(trouble: str) -> None:
    other = lane_spec("b", LaneLimits(rpm=600.0, burst_s=2.0, max_concurrency=8))
    work_of_b = units(60, "b", first=1000)
    alone = started_at(play(Run(work_of_b, other), good), "b")

    def beside(run: Run) -> list[tuple[float, int]]:
        starts = [(0.0, index) for index in run.at(0.0).started if index >= 1000]
        agenda = [(0.5, index) for _, index in starts]
        events: tuple[Event, ...] = TROUBLES[trouble]
        now = 0.0
        while len(starts) < len(work_of_b):
            step = run.at(now, *events)
            new = [index for index in step.started if index >= 1000]
            starts += [(now, index) for index in new]
            agenda += [(now + 0.5, index) for index in new]
            wake_at = step.wake_at if step.wake_at is not None else 1e9
            now = min([wake_at, *(at for at, _ in agenda)])
            events = tuple(ok(index) for at, index in agenda if at <= now)
            agenda = [(at, index) for at, index in agenda if at > now]
        return starts

    run = Run([*units(500, "a"), *work_of_b], lane_spec("a", LaneLimits(max_concurrency=10)), other)
    assert beside(run) == alone


def test_a_waiting_unit_occupies_no_permit_of_lane_or_run() -> None:
    settings = Settings(concurrency=2)
    run = Run([*units(5, "a"), *units(5, "b", first=5)], lane_spec("a"), lane_spec("b"), settings=settings)
    assert run.at(0.0).started == [0, 5]
    step = run.at(1.0, failed(0, Kind.TRANSIENT), failed(5, Kind.RATE, retry_after_s=30.0))
    assert run.lane("b").in_flight == 0
    assert step.started == [1, 2]


def test_unlimited_means_no_meter_and_an_open_window() -> None:
    run = Run(units(500), lane_spec(limits=UNLIMITED))
    assert len(run.at(0.0).started) == 500
