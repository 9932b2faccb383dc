"""Units whose requests are made from the answers of other units, when their turn comes."""

from __future__ import annotations

from tests.unit.drive import ONE_BY_ONE, Run, failed, lane_spec, ok, units

from headway.core.events import CancelUnit, Pause, Rendered, ReopenLane, Resume
from headway.core.model import Estimate, Kind, LaneLimits, Settings, Unit
from headway.core.reasons import WaitCode

LEADER = Unit(0, "a", leads=True)


def follower(index: int = 1, *, leads: bool = False, lane: str = "a", usd: float = 0.0) -> Unit:
    return Unit(index, lane, Estimate(cost_usd=usd), after=(0,), leads=leads, late=True)


def made(unit: Unit, *, tokens: float = 0.0, usd: float = 0.0) -> Rendered:
    """Its request is made, and is so large."""
    known = Unit(unit.index, unit.lane, Estimate(tokens, cost_usd=usd), after=unit.after, leads=unit.leads)
    return Rendered(unit.index, known)


def test_a_request_is_made_once_its_upstream_has_succeeded_and_then_sent() -> None:
    run = Run([LEADER, follower()])
    assert run.at(0.0).renders == []
    step = run.at(1.0, ok(0))
    assert (step.renders, step.started, step.done) == ([1], [], None)
    assert run.at(2.0, made(follower())).started == [1]
    assert run.at(3.0, ok(1)).done == "complete"


def test_a_unit_whose_request_is_being_made_holds_nothing() -> None:
    run = Run([LEADER, follower(), Unit(2, "a")], lane_spec(limits=ONE_BY_ONE))
    run.at(0.0)
    step = run.at(1.0, ok(0))
    assert (step.renders, step.started) == ([1], [2])
    assert run.lane().in_flight == 1


def test_a_late_unit_that_waits_for_nothing_in_this_run_is_made_at_once() -> None:
    unit = Unit(7, "a", late=True)
    run = Run([unit])
    assert run.at(0.0).renders == [7]
    assert run.at(1.0, made(unit)).started == [7]


def test_money_is_set_aside_for_the_real_request() -> None:
    """What the row itself would cost fits the cap; what is sent does not, and so it is not sent."""
    run = Run([LEADER, follower(usd=0.1)], settings=Settings(max_cost_usd=1.0))
    run.at(0.0)
    assert run.at(1.0, ok(0)).renders == [1]
    step = run.at(2.0, made(follower(), usd=1.5))
    assert (step.started, step.done) == ([], "budget")


def test_a_request_that_came_out_too_large_for_its_lane_fails_with_the_numbers() -> None:
    run = Run([LEADER, follower()], lane_spec(limits=LaneLimits(tpm=1000.0)))
    run.at(0.0)
    run.at(1.0, ok(0))
    step = run.at(2.0, made(follower(), tokens=5000.0))
    finish = step.finish_of(1)
    assert (finish.status, finish.code) == ("failed", Kind.TOO_LARGE)
    assert "5,000" in finish.message


def test_a_guess_that_is_too_large_does_not_fail_a_unit() -> None:
    guess = Unit(1, "a", Estimate(5000.0), after=(0,), late=True)
    run = Run([LEADER, guess], lane_spec(limits=LaneLimits(tpm=1000.0)))
    run.at(0.0)
    assert run.at(1.0, ok(0)).renders == [1]
    assert run.at(2.0, made(guess, tokens=10.0)).started == [1]


def test_a_request_that_cannot_be_made_fails_its_unit_and_those_that_wait_for_it() -> None:
    run = Run([LEADER, follower(leads=True), Unit(2, "a", after=(1,), late=True)])
    run.at(0.0)
    run.at(1.0, ok(0))
    step = run.at(2.0, Rendered(1, None, "the answer has no text"))
    assert step.ended == {1: "failed", 2: "skipped"}
    assert step.finish_of(1).code == Kind.INVALID
    assert step.finish_of(1).message == "the answer has no text"
    assert step.done == "complete"


def test_no_request_is_made_for_a_unit_whose_upstream_failed() -> None:
    run = Run([LEADER, follower()])
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.INVALID))
    assert (step.renders, step.ended) == ([], {0: "failed", 1: "skipped"})


