"""The measurement of short jobs: what a case varies, and what counts as a missed bar."""

from __future__ import annotations

import pytest
from bench import short
from bench.short import Case, Result


def test_a_case_varies_size_depth_and_the_beginning_of_windows() -> None:
    case = Case("clock-minutes", 1.05, 0, 0.01, units=30, depth_s=20)
    lane = short.varied(case.scenario, case, offset_s=13.0).lanes["A"]
    assert (lane.work.units, lane.provider.depth_s, lane.provider.window_offset_s) == (30, 20, 13.0)
    assert short.varied("short-headers", case, offset_s=13.0).lanes["A"].provider.window_offset_s == 0.0


def test_the_oracle_measured_against_itself_misses_nothing() -> None:
    case = Case("short-known", 1.0, 0, 0.0, units=50, depth_s=10)
    assert short.misses(case, short.measure(case, seeds=(1,), policy="oracle")) == []


def test_every_kind_of_missed_bar_is_reported() -> None:
    case = Case("short-known", 1.3, 5, 0.01, units=100, depth_s=10)
    bad = Result("A", 100, ratio=1.31, refused=6, oracle_s=10.0, to_blind=1.5, unfinished=2)
    assert short.misses(case, [bad]) == [
        "short-known, 100 units, 10 s A: 1.31 of the oracle, the bar is 1.3",
        "short-known, 100 units, 10 s A: 6 429s, the bar is 5",
        "short-known, 100 units, 10 s A: 1.50 times as long as blind",
        "short-known, 100 units, 10 s A: 2 units did not end",
    ]
    assert case.most_refused(1_000) == 10


@pytest.mark.parametrize("name", ["clock-minutes-blind", "fixed-windows-blind", "clock-minutes-warm"])
def test_silent_windows_are_recognised_and_used(name: str) -> None:
    case = next(case for case in short.WINDOWS if case.scenario == name)
    assert short.misses(case, short.measure(case, seeds=(1,))) == []


@pytest.mark.parametrize("seed", [1, 3])
def test_clock_minutes_are_recognised_from_what_is_left(seed: int) -> None:
    """One job begins 13 s into a minute, the other 52 s: then the boundary comes while much is in the gateway's queue."""
    cases = [case for case in short.WINDOWS if case.scenario == "gateway-minutes"]
    assert [miss for case in cases for miss in short.misses(case, short.measure(case, seeds=(seed,)))] == []


def test_headers_that_speak_of_another_span_cost_a_few_refusals() -> None:
    cases = [case for case in short.SHORT if case.scenario == "short-minute-levels"]
    assert [miss for case in cases for miss in short.misses(case, short.measure(case, seeds=(2,)))] == []


@pytest.mark.parametrize("name", ["short-connections", "short-requests-connections"])
def test_a_burst_that_waits_for_its_connections_meets_few_refusals(name: str) -> None:
    for case in short.SHORT:
        if case.scenario == name:
            assert short.misses(case, short.measure(case, seeds=(1,))) == []
