"""Which unit starts next: the first, the longest, or, with `auto`, the longest once the end of the lane is near."""

from __future__ import annotations

import pytest
from tests.unit.drive import STEADY, Run, ok, play, started_at
from tests.unit.test_scheduler_fetch import past_serial

from headway.core.commands import Fetch, Start
from headway.core.events import Finished, Units
from headway.core.lanes.estimate import ENOUGH
from headway.core.lanes.queueing.stock import BATCH, LOW
from headway.core.lanes.queueing.unit_lengths import size_of
from headway.core.lanes.queueing.unit_order import AHEAD, DIFFERS, UnitOrder
from headway.core.model import Estimate, LaneLimits, LaneSpec, OrderName, Unit
from headway.core.scheduling import supply

SHORT_S, LONG_S = 1.0, 20.0
ANSWER = Estimate(max_output_tokens=16.0)
LONG_ANSWER = Estimate(max_output_tokens=1024.0)


def unit(index: int, *, long: bool = False) -> Unit:
    """A unit that its lane knows by family and size alone."""
    return Unit(index, "a", ANSWER, chars=10, family="long" if long else "short")


def slow(start: Start, now: float) -> tuple[float, Finished]:
    """Short units take a second, long ones twenty."""
    return LONG_S if start.unit.family == "long" else SHORT_S, ok(start.unit.index)


def lane(order: OrderName, at_once: int = 1) -> LaneSpec:
    return LaneSpec("a", LaneLimits(max_concurrency=at_once), STEADY, order=order)


def recalled(run: Run) -> Run:
    """A run whose lane knows from an earlier one how long units take."""
    order = run.lane().order
    for _ in range(20 * ENOUGH):
        order.recall("short", size_of(10, 16), SHORT_S)
    order.recall("long", size_of(10, 16), LONG_S)
    return run


def starts(run: Run) -> list[int]:
    return [index for _, index in started_at(play(run, slow))]


def makespan(run: Run) -> float:
    return play(run, slow)[-1][0]


#: Short units first, long ones at the end.
TAIL = [unit(index, long=index >= 96) for index in range(100)]


def test_the_longest_expected_unit_starts_first() -> None:
    run = recalled(Run(TAIL, lane("longest")))
    assert starts(run)[:6] == [96, 97, 98, 99, 0, 1]


def test_input_order_ignores_known_lengths() -> None:
    assert starts(recalled(Run(TAIL, lane("input")))) == list(range(100))


def test_longest_first_looks_through_all_units_that_are_left() -> None:
    work = [unit(index, long=index >= 5000) for index in range(5004)]
    run = recalled(Run(work, lane("longest")))
    assert run.at(0.0).started == [5000]
    assert sum(1 for _ in run.scheduler.in_memory()) <= BATCH + LOW


def test_longest_first_goes_by_size_before_anything_is_known() -> None:
    work = [Unit(index, "a", Estimate(max_output_tokens=2.0**index), chars=10) for index in range(12)]
    assert starts(Run(work, lane("longest"))) == list(range(11, -1, -1))


def test_a_short_job_is_ordered_from_its_first_unit_if_earlier_runs_are_known() -> None:
    run = recalled(Run(TAIL, lane("auto", at_once=8)))
    assert run.at(0.0).started == [96, 97, 98, 99, 0, 1, 2, 3]


def test_a_short_job_is_ordered_as_soon_as_enough_units_have_ended() -> None:
    long = [Unit(index, "a", LONG_ANSWER, chars=10, family="long") for index in range(190, 200)]
    order = starts(Run([*(unit(index) for index in range(190)), *long], lane("auto", at_once=8)))
    assert order[: 2 * ENOUGH + 10] == [
        *range(ENOUGH),
        *range(190, 198),
        *range(198, 200),
        *range(ENOUGH, 2 * ENOUGH),
    ]


