"""A failure's parts → its facts: the kind in the light of the numbers, the wait, the reports.

The order matters and is all here: headers are read against the provider's clock; the kind comes from codes, sentences
and status, and is then refined by what the numbers say (a day's limit is a hold, a request above its limit can never
fit); and the wait is the headers', then the body's, then the sentence's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from headway.core.model import DAY_S, MINUTE_S, Dimension, Hint, Kind, Report
from headway.providers import gauges, ietf
from headway.providers.bodies import LONGEST_CODE, Said
from headway.providers.clocks import clock
from headway.providers.durations import HOUR_S, MONTH_S, Span
from headway.providers.gauges import Row
from headway.providers.google import quotas
from headway.providers.kinds import kind_of
from headway.providers.messages import shown
from headway.providers.profile import Profile
from headway.providers.resets import wait
from headway.providers.seen import Facts, Seen
from headway.providers.texts import Told, limit_in, wait_in

#: "Come back within the hour" is what a rate limit says, whatever it calls itself (providers.md §2, Azure); and what
#: asks for more than that is a hold.
LONGEST_RATE_S: Final = HOUR_S
#: Nothing comes back by waiting.
_FINAL: Final = frozenset({Kind.AUTH, Kind.INVALID, Kind.TOO_LARGE})
#: How OpenAI and its like answer a path that they do not have.
_NO_SUCH_PATH: Final = "invalid url"


class Case(msgspec.Struct):
    """Everything about one failure while it is being understood."""

    status: int | None
    said: Said
    row: Row
    profile: Profile
    now_utc: float
    zone: str
    reports: tuple[Report, ...] = ()
    told: list[Told] = []


def facts(status: int | None, said: Said, seen: Seen, profile: Profile, now_utc: float, zone: str) -> Facts:
    """What the failure means."""
    case = _case(status, said, seen, profile, now_utc, zone)
    kind, code = kind_of(status, said, profile)
    span = gauges.retry_after(case.row, profile, case.now_utc) or _said_wait(case)
    kind = _refined(case, kind, span)
    if kind is Kind.HOLD:
        span = _hold(case, span)
    elif kind in _FINAL:
        span = None
    elif span is None and kind is Kind.RATE:
        span = _reopening(case)
    message = shown(said.message, otherwise="" if status is None else f"HTTP {status}")
    growing = kind is Kind.RATE and code in profile.ramps
    wrong_path = kind is Kind.AUTH and _NO_SUCH_PATH in said.message.lower()
    return Facts(kind, _hint(case, kind, span, growing=growing), message, code, wrong_path)


def _case(status: int | None, said: Said, seen: Seen, profile: Profile, now_utc: float, zone: str) -> Case:
    """Read the headers, and those that a gateway passed on in the body."""
    row = gauges.row_of(seen.headers, profile) or profile.blank
    now_utc = gauges.clock_of(row, profile, now_utc)
    passed_on = gauges.row_of(said.headers, profile) if said.headers else None
    if passed_on is not None:
        row = [own if own is not None else other for own, other in zip(row, passed_on, strict=True)]
    case = Case(status, said, row, profile, now_utc, zone, reports_of(row, profile, now_utc))
    named = gauges.value(case.row, profile, profile.code_header)
    if named:  # AWS: "ThrottlingException:http://internal.amazon.com/coral/…"
        said.codes.insert(0, named.partition(":")[0].strip()[:LONGEST_CODE])
    told = (*quotas(said.quotas), limit_in(said.message))
    case.told = [limit for limit in told if limit.dimension is not None or limit.limit is not None]
    return case


def reports_of(row: Row, profile: Profile, now_utc: float) -> tuple[Report, ...]:
    """What the headers report, in the provider's own names and in the IETF's."""
    reports = gauges.reports_of(row, profile, now_utc)
    return gauges.tightest((*reports, *ietf.reports_of(row, profile))) if profile.ietf else reports


# -- the kind ---------------------------------------------------------------------------------------------------


def _refined(case: Case, kind: Kind, span: Span | None) -> Kind:
    """The kind in the light of the numbers."""
    if kind is Kind.QUOTA:
        soon = span is not None and span.seconds <= LONGEST_RATE_S
        return Kind.RATE if soon and case.profile.quota_returns and case.status == 429 else kind
    if kind is not Kind.RATE:
        return kind
    if _never_fits(case):
        return Kind.TOO_LARGE
    period_s = _longest_period(case)
    if period_s >= MONTH_S and span is None:
        return Kind.QUOTA
    long = span is not None and span.seconds > LONGEST_RATE_S
    return Kind.HOLD if period_s >= DAY_S or long or _session_rejected(case) else kind


def _never_fits(case: Case) -> bool:
    return any(limit.too_large for limit in case.told)


def _longest_period(case: Case) -> float:
    """The period of the limit that was met: the message's, otherwise that of whatever is used up."""
    told = [limit.period_s for limit in case.told if limit.period_s is not None]
    return max(told or (report.period_s for report in _used_up(case)), default=0.0)


