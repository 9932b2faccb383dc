"""How units reach the scheduler: it asks with a `Fetch`, goes on meanwhile, and takes what `Units` brings."""

from __future__ import annotations

from tests.unit.drive import ONE_BY_ONE, Run, Step, lane_spec, ok, units

from headway.core.commands import Fetch, FetchRest, FetchSerial
from headway.core.events import (
    Abort,
    Cancelled,
    CancelUnit,
    Event,
    ExtraUnits,
    MoreWork,
    Pause,
    RestUnits,
    Resume,
    SerialUnits,
    Units,
)
from headway.core.invariants import check
from headway.core.lanes.queueing.stock import BATCH, LOW, MOST_LOW, Stock
from headway.core.model import LaneSpec, Settings, Unit
from headway.core.scheduler import Scheduler


class Hand:
    """A scheduler whose fetches a test answers by hand."""

    def __init__(self, *lanes: LaneSpec, settings: Settings | None = None) -> None:
        self.scheduler = Scheduler(lanes or (lane_spec(),), settings)
        first = self.at(0.0)
        assert first.fetches == [FetchSerial(1)]

    def at(self, now: float, *events: Event) -> Step:
        step = Step(self.scheduler.handle(events, now))
        check(self.scheduler)
        return step


def past_serial(*lanes: LaneSpec, settings: Settings | None = None) -> tuple[Hand, Step]:
    """A run without serial units, and its first fetches."""
    hand = Hand(*lanes, settings=settings)
    return hand, hand.at(0.0, SerialUnits(()))


def test_each_lane_fetches_its_own_units_at_the_start() -> None:
    _, step = past_serial(lane_spec("a"), lane_spec("b"))
    assert step.fetches == [Fetch("a", BATCH), Fetch("b", BATCH)]
    assert (step.started, step.done) == ([], None)


def test_units_start_when_they_come_and_more_are_fetched_before_they_run_out() -> None:
    hand, _ = past_serial(lane_spec(limits=ONE_BY_ONE))
    step = hand.at(1.0, Units("a", units(LOW + 1), more=True))
    assert (step.started, step.fetches) == ([0], [])
    assert hand.at(2.0, ok(0)).fetches == [Fetch("a", BATCH)]


def test_a_lane_has_one_fetch_under_way_and_starts_what_it_has_meanwhile() -> None:
    hand, _ = past_serial()
    step = hand.at(1.0, Units("a", units(10), more=True))
    assert len(step.started) == 10
    assert step.fetches == [Fetch("a", BATCH)]
    step = hand.at(2.0, ok(0))
    assert (step.fetches, step.done) == ([], None)


def test_nothing_is_fetched_after_the_last_units() -> None:
    hand, _ = past_serial()
    assert hand.at(1.0, Units("a", units(1), more=False)).fetches == []
    assert hand.at(2.0, ok(0)).done == "complete"


def test_the_end_waits_for_a_fetch() -> None:
    hand, _ = past_serial()
    hand.at(1.0, Units("a", units(1), more=True))
    assert hand.at(2.0, ok(0)).done is None
    assert hand.at(3.0, Units("a", (), more=False)).done == "complete"


def test_more_work_during_a_fetch_is_fetched_after_it() -> None:
    hand, _ = past_serial()
    hand.at(1.0, MoreWork("a"))
    step = hand.at(2.0, Units("a", (), more=False))
    assert (step.fetches, step.done) == ([Fetch("a", BATCH)], None)


def test_a_unit_cancelled_while_it_is_fetched_ends_when_it_comes() -> None:
    hand, _ = past_serial()
    hand.at(1.0, CancelUnit(0))
    step = hand.at(2.0, Units("a", units(2), more=False))
    assert (step.ended, step.started) == ({0: "cancelled"}, [1])


def test_a_unit_that_ended_comes_again_out_of_turn_also_while_its_old_entry_is_queued() -> None:
    hand, _ = past_serial(lane_spec(limits=ONE_BY_ONE))
    hand.at(1.0, Units("a", units(3), more=False))
    assert hand.at(2.0, CancelUnit(2)).ended == {2: "cancelled"}
    assert hand.at(3.0, ExtraUnits(units(3)[2:])).done is None
    assert hand.at(4.0, ok(0)).started == [1]
    assert hand.at(5.0, ok(1)).started == [2]
    assert hand.at(6.0, ok(2)).done == "complete"


def test_units_that_were_skipped_wait_again_for_the_unit_that_comes_again() -> None:
    first, second = Unit(0, "a", leads=True), Unit(1, "a", after=(0,))
    hand, _ = past_serial()
    hand.at(1.0, Units("a", (first, second), more=False))
    assert hand.at(2.0, CancelUnit(0), Cancelled(0)).ended == {0: "cancelled", 1: "skipped"}
    assert hand.scheduler.done
    assert hand.at(3.0, ExtraUnits((first, second))).started == [0]
    assert hand.at(4.0, ok(0)).started == [1]
    assert hand.at(5.0, ok(1)).done == "complete"


def test_an_end_without_units_out_of_turn_is_reported_again() -> None:
    hand, _ = past_serial()
    hand.at(1.0, Units("a", units(1), more=False))
    assert hand.at(2.0, ok(0)).done == "complete"
    assert hand.at(3.0).done is None
    assert hand.at(4.0, ExtraUnits(())).done == "complete"


def test_units_that_come_during_a_pause_wait_for_its_end() -> None:
    hand, _ = past_serial()
    assert hand.at(1.0, Pause(), Units("a", units(1), more=False)).started == []
    assert hand.at(2.0, Resume()).started == [0]


def test_an_aborted_run_does_not_wait_for_its_fetches() -> None:
    hand, _ = past_serial()
    assert hand.at(1.0, Abort()).done == "aborted"
    assert hand.at(2.0, Units("a", units(1), more=False)).started == []


def test_a_deadline_reports_units_that_were_being_fetched() -> None:
    hand, _ = past_serial(settings=Settings(deadline_at=5.0))
    assert hand.at(5.0).fetches == []
    step = hand.at(6.0, Units("a", units(2), more=True))
    [rest] = step.fetches
    assert isinstance(rest, FetchRest)
    step = hand.at(7.0, RestUnits(units(1, first=2)))
    assert step.ended == dict.fromkeys((0, 1, 2), "timed_out")
    assert hand.at(8.0, RestUnits(())).done == "deadline"


def test_serial_units_are_fetched_one_by_one() -> None:
    hand = Hand()
    step = hand.at(1.0, SerialUnits(units(1)))
    assert (step.started, step.fetches) == ([0], [])
    assert hand.at(2.0, ok(0)).fetches == [FetchSerial(1)]
    assert hand.at(3.0, SerialUnits(())).fetches == [Fetch("a", BATCH)]


def test_a_fast_lane_keeps_a_larger_stock() -> None:
    stock = Stock()
    stock.fetched(1_000.0, more=True)
    assert (stock.low, stock.batch) == (500, 500)
    stock.fetched(1e6, more=True)
    assert stock.low == MOST_LOW


def test_a_feeder_answers_everything_within_one_call() -> None:
    run = Run(units(3 * BATCH))
    assert len(run.at(0.0).started) == 3 * BATCH
