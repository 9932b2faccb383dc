"""The rate finder: an unreported rate, measured from one empty bucket to the next."""

from __future__ import annotations

import pytest
from tests.unit.blind import COSTS, Blind

from headway.core.lanes.learning.rate_finder import (
    CLIMB_BURST_S,
    CLIMB_S,
    DEPTH_BLUR_S,
    DEPTH_TRUST,
    EARLIER,
    FIRST_CLIMB_S,
    FIRST_UNANSWERED,
    GROWTH,
    HOLD_BURST_S,
    HOLD_DROP,
    LIKELY_DEPTH_S,
    LONGEST_STEP_S,
    RECALLED_GROWTH,
    SEARCH_DROP,
    SLOWEST_S,
    STEADY_SHARE,
    RateFinder,
)
from headway.core.lanes.learning.rate_ramp import FIRST_RATE
from headway.core.model import Costs, Dimension

REQUESTS, TOKENS = Dimension.REQUESTS, Dimension.TOKENS


def send(finder: RateFinder, n: int, costs: Costs = COSTS) -> None:
    for _ in range(n):
        finder.sent(costs, 0.0)


def refuse(finder: RateFinder, at: float, since: int = 0) -> None:
    """An attempt sent at this instant was refused, and `since` more have been sent after it. The lane has to wait."""
    finder.refused(at, number(at), [COSTS] * since, COSTS, at)
    finder.end_overshoot(at)


def number(at: float) -> int:
    """The number of a send, here by its instant."""
    return round(at * 1000.0)


def drained(accepted: int = 30, at: float = 5.0, prefer: Dimension = REQUESTS) -> RateFinder:
    """A ramp that took so much and ended at that instant."""
    finder = RateFinder(0.0, prefer)
    for _ in range(accepted):
        finder.sent(COSTS, 0.0)
        finder.accepted(at, at)
    refuse(finder, at)
    return finder


def holding(prefer: Dimension = REQUESTS) -> RateFinder:
    """Ten a second, known from the three seconds between 5 and 8."""
    finder = drained(prefer=prefer)
    send(finder, 30)
    refuse(finder, 8.0)
    return finder


def keep_busy(finder: RateFinder, now: float) -> None:
    """The pace is used from now on for as long as any test lasts."""
    finder.meter.reserve(1e6, now)


def mode_at(finder: RateFinder, now: float) -> str:
    """What it does, once it knows how late it is."""
    finder.advance(now)
    return finder.mode


def test_a_refusal_of_the_overshoot_is_no_news_however_late_it_is_back() -> None:
    finder = RateFinder(0.0, REQUESTS)
    for _ in range(30):
        finder.sent(COSTS, 0.0)
        finder.accepted(5.0, 5.0)
    finder.refused(5.0, number(5.0), [], COSTS, 5.001)
    goes_on = [finder.overshooting]
    finder.advance(5.12)
    goes_on.append(finder.overshooting)
    assert goes_on == [True, False]
    assert finder.overshoots(5.12)
    finder.advance(5.2)
    assert finder.overshoots(5.12)
    assert not finder.overshoots(5.2)


# -- the ramp -----------------------------------------------------------------------------------------


def ramp_pace(accepted: int) -> float:
    finder = RateFinder(0.0, REQUESTS)
    for _ in range(accepted):
        finder.accepted(1.0, 1.0)
    return finder.meter.rate


def test_a_ramp_begins_at_the_first_rate_and_never_slows_down() -> None:
    paces = [ramp_pace(accepted) for accepted in range(0, 400, 3)]
    assert paces[0] == pytest.approx(FIRST_RATE)
    assert paces == sorted(paces)
    assert paces[-1] > 5.0 * FIRST_RATE


def test_a_long_ramp_is_in_proportion_to_what_was_accepted() -> None:
    assert ramp_pace(5000) == pytest.approx(2.0 * ramp_pace(2500))


