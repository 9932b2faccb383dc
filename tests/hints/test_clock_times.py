"""Wall-clock resets: the next such moment in the named time zone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.hints.row import NOW

from headway.providers.limits.clock_times import wait_until_clock_time, zone_of
from headway.providers.limits.message_limits import stated_wait

HOUR, DAY = 3600.0, 86_400.0


def at(*moment: int) -> float:
    year, month, day, hour, minute = moment
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("4pm (America/Los_Angeles)", 16 * HOUR),
        ("4pm (Europe/Berlin)", 7 * HOUR),
        ("11:18am (UTC)", 3 * HOUR + 18 * 60),
        ("11:18 AM", 3 * HOUR + 18 * 60),
        ("11:18\u202fAM", 3 * HOUR + 18 * 60),
        ("11:18 a.m.", 3 * HOUR + 18 * 60),
        ("12am", 16 * HOUR),
        ("12pm", 4 * HOUR),
        ("7:49am", DAY - 11 * 60),
        ("16:21", 8 * HOUR + 21 * 60),
        ("Nov 20, 6am", 5 * DAY - 2 * HOUR),
        ("November 20, 6am", 5 * DAY - 2 * HOUR),
        ("Nov 20 at 6am (UTC)", 5 * DAY - 2 * HOUR),
        ("Nov 17th, 2026 6:15 PM", 2 * DAY + 10 * HOUR + 15 * 60),
        ("Tuesday 9am", 2 * DAY + HOUR),
        ("Mon at 9am", DAY + HOUR),
        ("Sunday 7am", 7 * DAY - HOUR),
        ("2026-11-15T15:00:00Z", 7 * HOUR),
        ("2026-12-01 at 00:00 UTC", 15 * DAY + 16 * HOUR),
        ("7:55am", 60.0),
        ("8am", 60.0),
    ],
)
def test_the_next_such_moment(text: str, seconds: float) -> None:
    span = wait_until_clock_time(text, 0, NOW, "UTC")
    assert span is not None
    assert span.seconds == seconds


@pytest.mark.parametrize(
    "text", ["", "4", "13pm", "0am", "25:00", "10:77 AM", "Feb 30, 6am", "Jan 3, 6am (stale)", "soon"]
)
def test_texts_without_a_moment(text: str) -> None:
    assert wait_until_clock_time(text, 0, NOW, "UTC") is None


@pytest.mark.parametrize(
    "name",
    ["Moon/Tycho", "America", "../../etc/passwd", "/etc/passwd", "PST8PDT9", "x" * 300, "\x00", "", "utc"],
)
def test_an_unknown_zone_is_utc(name: str) -> None:
    assert zone_of(name).utcoffset(datetime(2026, 7, 1, tzinfo=UTC)) == UTC.utcoffset(None)


def test_without_a_zone_the_local_one_is_used() -> None:
    here = wait_until_clock_time("4pm", 0, NOW, "America/Los_Angeles")
    there = wait_until_clock_time("4pm", 0, NOW, "UTC")
    assert here is not None
    assert there is not None
    assert (here.seconds, there.seconds) == (16 * HOUR, 8 * HOUR)


def test_a_date_without_a_year_may_be_in_the_next_year() -> None:
    span = wait_until_clock_time("Jan 2, 6am", 0, at(2026, 12, 30, 6, 0), "UTC")
    assert span is not None
    assert span.seconds == 3 * DAY


def test_the_clocks_go_back_before_the_reset() -> None:
    before = at(2026, 11, 1, 4, 0)  # 21:00 in Los Angeles; at 2am summer time ends.
    span = wait_until_clock_time("4am (America/Los_Angeles)", 0, before, "UTC")
    assert span is not None
    assert span.seconds == 8 * HOUR


def test_a_stale_date_is_not_held_until_next_year() -> None:
    assert wait_until_clock_time("Nov 12, 6am", 0, NOW, "UTC") is None


@pytest.mark.parametrize("now_utc", [float("nan"), float("inf"), -1e18, 1e18])
def test_an_impossible_current_time_gives_nothing(now_utc: float) -> None:
    assert wait_until_clock_time("4pm (America/Los_Angeles)", 0, now_utc, "UTC") is None


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 166ms.", 0.166),
        ("Please retry after 9 seconds. Please go here", 9.0),
        ("Please retry in 26.465312s.", 26.465312),
        ("Your quota will reset after 19h14m47s.", 69_287.0),
        ("Rate limit exceeded. Try again in 35 seconds.", 35.0),
        ("resets in 2h 15m", 8100.0),
        ("You've hit your limit · resets 4pm (America/Los_Angeles)", 16 * HOUR),
        ("or try again at 10:21 AM.", 2 * HOUR + 21 * 60),
        ("Claude AI usage limit reached|1794741540", 11_940.0),
        ("Claude AI usage limit reached|1794741540000", 11_940.0),
        ("HTTP 429: Retry-After: 30", 30.0),
        ('{"retry_after": "30"}', 30.0),
    ],
)
def test_waits_in_messages(message: str, seconds: float) -> None:
    span = stated_wait(message, NOW, "UTC")
    assert span is not None
    assert span.seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    "message",
    ["Try again later.", "resets soon", "in 20s", "try again in a while", "retries 3 times", "20s", "at 4pm"],
)
def test_no_wait_in_messages(message: str) -> None:
    assert stated_wait(message, NOW, "UTC") is None
