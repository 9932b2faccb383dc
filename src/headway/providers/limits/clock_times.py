"""Times of day as agent CLIs print them: `4pm (America/Los_Angeles)`, `Apr 3, 6am`, `10:21 AM`, `16:21`.

Such a text leaves out the day, the year, and often the zone. It means the next such moment. An unknown or misspelled zone
is UTC; without a zone, the zone of the machine that ran the program counts, which the caller names.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from headway.core.model import DAY_S, MINUTE_S
from headway.lazy_pattern import lazy_pattern
from headway.providers.limits.durations import TimeSpan, plausible_wait
from headway.providers.limits.instants import iso_date, wait_until

#: A time that passed less than this ago is due, not a day away: try again in a minute.
JUST_PASSED_S: Final = 600.0
#: A date without a year is at most this far away. Otherwise a date of yesterday would mean a hold until next year.
LONGEST_UNDATED_S: Final = 32 * DAY_S
#: Clocks on a screen show minutes.
STEP_S: Final = MINUTE_S

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_WEEKDAYS: Final = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_WHEN: Final = lazy_pattern(
    r"(?:(?P<weekday>mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},?\s(?:at\s)?)?"
    r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?\s(?P<day>\d{1,2})(?:st|nd|rd|th)?"
    r"(?:,?\s(?P<year>\d{4}))?,?\s(?:at\s)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?(?:\s?(?P<half>[ap])\.?m\b\.?|(?<=:\d\d)\b)"
    r"(?:\s?\((?P<zone>[A-Za-z_+\-/0-9]{1,48})\)|\s(?P<short>UTC|GMT)\b)?",
    re.IGNORECASE,
)
_ISO: Final = lazy_pattern(
    r"\d{4}-\d\d-\d\d(?:T|\s(?:at\s)?)\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?"
)


def wait_until_clock_time(text: str, start: int, now_utc: float, zone: str) -> TimeSpan | None:
    """The time until the moment that is written at `start`; None if there is none, or no plausible one."""
    iso = _ISO.match(text, start)
    if iso is not None:
        instant = iso_date(iso[0].replace(" at ", "T"))
        return None if instant is None else wait_until(instant, now_utc, STEP_S)
    when = _WHEN.match(text, start)
    if when is None:
        return None
    try:
        return _wait_until(when, now_utc, zone_of(when["zone"] or when["short"] or zone))
    except (ValueError, OverflowError, OSError):
        return None


def zone_of(name: str) -> tzinfo:
    """The zone of that name; UTC if it is unknown."""
    if name.upper() in ("UTC", "GMT", "Z", ""):
        return UTC
    from zoneinfo import ZoneInfo  # Few messages name a zone.

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # Unknown; not a key at all; a directory such as "America".
        return UTC


def _wait_until(when: re.Match[str], now_utc: float, zone: tzinfo) -> TimeSpan | None:
    now = datetime.fromtimestamp(now_utc, zone)
    moment = _moment(when, now)
    seconds = moment.timestamp() - now_utc
    if -JUST_PASSED_S <= seconds <= 0.0:
        return TimeSpan(MINUTE_S, STEP_S)
    if seconds < 0.0:
        moment = _next_moment(when, moment, now)
        seconds = moment.timestamp() - now_utc
    if when["year"] is None and seconds > LONGEST_UNDATED_S:
        return None
    return None if plausible_wait(seconds) is None else TimeSpan(seconds, STEP_S)


def _moment(when: re.Match[str], now: datetime) -> datetime:
    """The moment, with the missing parts taken from now."""
    hour = int(when["hour"])
    if when["half"] is not None:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + (12 if when["half"].lower() == "p" else 0)
    moment = now.replace(hour=hour, minute=int(when["minute"] or 0), second=0, microsecond=0, fold=0)
    if when["month"] is not None:
        month = _MONTHS.index(when["month"].lower()) + 1
        return moment.replace(year=int(when["year"] or now.year), month=month, day=int(when["day"]))
    if when["weekday"] is not None:
        ahead = (_WEEKDAYS.index(when["weekday"].lower()) - now.weekday()) % 7
        return moment + timedelta(days=ahead)
    return moment


def _next_moment(when: re.Match[str], moment: datetime, now: datetime) -> datetime:
    """The next such moment after one that has passed: next year, next week or tomorrow. A full date stays."""
    if when["year"] is not None:
        return moment
    if when["month"] is not None:
        return moment.replace(year=now.year + 1)
    return moment + timedelta(days=7 if when["weekday"] is not None else 1)