def test_a_long_job_keeps_input_order_until_its_end_is_near() -> None:
    work = [unit(index, long=index >= 995) for index in range(1000)]
    order = starts(recalled(Run(work, lane("auto"))))
    ahead = order.index(995)
    assert order[:ahead] == list(range(ahead))
    # So much is left then: what takes four times the longest unit, and what was in memory already.
    assert 0 < 1000 - ahead <= AHEAD * LONG_S + BATCH + LOW


def test_the_run_ends_sooner() -> None:
    work = [unit(index, long=index >= 198) for index in range(200)]
    input_s, longest_s = (makespan(recalled(Run(work, lane(order, 8)))) for order in ("input", "longest"))
    auto_s, fresh_s = (
        makespan(recalled(Run(work, lane("auto", 8)))),
        makespan(Run(work, lane("auto", 8))),
    )
    assert input_s >= 198 / 8 + LONG_S - 1.0
    assert longest_s <= (198 + 2 * LONG_S) / 8 + 1.0
    assert auto_s == longest_s
    assert fresh_s == input_s  # Nothing is known of the long ones before one of them has ended.


def test_units_that_take_as_long_as_each_other_keep_input_order() -> None:
    run = Run([unit(index) for index in range(300)], lane("auto", at_once=4))
    assert starts(run) == list(range(300))
    assert not run.lane().order.longest_first


def test_auto_decides_by_the_time_that_is_left() -> None:
    order = UnitOrder("auto")
    for _ in range(ENOUGH):
        order.recall("", size_of(1, 1), 10.0)
    order.renew()
    assert order.undecided
    order.longest_s = 20.0
    assert not order.decide(None)
    assert not order.decide(AHEAD * 20.0 + 1.0)
    order.longest_s = DIFFERS * 10.0 - 0.1
    assert not order.decide(1.0)
    order.longest_s = 20.0
    assert order.decide(AHEAD * 20.0)
    assert not order.undecided


def test_the_first_unit_waits_for_the_longest_one_to_be_fetched() -> None:
    hand, step = past_serial(lane("auto"))
    [fetch] = step.fetches
    assert fetch == Fetch("a", BATCH, sized=True)
    order = hand.scheduler.lanes["a"].order
    for _ in range(20 * ENOUGH):
        order.recall("short", size_of(10, 16), SHORT_S)
    short = [unit(index) for index in range(60)]
    order.recall("long", size_of(10, 16), LONG_S)
    order.renew()
    step = hand.at(0.0, Units("a", short, more=True, left=4, largest=[unit(-1, long=True)]))
    assert step.fetches == [Fetch("a", BATCH, order.table, sized=True)]
    assert step.started == []
    step = hand.at(0.1, Units("a", [unit(60, long=True)], more=False))
    assert step.started == [60]


def test_a_lane_that_may_not_fetch_more_starts_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """`choosing` was set although the fetch was put off, for the sake of the units that wait for others: nothing started."""
    monkeypatch.setattr(supply, "MOST_BLOCKED", 0)
    hand, _ = past_serial(lane("auto"))
    order = hand.scheduler.lanes["a"].order
    for _ in range(20 * ENOUGH):
        order.recall("short", size_of(10, 16), SHORT_S)
    order.recall("long", size_of(10, 16), LONG_S)
    waiting = Unit(61, "a", after=(60,))
    step = hand.at(0.0, Units("a", [unit(0), waiting], more=True, left=4, largest=[unit(-1, long=True)]))
    assert step.started == [0]


def test_units_that_are_shorter_than_the_rest_do_not_count_as_stock() -> None:
    hand, _ = past_serial(lane("longest"))
    order = hand.scheduler.lanes["a"].order
    order.recall("short", size_of(10, 16), SHORT_S)
    order.recall("long", size_of(10, 16), LONG_S)
    short, long = (
        [unit(index) for index in range(90)],
        [unit(index, long=True) for index in range(90, 91 + LOW)],
    )
    step = hand.at(0.0, Units("a", [*short, *long], more=True, left=500, largest=long[:1]))
    assert (step.started, step.fetches) == ([90], [])
    assert len(hand.at(1.0, ok(90)).fetches) == 1
