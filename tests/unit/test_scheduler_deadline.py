"""The run's deadline: what never started is reported as timed out, what is in flight is stopped."""

from __future__ import annotations

from tests.unit.drive import ONE_BY_ONE, Run, Step, failed, lane_spec, ok, units

from headway.core.events import Abort, Cancelled, CancelUnit, Pause
from headway.core.model import Kind, LaneLimits, Settings, Unit
from headway.core.scheduler import Scheduler
from headway.core.scheduling.run_end import EXPIRY_BATCH
from headway.core.unit_source import ListSource, answer

TEN = Settings(deadline_at=10.0)


def test_a_run_asks_to_be_woken_at_its_deadline() -> None:
    run = Run(units(1), settings=TEN)
    assert run.at(0.0).wake_at == 10.0


def test_a_lanes_own_instant_may_come_first() -> None:
    run = Run(units(1), settings=TEN)
    assert run.held(4.0, "closed").at(0.0).wake_at == 4.0
    late = Run(units(1), settings=TEN)
    assert late.held(40.0, "closed").at(0.0).wake_at == 10.0


def test_in_flight_work_is_stopped_and_ends_as_timed_out() -> None:
    run = Run(units(2), settings=TEN)
    run.at(0.0)
    step = run.at(10.0)
    assert step.cancels == [0, 1]
    assert step.done is None
    assert run.at(10.1, Cancelled(0)).ended == {0: "timed_out"}
    last = run.at(10.2, failed(1, Kind.TRANSIENT))
    assert last.ended == {1: "timed_out"}
    assert last.finish_of(1).code == "deadline"
    assert last.done == "deadline"


def test_a_good_answer_that_beats_the_stop_counts() -> None:
    run = Run(units(1), settings=TEN)
    run.at(0.0)
    run.at(10.0)
    step = run.at(10.1, ok(0))
    assert step.ended == {0: "succeeded"}
    assert step.done == "deadline"


def test_a_unit_that_was_sent_before_does_not_say_that_it_could_not_start() -> None:
    run = Run(units(2), lane_spec("a", ONE_BY_ONE), settings=TEN)
    run.at(0.0)
    run.at(1.0, failed(0, Kind.HOLD, retry_after_s=50.0))
    step = run.at(10.0)
    assert step.finish_of(0).message == (
        "the run's deadline passed before it could be tried again (the last attempt: hold)"
    )
    assert step.finish_of(1).message == "the run's deadline passed before it could start"


def test_units_that_never_started_are_timed_out_by_index() -> None:
    work = [*units(400, "a"), *units(400, "b", first=400), *units(400, "a", first=800)]
    run = Run(work, lane_spec("a", ONE_BY_ONE), lane_spec("b", ONE_BY_ONE), settings=TEN)
    assert run.at(0.0).started == [0, 400]
    run.at(1.0, failed(0, Kind.RATE, retry_after_s=50.0))
    step = run.at(10.0)
    reported = [finish.unit.index for finish in step.finishes]
    assert reported == [index for index in range(1200) if index != 400]
    assert {finish.status for finish in step.finishes} == {"timed_out"}
    assert {finish.code for finish in step.finishes} == {"deadline"}


def test_serial_units_that_were_never_fetched_are_timed_out_too() -> None:
    run = Run(units(2, first=3), serial=units(3), settings=TEN)
    run.at(0.0)
    step = run.at(10.0)
    assert step.ended == dict.fromkeys((1, 2, 3, 4), "timed_out")


def test_units_that_wait_for_one_in_flight_are_timed_out() -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "a", after=(0,))], settings=TEN)
    run.at(0.0)
    assert run.at(10.0).ended == {1: "timed_out"}
    last = run.at(10.1, Cancelled(0))
    assert last.ended == {0: "timed_out"}
    assert last.done == "deadline"


def test_a_job_of_any_size_is_reported_in_portions() -> None:
    n = 2 * EXPIRY_BATCH + 5
    source = ListSource(units(n))
    scheduler = Scheduler([lane_spec(limits=ONE_BY_ONE)], TEN)
    step = Step(scheduler.handle([], 10.0))
    portions = []
    while step.done is None:
        [fetch] = step.fetches
        step = Step(scheduler.handle([answer(source, fetch)], 10.0))
        portions.append(len(step.finishes))
    assert portions == [EXPIRY_BATCH, EXPIRY_BATCH, 5, 0]
    assert step.done == "deadline"


def test_nothing_starts_after_the_deadline() -> None:
    run = Run(units(5), settings=TEN)
    step = run.at(10.0)
    assert step.started == []
    assert step.done == "deadline"


def test_a_deadline_passes_while_paused_too() -> None:
    run = Run(units(2), lane_spec(limits=LaneLimits(max_concurrency=1)), settings=TEN)
    run.at(0.0)
    assert run.at(1.0, Pause()).wake_at == 10.0
    step = run.at(10.0)
    assert step.cancels == [0]
    assert step.ended == {1: "timed_out"}


def test_a_run_that_ends_before_its_deadline_is_complete() -> None:
    run = Run(units(1), settings=TEN)
    run.at(0.0)
    step = run.at(9.0, ok(0))
    assert (step.done, step.wake_at) == ("complete", None)


def test_a_deadline_reports_whole_conversations_by_index_and_with_one_code() -> None:
    work = [Unit(0, "a", leads=True), Unit(1, "a"), Unit(2, "a", after=(0,))]
    run = Run(work, settings=Settings(deadline_at=5.0))
    run.held(99.0, "closed").at(0.0)
    step = run.at(5.0)
    ends = [(finish.unit.index, str(finish.status), finish.code) for finish in step.finishes]
    assert ends == [(index, "timed_out", "deadline") for index in range(3)]


def test_a_deadline_holds_while_draining_too() -> None:
    run = Run(units(1), settings=Settings(deadline_at=5.0))
    run.at(0.0)
    assert run.at(1.0, Abort("drain")).wake_at == 5.0
    assert run.at(5.0).cancels == [0]


def test_a_unit_cancelled_before_it_was_read_stays_cancelled_at_the_deadline() -> None:
    run = Run(units(900), lane_spec(limits=ONE_BY_ONE), settings=Settings(deadline_at=5.0))
    run.at(0.0, CancelUnit(899))
    assert run.at(5.0).ended[899] == "cancelled"