@pytest.mark.parametrize(("accepted", "most"), [(30, 7.0), (250, 16.0), (1000, 40.0), (5000, 200.0)])
def test_what_a_refusal_takes_to_come_back_adds_little_to_a_ramp(accepted: int, most: float) -> None:
    assert 0.1 * ramp_pace(accepted) <= most


def test_time_alone_does_not_speed_up_a_ramp() -> None:
    finder = RateFinder(0.0, REQUESTS)
    keep_busy(finder, 0.0)
    finder.advance(60.0)
    assert finder.meter.rate == pytest.approx(FIRST_RATE)


@pytest.mark.parametrize(
    ("accepted", "late", "most"),
    [(0, False, FIRST_UNANSWERED), (20, True, 20.0), (100, True, 50.0), (100, False, 100.0)],
)
def test_a_ramp_bounds_what_is_unanswered(accepted: int, *, late: bool, most: float) -> None:
    finder = RateFinder(0.0, REQUESTS)
    for _ in range(accepted):
        finder.accepted(1.0, 1.0)
    assert finder.most_unanswered(late=late) == pytest.approx(most)


def test_nothing_bounds_what_is_unanswered_after_the_ramp() -> None:
    assert drained().most_unanswered(late=True) == float("inf")


@pytest.mark.parametrize("rate", [20.0, 100.0])
def test_a_ramp_overshoots_by_a_small_share_of_what_it_took(rate: float) -> None:
    world = Blind(rate, 30.0)
    world.play(30.0)
    first = world.refused[0]
    overshoot = sum(at < first + 0.5 for at in world.refused)
    assert overshoot <= 0.04 * sum(at < first for at in world.accepted) + 1.0


def test_the_first_climb_starts_where_a_bucket_of_ten_seconds_explains_the_ramp() -> None:
    finder = drained(100, at=5.0)
    assert finder.mode == "climb"
    assert finder.meter.rate == pytest.approx(100.0 / (LIKELY_DEPTH_S + 5.0))


def test_a_climb_starts_at_one_a_second_however_few_were_accepted() -> None:
    assert drained(1, at=0.1).meter.rate == pytest.approx(1.0)


def test_a_guessed_pace_allows_less_at_once_than_a_measured_one() -> None:
    assert drained().meter.depth_s == CLIMB_BURST_S
    assert holding().meter.depth_s == HOLD_BURST_S


def test_nothing_is_found_before_the_second_refusal() -> None:
    finder = drained()
    assert not finder.found
    send(finder, 30)
    refuse(finder, 8.0)
    assert finder.found


# -- measuring ----------------------------------------------------------------------------------------


def test_what_was_accepted_between_two_empties_is_the_rate_in_every_dimension() -> None:
    finder = holding()
    assert finder.mode == "hold"
    assert finder.rates == pytest.approx([10.0, 1000.0, 800.0, 200.0])
    assert finder.meter.rate == pytest.approx(10.0)


def test_what_was_sent_after_the_refused_one_belongs_to_the_next_interval() -> None:
    finder = drained()
    send(finder, 30 + 4)
    refuse(finder, 8.0, since=4)
    assert finder.rates[0] == pytest.approx(10.0)
    send(finder, 16)
    refuse(finder, 10.0)
    assert finder.rates[0] == pytest.approx(10.0)


def test_measurements_of_one_limit_are_weighed_by_their_length() -> None:
    finder = holding()
    send(finder, 99)
    refuse(finder, 17.0)
    assert finder.rates[0] == pytest.approx((EARLIER * 30 + 99) / (EARLIER * 3.0 + 9.0))
    assert finder.evidence_s == pytest.approx(12.0)


def test_a_measurement_of_another_limit_replaces_the_ones_before() -> None:
    finder = holding()
    send(finder, 60)
    refuse(finder, 10.0)
    assert finder.rates[0] == pytest.approx(30.0)
    assert finder.evidence_s == pytest.approx(2.0)


