"""Sentences of an error message → which limit, its numbers, and how long to wait.

    Rate limit reached for … on tokens per min (TPM): Limit 30000, Used 22999, Requested 12528. Please try again in 11.054s.
    This request would exceed your organization's rate limit of 30,000 input tokens per minute …
    You've hit your session limit · resets 4pm (America/Los_Angeles)

Google's quota ids are read here too: `GenerateRequestsPerDayPerProjectPerModel-FreeTier` is requests, a day.
Only messages of errors are read here. Every pattern is bounded, so a hostile text costs no more time than any other.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from headway.core.model import DAY_S, MINUTE_S, Dimension
from headway.lazy_pattern import lazy_pattern
from headway.providers.limits.clock_times import wait_until_clock_time
from headway.providers.limits.durations import (
    HOUR_S,
    MONTH_S,
    WEEK_S,
    TimeSpan,
    parse_leading_duration,
    parse_number,
)
from headway.providers.limits.instants import parse_wait, wait_until

#: The rest of a longer message is not read.
LONGEST_MESSAGE: Final = 4096

_PERIODS: Final = {"s": 1.0, "m": MINUTE_S, "h": HOUR_S, "d": DAY_S, "w": WEEK_S, "mo": MONTH_S}
_SHORT: Final = lazy_pattern(r"\b(I|O)?(R|T)P(S|M|H|D|W)\b")
_LONG: Final = lazy_pattern(
    r"(?<![^\W_])(?:(input|prompt|output|completion|generated)[ _])?(tokens?|requests?|api calls?|calls?)"
    r"(?: ?/ ?|[ _-]per[ _-])(second|min(?:ute)?|hour|day|week|month)",
    re.IGNORECASE,
)
#: Sentences that name the dimension, and perhaps the period. "Too many requests" alone names nothing: it is the name of
#: status 429.
_LOOSE: Final = lazy_pattern(
    r"\b(?:exceeded (?:the )?|too many (?!requests\b(?!, please wait))|number of )"
    r"(input |output |request )?(tokens?|requests?|calls?)\b"
    r"(?:[^.]{0,40}?\b(?:(per[ -]minute)|(per[ -]day|daily)))?",
    re.IGNORECASE,
)
_LIMIT: Final = lazy_pattern(
    r"\bLimit:? ([\d,]{1,15})\b(?: ?/ ?\w{1,6})?(?:[,.] Used:? ([\d,]{1,15}))?(?:[,.] (?:Requested|Current):? ([\d,]{1,15}))?",
    re.IGNORECASE,
)
_ACTUAL: Final = lazy_pattern(r"\(actual/limit\): ([\d,]{1,15})/([\d,]{1,15})")
_LIMIT_OF: Final = lazy_pattern(r"\b(?:limit of|limited to|limit is) ([\d,]{1,15}) (?=\w)", re.IGNORECASE)

_IN: Final = lazy_pattern(
    r"\b(?:(?:try|retry)(?: again)?|resets?|wait)(?: (?:in|after|for))? (?=\d)", re.IGNORECASE
)
_AT: Final = lazy_pattern(
    r"\b(?:try again(?: at| on)?|resets?(?: at| on)?|will reset(?: at| on)?|regain access on) "
    r"(?=\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)",
    re.IGNORECASE,
)
#: A Retry-After header, quoted in a text.
_HEADER: Final = lazy_pattern(r"\bretry[-_]after['\"]?[:=] ?['\"]?(\d{1,8})\b", re.IGNORECASE)
_EPOCH: Final = lazy_pattern(r"\blimit reached\|(\d{10})(?:\d{3})?\b", re.IGNORECASE)
#: How many possible waits in a message are tried.
_TRIES: Final = 4


class StatedLimit(msgspec.Struct, frozen=True):
    """One limit as a message states it."""

    dimension: Dimension | None = None
    period_s: float | None = None
    limit: float | None = None
    used: float | None = None
    requested: float | None = None

    @property
    def too_large(self) -> bool:
        """Whether the request is larger than the limit, and can never fit."""
        return self.limit is not None and self.requested is not None and self.requested > self.limit > 0.0


NOTHING: Final = StatedLimit()


def stated_limit(message: str) -> StatedLimit:
    """The limit that a message states."""
    message = message[:LONGEST_MESSAGE]
    dimension, period_s = _subject(message)
    match = _LIMIT.search(message)
    if match is not None:
        limit, used, requested = (parse_number(figure) if figure else None for figure in match.groups())
        return StatedLimit(dimension, period_s, limit, used, requested)
    match = _ACTUAL.search(message)
    if match is not None:
        return StatedLimit(dimension, period_s, parse_number(match[2]), parse_number(match[1]))
    match = _LIMIT_OF.search(message)
    if match is not None and dimension is not None:
        return StatedLimit(dimension, period_s, parse_number(match[1]))
    return StatedLimit(dimension, period_s)


def _subject(message: str) -> tuple[Dimension | None, float | None]:
    match = _LONG.search(message)
    if match is not None:
        part, unit, period = match.groups()
        return _dimension(part or "", unit), _PERIODS[_period(period)]
    match = _SHORT.search(message)
    if match is not None:
        part, unit, period = match.groups()
        if unit == "R":
            return Dimension.REQUESTS, _PERIODS[period.lower()]
        return _dimension({"I": "input", "O": "output"}.get(part, ""), "tokens"), _PERIODS[period.lower()]
    match = _LOOSE.search(message)
    if match is None:
        return None, None
    part, unit, minute, day = match.groups()
    period_s = MINUTE_S if minute else DAY_S if day else None
    return _dimension((part or "").strip(), unit), period_s


def _period(word: str) -> str:
    return "mo" if word.lower().startswith("mo") else word[0].lower()


def _dimension(part: str, unit: str) -> Dimension:
    if not unit.lower().startswith("token"):
        return Dimension.REQUESTS
    part = part.lower()
    if part in ("input", "prompt"):
        return Dimension.INPUT
    return Dimension.OUTPUT if part in ("output", "completion", "generated") else Dimension.TOKENS


def stated_wait(message: str, now_utc: float, zone: str) -> TimeSpan | None:
    """The wait that a message states: as a duration, a clock time, an epoch after a bar, or a quoted header."""
    message = message[:LONGEST_MESSAGE]
    span = _duration(message) or _moment(message, now_utc, zone) or _epoch(message, now_utc)
    if span is None and (match := _HEADER.search(message)) is not None:
        span = parse_wait(match[1], now_utc)
    return span


def _duration(message: str) -> TimeSpan | None:
    for tries, match in enumerate(_IN.finditer(message)):
        span = parse_leading_duration(message, match.end())
        if span is not None:
            return span
        if tries >= _TRIES:
            break
    return None


def _moment(message: str, now_utc: float, zone: str) -> TimeSpan | None:
    for tries, match in enumerate(_AT.finditer(message)):
        span = wait_until_clock_time(message, match.end(), now_utc, zone)
        if span is not None:
            return span
        if tries >= _TRIES:
            break
    return None


def _epoch(message: str, now_utc: float) -> TimeSpan | None:
    match = _EPOCH.search(message)
    return None if match is None else wait_until(float(match[1]), now_utc, 1.0)


# -- Google's quota ids ---------------------------------------------------------------------------------------------

_QUOTA_PERIODS: Final = (("perday", DAY_S), ("daily", DAY_S), ("perminute", MINUTE_S))


def quota_limit(name: str, value: str) -> StatedLimit:
    """The limit that a quota id names."""
    name = name.lower()
    period_s = next((period for word, period in _QUOTA_PERIODS if word in name), None)
    if "token" not in name:
        dimension = Dimension.REQUESTS
    else:
        dimension = Dimension.INPUT if "input" in name else Dimension.TOKENS
    return StatedLimit(dimension, period_s, parse_number(value) if value else None)


def quota_limits(named: list[tuple[str, str]]) -> list[StatedLimit]:
    """The limits of all quota ids, the longest period first: a day's limit outlasts a minute's."""
    limits = [quota_limit(name, value) for name, value in named]
    return sorted(limits, key=lambda limit: -(limit.period_s or 0.0))
