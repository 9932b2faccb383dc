"""The budget: what is in flight never passes it, and what turns out cheaper makes room again."""

from __future__ import annotations

import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, good, lane_spec, ok, play, units

from headway.core.events import Finished, SetBudget
from headway.core.model import Estimate, Kind, LaneLimits, Outcome, Settings, Unit, Usage

DOLLAR = Estimate(cost_usd=1.0)


def spending(usd: float) -> Usage:
    return Usage(cost_usd=usd)


def test_no_more_starts_than_the_money_may_pay_for() -> None:
    run = Run(units(10, estimate=DOLLAR), settings=Settings(max_cost_usd=3.5))
    step = run.at(0.0)
    assert step.started == [0, 1, 2]
    assert step.done is None


@pytest.mark.parametrize("actual", [0.1, 0.5, 1.0])
def test_spent_and_in_flight_together_never_pass_the_cap(actual: float) -> None:
    run = Run(units(100, estimate=DOLLAR), settings=Settings(max_cost_usd=10.0))
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


def test_a_cheaper_attempt_makes_room_for_more() -> None:
    run = Run(units(10, estimate=DOLLAR), settings=Settings(max_cost_usd=3.0))
    run.at(0.0)
    assert run.at(1.0, ok(0, spending(0.1))).started == []
    assert run.at(2.0, ok(1, spending(0.1))).started == [3]


def test_room_made_by_one_lane_may_be_used_by_another() -> None:
    run = Run(
        [*units(1, "a", estimate=DOLLAR), *units(3, "b", first=1, estimate=DOLLAR)],
        lane_spec("a"),
        lane_spec("b"),
        settings=Settings(max_cost_usd=2.0),
    )
    assert run.at(0.0).started == [0, 1]
    assert run.at(1.0, ok(0, spending(0.0))).started == [2]


def test_a_refused_attempt_costs_nothing() -> None:
    run = Run(units(3, estimate=DOLLAR), settings=Settings(max_cost_usd=1.0))
    assert run.at(0.0).started == [0]
    assert run.at(1.0, failed(0, Kind.RATE, retry_after_s=9.0)).started == []
    assert run.at(10.0).started == [0]


def test_a_failed_attempt_costs_what_it_used() -> None:
    run = Run(units(3, estimate=DOLLAR), settings=Settings(max_cost_usd=1.5))
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.TRANSIENT, usage=spending(0.9)))
    assert step.started == []
    assert step.done == "budget"


@pytest.mark.parametrize(("worked", "started"), [(False, [1]), (True, [])])
def test_an_answer_that_could_not_be_taken_may_have_to_be_paid_for(worked: bool, started: list[int]) -> None:
    """A request that was refused as invalid costs nothing; an answer that is too long was made."""
    run = Run(units(3, estimate=DOLLAR), settings=Settings(max_cost_usd=1.5))
    run.at(0.0)
    assert run.at(1.0, Finished(0, Outcome(Kind.INVALID, worked=worked))).started == started


def test_an_answer_without_usage_costs_its_estimate() -> None:
    run = Run(
        units(20, estimate=Estimate(cost_usd=1.0)),
        lane_spec(limits=ONE_BY_ONE),
        settings=Settings(max_cost_usd=3.0),
    )
    steps = play(run, good)
    assert sum(len(step.starts) for _, step in steps) == 3


def test_an_attempt_far_dearer_than_estimated_ends_the_starts() -> None:
    run = Run(
        units(3, estimate=DOLLAR),
        lane_spec(limits=LaneLimits(max_concurrency=1)),
        settings=Settings(max_cost_usd=9.0),
    )
    run.at(0.0)
    step = run.at(1.0, ok(0, spending(50.0)))
    assert step.started == []
    assert step.done == "budget"


def test_it_waits_for_attempts_in_flight_before_it_gives_up() -> None:
    run = Run(units(3, estimate=DOLLAR), settings=Settings(max_cost_usd=1.0))
    assert run.at(0.0).done is None
    step = run.at(1.0, ok(0, spending(1.0)))
    assert step.ended == {0: "succeeded"}
    assert step.done == "budget"


def test_a_first_unit_beyond_the_whole_budget_ends_the_run() -> None:
    run = Run([Unit(0, "a", Estimate(cost_usd=5.0))], settings=Settings(max_cost_usd=1.0))
    step = run.at(0.0)
    assert step.started == []
    assert step.done == "budget"


def test_a_budget_that_was_just_enough_ends_complete() -> None:
    run = Run(units(3, estimate=DOLLAR), settings=Settings(max_cost_usd=3.0))
    run.at(0.0)
    assert run.at(1.0, *(ok(index, spending(1.0)) for index in range(3))).done == "complete"


def test_units_that_cost_nothing_go_on_in_other_lanes() -> None:
    run = Run(
        [*units(3, "a", estimate=DOLLAR), *units(3, "b", first=3)],
        lane_spec("a"),
        lane_spec("b", LaneLimits(max_concurrency=1)),
        settings=Settings(max_cost_usd=0.5),
    )
    assert run.at(0.0).started == [3]
    assert run.at(1.0, ok(3, spending(0.0))).started == [4]
    assert run.at(2.0, ok(4, spending(0.0))).started == [5]
    assert run.at(3.0, ok(5, spending(0.0))).done == "budget"