def test_the_depth_is_what_the_ramp_took_less_what_flowed_in_meanwhile() -> None:
    finder = drained(130, at=5.0)
    send(finder, 30)
    refuse(finder, 8.0)
    assert finder.depth_s == pytest.approx(DEPTH_TRUST * (130.0 / 10.0 - 5.0) - DEPTH_BLUR_S)


def test_an_attempt_turned_back_counts_for_nothing() -> None:
    finder = drained()
    send(finder, 33)
    for _ in range(3):
        finder.turned_back(COSTS, number(6.0), 6.0)
    refuse(finder, 8.0)
    assert finder.rates[0] == pytest.approx(10.0)


def test_an_attempt_counts_for_what_it_turns_out_to_cost() -> None:
    finder = drained()
    send(finder, 30)
    finder.settled((0.0, 600.0, 600.0, 0.0), number(6.0))
    refuse(finder, 8.0)
    assert finder.rates == pytest.approx([10.0, 1200.0, 1000.0, 200.0])


@pytest.mark.parametrize("sent_at", [1.0, 5.0])
def test_a_late_event_of_an_earlier_interval_changes_no_later_one(sent_at: float) -> None:
    finder = drained()
    send(finder, 30)
    finder.settled((0.0, 600.0, 600.0, 0.0), number(sent_at))
    finder.turned_back(COSTS, number(sent_at), sent_at)
    refuse(finder, 8.0)
    assert finder.rates == pytest.approx([10.0, 1000.0, 800.0, 200.0])


def test_a_refused_burst_counts_in_no_interval() -> None:
    finder = drained()
    send(finder, 30 + 4)
    refuse(finder, 8.0, since=4)
    for _ in range(4):
        finder.turned_back(COSTS, number(8.01), 8.01)
    send(finder, 20)
    refuse(finder, 10.0)
    assert finder.rates[0] == pytest.approx(10.0)


# -- too soon -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "at"), [(30, 5.9), (7, 8.5), (2, 9.5)], ids=["too short", "too few", "far too few"]
)
def test_a_refusal_that_measures_nothing_while_searching_quarters_the_pace(sent: int, at: float) -> None:
    finder = drained()
    before = finder.meter.rate
    send(finder, sent)
    refuse(finder, at)
    assert finder.mode == "climb"
    assert finder.meter.rate == pytest.approx(before * SEARCH_DROP)


def test_however_often_it_is_refused_one_unit_goes_every_ten_seconds() -> None:
    finder = drained()
    for tenth in range(51, 90):
        refuse(finder, tenth / 10.0)
    assert finder.meter.ready_at(COSTS[finder.place]) - 9.0 < 1.5 * SLOWEST_S


def test_a_refusal_that_measures_nothing_later_halves_the_pace() -> None:
    finder = holding()
    send(finder, 3)
    refuse(finder, 8.5)
    assert finder.mode == "climb"
    assert finder.meter.rate == pytest.approx(10.0 * HOLD_DROP)


def test_a_refusal_too_soon_leaves_the_interval_open() -> None:
    finder = holding()
    send(finder, 3)
    refuse(finder, 8.5)
    send(finder, 17)
    refuse(finder, 10.0)
    assert finder.rates[0] == pytest.approx(20.0 / 2.0)


# -- growing ------------------------------------------------------------------------------------------


def climbing() -> RateFinder:
    """One whose overshoot has been measured."""
    finder = drained()
    finder.advance(5.0)
    return finder


def test_a_climb_doubles_the_pace_while_it_is_used() -> None:
    finder = climbing()
    before = finder.meter.rate
    keep_busy(finder, 5.0)
    finder.advance(5.0 + FIRST_CLIMB_S)
    assert finder.meter.rate == pytest.approx(2.0 * before)


def test_an_idle_climb_does_not_grow() -> None:
    finder = drained()
    before = finder.meter.rate
    finder.advance(60.0)
    assert finder.meter.rate == pytest.approx(before)


