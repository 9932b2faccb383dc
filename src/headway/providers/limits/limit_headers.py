"""Rate-limit headers → reports. Reads only the headers that a profile names, in upper or lower case, of every response.

This is the hot path: one pass over the headers of a response fills a row, in which each header of the profile has its
place. A limit without its number is not a report, since the remainder does not give the limit. A reset that cannot be the time
until the limit is full is dropped. Of two limits on the same thing, the tighter one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from headway.core.lanes.meters.meter import SANE_RESET
from headway.core.model import DAY_S, MINUTE_S, Dimension, LimitReport
from headway.providers.limits.durations import HOUR_S, TimeSpan, parse_number, plausible_wait
from headway.providers.limits.instants import MILLISECOND_S, parse_wait, server_now
from headway.providers.limits.profile import DATE, RETRY_AFTER, RETRY_AFTER_MS, LimitHeaders, Profile

HeaderRow = Sequence[str | None]

#: A refill time between these is a day's. The only other candidate, a minute, is 1440 times shorter.
DAILY: Final = (0.5 * DAY_S, 1.5 * DAY_S)
#: The local clock agrees with a `Date` if it is in the same second, give or take this.
CLOCKS_AGREE_S: Final = 0.5
#: Spellings of header names that are remembered. A server has a few dozen.
MOST_SPELLINGS: Final = 512


def header_row(headers: Mapping[str, str], profile: Profile) -> HeaderRow | None:
    """The values of the headers that the profile reads, each in its place; None if there are none."""
    spellings = profile.spellings
    row: list[str | None] | None = None
    for name in headers:
        place = spellings.get(name)
        if place is None:
            place = _place_of(name, profile)
        if place < 0:
            continue
        text = headers[name]
        if isinstance(text, str):
            if row is None:
                row = list(profile.blank)
            row[place] = text
    return row


def _place_of(name: str, profile: Profile) -> int:
    """The place of a header that was not met before in this spelling; -1: it is not read."""
    place = profile.places.get(name.lower(), -1)
    if len(profile.spellings) >= MOST_SPELLINGS:
        profile.spellings.clear()
    profile.spellings[str(name)] = place
    return place


def has_limits(row: HeaderRow, profile: Profile) -> bool:
    """Whether a row has more than the date of the response, which every response has."""
    known = len(row) - row.count(None)
    return known > 1 or row[profile.places[DATE]] is None


def header_value(row: HeaderRow, profile: Profile, name: str) -> str | None:
    """One header of the row."""
    place = profile.places.get(name)
    return None if place is None else row[place]


def server_clock(row: HeaderRow, profile: Profile, now_utc: float) -> float:
    """The time on the provider's clock."""
    return server_now(header_value(row, profile, DATE), now_utc)


def with_minutes(
    reports: tuple[LimitReport, ...], row: HeaderRow, profile: Profile, now_utc: float
) -> tuple[LimitReport, ...]:
    """The reports; those per minute that have no reset with the time to the next minute of the provider's clock.

    A `Date` is rounded down to the second, so the local clock is better where the two agree.
    """
    if all(report.reset_s is not None or report.period_s != MINUTE_S for report in reports):
        return reports
    server_utc = server_clock(row, profile, now_utc)
    utc = now_utc if -CLOCKS_AGREE_S <= now_utc - server_utc <= 1.0 + CLOCKS_AGREE_S else server_utc
    left_s = MINUTE_S - utc % MINUTE_S
    return tuple(
        report
        if report.reset_s is not None or report.period_s != MINUTE_S
        else structs.replace(report, minute_left_s=left_s)
        for report in reports
    )


#: Input alone, output alone.
_PARTS: Final = frozenset({Dimension.INPUT, Dimension.OUTPUT})


def reports_of(row: HeaderRow, profile: Profile, now_utc: float) -> tuple[LimitReport, ...]:
    """The limits that the headers of a row report."""
    reports: list[LimitReport] = []
    repeated = -1
    clock_step_s = 0.0 if row[profile.places[DATE]] is None else 1.0
    for group, limit_at, remaining_at, reset_at in profile.rows:
        text = row[limit_at]
        limit = None if text is None else parse_number(text)
        if not limit:
            continue
        if group.repeats:
            repeated = len(reports)
        text = row[remaining_at]
        remaining = None if text is None else parse_number(text)
        text = row[reset_at]
        reset = None if text is None else parse_wait(text, now_utc, clock_step_s)
        reports.append(_report(group, limit, remaining, reset, profile))
    if repeated >= 0 and any(
        each.limit == reports[repeated].limit for each in reports if each.dimension in _PARTS
    ):
        del reports[repeated]
    return tuple(reports) if len(reports) < 2 else tightest(reports)


def _report(
    group: LimitHeaders, limit: float, remaining: float | None, reset: TimeSpan | None, profile: Profile
) -> LimitReport:
    if remaining is not None and remaining > limit:
        remaining = limit
    if reset is not None and reset.seconds == 0.0 and profile.zero_is_unknown:
        reset = None
        remaining = remaining or None  # Nothing left and no wait: both are unknown.
    period_s = _period(group, limit, remaining, reset)
    if reset is None or reset.seconds > SANE_RESET * period_s:
        return LimitReport(
            group.dimension, limit, remaining, None, period_s, remaining_precision=group.remaining_precision
        )
    return LimitReport(
        group.dimension, limit, remaining, reset.seconds, period_s, reset.step_s, group.remaining_precision
    )


def _period(group: LimitHeaders, limit: float, remaining: float | None, reset: TimeSpan | None) -> float:
    """The period of the limit; estimated from the reset if the profile does not know it."""
    if group.period_s is None:
        return usual_window(reset)
    if group.maybe_daily and remaining is not None and reset is not None and remaining < limit:
        refill_s = reset.seconds * limit / (limit - remaining)
        if DAILY[0] <= refill_s <= DAILY[1]:
            return DAY_S
    return group.period_s


def usual_window(reset: TimeSpan | None) -> float:
    """The shortest usual window that contains the reset: a minute, an hour, a day."""
    if reset is None or reset.seconds <= MINUTE_S:
        return MINUTE_S
    return HOUR_S if reset.seconds <= HOUR_S else DAY_S


def tightest(reports: Sequence[LimitReport]) -> tuple[LimitReport, ...]:
    """The tightest report of each dimension and period."""
    kept: dict[tuple[str, float], LimitReport] = {}
    for report in reports:
        key = (report.dimension, report.period_s)
        known = kept.get(key)
        if known is None or _left(report) < _left(known):
            kept[key] = report
    return tuple(kept.values())


def _left(report: LimitReport) -> float:
    return report.limit if report.remaining is None else report.remaining


def retry_after(row: HeaderRow, profile: Profile, now_utc: float) -> TimeSpan | None:
    """How long a refused client should wait: by the headers in milliseconds, then Retry-After, then others."""
    for name in RETRY_AFTER_MS:
        text = header_value(row, profile, name)
        milliseconds = parse_number(text) if text else None
        seconds = None if milliseconds is None else plausible_wait(milliseconds / 1000.0)
        if seconds or (seconds == 0.0 and not profile.zero_is_unknown):
            return TimeSpan(seconds, MILLISECOND_S)
    for name in (RETRY_AFTER, *profile.wait_headers):
        text = header_value(row, profile, name)
        span = parse_wait(text, now_utc) if text else None
        if span is not None and (span.seconds > 0.0 or not profile.zero_is_unknown):
            return span
    return None