def test_a_lane_waiting_for_the_budget_is_charged_nothing() -> None:
    limits = LaneLimits(rpm=60.0, burst_s=60.0)
    run = Run(units(3, estimate=DOLLAR), lane_spec(limits=limits), settings=Settings(max_cost_usd=1.0))
    run.at(0.0)
    run.at(0.0)
    assert run.lane().limits.meters[0].level(0.0) == pytest.approx(59.0)


def test_a_budget_used_up_by_serial_units_ends_the_run() -> None:
    serial = [Unit(0, "a", Estimate(cost_usd=2.0))]
    step = Run(units(1, first=1), serial=serial, settings=Settings(max_cost_usd=1.0)).at(0.0)
    assert step.done == "budget"


# -- answers that nothing limits ------------------------------------------------------------------------------------

#: A dollar for a thousand tokens of output.
PER_TOKEN = 0.001


def open_ended(n: int, family: str = "f", first: int = 0) -> list[Unit]:
    return [
        Unit(index, "a", chars=4, family=family, output_usd=PER_TOKEN) for index in range(first, first + n)
    ]


def answered(tokens: float) -> Usage:
    return Usage(1.0, tokens, cost_usd=PER_TOKEN * tokens)


def test_a_modest_answer_is_set_aside_until_some_were_seen() -> None:
    """1,024 tokens are $1.024: three of them fit, and no cap is used up by nothing."""
    run = Run(open_ended(200), settings=Settings(max_cost_usd=3.5))
    assert run.at(0.0).started == [0, 1, 2]


def test_few_are_in_flight_while_lengths_are_unknown_and_many_after_short_answers() -> None:
    run = Run(open_ended(200), settings=Settings(max_cost_usd=30.0))
    assert run.at(0.0).started == [0, 1, 2, 3], "the cap would not bear long answers of more"
    started, now = [0, 1, 2, 3], 0.0
    for index in range(8):
        now += 1.0
        started += run.at(now, ok(index, answered(10.0))).started
    assert len(started) == 200, "12.5 tokens are set aside now"
    view = run.view(now)
    assert view.reserve is not None
    assert (view.reserve.limited, view.reserve.output_tokens) == (False, 1024.0)
    assert view.reserve.held_s == pytest.approx(8.0)


def test_few_are_in_flight_until_this_job_confirms_earlier_lengths() -> None:
    """Answers to other questions were taken for answers to these: five tokens are set aside, and a thousand come."""
    run = Run(open_ended(150), settings=Settings(max_cost_usd=6.0))
    run.lane().unit_costs.estimator.add_outputs("f", [4.0] * 150)
    steps = play(run, lambda start, now: (1.0, ok(start.unit.index, answered(1_000.0))))
    assert steps[0][1].started == [0, 1, 2, 3]
    assert steps[-1][1].done == "budget"
    assert run.scheduler.budget.spent_usd <= 6.0 + 4.0, "at the most by the four that were out"


def test_reservations_follow_earlier_jobs_and_soon_many_are_in_flight() -> None:
    run = Run(open_ended(150), settings=Settings(max_cost_usd=6.0))
    run.lane().unit_costs.estimator.add_outputs("f", [4.0] * 150)
    steps = play(run, lambda start, now: (1.0, ok(start.unit.index, answered(4.0))))
    assert steps[-1][1].done == "complete"
    assert steps[-1][0] <= 5.0, "eight answers were enough"


def test_a_cap_that_bears_long_answers_slows_nothing_down() -> None:
    run = Run(open_ended(50), settings=Settings(max_cost_usd=5_000.0))
    assert len(run.at(0.0).started) == 50


@pytest.mark.parametrize("tokens", [1.0, 30.0, 900.0])
def test_answers_no_longer_than_those_seen_never_pass_the_cap(tokens: float) -> None:
    run = Run(open_ended(400), settings=Settings(max_cost_usd=10.0))
    steps = play(
        run, lambda start, now: (1.0 + start.unit.index / 100.0, ok(start.unit.index, answered(tokens)))
    )
    spent = sum(len(step.finishes) for _, step in steps) * PER_TOKEN * tokens
    assert spent <= 10.0
    assert steps[-1][1].done == ("complete" if 400 * tokens * PER_TOKEN < 8.0 else "budget")


def test_a_longer_answer_passes_the_cap_by_its_excess_and_stops_the_rest() -> None:
    run = Run(
        open_ended(5),
        settings=Settings(max_cost_usd=1.1),
    )
    assert run.at(0.0).started == [0]
    step = run.at(1.0, ok(0, answered(3_000.0)))
    assert (step.started, step.done) == ([], "budget")
    assert run.scheduler.budget.spent_usd == pytest.approx(3.0)


