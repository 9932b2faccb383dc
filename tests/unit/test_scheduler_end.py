"""The end of a run: reported once, with the right reason; and at most one wake-up in every step."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.drive import ONE_BY_ONE, Run, failed, good, lane_spec, ok, play, units

from headway.core.commands import Start, Wake
from headway.core.events import Abort, CancelUnit, Finished, MoreWork
from headway.core.model import Estimate, Kind, LaneLimits, Outcome, Settings, Usage


def test_the_end_is_reported_once() -> None:
    run = Run(units(2))
    run.at(0.0)
    assert run.at(1.0, ok(0), ok(1)).done == "complete"
    for second in (2.0, 3.0):
        assert run.at(second, ok(0)).commands == []


def test_an_event_that_brings_no_work_does_not_end_the_run_a_second_time() -> None:
    run = Run(units(1))
    run.at(0.0)
    assert run.at(1.0, ok(0)).done == "complete"
    assert run.held(50.0, "closed").at(2.0).done is None


def test_work_that_comes_after_the_end_ends_again_though_the_run_was_aborted() -> None:
    """A job that grows does not end when the last unit has, if that adds another. Then a signal arrives."""
    run = Run(units(1))
    run.at(0.0)
    assert run.at(1.0, ok(0)).done == "complete"
    assert run.at(1.1, Abort("drain"), MoreWork("a")).done == "aborted"
    assert run.at(1.2, Abort("cancel")).done is None


def test_the_end_comes_after_the_last_result() -> None:
    run = Run(units(1))
    run.at(0.0)
    step = run.at(1.0, ok(0))
    assert len(step.commands) == 2
    assert step.commands[0] == step.finish_of(0)


def test_failed_units_do_not_make_a_run_incomplete() -> None:
    run = Run(units(1))
    run.at(0.0)
    assert run.at(1.0, failed(0, Kind.INVALID)).done == "complete"


def test_one_stopped_lane_with_work_left_makes_the_run_stopped() -> None:
    run = Run([*units(1, "a"), *units(1, "b", first=1)], lane_spec("a"), lane_spec("b"))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.AUTH, "no key"))
    assert run.at(2.0, ok(1)).done == "stopped"


def test_a_stopped_lane_without_work_does_not() -> None:
    run = Run([*units(1, "a"), *units(1, "b", first=1)], lane_spec("a"), lane_spec("b"))
    run.at(0.0)
    run.at(1.0, failed(0, Kind.AUTH, "no key"), CancelUnit(0))
    assert run.at(2.0, ok(1)).done == "complete"


def test_a_parked_lane_is_the_reason_before_a_stopped_one() -> None:
    run = Run(
        [*units(1, "a"), *units(1, "b", first=1)],
        lane_spec("a"),
        lane_spec("b"),
        settings=Settings(max_hold_s=10.0),
    )
    run.at(0.0)
    step = run.at(1.0, failed(0, Kind.AUTH, "no key"), failed(1, Kind.HOLD, retry_after_s=99.0))
    assert step.done == "parked"


def test_no_end_while_something_is_in_flight_or_waits_for_an_instant() -> None:
    run = Run(units(2), lane_spec(limits=LaneLimits(max_concurrency=2)))
    run.at(0.0)
    assert run.at(1.0, ok(0)).done is None
    step = run.at(2.0, failed(1, Kind.TRANSIENT))
    assert (step.done, step.wake_at) == (None, 3.0)


def test_nothing_to_wake_up_for_while_only_answers_are_awaited() -> None:
    run = Run(units(2), lane_spec(limits=ONE_BY_ONE))
    assert run.at(0.0).wake_at is None


def test_the_earliest_wake_up_is_requested_and_no_other() -> None:
    run = Run(
        [*units(5, "a"), *units(5, "b", first=5)],
        lane_spec("a", LaneLimits(rpm=6.0, burst_s=0.0)),
        lane_spec("b", LaneLimits(rpm=60.0, burst_s=0.0)),
    )
    step = run.at(0.0)
    assert [command.at for command in step.commands if isinstance(command, Wake)] == [1.0]


@pytest.mark.parametrize("seed", range(12))
def test_a_run_full_of_trouble_ends_once_and_every_unit_ends_once(seed: int) -> None:
    random = Random(seed)
    kinds = [None, None, None, Kind.RATE, Kind.CONCURRENCY, Kind.OVERLOAD, Kind.TRANSIENT, Kind.TIMEOUT]
    kinds += [Kind.CRASH, Kind.INVALID, Kind.HOLD]
    estimate = Estimate(100.0, 50.0, 200.0, 0.01)
    run = Run(
        [*units(150, "a", estimate=estimate), *units(150, "b", first=150, estimate=estimate)],
        lane_spec("a", LaneLimits(rpm=600.0, tpm=100_000.0, max_concurrency=12)),
        lane_spec("b", LaneLimits()),
        settings=Settings(concurrency=random.choice([0, 9]), max_cost_usd=random.choice([0.0, 99.0])),
    )

    def answer(start: Start, now: float) -> tuple[float, Finished]:
        kind, usage = random.choice(kinds), Usage(90.0, random.uniform(0.0, 90.0), 0.0, 0.01)
        outcome = Outcome(kind, usage=usage if kind is None else None, message=f"{random.random()}")
        return random.uniform(0.05, 5.0), Finished(start.unit.index, outcome)

    steps = play(run, answer)
    ended = [finish.unit.index for _, step in steps for finish in step.finishes]
    assert sorted(ended) == list(range(300))
    assert [step.done for _, step in steps if step.done] == ["complete"]


def test_a_run_over_many_lanes_completes() -> None:
    keys = [f"lane{place}" for place in range(30)]
    work = [unit for place, key in enumerate(keys) for unit in units(20, key, first=100 * place)]
    run = Run(
        work, *(lane_spec(key, LaneLimits(rpm=60.0 + place, burst_s=1.0)) for place, key in enumerate(keys))
    )
    steps = play(run, good)
    assert steps[-1][1].done == "complete"
    assert sum(len(step.finishes) for _, step in steps) == 600
