"""Numbers and durations as providers write them: `6m0s`, `120ms`, `7.66s`, `35 seconds`, `3 hours 32 minutes`, `12`.

Points in time are read in `instants`. Implausible values (NaN, a negative number, more than a year) give None, never an
exception.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from headway.core.model import DAY_S, MINUTE_S
from headway.lazy_pattern import lazy_pattern

HOUR_S: Final = 3600.0
WEEK_S: Final = 7 * DAY_S
MONTH_S: Final = 30 * DAY_S
#: No provider asks for a longer wait. A leap year, so that "in 365 days" is accepted.
LONGEST_S: Final = 366 * DAY_S
#: No limit or remainder is larger. A larger number is an epoch in milliseconds, or garbage.
LARGEST: Final = 1e12

#: Go prints a duration as `6m0s`; providers that do so count in milliseconds.
COMPACT_STEP_S: Final = 0.001
#: As many parts as there are units: weeks, days, hours, minutes, seconds, milliseconds.
MOST_PARTS: Final = 6

_UNITS: Final = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": MINUTE_S,
    "h": HOUR_S,
    "d": DAY_S,
    "w": WEEK_S,
}
_WORDS: Final = {"millisecond": "ms", "msec": "ms", "second": "s", "sec": "s", "minute": "m", "min": "m"} | {
    "hour": "h", "hr": "h", "day": "d", "week": "w",
}  # fmt: skip
_PART: Final = lazy_pattern(
    r"(\d{1,12})(\.\d{1,12})?(\s?)"
    r"(milliseconds?|msecs?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|weeks?|ns|us|µs|μs|ms|s|m|h|d|w)"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
#: Nearly every reset, in one match: `6m0s`, `120ms`, `7.66s`.
_COMPACT: Final = lazy_pattern(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(\d{1,9}(?:\.\d{1,9})?)(m?)s")
_JOINT: Final = lazy_pattern(r",?\s{0,3}(?:and\s)?")


class TimeSpan(msgspec.Struct, frozen=True, gc=False):
    """A length of time, the step it was rounded to, and its end in the text."""

    seconds: float
    step_s: float
    end: int = 0


def parse_number(text: str) -> float | None:
    """A limit or its remainder; None if it is negative, infinite or far too large.

    Thousands may be separated by commas. Of a list (`100, 100;w=60`, as in old drafts of RateLimit-Limit) the first item
    counts.
    """
    try:
        value = float(text)
    except ValueError:
        first = text.partition(", ")[0].partition(";")[0].replace(",", "")
        return parse_number(first) if first != text else None
    return value if 0.0 <= value < LARGEST else None


def plausible_wait(seconds: float) -> float | None:
    """The seconds if they are a plausible wait, otherwise None."""
    return seconds if 0.0 <= seconds <= LONGEST_S else None


def parse_duration(text: str) -> TimeSpan | None:
    """A duration with units that is the whole text."""
    quick = _COMPACT.fullmatch(text)
    if quick is not None:
        hours, minutes, figure, milli = quick.groups()
        seconds = float(figure)
        if milli:
            seconds /= 1000.0
        if minutes:
            seconds += MINUTE_S * int(minutes)
        if hours:
            seconds += HOUR_S * int(hours)
        return TimeSpan(seconds, COMPACT_STEP_S) if seconds <= LONGEST_S else None
    span = parse_leading_duration(text, 0)
    return span if span is not None and span.end == len(text) else None


def parse_leading_duration(text: str, start: int) -> TimeSpan | None:
    """A duration with units that begins at `start`; any text may follow."""
    total, step_s, end, position = 0.0, COMPACT_STEP_S, -1, start
    for _ in range(MOST_PARTS):
        part = _PART.match(text, position)
        if part is None:
            break
        whole, fraction, space, unit = part.groups()
        worth_s = _worth(unit)
        total += float(whole + (fraction or "")) * worth_s
        step_s = _step(worth_s, fraction, spelled=bool(space) or len(unit) > 2)
        end = part.end()
        position = _after_joint(text, end)
    if end < 0 or plausible_wait(total) is None:
        return None
    return TimeSpan(total, step_s, end)


def _after_joint(text: str, end: int) -> int:
    joint = _JOINT.match(text, end)
    return joint.end() if joint is not None else end


def _worth(unit: str) -> float:
    unit = unit.lower()
    if unit in _UNITS:
        return _UNITS[unit]
    return _UNITS[_WORDS[unit.removesuffix("s")]]


def _step(worth_s: float, fraction: str | None, *, spelled: bool) -> float:
    """The rounding step: `35 seconds` is rounded to seconds, `3 hours 32 minutes` to minutes, `20s` and `7.66s` to milliseconds."""
    return worth_s if spelled and fraction is None else COMPACT_STEP_S