def test_a_request_that_was_never_sent_costs_nothing() -> None:
    run = Run(units(3, estimate=DOLLAR), settings=Settings(max_cost_usd=1.0))
    assert run.at(0.0).started == [0]
    step = run.at(1.0, Finished(0, Outcome(Kind.TRANSIENT, message="refused", reached=False, sent=False)))
    assert run.scheduler.budget.spent_usd == 0.0
    assert step.started == [1]


# -- what goes in ---------------------------------------------------------------------------------------------------


def texts(n: int, size: float = 1_000.0, *, open_input: bool = False) -> list[Unit]:
    """A token of input is a tenth of a cent."""
    estimate = Estimate(cost_usd=size * PER_TOKEN)
    return [
        Unit(
            index,
            "a",
            estimate,
            chars=100,
            family="f",
            input_most=size,
            input_usd=PER_TOKEN,
            open_input=open_input,
        )
        for index in range(n)
    ]


def took(tokens: float) -> Usage:
    return Usage(tokens, 1.0, cost_usd=tokens * PER_TOKEN)


@pytest.mark.parametrize("tokens", [100.0, 430.0, 1_000.0])
def test_no_text_has_more_tokens_than_bytes_so_no_cap_is_passed(tokens: float) -> None:
    run = Run(texts(200), settings=Settings(max_cost_usd=10.0))
    steps = play(run, lambda start, now: (1.0, ok(start.unit.index, took(tokens))))
    assert len(steps[0][1].started) == 10
    assert run.scheduler.budget.spent_usd <= 10.0 + 1e-9


def test_inputs_of_this_run_lower_the_reservation() -> None:
    run = Run(texts(200), settings=Settings(max_cost_usd=10.0))
    run.at(0.0)
    step = run.at(1.0, *(ok(index, took(250.0)) for index in range(8)))
    assert len(step.started) == int((10.0 - 2.0 - 2.0) / 0.5), "twice what was seen: a token for two bytes"


def test_another_text_of_the_run_with_twice_the_tokens_does_not_pass_the_cap() -> None:
    run = Run(texts(400), settings=Settings(max_cost_usd=50.0))
    steps = play(
        run, lambda start, now: (1.0, ok(start.unit.index, took(250.0 if start.unit.index < 100 else 500.0)))
    )
    assert steps[-1][1].done == "budget"
    assert run.scheduler.budget.spent_usd <= 50.0 + 1e-9


def test_one_file_goes_ahead_and_its_usage_is_reserved_for_the_next() -> None:
    """100 tokens are set aside for a file, and it has 5,000."""
    run = Run(texts(50, 100.0, open_input=True), settings=Settings(max_cost_usd=9.0))
    assert run.at(0.0).started == [0, 1, 2, 3, 4], "the cap bears five files of 1,600 tokens each"


def test_of_files_that_the_cap_would_not_bear_one_goes_ahead() -> None:
    run = Run(texts(50, 100.0, open_input=True), settings=Settings(max_cost_usd=1.5))
    assert run.at(0.0).started == [0]
    assert run.at(1.0, ok(0, took(600.0))).done == "budget", "1,200 tokens do not fit any more"
    assert run.scheduler.budget.spent_usd == pytest.approx(0.6)


def test_of_files_few_are_out_until_eight_were_seen() -> None:
    run = Run(texts(50, 100.0, open_input=True), settings=Settings(max_cost_usd=3.0))
    assert run.at(0.0).started == [0]
    assert run.at(1.0, ok(0, took(50.0))).started == [1, 2, 3, 4]
    step = run.at(2.0, *(ok(index, took(50.0)) for index in (1, 2, 3, 4)))
    assert step.started == [5, 6, 7, 8]
    assert len(run.at(3.0, *(ok(index, took(50.0)) for index in (5, 6, 7, 8))).started) == 25


def test_a_higher_cap_starts_what_had_no_room_and_a_lower_one_starts_nothing_more() -> None:
    run = Run(units(10, estimate=DOLLAR), settings=Settings(max_cost_usd=2.0))
    assert run.at(0.0).started == [0, 1]
    assert run.at(1.0, SetBudget(4.0)).started == [2, 3]
    assert run.at(2.0, SetBudget(1.0), ok(0, spending(1.0)), ok(1, spending(1.0))).started == []
    assert run.at(3.0, ok(2, spending(1.0)), ok(3, spending(1.0))).done == "budget"


def test_a_cap_that_comes_later_counts_what_is_in_flight_and_may_go_again() -> None:
    run = Run(units(10, estimate=DOLLAR), lane_spec("a", LaneLimits(max_concurrency=3)))
    assert run.at(0.0).started == [0, 1, 2]
    assert run.at(1.0, SetBudget(3.5), ok(0, spending(0.4))).started == [3]
    assert run.at(2.0, ok(1, spending(1.0))).started == []
    assert run.at(3.0, SetBudget(0.0)).started == [4]
    assert run.at(4.0, SetBudget(100.0), ok(2, spending(1.0))).started == [5]
