"""Every notation of a duration, and what is not a duration."""

from __future__ import annotations

import pytest

from headway.core.model import DAY_S
from headway.providers.limits.durations import (
    LONGEST_S,
    TimeSpan,
    parse_duration,
    parse_leading_duration,
    parse_number,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360.0),
        ("120ms", 0.12),
        ("7.66s", 7.66),
        ("7.66ms", 0.00766),
        ("2m59.56s", 179.56),
        ("1h2m3.5s", 3723.5),
        ("19h14m47s", 69_287.0),
        ("1h", 3600.0),
        ("2m", 120.0),
        ("2m5ms", 120.005),
        ("0s", 0.0),
        ("1d2h", 93_600.0),
        ("35 seconds", 35.0),
        ("1 second", 1.0),
        ("3 hours 32 minutes", 12_720.0),
        ("2 days 3 hours 5 minutes", 2 * DAY_S + 11_100.0),
        ("1 hour, 5 minutes and 10 seconds", 3910.0),
        ("2 weeks", 14 * DAY_S),
        ("500 ms", 0.5),
        ("250µs", 0.00025),
        ("5 MINS", 300.0),
        ("366d", LONGEST_S),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    span = parse_duration(text)
    assert span is not None
    assert span.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s",
        "12",
        "-5s",
        "5x",
        "1.2.3s",
        "5 months",
        "1 year",
        "367d",
        "9999999h",
        "5s later",
        "in 5s",
        "ms5",
        "²s",
        "1e3s",
    ],
)
def test_texts_without_a_duration(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("text", "step_s"),
    [
        ("20s", 0.001),
        ("11.054s", 0.001),
        ("35 seconds", 1.0),
        ("3 hours 32 minutes", 60.0),
        ("2 hours", 3600.0),
        ("1.5 hours", 0.001),
    ],
)
def test_the_step_follows_the_notation(text: str, step_s: float) -> None:
    span = parse_duration(text)
    assert span is not None
    assert span.step_s == step_s


def test_a_duration_in_a_sentence() -> None:
    text = "try again in 1m12.5s. Visit"
    assert parse_leading_duration(text, 13) == TimeSpan(72.5, 0.001, 20)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0.0),
        ("5000", 5000.0),
        ("1.5", 1.5),
        ("1,500,000", 1.5e6),
        (" 7 ", 7.0),
        ("100, 100;w=60", 100.0),
        ("100;w=60", 100.0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    assert parse_number(text) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "nan", "inf", "-inf", "1e12", "1e999", "x", "1,x", "0x10", ",", "--5"]
)
def test_texts_without_a_number(text: str) -> None:
    assert parse_number(text) is None
