"""The window: one halving for each congestion event, growth only where it is used."""

from __future__ import annotations

import pytest

from headway.core.lanes.in_flight.window import (
    FIRST_PATIENCE,
    FIRST_WINDOW,
    NEVER,
    QUIET_S,
    USED_SHARE,
    Window,
)


def full_round(window: Window) -> None:
    """Every attempt of a full window succeeds at the first try."""
    for _ in range(window.size):
        window.succeeded(window.size, first_try=True)


def cut(window: Window, in_flight: int) -> bool:
    """An attempt of the present epoch is refused."""
    return window.refused(window.epoch, in_flight)


def test_a_configured_window_starts_at_its_maximum() -> None:
    assert Window(64, rate_known=False).size == 64
    assert Window(64, rate_known=True).size == 64


def test_a_window_is_open_where_the_rate_is_known_and_no_maximum_is_configured() -> None:
    assert Window(None, rate_known=True).open


def test_a_configured_zero_is_no_maximum() -> None:
    assert Window(0, rate_known=False).open


def test_a_window_of_which_nothing_is_known_starts_with_a_handful() -> None:
    window = Window(None, rate_known=False)
    assert window.size == FIRST_WINDOW
    assert not window.open


def test_slow_start_doubles_each_round() -> None:
    window = Window(None, rate_known=False)
    for times in (2, 4, 8):
        full_round(window)
        assert window.size == FIRST_WINDOW * times


def test_a_refusal_ends_the_doubling() -> None:
    window = Window(None, rate_known=False)
    full_round(window)
    full_round(window)
    assert cut(window, 12)
    assert window.size == 6
    full_round(window)
    assert window.size == 7


def test_a_refusal_halves() -> None:
    window = Window(64, rate_known=True)
    assert cut(window, 64)
    assert window.size == 32


def test_ten_refusals_of_one_burst_halve_once() -> None:
    window = Window(64, rate_known=True)
    epoch = window.epoch
    events = [window.refused(epoch, 64 - done) for done in range(10)]
    assert events == [True] + [False] * 9
    assert window.size == 32


def test_a_refusal_of_the_window_after_the_cut_is_a_new_event() -> None:
    window = Window(64, rate_known=True)
    cut(window, 64)
    assert cut(window, 32)
    assert window.size == 16


def test_no_refusal_takes_it_below_one() -> None:
    window = Window(4, rate_known=True)
    for _ in range(5):
        cut(window, window.size)
    assert window.size == 1


def test_an_open_window_is_cut_to_half_of_what_was_in_flight() -> None:
    window = Window(None, rate_known=True)
    cut(window, 50)
    assert window.size == 25
    assert not window.open


def test_a_window_that_was_not_full_is_cut_to_half_of_what_was_in_flight() -> None:
    window = Window(64, rate_known=True)
    cut(window, 10)
    assert window.size == 5


def test_after_a_cut_it_grows_by_one_a_round() -> None:
    window = Window(64, rate_known=True)
    cut(window, 64)
    for size in (33, 34, 35):
        full_round(window)
        assert window.size == size


def test_it_never_grows_beyond_what_is_configured() -> None:
    window = Window(4, rate_known=True)
    cut(window, 4)
    for _ in range(10):
        full_round(window)
    assert window.size == 4


def test_slow_start_stops_at_a_maximum_configured_later() -> None:
    window = Window(None, rate_known=False)
    window.configure(5)
    for _ in range(5):
        full_round(window)
    assert window.size == 5


@pytest.mark.parametrize("slow_start", [True, False])
def test_a_success_after_a_retry_is_neutral(slow_start: bool) -> None:
    window = Window(None if slow_start else 64, rate_known=False)
    if not slow_start:
        cut(window, 64)
    size = window.size
    for _ in range(10 * size):
        window.succeeded(size, first_try=False)
    assert window.size == size


@pytest.mark.parametrize(("in_flight", "grows"), [(7, False), (8, True), (10, True)])
def test_it_grows_only_when_four_fifths_of_it_are_used(in_flight: int, grows: bool) -> None:
    assert USED_SHARE == 0.8
    window = Window(20, rate_known=True)
    cut(window, 20)
    for _ in range(10):
        window.succeeded(in_flight, first_try=True)
    assert (window.size == 11) is grows


def test_a_lower_maximum_takes_effect_at_once() -> None:
    window = Window(64, rate_known=True)
    window.configure(8)
    assert window.size == 8


def test_a_higher_maximum_lifts_a_window_that_learned_nothing() -> None:
    window = Window(8, rate_known=True)
    window.configure(64)
    assert window.size == 64


def test_a_higher_maximum_keeps_what_was_learned_below_it() -> None:
    window = Window(8, rate_known=True)
    cut(window, 8)
    window.configure(64)
    assert window.size == 4


def test_a_rate_that_becomes_known_before_any_refusal_opens_it() -> None:
    window = Window(None, rate_known=False)
    window.throw_open()
    assert window.open


def test_a_rate_that_becomes_known_later_changes_nothing_that_was_learned() -> None:
    window = Window(None, rate_known=False)
    cut(window, 3)
    window.throw_open()
    assert window.size == 1


def test_it_goes_on_at_a_size_found_earlier_but_never_above_what_is_configured() -> None:
    window = Window(16, rate_known=True)
    window.resume(5)
    assert window.size == 5
    window.resume(99)
    assert window.size == 16


