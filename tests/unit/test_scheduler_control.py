"""Commands to a running job: pause, abort, cancel a unit."""

from __future__ import annotations

import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, good, lane_spec, ok, play, units

from headway.core.events import Abort, Cancelled, CancelUnit, Pause, Resume
from headway.core.lanes.queueing.stock import BATCH
from headway.core.model import Kind, LaneLimits, Settings, Unit

# -- pause --------------------------------------------------------------------------------------------


def test_a_paused_run_starts_nothing_and_what_is_in_flight_goes_on() -> None:
    run = Run(units(3), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    assert run.at(1.0, Pause()).cancels == []
    step = run.at(2.0, ok(0))
    assert step.ended == {0: "succeeded"}
    assert step.started == []
    assert step.wake_at is None


def test_resume_goes_on_where_the_pause_began() -> None:
    run = Run(
        [*units(2, "a"), *units(2, "b", first=2)],
        lane_spec("a"),
        lane_spec("b", LaneLimits(rpm=60, burst_s=0.0)),
    )
    assert run.at(0.0, Pause()).started == []
    assert run.at(5.0).started == []
    step = run.at(9.0, Resume())
    assert step.started == [0, 1, 2]
    assert step.wake_at == 10.0


def test_an_instant_that_passed_during_the_pause_is_not_missed() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.TRANSIENT), Pause())
    run.at(5.0)
    assert run.at(6.0, Resume()).started == [0]


def test_retries_go_back_while_paused() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, Pause())
    assert run.at(2.0, failed(0, Kind.TRANSIENT)).requeues
    assert run.at(9.0, Resume()).started == [0]


# -- abort --------------------------------------------------------------------------------------------


def test_draining_starts_nothing_more_and_lets_the_rest_finish() -> None:
    run = Run(units(5), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    step = run.at(1.0, Abort("drain"))
    assert (step.cancels, step.done, step.wake_at) == ([], None, None)
    assert run.at(2.0, ok(0)).started == []
    last = run.at(3.0, ok(1))
    assert last.ended == {1: "succeeded"}
    assert last.done == "aborted"


def test_a_failure_while_draining_leaves_its_unit_pending() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, Abort("drain"))
    step = run.at(2.0, failed(0, Kind.TRANSIENT))
    assert [requeue.unit.index for requeue in step.requeues] == [0]
    assert step.finishes == []
    assert step.done == "aborted"


def test_cancelling_stops_what_is_in_flight_and_leaves_it_pending() -> None:
    run = Run(units(5), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    assert run.at(1.0, Abort("cancel")).cancels == [0, 1]
    first = run.at(1.1, Cancelled(0))
    assert [(requeue.unit.index, requeue.reason) for requeue in first.requeues] == [(0, "interrupted")]
    assert first.finishes == []
    assert run.at(1.2, Cancelled(1)).done == "aborted"


def test_first_drain_then_cancel() -> None:
    run = Run(units(2))
    run.at(0.0)
    assert run.at(1.0, Abort("drain")).cancels == []
    assert run.at(2.0, Abort("cancel")).cancels == [0, 1]
    assert run.at(3.0, Abort("cancel")).cancels == []


def test_a_good_answer_that_beats_the_cancelling_counts() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, Abort("cancel"))
    step = run.at(1.1, ok(0))
    assert step.ended == {0: "succeeded"}
    assert step.done == "aborted"


def test_a_failure_of_an_attempt_being_cancelled_is_not_held_against_unit_or_lane() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, Abort("cancel"))
    step = run.at(1.1, failed(0, Kind.AUTH, "aborted by us"))
    assert step.told == []
    assert step.requeues[0].reason == "interrupted"


def test_an_abort_with_nothing_in_flight_is_the_end() -> None:
    run = Run(units(5))
    run.held(50.0, "closed").at(0.0)
    assert run.at(1.0, Abort("drain")).done == "aborted"


def test_an_abort_ends_a_paused_run() -> None:
    run = Run(units(5))
    run.at(0.0, Pause())
    assert run.at(1.0, Abort("drain")).done == "aborted"


