"""Durations, spreads and seeded random numbers."""

from __future__ import annotations

import pytest

from headway.fake.quantities import Spread, go_duration, parse_spread, seconds
from headway.fake.seeded_random import draw


@pytest.mark.parametrize(
    ("value", "expected"),
    [("200ms", 0.2), ("10s", 10), ("1m30s", 90), ("1.5h", 5400), (0.5, 0.5), ("7", 7), (3, 3), ("0s", 0)],
)
def test_durations_are_parsed(value: object, expected: float) -> None:
    assert seconds(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    "value", ["soon", "10 parsecs", "-1s", -1, "", True, None, float("inf"), float("nan")]
)
def test_invalid_durations_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0s"),
        (0.12, "120ms"),
        (0.0001, "1ms"),
        (1, "1s"),
        (7.66, "7.66s"),
        (59.9999, "1m0s"),
        (360, "6m0s"),
        (179.56, "2m59.56s"),
        (3600, "1h0m0s"),
        (86400, "24h0m0s"),
    ],
)
def test_durations_are_written_as_in_openai_headers(value: float, text: str) -> None:
    assert go_duration(value) == text
    assert float(seconds(text)) >= value - 1e-6


def test_spreads_are_parsed() -> None:
    assert parse_spread("200ms") == Spread(0.2)
    assert parse_spread({"min": 1, "max": 3}).at(0.5) == 2.0
    assert parse_spread({"mean": 2, "jitter": 0.5}) == Spread(1.5, 2.5)
    for wrong in ({"min": 3, "max": 1}, {"min": 1}, {"average": 1}):
        with pytest.raises(ValueError, match="min"):
            parse_spread(wrong)


def test_draws_are_uniform_and_reproducible() -> None:
    draws = [draw(7, number) for number in range(10_000)]
    assert draws == [draw(7, number) for number in range(10_000)]
    assert draws != [draw(8, number) for number in range(10_000)]
    for tenth in range(10):
        share = sum(tenth / 10 <= value < (tenth + 1) / 10 for value in draws) / len(draws)
        assert share == pytest.approx(0.1, abs=0.015)