def test_only_a_refusal_teaches_it_something_worth_remembering() -> None:
    climbing = Window(None, rate_known=False)
    full_round(climbing)
    assert not climbing.learned
    assert not Window(64, rate_known=True).learned
    cut(climbing, 6)
    assert climbing.learned


def test_an_opened_window_no_longer_doubles_after_a_cut() -> None:
    window = Window(None, rate_known=False)
    window.throw_open()
    cut(window, 20)
    full_round(window)
    assert window.size == 11


# -- the ceiling --------------------------------------------------------------------------------------


def at_ceiling(ceiling: int = 9) -> Window:
    """A window that was refused just above this number and has grown back to it."""
    window = Window(64, rate_known=True)
    cut(window, ceiling + 1)
    while window.size < ceiling:
        full_round(window)
    return window


def rounds_until_more(window: Window) -> int:
    """Full rounds of success until it goes beyond its present size."""
    size = window.size
    for rounds in range(1, 1000):
        full_round(window)
        if window.size > size:
            return rounds
    raise AssertionError("it never grows")


def test_what_was_refused_is_remembered_as_a_ceiling() -> None:
    window = Window(64, rate_known=True)
    cut(window, 10)
    assert (window.size, window.ceiling) == (5, 9)


def test_growing_back_to_the_ceiling_takes_a_round_a_step_and_beyond_it_patience() -> None:
    window = Window(64, rate_known=True)
    cut(window, 10)
    assert [rounds_until_more(window) for _ in range(4)] == [1, 1, 1, 1]
    assert rounds_until_more(window) == FIRST_PATIENCE


def test_a_refusal_beyond_the_ceiling_goes_back_to_it_and_not_to_half() -> None:
    window = at_ceiling()
    rounds_until_more(window)
    assert cut(window, 10)
    assert (window.size, window.ceiling) == (9, 9)


def test_each_refusal_beyond_the_ceiling_doubles_the_patience() -> None:
    window = at_ceiling()
    patience = []
    for _ in range(3):
        patience.append(rounds_until_more(window))
        cut(window, 10)
    assert patience == [FIRST_PATIENCE, 2 * FIRST_PATIENCE, 4 * FIRST_PATIENCE]


def test_a_ceiling_without_further_refusals_rises() -> None:
    window = at_ceiling()
    rounds_until_more(window)
    rounds_until_more(window)
    assert (window.size, window.ceiling) == (11, 10)


def test_a_refusal_at_the_ceiling_halves_and_lowers_it() -> None:
    window = at_ceiling()
    cut(window, 9)
    assert (window.size, window.ceiling) == (4, 8)


# -- a suspicion --------------------------------------------------------------------------------------


def test_a_suspected_number_bounds_the_window_until_a_quiet_second_has_passed() -> None:
    window = Window(None, rate_known=True)
    window.suspect(20, 100.0)
    assert (window.size, window.probe_at) == (20, 100.0 + QUIET_S)


@pytest.mark.parametrize("most", [0, -1])
def test_a_suspicion_leaves_one_in_flight(most: int) -> None:
    window = Window(None, rate_known=True)
    window.suspect(most, 0.0)
    assert window.size == 1


def test_one_accepted_beyond_allows_another_at_once() -> None:
    window = Window(None, rate_known=True)
    window.suspect(20, 100.0)
    window.doubt(101.2)
    assert (window.size, window.probe_at) == (21, 101.2)


@pytest.mark.parametrize(("suspected", "probes"), [(1, 4), (20, 4), (100, 7)])
def test_a_few_accepted_beyond_open_it(suspected: int, probes: int) -> None:
    window = Window(None, rate_known=True)
    window.suspect(suspected, 100.0)
    opened = []
    for _ in range(probes):
        window.doubt(102.0)
        opened.append(window.open)
    assert opened == [False] * (probes - 1) + [True]
    assert window.probe_at == NEVER


def test_one_refused_beyond_confirms_the_number_and_ends_the_probing() -> None:
    window = Window(None, rate_known=True)
    window.suspect(20, 100.0)
    window.confirm()
    assert (window.size, window.ceiling, window.probe_at) == (20, 20, NEVER)


def test_a_confirmed_number_is_exceeded_only_after_patience() -> None:
    window = Window(None, rate_known=True)
    window.suspect(20, 100.0)
    window.confirm()
    assert rounds_until_more(window) == FIRST_PATIENCE


def test_clearing_forgets_suspicion_and_ceiling() -> None:
    window = Window(None, rate_known=True)
    window.suspect(20, 100.0)
    window.clear()
    assert window.open
    assert window.probe_at == NEVER
    assert cut(window, 50)
    assert window.size == 25


def test_clearing_never_opens_more_than_is_configured() -> None:
    window = Window(8, rate_known=True)
    cut(window, 8)
    window.clear()
    assert window.size == 8


# -- what the gauge asks for --------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "size"), [(12, 12), (0, 1), (99, 64)])
def test_the_size_that_answers_ask_for_is_taken_within_bounds(asked: int, size: int) -> None:
    window = Window(64, rate_known=True)
    window.gauge(asked)
    assert window.size == size


def test_a_size_that_answers_asked_for_grows_a_round_a_step() -> None:
    window = at_ceiling()
    window.gauge(7)
    assert [rounds_until_more(window) for _ in range(4)] == [1, 1, 1, 1]
