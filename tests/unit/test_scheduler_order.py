"""Serial units, conversations, registers, and what happens to those that build on a unit that failed."""

from __future__ import annotations

import pytest
from tests.unit.drive import UNLIMITED, Run, failed, good, lane_spec, ok, play, started_at, units

from headway.core.events import CancelUnit, ReopenLane
from headway.core.gates import Gates
from headway.core.lanes.lane_memory import LaneRecord, import_lane
from headway.core.model import Estimate, Kind, LaneLimits, RetryPolicy, Settings, Unit

BOTH = (lane_spec("a"), lane_spec("b"))


# -- serial units -------------------------------------------------------------------------------------


def test_serial_units_run_one_by_one_before_all_others_in_every_lane() -> None:
    run = Run(units(3, "a", first=2), *BOTH, serial=[Unit(0, "b"), Unit(1, "a")])
    assert run.at(0.0).started == [0]
    assert run.at(1.0, ok(0)).started == [1]
    assert run.at(2.0, ok(1)).started == [2, 3, 4]


def test_a_serial_unit_that_is_retried_is_still_waited_for() -> None:
    run = Run(units(2, first=2), serial=units(2))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.TRANSIENT))
    assert (step.started, step.wake_at) == ([], 2.0)
    assert run.at(2.0).started == [0]
    assert run.at(3.0, ok(0)).started == [1]
    assert run.at(4.0, ok(1)).started == [2, 3]


def test_the_next_serial_unit_goes_after_one_that_failed() -> None:
    run = Run([], serial=units(2))
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.INVALID)).started == [1]
    assert run.at(2.0, ok(1)).done == "complete"


def test_a_serial_unit_that_can_never_fit_blocks_no_other() -> None:
    large = Unit(0, "a", Estimate(input_tokens=500.0))
    run = Run([], lane_spec(limits=LaneLimits(tpm=100.0)), serial=[large, Unit(1, "a")])
    step = run.at(0.0)
    assert step.ended == {0: "failed"}
    assert step.started == [1]


def test_a_serial_unit_of_a_stopped_lane_blocks_no_other() -> None:
    run = Run(units(2, "b", first=2), *BOTH, serial=[Unit(0, "a"), Unit(1, "b")])
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.QUOTA)).started == [1]
    assert run.at(2.0, ok(1)).started == [2, 3]
    assert run.at(3.0, ok(2), ok(3)).done == "stopped"


def test_a_serial_unit_waits_for_its_lane_and_the_others_wait_for_it() -> None:
    run = Run(units(2, "b", first=1), *BOTH, serial=[Unit(0, "a")])
    step = run.held(5.0, "closed").at(0.0)
    assert (step.started, step.wake_at) == ([], 5.0)
    assert run.at(5.0).started == [0]


def test_cancelling_the_serial_unit_that_everybody_waits_for_lets_them_go() -> None:
    run = Run(units(2, "b", first=1), *BOTH, serial=[Unit(0, "a")])
    run.held(500.0, "closed").at(0.0)
    step = run.at(1.0, CancelUnit(0))
    assert step.ended == {0: "cancelled"}
    assert step.started == [1, 2]


def test_a_run_of_serial_units_only_is_complete_after_the_last() -> None:
    steps = play(Run([], serial=units(5)), good)
    assert [index for _, index in started_at(steps)] == [0, 1, 2, 3, 4]
    assert steps[-1][1].done == "complete"


# -- conversations and registers ----------------------------------------------------------------------


def conversations(n: int, turns: int) -> list[Unit]:
    """`n` conversations, their turns taking it in turn in the input."""
    gates = Gates()
    return [
        Unit(index, "a", after=gates.waits(index, conversation=f"c{index % n}").indices, leads=True)
        for index in range(n * turns)
    ]


def test_a_conversation_goes_turn_by_turn_and_conversations_side_by_side() -> None:
    run = Run(conversations(3, 3))
    assert run.at(0.0).started == [0, 1, 2]
    assert run.at(1.0, ok(1)).started == [4]
    assert run.at(2.0, ok(4)).started == [7]
    assert run.at(3.0, ok(0), ok(2)).started == [3, 5]


def test_a_turn_waits_through_the_retries_of_the_turn_before() -> None:
    run = Run(conversations(1, 2))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.TRANSIENT))
    assert run.at(2.0).started == [0]
    assert run.at(3.0, ok(0)).started == [1]


def test_a_reader_waits_for_its_latest_lower_writer_and_nothing_else_waits() -> None:
    gates = Gates()
    rows: list[tuple[list[str], list[str]]] = [
        ([], ["r"]),
        ([], ["r"]),
        (["r"], []),
        ([], ["r"]),
        (["r"], []),
    ]
    work = [
        Unit(index, "a", after=gates.waits(index, reads=reads, writes=writes).indices, leads=bool(writes))
        for index, (reads, writes) in enumerate(rows)
    ]
    run = Run(work)
    assert run.at(0.0).started == [0, 1, 3]
    assert run.at(1.0, ok(0)).started == []
    assert run.at(2.0, ok(3)).started == [4]
    assert run.at(3.0, ok(1)).started == [2]


