"""The deadline of a unit in the queue: `max_wait`."""

from __future__ import annotations

from tests.unit.drive import Run, failed, lane_spec, ok, units

from headway.core.model import Kind, LaneLimits, Settings, Unit
from headway.core.unit_states import Status

ONE = LaneLimits(max_concurrency=1)


def test_units_that_have_not_started_in_time_end() -> None:
    run = Run(units(3), lane_spec(limits=ONE), settings=Settings(max_wait_s=10.0))
    assert run.at(0.0).started == [0]
    assert not run.at(9.9).finishes
    step = run.at(10.0)
    assert [(end.unit.index, end.status, end.code) for end in step.finishes] == [
        (1, Status.TIMED_OUT, "deadline"),
        (2, Status.TIMED_OUT, "deadline"),
    ]
    assert "max_wait" in step.finishes[0].message
    last = run.at(20.0, ok(0))
    assert [end.status for end in last.finishes] == [Status.SUCCEEDED], "what is in flight goes on"
    assert last.done == "deadline"


def test_the_scheduler_wakes_up_when_the_first_unit_has_waited_too_long() -> None:
    run = Run(units(2), lane_spec(limits=ONE), settings=Settings(max_wait_s=10.0))
    assert run.at(0.0).wake_at == 10.0


def test_a_unit_that_has_started_may_wait_for_its_next_attempt() -> None:
    run = Run(units(1), lane_spec(limits=ONE), settings=Settings(max_wait_s=10.0))
    run.at(0.0)
    run.at(9.0, failed(0, Kind.RATE, retry_after_s=30.0))
    assert not run.at(12.0).finishes
    assert len(run.at(39.0).started) == 1


def test_a_unit_that_waits_for_another_is_ready_when_that_has_succeeded() -> None:
    work = [Unit(0, "a", leads=True), Unit(1, "a", after=(0,)), Unit(2, "a")]
    run = Run(work, lane_spec(limits=ONE), settings=Settings(max_wait_s=10.0))
    run.at(0.0)
    step = run.at(50.0, ok(0))
    assert [end.unit.index for end in step.finishes] == [0, 2]
    assert step.started == [1]


def test_units_end_in_time_also_under_the_global_cap() -> None:
    work = [*units(1, "a"), *units(2, "b", first=1)]
    run = Run(work, lane_spec("a"), lane_spec("b"), settings=Settings(concurrency=1, max_wait_s=10.0))
    run.at(0.0)
    assert [end.unit.index for end in run.at(10.0).finishes] == [1, 2]