def test_a_pace_that_was_used_for_a_while_grows_for_that_while() -> None:
    finder = climbing()
    before = finder.meter.rate
    finder.meter.reserve(before * FIRST_CLIMB_S, 5.0)
    finder.advance(60.0)
    assert finder.meter.rate == pytest.approx(2.0 * before)


def test_a_long_wait_for_a_debt_is_not_work_at_the_pace() -> None:
    finder = climbing()
    before = finder.meter.rate
    keep_busy(finder, 5.0)
    finder.advance(600.0)
    assert finder.meter.rate == pytest.approx(before * 2.0 ** (LONGEST_STEP_S / FIRST_CLIMB_S))


def test_a_found_pace_stays_for_the_steady_time() -> None:
    finder = holding()
    keep_busy(finder, 8.0)
    finder.advance(8.0 + STEADY_SHARE * 3.0)
    assert finder.meter.rate == pytest.approx(10.0)


def test_after_the_steady_time_it_doubles_in_a_few_times_the_evidence() -> None:
    finder = holding()
    keep_busy(finder, 8.0)
    for tenth in range(11):
        finder.advance(8.0 + STEADY_SHARE * 3.0 + tenth / 10.0 * GROWTH * 3.0)
    assert finder.meter.rate == pytest.approx(20.0)


def test_a_found_pace_that_is_not_used_does_not_grow() -> None:
    finder = holding()
    for second in range(9, 100):
        finder.advance(float(second))
    assert finder.meter.rate == pytest.approx(10.0)


def test_the_longer_the_evidence_the_slower_the_growth() -> None:
    def grown(evidence_s: int) -> float:
        finder = drained()
        send(finder, 10 * evidence_s)
        refuse(finder, 5.0 + evidence_s)
        steady_at = 5.0 + evidence_s + STEADY_SHARE * evidence_s
        keep_busy(finder, steady_at)
        finder.advance(steady_at)
        finder.advance(steady_at + 1.0)
        return finder.meter.rate

    assert grown(2) > grown(5) > grown(10) > 10.0


# -- a limit that changes -----------------------------------------------------------------------------


def test_more_than_the_estimate_explains_starts_a_climb() -> None:
    finder = holding()
    keep_busy(finder, 8.0)
    send(finder, 30)
    modes = [mode_at(finder, 9.0)]
    send(finder, 1)
    modes.append(mode_at(finder, 9.0 + 1e-6))
    assert modes == ["hold", "climb"]
    finder.advance(9.0 + 2.0 * CLIMB_S)
    assert finder.meter.rate == pytest.approx(20.0, rel=0.01)


def test_the_refusal_that_ends_such_a_climb_measures_nothing() -> None:
    finder = holding()
    keep_busy(finder, 8.0)
    send(finder, 40)
    finder.advance(9.0)
    refuse(finder, 11.0)
    assert finder.mode == "climb"
    assert finder.rates[0] == pytest.approx(10.0)
    send(finder, 60)
    refuse(finder, 14.0)
    assert finder.rates[0] == pytest.approx(20.0)


@pytest.mark.parametrize("rate", [10.0, 40.0])
def test_a_limit_that_changed_is_followed(rate: float) -> None:
    world = Blind(20.0, 10.0)
    world.change(100.0, rate)
    world.play(250.0)
    assert world.finder.rates[0] == pytest.approx(rate, rel=0.03)
    assert world.used(200.0, 250.0) > 0.9


@pytest.mark.parametrize(("taken", "wait_s"), [(1, SLOWEST_S / 2.0), (600, HOLD_BURST_S)])
def test_after_a_refusal_half_a_request_flows_in_or_what_a_minute_of_the_ramp_allows(
    taken: int, wait_s: float
) -> None:
    finder = drained(taken)
    finder.adopt((0.01, 0.0, 0.0, 0.0), 0, 10.0, 9.0)
    finder.meter.full_at = 9.0
    finder.emptied(COSTS, 9.0)
    assert finder.meter.full_at == pytest.approx(9.0 + wait_s)