def test_a_unit_may_wait_for_one_in_another_lane() -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "b", after=(0,))], *BOTH)
    assert run.at(0.0).started == [0]
    assert run.at(1.0, ok(0)).started == [1]


def test_a_unit_that_waits_for_others_occupies_nothing() -> None:
    work = [Unit(0, "a", leads=True), Unit(1, "a", after=(0,)), Unit(2, "a")]
    run = Run(work, lane_spec(limits=LaneLimits(max_concurrency=2)))
    assert run.at(0.0).started == [0, 2]


def test_followers_far_behind_in_the_source_are_found_when_their_turn_comes() -> None:
    chain = [Unit(index, "a", after=(index - 1,) if index else (), leads=True) for index in range(500)]
    steps = play(Run(chain), good)
    assert [index for _, index in started_at(steps)] == list(range(500))
    assert steps[-1][1].done == "complete"


# -- upstream failures --------------------------------------------------------------------------------


def test_a_failure_skips_all_that_builds_on_it_however_far() -> None:
    work = [
        Unit(0, "a", leads=True),
        Unit(1, "a", after=(0,), leads=True),
        Unit(2, "b", after=(1,), leads=True),
        Unit(3, "b", after=(2,)),
        Unit(4, "b"),
    ]
    run = Run(work, *BOTH)
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.INVALID, "bad"))
    assert step.ended == {0: "failed", 1: "skipped", 2: "skipped", 3: "skipped"}
    assert {step.finish_of(index).code for index in (1, 2, 3)} == {"upstream_failed"}
    assert [step.finish_of(index).upstream for index in (1, 2, 3)] == [0, 1, 2]
    assert run.at(2.0, ok(4)).done == "complete"


def test_followers_that_are_read_after_the_failure_are_skipped_too() -> None:
    tail = [Unit(index, "a", after=(0,)) for index in range(300, 305)]
    run = Run(
        [Unit(0, "a", leads=True), *units(299, first=1), *tail],
        lane_spec(limits=LaneLimits(max_concurrency=1)),
    )
    steps = play(
        run,
        lambda start, now: (1.0, failed(0, Kind.INVALID) if start.unit.index == 0 else ok(start.unit.index)),
    )
    ended = {index: status for _, step in steps for index, status in step.ended.items()}
    assert [ended[index] for index in range(300, 305)] == ["skipped"] * 5
    assert ended[299] == "succeeded"
    assert steps[-1][1].done == "complete"


@pytest.mark.parametrize("second_fails", [True, False])
def test_one_failed_upstream_of_two_is_enough(second_fails: bool) -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "a", leads=True), Unit(2, "a", after=(0, 1))])
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.INVALID)).ended == {0: "failed", 2: "skipped"}
    last = run.at(2.0, failed(1, Kind.INVALID) if second_fails else ok(1))
    assert 2 not in last.ended
    assert last.done == "complete"


def test_a_timed_out_upstream_skips_its_followers() -> None:
    run = Run(
        [Unit(0, "a", leads=True), Unit(1, "a", after=(0,))], lane_spec(retry=RetryPolicy(max_attempts=1))
    )
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.TIMEOUT)).ended == {0: "timed_out", 1: "skipped"}


def test_a_cancelled_upstream_skips_its_followers() -> None:
    run = Run(
        [Unit(0, "a", leads=True), Unit(1, "b", after=(0,))],
        lane_spec("a", LaneLimits(rpm=60)),
        lane_spec("b"),
    )
    run.held(100.0, "closed").at(0.0)
    assert run.at(1.0, CancelUnit(0)).ended == {0: "cancelled", 1: "skipped"}


def test_followers_of_a_lane_that_stopped_stay_pending_and_go_on_when_it_reopens() -> None:
    run = Run([Unit(0, "a", leads=True), Unit(1, "b", after=(0,))], lane_spec("a", UNLIMITED), lane_spec("b"))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.AUTH, "no key"))
    assert step.finishes == []
    assert step.done == "stopped"
    assert run.at(2.0, ReopenLane("a")).started == [0]
    assert run.at(3.0, ok(0)).started == [1]
    assert run.at(4.0, ok(1)).done == "complete"


def test_a_long_conversation_whose_first_turn_fails_is_skipped() -> None:
    turns = [Unit(index, "a", after=(index - 1,) if index else (), leads=True) for index in range(2000)]
    run = Run(turns)
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.INVALID))
    assert len(step.finishes) == 2000


def test_a_serial_unit_whose_lane_is_parked_by_a_recorded_hold_blocks_no_other() -> None:
    run = Run(
        units(2, "b", first=1),
        lane_spec("a"),
        lane_spec("b"),
        serial=[Unit(0, "a")],
        settings=Settings(max_hold_s=60.0),
    )
    import_lane(run.lane("a"), LaneRecord("a", 0.0, 36_000.0, "resets at four"), 0.0, 0.0)
    assert run.at(0.0).started == [1, 2]