def test_only_as_many_requests_are_made_as_may_start() -> None:
    late = [follower(index) for index in range(1, 10)]
    run = Run([LEADER, *late], lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    assert run.at(1.0, ok(0)).renders == [1, 2]
    step = run.at(2.0, made(late[0]))
    assert (step.started, step.renders) == ([1], [])
    step = run.at(3.0, made(late[1]))
    assert (step.started, step.renders) == ([2], [3])
    assert run.at(4.0, ok(1)).renders == []


def test_requests_are_made_in_other_lanes_too() -> None:
    run = Run([LEADER, follower(1, lane="b")], lane_spec("a"), lane_spec("b"))
    run.at(0.0)
    assert run.at(1.0, ok(0)).renders == [1]
    assert run.at(2.0, made(follower(1, lane="b"))).started == [1]


def test_one_that_is_cancelled_while_its_request_is_made_is_not_sent() -> None:
    run = Run([LEADER, follower()])
    run.at(0.0)
    run.at(1.0, ok(0))
    assert run.at(2.0, CancelUnit(1)).ended == {1: "cancelled"}
    step = run.at(3.0, made(follower()))
    assert (step.started, step.done) == ([], "complete")


def test_the_deadline_catches_units_whose_requests_are_being_made() -> None:
    run = Run([LEADER, follower()], settings=Settings(deadline_at=5.0))
    run.at(0.0)
    run.at(1.0, ok(0))
    assert run.at(5.0).ended == {1: "timed_out"}
    assert run.at(6.0, made(follower())).started == []


def test_a_request_that_is_made_during_a_pause_is_sent_after_it() -> None:
    run = Run([LEADER, follower()])
    run.at(0.0)
    run.at(1.0, ok(0))
    run.at(2.0, Pause())
    assert run.at(3.0, made(follower())).started == []
    assert run.at(4.0, Resume()).started == [1]


def test_a_held_lane_keeps_the_request_until_it_opens() -> None:
    run = Run([LEADER, follower()])
    run.at(0.0)
    run.at(1.0, ok(0))
    step = run.held(9.0).at(2.0, made(follower()))
    assert (step.started, step.wake_at) == ([], 9.0)
    assert run.at(9.0).started == [1]


def test_a_lane_that_stops_while_a_request_is_made_goes_on_when_it_is_reopened() -> None:
    run = Run([LEADER, follower(), *units(1, first=2)])
    assert run.at(0.0).started == [0, 2]
    run.at(1.0, ok(0))
    assert run.at(2.0, failed(2, Kind.AUTH, "no key")).done == "stopped"
    assert run.at(3.0, made(follower())).started == []
    assert run.at(4.0, ReopenLane("a")).started == [1], "one goes ahead of the other"
    assert run.at(5.0, ok(1)).started == [2]


def test_a_serial_run_makes_one_request_after_the_other() -> None:
    run = Run([], serial=[LEADER, follower(), *units(1, first=2)])
    assert run.at(0.0).started == [0]
    step = run.at(1.0, ok(0))
    assert (step.renders, step.started) == ([1], [])
    assert run.at(2.0, made(follower())).started == [1]
    assert run.at(3.0, ok(1)).started == [2]


def test_the_wait_for_a_request_has_a_name() -> None:
    run = Run([LEADER, follower()])
    run.at(0.0)
    run.at(1.0, ok(0))
    wait = run.view(1.5).wait
    assert wait is not None
    assert wait.code is WaitCode.OTHER_UNITS


# -- many that wait ------------------------------------------------------------------------------------------------


def test_a_lane_reads_on_now_and_then_while_thousands_wait_for_an_answer_that_is_under_way() -> None:
    """The writer is in another lane: its readers fill the memory slowly, and a unit behind them that waits for nothing is found."""
    readers = [Unit(index, "b", after=(0,)) for index in range(1, 12_001)]
    run = Run([LEADER, *readers, Unit(12_001, "b")], lane_spec("a"), lane_spec("b"))
    run.at(0.0)
    fetched = run.scheduler.waiting.count
    assert 10_000 < fetched < 10_500, "the first ones are read at once"
    step = run.at(0.05)
    assert (step.started, step.wake_at) == ([], 0.1)
    assert run.scheduler.waiting.count == fetched
    now, started = 0.0, list[int]()
    while not started:
        now += 0.1
        step = run.at(now)
        started = step.started
    assert started == [12_001]
    assert 1.0 < now < 2.0
    assert len(run.at(now + 1.0, ok(0)).started) > 0


def test_a_lane_reads_on_at_once_where_nothing_is_under_way() -> None:
    """What all of them wait for may be behind them."""
    readers = [Unit(index, "b", after=(30_000,), priority=1) for index in range(1, 12_001)]
    run = Run([*readers, Unit(30_000, "b", leads=True)], lane_spec("a"), lane_spec("b"))
    assert run.at(0.0).started == [30_000]