def test_an_abort_before_the_first_start_starts_nothing() -> None:
    step = Run(units(5)).at(0.0, Abort("drain"))
    assert step.started == []
    assert step.done == "aborted"


# -- cancelling a unit --------------------------------------------------------------------------------


def assert_cancelled(run: Run, index: int, now: float) -> None:
    """The unit ends as cancelled, at once and for good."""
    step = run.at(now, CancelUnit(index))
    assert step.ended[index] == "cancelled"
    assert step.finish_of(index).code == "interrupted"
    assert index not in [finish.unit.index for _, later in play(run, good) for finish in later.finishes]


def test_cancelling_a_queued_unit() -> None:
    run = Run(units(3), lane_spec(limits=LaneLimits(max_concurrency=1)))
    run.held(5.0, "closed").at(0.0)
    assert_cancelled(run, 1, 1.0)


def test_cancelling_a_delayed_unit() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.RATE, retry_after_s=50.0))
    step = run.at(2.0, CancelUnit(0))
    assert step.ended == {0: "cancelled"}
    assert step.done == "complete"


def test_cancelling_a_unit_that_waits_for_others() -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "a", after=(0,))])
    run.at(0.0)
    assert run.at(1.0, CancelUnit(1)).ended == {1: "cancelled"}
    step = run.at(2.0, ok(0))
    assert step.started == []
    assert step.done == "complete"


def test_cancelling_a_unit_in_flight() -> None:
    run = Run(units(2), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    step = run.at(1.0, CancelUnit(0))
    assert step.cancels == [0]
    assert step.finishes == []
    assert run.lane().in_flight == 1
    last = run.at(1.1, Cancelled(0))
    assert last.ended == {0: "cancelled"}
    assert last.started == [1]


def test_an_attempt_is_cancelled_once() -> None:
    run = Run(units(1))
    run.at(0.0)
    assert run.at(1.0, CancelUnit(0)).cancels == [0]
    assert run.at(1.1, CancelUnit(0)).cancels == []


def test_a_failure_that_beats_the_cancelling_cancels_all_the_same() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, CancelUnit(0))
    assert run.at(1.1, failed(0, Kind.TRANSIENT)).ended == {0: "cancelled"}


def test_cancelling_a_unit_that_has_not_been_read_yet() -> None:
    n = 3 * BATCH
    run = Run(units(n), lane_spec(limits=ONE_BY_ONE))
    assert run.at(0.0, CancelUnit(n - 1)).finishes == []
    steps = play(run, lambda start, now: (0.1, ok(start.unit.index)), ok(0))
    ended = {index: status for _, step in steps for index, status in step.ended.items()}
    assert ended[n - 1] == "cancelled"
    assert n - 1 not in [start.unit.index for _, step in steps for start in step.starts]
    assert steps[-1][1].done == "complete"


def test_cancelling_a_finished_unit_does_nothing() -> None:
    run = Run(units(2), lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    run.at(1.0, ok(0))
    step = run.at(2.0, CancelUnit(0))
    assert step.finishes == []
    assert step.cancels == []


def test_cancelling_the_last_unit_completes_the_run() -> None:
    run = Run(units(1))
    run.held(50.0, "closed").at(0.0)
    step = run.at(1.0, CancelUnit(0))
    assert step.ended == {0: "cancelled"}
    assert step.done == "complete"


def test_an_attempt_that_was_cancelled_from_outside_is_requeued() -> None:
    run = Run(units(1))
    run.at(0.0)
    step = run.at(1.0, Cancelled(0))
    assert step.requeues[0].not_before == 1.0
    assert step.started == [0]


@pytest.mark.parametrize("cap", [0, 1])
def test_a_cancelled_unit_gives_everything_back(cap: int) -> None:
    run = Run(
        units(3),
        lane_spec(limits=LaneLimits(max_concurrency=1)),
        settings=Settings(concurrency=cap, max_cost_usd=9.0),
    )
    run.at(0.0)
    run.at(1.0, CancelUnit(0))
    run.at(1.1, Cancelled(0))
    assert run.out == [1]
