"""The gauge: a server that queues is noticed by its first words, and by nothing else."""

from __future__ import annotations

import pytest

from headway.core.lanes.in_flight.latency_gauge import LONGEST_ROUND, SHORTEST_ROUND, SLOW, LatencyGauge

IDLE_S = 0.1


def one_round(gauge: LatencyGauge, waited_s: float, in_flight: int, size: int) -> int | None:
    """Answers that all took so long, until a round is full or the longest would be."""
    for _ in range(LONGEST_ROUND):
        asked = gauge.observe(waited_s, in_flight, size)
        if asked is not None:
            return asked
    return None


def idle(in_flight: int = 10) -> LatencyGauge:
    """A gauge that knows what an idle server takes."""
    gauge = LatencyGauge()
    for _ in range(SHORTEST_ROUND):
        gauge.observe(IDLE_S, in_flight, in_flight)
    return gauge


def test_the_lowest_rounds_average_is_what_an_idle_server_takes() -> None:
    gauge = LatencyGauge()
    for waited_s in (0.1, 0.3) * (SHORTEST_ROUND // 2):
        gauge.observe(waited_s, 5, 5)
    assert gauge.idle_s == pytest.approx(0.2)
    one_round(gauge, 0.15, 5, 5)
    one_round(gauge, 0.18, 5, 5)
    assert gauge.idle_s == pytest.approx(0.15)


def test_a_single_quick_word_is_no_idle_time() -> None:
    gauge = LatencyGauge()
    for waited_s in (0.001, *[0.1] * (SHORTEST_ROUND - 1)):
        gauge.observe(waited_s, 5, 5)
    assert gauge.idle_s > 0.09


@pytest.mark.parametrize("slower", [1.0, 1.5, 0.99 * SLOW])
def test_nothing_is_asked_for_without_slowness(slower: float) -> None:
    gauge = idle()
    assert one_round(gauge, slower * IDLE_S, 100, 100) is None
    assert not gauge.queueing


def test_nothing_is_asked_for_within_a_round() -> None:
    gauge = idle(in_flight=100)
    assert [gauge.observe(1.0, 100, 100) for _ in range(99)] == [None] * 99
    assert gauge.observe(1.0, 100, 100) is not None


@pytest.mark.parametrize(("in_flight", "answers"), [(1, SHORTEST_ROUND), (50, 50), (5000, LONGEST_ROUND)])
def test_a_round_is_as_many_answers_as_were_in_flight(in_flight: int, answers: int) -> None:
    gauge = idle(in_flight)
    asked = [gauge.observe(1.0, in_flight, in_flight) for _ in range(answers)]
    assert [one is not None for one in asked] == [False] * (answers - 1) + [True]


def test_a_slow_round_shrinks_in_proportion_and_leaves_a_short_queue() -> None:
    assert one_round(idle(), 0.25, 100, 100) == 80 + 10


def test_one_round_never_shrinks_to_less_than_half_and_the_root() -> None:
    assert one_round(idle(), 60.0, 100, 100) == 50 + 10


def test_an_open_window_shrinks_from_what_was_in_flight() -> None:
    assert one_round(idle(), 0.4, 100, 1 << 30) == 50 + 10


def test_lasting_slowness_ends_at_a_few_and_not_at_nothing() -> None:
    gauge, size = idle(), 1000
    for _ in range(50):
        size = one_round(gauge, 60.0, size, size) or 0
    assert 1 <= size <= 4


@pytest.mark.parametrize(("in_flight", "size"), [(1, 1), (0, 1), (1, 100)])
def test_never_less_than_one(in_flight: int, size: int) -> None:
    assert one_round(idle(), 60.0, in_flight, size) == 1


def test_a_queue_that_is_gone_lets_it_grow_by_the_root() -> None:
    gauge = idle()
    assert one_round(gauge, 0.4, 100, 100) == 60
    assert one_round(gauge, IDLE_S, 60, 60) == 60 + 7


@pytest.mark.parametrize(("times", "late"), [(0.9, False), (1.1, True)])
def test_one_late_answer_is_noticed_at_once(times: float, *, late: bool) -> None:
    gauge = idle()
    gauge.observe(times * SLOW * IDLE_S, 10, 10)
    assert gauge.late == late
    assert not gauge.queueing


def test_nothing_is_late_before_the_usual_time_is_known() -> None:
    gauge = LatencyGauge()
    gauge.observe(100.0, 10, 10)
    assert not gauge.late