def test_a_slow_climb_doubles_in_the_time_of_two_starts() -> None:
    finder = drained(1)
    finder.rates, finder.factor, finder.mode = [0.5, 0.0, 0.0, 0.0], 1.0, "climb"
    finder.advance(5.0 + 1e-6)
    finder.rates, finder.factor = [0.5, 0.0, 0.0, 0.0], 1.0
    finder.meter.full_at = 99.0
    finder.advance(9.0)
    assert finder.factor == pytest.approx(2.0, rel=0.01)


# -- which dimension ----------------------------------------------------------------------------------

COUNTS = (40, 44, 38)


def measured(finder: RateFinder, tokens_of: dict[int, float]) -> None:
    """Three intervals of four seconds, of so many units, each of so many tokens."""
    at = 5.0
    for count, tokens in tokens_of.items():
        at += 4.0
        send(finder, count, (1.0, tokens, 1.0, 1.0))
        refuse(finder, at)


def test_the_dimension_whose_measurements_agree_is_the_one_to_pace_by() -> None:
    finder = drained(prefer=REQUESTS)
    measured(finder, {count: 4000.0 / count for count in COUNTS})
    assert finder.meter.dimension is TOKENS
    assert finder.meter.rate == pytest.approx(1000.0)


def test_the_present_dimension_stays_where_it_agrees_best() -> None:
    finder = drained(prefer=TOKENS)
    measured(finder, {count: 4000.0 / count for count in COUNTS})
    assert finder.meter.dimension is TOKENS


def test_the_present_dimension_stays_where_all_agree_alike() -> None:
    finder = drained(prefer=TOKENS)
    measured(finder, dict.fromkeys(COUNTS, 100.0))
    assert finder.meter.dimension is TOKENS


def test_two_measurements_do_not_tell_the_dimension() -> None:
    finder = drained(prefer=REQUESTS)
    measured(finder, {count: 4000.0 / count for count in COUNTS[:2]})
    assert finder.meter.dimension is REQUESTS


def test_it_takes_more_measurements_where_the_difference_is_smaller() -> None:
    finder = drained(prefer=REQUESTS)
    measured(finder, {count: 100.0 * (count / 40.0) ** 0.4 * 40.0 / count for count in COUNTS})
    assert finder.meter.dimension is REQUESTS, "three agree so well by chance"
    at = 17.0
    for count in (41, 44, 38, 40, 43):
        at += 4.0
        send(finder, count, (1.0, 100.0 * (count / 40.0) ** 0.4 * 40.0 / count, 1.0, 1.0))
        refuse(finder, at)
    assert finder.meter.dimension is TOKENS


def test_a_short_measurement_says_little_of_the_dimension() -> None:
    finder = drained(prefer=REQUESTS)
    at = 5.0
    for count, took_s, tokens in ((9, 1.0, 111.0), (300, 30.0, 100.0), (300, 30.0, 100.0)):
        at += took_s
        send(finder, count, (1.0, tokens, 1.0, 1.0))
        refuse(finder, at)
    assert finder.meter.dimension is REQUESTS


def test_the_level_is_kept_in_another_dimension() -> None:
    finder = RateFinder(0.0, TOKENS)
    finder.meter.reserve(50.0, 0.0)
    owes_until = finder.meter.full_at
    refuse(finder, 1.0)
    assert finder.meter.dimension is TOKENS
    assert finder.meter.full_at == owes_until > 1.0


# -- an earlier run -----------------------------------------------------------------------------------


def recalled() -> RateFinder:
    """Ten a second and five seconds deep, as found before."""
    finder = RateFinder(0.0, TOKENS)
    finder.recall((10.0, 1000.0, 800.0, 200.0), 0, 5.0, 60.0, 0.0)
    return finder


