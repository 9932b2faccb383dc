"""Points in time and waits, distinguished by form: ISO 8601, HTTP dates, epoch in seconds or milliseconds, durations, seconds.

An instant is compared with the provider's own clock, the `Date` header of the response if there is one: the local clock may
be wrong, `reset − Date` is not. A `Date` is rounded down to the second and most instants are rounded up, so the difference
may be up to two seconds too long. An instant in the past gives 0, one more than a year away gives None.
"""

from __future__ import annotations

import re
from calendar import timegm
from datetime import UTC, datetime
from functools import lru_cache
from string import ascii_letters
from typing import Final

from headway.lazy_pattern import lazy_pattern
from headway.providers.limits.durations import LONGEST_S, TimeSpan, parse_duration, plausible_wait

#: From here on a number is an epoch in seconds, or in milliseconds (providers.md §1).
EPOCH_S: Final = 1e9
EPOCH_MS: Final = 1e12
MILLISECOND_S: Final = 0.001

_LETTERS: Final = frozenset(ascii_letters)
_MONTHS: Final = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH: Final = {name: place for place, name in enumerate(_MONTHS, 1)}
_TIME: Final = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"
#: The three forms of RFC 9110 §5.6.7; only the first is still sent.
_HTTP_DATES: Final = tuple(
    lazy_pattern(form)
    for form in (
        rf"\w{{3}}, (?P<day>\d\d) (?P<month>\w{{3}}) (?P<year>\d{{4}}) {_TIME} GMT",
        rf"\w{{6,9}}, (?P<day>\d\d)-(?P<month>\w{{3}})-(?P<year>\d\d) {_TIME} GMT",
        rf"\w{{3}} (?P<month>\w{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)


def parse_wait(value: str, now_utc: float, clock_step_s: float = 0.0) -> TimeSpan | None:
    """The wait that a text states in any of these forms; None if it states no plausible one.

    `clock_step_s` is the step that `now_utc` was rounded down to.
    """
    value = value.strip()
    if value[4:5] == "-":
        return _until_iso(value, now_utc, clock_step_s)
    if value[-1:] in _LETTERS:  # A unit or a zone. Trying float() first would cost an exception.
        return parse_duration(value) or _until_date(value, now_utc, clock_step_s)
    try:
        figure = float(value)
    except ValueError:
        return _until_date(value, now_utc, clock_step_s)
    if figure >= EPOCH_MS:
        return wait_until(figure / 1000.0, now_utc, MILLISECOND_S + clock_step_s)
    if figure >= EPOCH_S:
        return wait_until(figure, now_utc, 1.0 + clock_step_s)
    if plausible_wait(figure) is None:
        return None
    return TimeSpan(figure, 1.0 if value.isdigit() else MILLISECOND_S)


def wait_from_value(value: float | str, now_utc: float) -> TimeSpan | None:
    """As `parse_wait`, for a number or a text."""
    try:
        text = str(value)
    except ValueError:  # A whole number of more digits than Python writes.
        return None
    return parse_wait(text, now_utc)


def wait_until(instant_utc: float, now_utc: float, step_s: float) -> TimeSpan | None:
    """The time until an instant: 0 if it has passed, None if it is more than a year away in either direction."""
    seconds = instant_utc - now_utc
    if not -LONGEST_S <= seconds <= LONGEST_S:
        return None
    return TimeSpan(max(0.0, seconds), step_s)


def _until_iso(value: str, now_utc: float, clock_step_s: float) -> TimeSpan | None:
    instant = iso_date(value)
    step_s = MILLISECOND_S if "." in value else 1.0
    return None if instant is None else wait_until(instant, now_utc, step_s + clock_step_s)


def _until_date(value: str, now_utc: float, clock_step_s: float) -> TimeSpan | None:
    instant = http_date(value)
    return None if instant is None else wait_until(instant, now_utc, 1.0 + clock_step_s)


def iso_date(value: str) -> float | None:
    """An RFC 3339 date and time, or similar, as epoch seconds; UTC if it has no zone. A date alone gives None."""
    if not 16 <= len(value) <= 40 or not value[0].isdigit():
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=64)
def http_date(value: str) -> float | None:
    """An HTTP date as epoch seconds. Cached: all responses of one second have the same."""
    for form in _HTTP_DATES:
        match = form.fullmatch(value)
        if match is not None:
            return _epoch(match)
    return None


def _epoch(match: re.Match[str]) -> float | None:
    month = _MONTH.get(match["month"])
    year = int(match["year"])
    if month is None:
        return None
    if year < 100:
        year += 2000 if year < 70 else 1900
    parts = (year, month, int(match["day"]), int(match["h"]), int(match["m"]), int(match["s"]))
    try:
        return float(timegm(parts))
    except (ValueError, OverflowError):
        return None


def server_now(date: str | None, now_utc: float) -> float:
    """The time on the provider's clock: its `Date` header, otherwise the local clock."""
    instant = http_date(date.strip()) if date else None
    return now_utc if instant is None else instant
