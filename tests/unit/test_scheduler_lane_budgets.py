"""Budgets of lanes: set aside before a start, shared where several name one, and a lane that is out of money stops alone."""

from __future__ import annotations

import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, lane_spec, ok, play, units

from headway.core.events import ReopenLane
from headway.core.model import Estimate, Kind, LaneBudget, LaneLimits, LaneSpec, Settings, Unit, Usage
from headway.reason_text import notice_text, wait_text

DOLLAR = Estimate(cost_usd=1.0)


def with_lane_budgets(key: str, *lane_budgets: LaneBudget, limits: LaneLimits | None = None) -> LaneSpec:
    spec = lane_spec(key) if limits is None else lane_spec(key, limits)
    return LaneSpec(spec.key, spec.limits, spec.retry, spec.counting, lane_budgets=lane_budgets)


def spending(usd: float) -> Usage:
    return Usage(cost_usd=usd)


def test_no_more_starts_than_the_lanes_money_may_pay_for() -> None:
    run = Run(units(10, estimate=DOLLAR), with_lane_budgets("a", LaneBudget("a", 3.5)))
    step = run.at(0.0)
    assert step.started == [0, 1, 2]
    assert step.told == [], "what is in flight may turn out cheaper"


def test_a_cheaper_attempt_makes_room_for_more() -> None:
    run = Run(units(10, estimate=DOLLAR), with_lane_budgets("a", LaneBudget("a", 3.0)))
    run.at(0.0)
    assert run.at(1.0, ok(0, spending(0.1))).started == []
    assert run.at(2.0, ok(1, spending(0.1))).started == [3]


def test_a_lane_out_of_money_stops_with_the_numbers_and_others_go_on() -> None:
    run = Run(
        [*units(3, "a", estimate=DOLLAR), *units(3, "b", first=3, estimate=DOLLAR)],
        with_lane_budgets("a", LaneBudget("alpha", 1.0)),
        with_lane_budgets("b", limits=ONE_BY_ONE),
    )
    assert run.at(0.0).started == [0, 3]
    step = run.at(1.0, ok(0, spending(0.9)))
    assert step.told == ["stopped"]
    text = notice_text(step.notices[0].reason)
    assert (
        text
        == "budget: alpha has cost $0.9000 of its max_cost of $1; the next request may cost up to $1.0000"
    )
    assert step.done is None
    assert run.at(2.0, ok(3, spending(5.0))).started == [4]
    assert run.at(3.0, ok(4, spending(5.0))).started == [5]
    assert run.at(4.0, ok(5, spending(5.0))).done == "budget"


def test_lanes_that_name_the_same_budget_share_it() -> None:
    shared = LaneBudget("alpha", 2.0)
    run = Run(
        [*units(3, "a", estimate=DOLLAR), *units(3, "b", first=3, estimate=DOLLAR)],
        with_lane_budgets("a", shared, limits=ONE_BY_ONE),
        with_lane_budgets("b", shared, limits=ONE_BY_ONE),
    )
    assert run.at(0.0).started == [0, 3]
    step = run.at(1.0, ok(0, spending(1.0)))
    assert (step.started, step.told) == ([], []), "the other lane has a dollar of it in flight"
    step = run.at(2.0, ok(3, spending(0.0)))
    assert len(step.started) == 1
    step = run.at(3.0, ok(step.started[0], spending(1.0)))
    assert step.told == ["stopped", "stopped"]
    assert step.done == "budget"


def test_every_budget_of_a_lane_must_allow_a_start() -> None:
    spec = with_lane_budgets("a", LaneBudget("alpha", 9.0), LaneBudget("alpha/x", 2.0))
    assert Run(units(9, estimate=DOLLAR), spec).at(0.0).started == [0, 1]
    spec = with_lane_budgets("a", LaneBudget("alpha", 1.0), LaneBudget("alpha/x", 2.0))
    assert Run(units(9, estimate=DOLLAR), spec).at(0.0).started == [0]
    spec = with_lane_budgets("a", LaneBudget("alpha", 9.0))
    assert Run(units(9, estimate=DOLLAR), spec, settings=Settings(max_cost_usd=3.0)).at(0.0).started == [
        0,
        1,
        2,
    ]


def test_the_spending_of_earlier_runs_counts() -> None:
    run = Run(units(9, estimate=DOLLAR), with_lane_budgets("a", LaneBudget("alpha", 4.0, 2.5)))
    assert run.at(0.0).started == [0]


def test_a_lane_without_a_cent_left_ends_at_once_and_can_go_on_with_more() -> None:
    run = Run(units(2, estimate=DOLLAR), with_lane_budgets("a", LaneBudget("alpha", 4.0, 4.0)))
    step = run.at(0.0)
    assert (step.started, step.told, step.done) == ([], ["stopped"], "budget")
    run.scheduler.lane_budgets["alpha"].max_cost_usd = 6.0
    assert run.at(1.0, ReopenLane("a")).started == [0, 1]


def test_money_and_another_reason_to_stop_end_as_stopped() -> None:
    run = Run(
        [*units(2, "a", estimate=DOLLAR), *units(2, "b", first=2)],
        with_lane_budgets("a", LaneBudget("alpha", 1.0)),
        with_lane_budgets("b", limits=ONE_BY_ONE),
    )
    run.at(0.0)
    run.at(1.0, ok(0, spending(1.0)))
    assert run.at(2.0, failed(2, Kind.AUTH, "no such key")).done == "stopped"


def test_a_cheaper_unit_that_waits_for_its_next_try_keeps_the_lane_open() -> None:
    cheap = Unit(0, "a", Estimate(cost_usd=0.1), priority=1)
    run = Run(
        [cheap, *units(2, "a", first=1, estimate=DOLLAR)],
        with_lane_budgets("a", LaneBudget("alpha", 1.5), limits=ONE_BY_ONE),
    )
    assert run.at(0.0).started == [0]
    assert run.at(1.0, failed(0, Kind.TRANSIENT, usage=spending(0.1))).started == [1]
    step = run.at(1.5, ok(1, spending(1.0)))
    assert (step.started, step.told, step.done) == ([], [], None)
    assert run.at(2.0).started == [0]
    assert run.at(3.0, ok(0, spending(0.1))).done == "budget"


@pytest.mark.parametrize("actual", [0.1, 0.5, 1.0])
def test_spent_and_in_flight_together_never_pass_the_cap(actual: float) -> None:
    run = Run(units(100, estimate=DOLLAR), with_lane_budgets("a", LaneBudget("alpha", 10.0)))
    steps = play(
        run, lambda start, now: (1.0 + start.unit.index / 100.0, ok(start.unit.index, spending(actual)))
    )
    spent, out = 0.0, 0
    for _, step in steps:
        spent += actual * len(step.finishes)
        out += len(step.starts) - len(step.finishes)
        assert spent + out <= 10.0 + 1e-6
    assert steps[-1][1].done == "budget"
    assert spent > 9.0


def test_a_view_says_that_a_lane_waits_for_money() -> None:
    run = Run(units(3, estimate=DOLLAR), with_lane_budgets("a", LaneBudget("alpha", 1.0)))
    run.at(0.0)
    wait = run.view(0.0).wait
    assert wait is not None
    assert wait_text(wait) == "budget"
