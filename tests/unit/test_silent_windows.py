"""Fixed windows without a word about them: when refusals show them, how an allowance is spent, and what is no window."""

from __future__ import annotations

import pytest

from headway.core.lanes.learning.boundary_search import BoundarySearch
from headway.core.lanes.learning.silent_windows import QUICK_S, SilentWindow, shows_windows
from headway.core.model import Dimension

ALLOWANCE = 400.0


@pytest.mark.parametrize("dry_s", [0.6, 2.0, 20.0])
def test_a_bucket_of_a_minute_is_no_window_however_slowly_it_refills(dry_s: float) -> None:
    """The slowest bucket that took 640 requests in 4 s refills 10 a second: one of that cost is refused for 0.1 s at the most."""
    assert not shows_windows(640.0, 4.0, cost=10.0 * dry_s, dry_s=dry_s)


def test_refusals_for_longer_than_any_bucket_needs_are_a_window() -> None:
    assert shows_windows(640.0, 4.0, cost=1.0, dry_s=0.6)
    assert not shows_windows(640.0, 4.0, cost=1.0, dry_s=0.2), "too soon after the burst"
    assert not shows_windows(20.0, 2.0, cost=1.0, dry_s=5.0), "too few were accepted to tell"


def closed_window(*, length_s: float = 0.0) -> SilentWindow:
    """The allowance was used up at 5.0, and the first probe was refused."""
    meter = SilentWindow(Dimension.REQUESTS, ALLOWANCE, 1.0, BoundarySearch(0.0, 5.0, length_s), "learned")
    assert meter.refused(5.0)
    return meter


def send(meter: SilentWindow, count: int) -> float:
    """So many requests, each as soon as it may go; returns when the last one went."""
    at = 0.0
    for _ in range(count):
        at = meter.ready_at(1.0)
        meter.reserve(1.0, at)
    return at


def test_one_probe_goes_and_the_rest_wait_for_its_answer() -> None:
    meter = closed_window()
    probed_at = meter.ready_at(1.0)
    assert probed_at >= 7.0
    meter.reserve(1.0, probed_at)
    assert meter.ready_at(1.0) == pytest.approx(probed_at + 1.0)
    meter.taken(probed_at, probed_at + 0.4)
    assert meter.ready_at(1.0) == pytest.approx(probed_at + 0.4)


def test_a_refused_probe_is_followed_by_another_one_later() -> None:
    meter = closed_window()
    probed_at = send(meter, 1)
    assert meter.refused(probed_at)
    assert meter.ready_at(1.0) >= probed_at + 1.0


def test_answers_to_what_was_sent_before_open_no_window() -> None:
    meter = closed_window()
    probed_at = send(meter, 1)
    meter.taken(4.0, probed_at + 0.1)
    assert meter.ready_at(1.0) == pytest.approx(probed_at + 1.0)


def test_most_of_an_allowance_is_spent_quickly_and_its_end_slowly() -> None:
    meter = closed_window()
    began_at = send(meter, 1)
    most_at = send(meter, 330)
    assert most_at - began_at < QUICK_S + 2.0
    end_at = send(meter, 40)
    assert end_at - most_at > 1.0


def test_a_refusal_closes_the_window_until_the_next_boundary() -> None:
    meter = closed_window(length_s=60.0)
    began_at = send(meter, 1)
    last_at = send(meter, 390)
    meter.adjust(-1.0)
    assert meter.refused(last_at)
    assert meter.ready_at(1.0) > began_at + 55.0
    assert meter.refused(last_at - 0.01), "one more of the same burst"
    assert meter.ready_at(1.0) > began_at + 55.0
    send(meter, 1)
    assert meter.allowance == 390.0


def test_a_small_request_that_fits_into_the_rest_is_no_window() -> None:
    meter = closed_window()
    probed_at = send(meter, 1)
    at = send(meter, 2)
    meter.adjust(-1.0)
    assert meter.refused(at)
    assert meter.length_s == 0.0
    assert meter.allowance == ALLOWANCE
    assert meter.ready_at(1.0) > probed_at + 1.0


def test_a_bucket_that_has_more_to_give_each_time_is_no_window() -> None:
    meter = closed_window()
    at = send(meter, 60)
    assert not meter.refused(at)


def test_an_allowance_falls_by_half_at_the_most() -> None:
    meter = closed_window(length_s=60.0)
    send(meter, 1)
    assert meter.refused(send(meter, 390))
    send(meter, 1)
    assert meter.refused(send(meter, 20)), "a known length is not given up"
    send(meter, 1)
    assert meter.allowance >= ALLOWANCE / 2.0


def test_a_part_of_a_window_is_a_part_of_its_allowance() -> None:
    meter = closed_window(length_s=60.0)
    meter.scale(0.25)
    assert (meter.allowance, meter.limit) == (100.0, 100.0)
