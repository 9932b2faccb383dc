"""Answers that come well and do not fit: the lane takes them for successes, the unit pays an attempt."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, lane_spec, ok, units

from headway.core.events import Abort, AnswerRejected
from headway.core.model import Estimate, Kind, LaneLimits, Outcome, RetryPolicy, Settings, Unit, Usage

ONE_AT_A_TIME = lane_spec(limits=ONE_BY_ONE)


def unfit(unit: Unit, usage: Usage | None = None, *, again: bool = True) -> AnswerRejected:
    longer = msgspec.structs.replace(unit, estimate=Estimate(input_tokens=50.0, cost_usd=0.5))
    return AnswerRejected(
        unit.index, Outcome(usage=usage), "answer.n: not a number (type)", longer if again else None
    )


def test_a_repair_starts_at_once_with_the_longer_unit() -> None:
    run = Run(units(1))
    run.at(0.0)
    step = run.at(1.0, unfit(Unit(0, "a")))
    [requeue] = step.requeues
    assert (requeue.kind, requeue.reason) == (Kind.INVALID, "answer.n: not a number (type)")
    assert (step.started, step.starts[0].attempt) == ([0], 2)
    assert step.starts[0].unit.estimate.input_tokens == 50.0
    assert run.scheduler.out[0].charged[2] == 50.0
    assert run.at(2.0, ok(0)).ended == {0: "succeeded"}


def test_without_another_turn_the_unit_fails_and_the_lane_goes_on() -> None:
    run = Run(units(2), ONE_AT_A_TIME)
    run.at(0.0)
    step = run.at(1.0, unfit(Unit(0, "a"), again=False))
    assert (step.finish_of(0).status, step.finish_of(0).code) == ("failed", "invalid")
    assert step.finish_of(0).message == "answer.n: not a number (type)"
    assert step.started == [1]


def test_any_number_of_them_does_not_stop_the_lane() -> None:
    run = Run(units(100), ONE_AT_A_TIME, settings=Settings(max_identical_invalid=4))
    run.at(0.0)
    steps = [run.at(1.0 + n, unfit(Unit(n, "a"), again=False)) for n in range(99)]
    assert all(step.told == [] for step in steps)
    assert steps[-1].started == [99]


def test_one_between_refused_requests_says_that_the_lane_works() -> None:
    run = Run(units(20), ONE_AT_A_TIME, settings=Settings(max_identical_invalid=3))
    run.at(0.0)
    for index in range(18):
        event = (
            unfit(Unit(index, "a"), again=False) if index % 3 == 2 else failed(index, Kind.INVALID, "same")
        )
        assert run.at(1.0 + index, event).told == []


def test_it_spends_an_attempt() -> None:
    run = Run(units(1), lane_spec(retry=RetryPolicy(max_attempts=1)))
    run.at(0.0)
    assert run.at(1.0, unfit(Unit(0, "a"))).ended == {0: "failed"}
    run = Run(units(1), lane_spec(retry=RetryPolicy(max_attempts=2, jitter=0.0)))
    run.at(0.0)
    run.at(1.0, unfit(Unit(0, "a")))
    assert run.at(2.0, failed(0, Kind.TRANSIENT, "reset")).ended == {0: "failed"}


def test_it_closes_an_open_breaker() -> None:
    run = Run(units(30), lane_spec(limits=ONE_BY_ONE, retry=RetryPolicy(max_attempts=1)))
    step = run.at(0.0)
    now = 0.0
    while "breaker_opened" not in step.told:
        now += 1.0
        step = run.at(now, failed(step.started[0], Kind.OVERLOAD, "busy"))
    assert step.wake_at is not None
    probe = run.at(step.wake_at)
    [index] = probe.started
    assert run.at(step.wake_at + 1.0, unfit(Unit(index, "a"))).told == ["breaker_closed"]


def test_the_meters_are_settled_by_what_it_used() -> None:
    spec = lane_spec(limits=LaneLimits(tpm=60_000.0, burst_s=60.0))
    run = Run(units(1, estimate=Estimate(input_tokens=100.0, max_output_tokens=100.0)), spec)
    run.at(0.0)
    run.at(0.0, unfit(Unit(0, "a"), Usage(1000.0, 100.0), again=False))
    [meter] = run.lane().limits.meters
    assert meter.level(0.0) == pytest.approx(60_000.0 - 1100.0)


def test_the_budget_pays_for_both_turns_and_never_passes_its_cap() -> None:
    work = [Unit(0, "a", Estimate(cost_usd=0.6))]
    run = Run(work, settings=Settings(max_cost_usd=1.0))
    run.at(0.0)
    step = run.at(1.0, unfit(work[0], Usage(cost_usd=0.6)))
    assert run.scheduler.budget.spent_usd == 0.6
    assert step.started == []  # The next turn may cost 0.5, and 0.4 is left.
    assert step.done == "budget"


@pytest.mark.parametrize(("mode", "ended"), [("drain", []), ("cancel", [0])])
def test_while_a_run_ends_it_goes_back_and_nothing_starts(mode: str, ended: list[int]) -> None:
    run = Run(units(2), ONE_AT_A_TIME)
    run.at(0.0)
    assert run.at(1.0, Abort(mode)).cancels == ended  # type: ignore[arg-type]
    step = run.at(2.0, unfit(Unit(0, "a")))
    assert [requeue.unit.estimate.input_tokens for requeue in step.requeues] == [50.0]
    assert (step.started, step.done) == ([], "aborted")


def test_a_late_one_changes_nothing() -> None:
    run = Run(units(1))
    run.at(0.0)
    run.at(1.0, ok(0))
    assert run.at(2.0, unfit(Unit(0, "a"))).commands == []


def test_a_free_rejection_costs_no_attempt() -> None:
    run = Run([Unit(0, "a")], lane_spec(retry=RetryPolicy(max_attempts=1)))
    run.at(0.0)
    again = AnswerRejected(0, Outcome(), "a quote is not there", Unit(0, "a"), is_free=True)
    assert run.at(1.0, again).started == [0]
    last = AnswerRejected(0, Outcome(), "unreadable")
    assert run.at(2.0, last).ended == {0: "failed"}