def _used_up(case: Case) -> Iterator[Report]:
    return (report for report in case.reports if report.remaining is not None and report.remaining <= 0.0)


def _session_rejected(case: Case) -> bool:
    session = case.profile.session
    return session is not None and gauges.value(case.row, case.profile, session.status) == session.rejected


# -- the wait ---------------------------------------------------------------------------------------------------


def _said_wait(case: Case) -> Span | None:
    """The longest wait that body and message speak of: of `26s` and `26.46s` the first was cut off."""
    spans = [wait(text, case.now_utc) for text in case.said.waits]
    spans.append(wait_in(case.said.message, case.now_utc, case.zone))
    return _longest(spans)


def _longest(spans: list[Span | None]) -> Span | None:
    known = [span for span in spans if span is not None]
    return max(known, key=lambda span: span.seconds, default=None)


def _hold(case: Case, span: Span | None) -> Span | None:
    """Until when a hold lasts: the last of all that is said. Short of a day's limit "in 40 s" means nothing."""
    spans = [span, _said_wait(case), _reopening(case)]
    if case.profile.session is not None and _session_rejected(case):
        text = gauges.value(case.row, case.profile, case.profile.session.reset)
        spans.append(wait(text, case.now_utc) if text else None)
    longest = _longest(spans)
    if case.profile.day_zone and (longest is None or longest.seconds <= MINUTE_S):
        return clock("12am", 0, case.now_utc, case.profile.day_zone)
    return longest


def _reopening(case: Case) -> Span | None:
    """When a window opens again, where resets mean that: the last one of those that are used up or spoken of."""
    if not case.profile.reset_reopens:
        return None
    met = _dimension(case)
    spans: list[Span | None] = [
        Span(report.reset_s, report.reset_precision_s)
        for report in case.reports
        if report.reset_s is not None and (report.remaining == 0.0 or report.dimension is met)
    ]
    return _longest(spans)


# -- the hint ---------------------------------------------------------------------------------------------------


def _hint(case: Case, kind: Kind, span: Span | None, *, growing: bool) -> Hint:
    """Everything about limits. A message's numbers count only where a limit was met."""
    limited = kind in (Kind.RATE, Kind.HOLD) or (kind is Kind.TOO_LARGE and _never_fits(case))
    return Hint(
        (*case.reports, *_told_reports(case)) if limited else case.reports,
        None if span is None else span.seconds,
        0.0 if span is None else span.step_s,
        _dimension(case) if limited else None,
        growing,
    )


def _told_reports(case: Case) -> Iterator[Report]:
    """Limits that only the message told."""
    known = {(report.dimension, report.period_s) for report in case.reports}
    for limit in case.told:
        if limit.dimension is None or not limit.period_s or not limit.limit:
            continue
        if (limit.dimension, limit.period_s) not in known:
            known.add((limit.dimension, limit.period_s))
            yield Report(limit.dimension, limit.limit, _left(limit), None, limit.period_s)


def _left(told: Told) -> float | None:
    """What is left of a limit that was met. Less than one request is none; of tokens nobody knows."""
    if told.limit is not None and told.used is not None:
        return max(0.0, told.limit - told.used)
    return 0.0 if told.dimension is Dimension.REQUESTS else None


def _dimension(case: Case) -> Dimension | None:
    """Which limit was met: what a header or the message names, otherwise the only one that is used up."""
    named = gauges.value(case.row, case.profile, case.profile.dimension_header)
    if named:
        return Dimension.TOKENS if named.lower().startswith("token") else Dimension.REQUESTS
    for limit in case.told:
        if limit.dimension is not None:
            return limit.dimension
    used_up = [report.dimension for report in _used_up(case)]
    return used_up[0] if len(used_up) == 1 else None