def test_the_rate_of_an_earlier_run_is_the_first_pace() -> None:
    finder = recalled()
    assert (finder.mode, finder.meter.dimension) == ("hold", REQUESTS)
    assert finder.meter.rate == pytest.approx(10.0)
    assert finder.found


def test_a_remembered_depth_is_an_upper_bound_to_be_proven() -> None:
    meter = recalled().meter
    assert (meter.depth_s, meter.ceiling_s) == (1.0, 5.0)
    assert meter.shallow


def recalled_and_used(until: int) -> RateFinder:
    finder = recalled()
    keep_busy(finder, 0.0)
    for second in range(1, until + 1):
        finder.advance(float(second))
    return finder


def test_a_remembered_pace_grows_slowly_after_the_steady_time() -> None:
    assert recalled_and_used(66).meter.rate == pytest.approx(10.0)
    assert recalled_and_used(126).meter.rate == pytest.approx(10.0 * 2.0 ** (60.0 / (RECALLED_GROWTH * 60.0)))


def test_the_first_refusal_shows_that_the_rate_is_between_the_remembered_and_the_present_one() -> None:
    finder = recalled_and_used(300)
    grown_to = finder.meter.rate
    refuse(finder, 300.0)
    assert finder.meter.rate == pytest.approx((10.0 + grown_to) / 2.0)


def test_a_remembered_pace_grows_slowly_until_a_measurement_contradicts_it() -> None:
    def grown(sent_in_100_s: int) -> float:
        finder = recalled()
        refuse(finder, 10.0)
        send(finder, sent_in_100_s)
        refuse(finder, 110.0)
        found = finder.meter.rate
        keep_busy(finder, 110.0)
        for second in range(111, 210):
            finder.advance(float(second))
        return finder.meter.rate / found

    assert 1.0 < grown(1_000) < 1.02
    assert grown(3_000) > 1.2


def test_a_limit_that_has_risen_since_an_earlier_run_is_found() -> None:
    world = Blind(20.0, 1.0)
    world.finder.recall((10.0, 1000.0, 800.0, 200.0), 0, 1.0, 150.0, 0.0)
    world.run.lane().limits.select()
    world.play(500.0)
    assert world.used(400.0, 500.0) > 0.95


def test_the_first_empty_bucket_of_a_new_run_measures_nothing() -> None:
    finder = recalled()
    send(finder, 300)
    refuse(finder, 10.0)
    assert finder.mode == "hold"
    assert finder.rates[0] == pytest.approx(10.0)
    send(finder, 22)
    refuse(finder, 12.0)
    assert finder.rates[0] == pytest.approx((22.0 + EARLIER * 600.0) / (2.0 + EARLIER * 60.0))


def test_a_full_bucket_explains_a_start_above_the_remembered_rate() -> None:
    finder = recalled()
    keep_busy(finder, 0.0)
    send(finder, 50)
    modes = [mode_at(finder, 1.0)]
    send(finder, 31)
    modes.append(mode_at(finder, 1.0 + 1e-6))
    assert modes == ["hold", "climb"]


# -- against a provider -------------------------------------------------------------------------------


@pytest.mark.parametrize("depth_s", [1.0, 10.0, 60.0])
def test_the_estimate_converges_to_the_true_rate_at_any_depth(depth_s: float) -> None:
    world = Blind(20.0, depth_s)
    world.play(150.0)
    assert world.finder.rates[0] == pytest.approx(20.0, rel=0.03)
    assert world.used(60.0, 150.0) > 0.95


@pytest.mark.parametrize("depth_s", [10.0, 60.0])
def test_the_depth_is_found(depth_s: float) -> None:
    world = Blind(20.0, depth_s)
    world.play(150.0)
    assert 0.9 * depth_s < world.finder.depth_s < 1.02 * depth_s


def test_a_found_rate_costs_few_refusals() -> None:
    world = Blind(20.0, 10.0)
    world.play(200.0)
    assert sum(at > 60.0 for at in world.refused) <= 0.01 * len(world.accepted)
