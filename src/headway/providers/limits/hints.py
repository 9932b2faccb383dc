"""What a provider sent → facts: one of the closed list of kinds, and everything about limits and waits.

`understand` is pure: no clock, no I/O, no logging; the current time is an argument. Malformed input gives no hint, never
an exception. Two rules come first. A success stays a success, whatever its headers say. And only errors are searched for
words: the body of a 2xx and the answer of an agent may contain any text about limits.

For a failure, `error_bodies`, `error_texts` and `agent_events` collect message, codes and status; `error_kinds` decides
the kind; `limit_headers` and `ietf_headers` read headers; `message_limits` reads sentences and quota ids.

The order matters, and all of it is in this file. Headers are read against the provider's clock. The kind comes from codes,
sentences and status, and is then refined by the numbers: a limit per day is a hold, and a request above its limit can never
fit. The wait is the one in the headers, then in the body, then in the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from headway.core.model import DAY_S, MINUTE_S, Dimension, Hint, Kind, LimitReport
from headway.providers.error_messages import short_message
from headway.providers.limits import agent_events, error_bodies, error_texts, ietf_headers, limit_headers
from headway.providers.limits.account_windows import window_of_sentence
from headway.providers.limits.clock_times import wait_until_clock_time
from headway.providers.limits.durations import HOUR_S, MONTH_S, TimeSpan, plausible_wait
from headway.providers.limits.error_bodies import LONGEST_CODE, ErrorInfo
from headway.providers.limits.error_kinds import kind_of
from headway.providers.limits.instants import parse_wait
from headway.providers.limits.limit_headers import HeaderRow
from headway.providers.limits.message_limits import StatedLimit, quota_limits, stated_limit, stated_wait
from headway.providers.limits.profile import Profile

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
NO_HINT: Final = Hint()


class RawResponse(msgspec.Struct, frozen=True):
    """Everything that an attempt returned.

    `http`: status, headers and body. `exception`: the same as far as the exception carries them, and its text, best with
    the type's name in front ("httpx.ReadTimeout: …"). An exception is a failure even if the status is 200, as when the
    body broke off. `cli`: the body is the program's standard output, of which only structured error fields are read; the
    text is its report of a failure: standard error, or standard output if the program failed and writes plain text.
    `status` is an HTTP status, never an exit code.
    """

    status: int | None = None
    headers: Mapping[str, str] = NO_HEADERS
    body: bytes | str | None = None
    text: str = ""
    origin: Literal["http", "exception", "cli"] = "http"


class Facts(msgspec.Struct, frozen=True):
    """What a response means. `kind` is None for a success; `code` is the provider's own code for the error, if any."""

    kind: Kind | None
    hint: Hint = NO_HINT
    message: str = ""
    code: str = ""
    #: The server has no such path: the address is wrong, not the key or the model.
    wrong_path: bool = False


SUCCESS_FACTS: Final = Facts(None)


def understand(response: RawResponse, profile: Profile, *, now_utc: float, zone: str = "UTC") -> Facts:
    """What a response means. `zone` is the local time zone, for clock times without one."""
    if response.origin == "cli":
        return _agent_facts(response, profile, now_utc, zone)
    status = response.status
    good = status is not None and 200 <= status < 300
    if good and response.origin == "http":
        return _success_facts(response, profile, now_utc)
    error = _with_text(error_bodies.read(response.body), response.text)
    return _failure_facts(
        error.status if good or status is None else status, error, response, profile, now_utc, zone
    )


def _success_facts(response: RawResponse, profile: Profile, now_utc: float) -> Facts:
    hint = success_hint(response.headers, profile, now_utc)
    return SUCCESS_FACTS if hint is None else Facts(None, hint)


def success_hint(headers: Mapping[str, str], profile: Profile, now_utc: float) -> Hint | None:
    """The limits that the headers of a 2xx report; None if they report none."""
    row = limit_headers.header_row(headers, profile)
    if row is None or not limit_headers.has_limits(row, profile):
        return None
    reports = reports_of(row, profile, limit_headers.server_clock(row, profile, now_utc))
    return Hint(limit_headers.with_minutes(reports, row, profile, now_utc)) if reports else None


def _agent_facts(response: RawResponse, profile: Profile, now_utc: float, zone: str) -> Facts:
    """The facts of an agent's run: from its events, otherwise from its error text."""
    result = agent_events.read(response.body) if profile.agent else agent_events.AgentResult()
    refused = response.status is not None and response.status >= 400
    if result.ok or (result.ok is None and not (result.rejected or refused or response.text.strip())):
        return Facts(None, Hint(windows=result.windows)) if result.windows else SUCCESS_FACTS
    error = _with_text(result.error or ErrorInfo(), response.text)
    if result.rejected:
        error.codes.insert(0, "usage_limit_reached")
        error.waits.append(result.resets_at)
    facts = _failure_facts(
        response.status if refused else error.status, error, response, profile, now_utc, zone
    )
    return msgspec.structs.replace(facts, hint=_with_windows(facts, result, profile, now_utc))


def _with_windows(facts: Facts, result: agent_events.AgentResult, profile: Profile, now_utc: float) -> Hint:
    """The hint with the windows of a subscription. A reset in an event is exact; the clock time in the message is to the minute."""
    hint, windows = facts.hint, result.windows
    resets = [window.resets_utc for window in windows if window.closed and window.resets_utc is not None]
    wait_s = plausible_wait(max(resets) - now_utc) if resets else None
    if facts.kind is Kind.HOLD and wait_s is not None:
        hint = msgspec.structs.replace(hint, retry_after_s=wait_s, precision_s=1.0)
    elif facts.kind is Kind.HOLD and profile.agent and not any(window.closed for window in windows):
        resets_utc = None if hint.retry_after_s is None else now_utc + hint.retry_after_s
        windows = (*windows, window_of_sentence(facts.message, resets_utc))
    return msgspec.structs.replace(hint, windows=windows)


def _with_text(error: ErrorInfo, text: str) -> ErrorInfo:
    """Fill what the structured error left open from the text."""
    if not text or (error.message and error.codes):
        return error
    more = error_texts.read(text)
    error.message = error.message or more.message
    error.codes += (code for code in more.codes if code not in error.codes)
    error.status = error.status if error.status is not None else more.status
    error.waits += more.waits
    error.quotas = error.quotas or more.quotas
    return error


# -- a failure --------------------------------------------------------------------------------------------------------

#: A wait of up to an hour is a rate limit, whatever its code says (providers.md §2, Azure). A longer one is a hold.
LONGEST_RATE_S: Final = HOUR_S
#: Waiting does not help.
_FINAL: Final = frozenset({Kind.AUTH, Kind.INVALID, Kind.TOO_LARGE})
#: In the message of OpenAI and compatible servers for an unknown path.
_NO_SUCH_PATH: Final = "invalid url"


class _Failure(msgspec.Struct):
    """One failure while it is read."""

    status: int | None
    error: ErrorInfo
    row: HeaderRow
    profile: Profile
    now_utc: float
    zone: str
    reports: tuple[LimitReport, ...] = ()
    stated_limits: list[StatedLimit] = []


def _failure_facts(
    status: int | None, error: ErrorInfo, response: RawResponse, profile: Profile, now_utc: float, zone: str
) -> Facts:
    """The facts of a failure."""
    failure = _read_failure(status, error, response, profile, now_utc, zone)
    kind, code = kind_of(status, error, profile)
    span = limit_headers.retry_after(failure.row, profile, failure.now_utc) or _stated_wait(failure)
    kind = _refined_kind(failure, kind, span)
    if kind is Kind.HOLD:
        span = _hold_wait(failure, span)
    elif kind in _FINAL:
        span = None
    elif span is None and kind is Kind.RATE:
        span = _reopening_wait(failure)
    message = short_message(error.message, otherwise="" if status is None else f"HTTP {status}")
    growing = kind is Kind.RATE and code in profile.ramps
    wrong_path = kind is Kind.AUTH and _NO_SUCH_PATH in error.message.lower()
    return Facts(kind, _hint(failure, kind, span, growing=growing), message, code, wrong_path)


def _read_failure(
    status: int | None, error: ErrorInfo, response: RawResponse, profile: Profile, now_utc: float, zone: str
) -> _Failure:
    """Read the headers, including those that a gateway put into the body."""
    row = limit_headers.header_row(response.headers, profile) or profile.blank
    local_utc, now_utc = now_utc, limit_headers.server_clock(row, profile, now_utc)
    passed_on = limit_headers.header_row(error.headers, profile) if error.headers else None
    if passed_on is not None:
        row = [own if own is not None else other for own, other in zip(row, passed_on, strict=True)]
    reports = limit_headers.with_minutes(reports_of(row, profile, now_utc), row, profile, local_utc)
    failure = _Failure(status, error, row, profile, now_utc, zone, reports)
    named = limit_headers.header_value(failure.row, profile, profile.code_header)
    if named:  # AWS: "ThrottlingException:http://internal.amazon.com/coral/…"
        error.codes.insert(0, named.partition(":")[0].strip()[:LONGEST_CODE])
    limits = (*quota_limits(error.quotas), stated_limit(error.message))
    failure.stated_limits = [
        limit for limit in limits if limit.dimension is not None or limit.limit is not None
    ]
    return failure


def reports_of(row: HeaderRow, profile: Profile, now_utc: float) -> tuple[LimitReport, ...]:
    """The limits in the headers: the provider's own, and those of the IETF draft."""
    reports = limit_headers.reports_of(row, profile, now_utc)
    return (
        limit_headers.tightest((*reports, *ietf_headers.reports_of(row, profile)))
        if profile.ietf
        else reports
    )


# -- the kind ---------------------------------------------------------------------------------------------------


def _refined_kind(failure: _Failure, kind: Kind, span: TimeSpan | None) -> Kind:
    """The kind, refined by waits and limits."""
    if kind is Kind.QUOTA:
        soon = span is not None and span.seconds <= LONGEST_RATE_S
        return Kind.RATE if soon and failure.profile.quota_returns and failure.status == 429 else kind
    if kind is not Kind.RATE:
        return kind
    if _never_fits(failure):
        return Kind.TOO_LARGE
    period_s = _longest_period(failure)
    if period_s >= MONTH_S and span is None:
        return Kind.QUOTA
    long = span is not None and span.seconds > LONGEST_RATE_S
    return Kind.HOLD if period_s >= DAY_S or long or _session_rejected(failure) else kind


def _never_fits(failure: _Failure) -> bool:
    return any(limit.too_large for limit in failure.stated_limits)


def _longest_period(failure: _Failure) -> float:
    """The period of the limit that was met: from the message, otherwise from the headers of what is used up."""
    periods = [limit.period_s for limit in failure.stated_limits if limit.period_s is not None]
    return max(periods or (report.period_s for report in _used_up(failure)), default=0.0)


def _used_up(failure: _Failure) -> Iterator[LimitReport]:
    return (report for report in failure.reports if report.remaining is not None and report.remaining <= 0.0)


def _session_rejected(failure: _Failure) -> bool:
    session = failure.profile.session
    return (
        session is not None
        and limit_headers.header_value(failure.row, failure.profile, session.status) == session.rejected
    )


# -- the wait ---------------------------------------------------------------------------------------------------


def _stated_wait(failure: _Failure) -> TimeSpan | None:
    """The longest wait in body and message: of `26s` and `26.46s` the first is rounded down."""
    spans = [parse_wait(text, failure.now_utc) for text in failure.error.waits]
    spans.append(stated_wait(failure.error.message, failure.now_utc, failure.zone))
    return _longest(spans)


def _longest(spans: list[TimeSpan | None]) -> TimeSpan | None:
    known = [span for span in spans if span is not None]
    return max(known, key=lambda span: span.seconds, default=None)


def _hold_wait(failure: _Failure, span: TimeSpan | None) -> TimeSpan | None:
    """How long a hold lasts: the longest wait of all. For a limit per day, "in 40 s" means nothing."""
    spans = [span, _stated_wait(failure), _reopening_wait(failure)]
    if failure.profile.session is not None and _session_rejected(failure):
        text = limit_headers.header_value(failure.row, failure.profile, failure.profile.session.reset)
        spans.append(parse_wait(text, failure.now_utc) if text else None)
    longest = _longest(spans)
    if failure.profile.day_zone and (longest is None or longest.seconds <= MINUTE_S):
        return wait_until_clock_time("12am", 0, failure.now_utc, failure.profile.day_zone)
    return longest


def _reopening_wait(failure: _Failure) -> TimeSpan | None:
    """When the last window reopens that is used up or was met, for providers whose resets mean that."""
    if not failure.profile.reset_reopens:
        return None
    met = _dimension(failure)
    spans: list[TimeSpan | None] = [
        TimeSpan(report.reset_s, report.reset_precision_s)
        for report in failure.reports
        if report.reset_s is not None and (report.remaining == 0.0 or report.dimension is met)
    ]
    return _longest(spans)


# -- the hint ---------------------------------------------------------------------------------------------------


def _hint(failure: _Failure, kind: Kind, span: TimeSpan | None, *, growing: bool) -> Hint:
    """The hint for the lane. Numbers of a message count only if a limit was met."""
    limited = kind in (Kind.RATE, Kind.HOLD) or (kind is Kind.TOO_LARGE and _never_fits(failure))
    return Hint(
        (*failure.reports, *_stated_reports(failure)) if limited else failure.reports,
        None if span is None else span.seconds,
        0.0 if span is None else span.step_s,
        _dimension(failure) if limited else None,
        growing,
    )


def _stated_reports(failure: _Failure) -> Iterator[LimitReport]:
    """Limits that are in the message but not in the headers."""
    known = {(report.dimension, report.period_s) for report in failure.reports}
    for limit in failure.stated_limits:
        if limit.dimension is None or not limit.period_s or not limit.limit:
            continue
        if (limit.dimension, limit.period_s) not in known:
            known.add((limit.dimension, limit.period_s))
            yield LimitReport(limit.dimension, limit.limit, _left(limit), None, limit.period_s)


def _left(limit: StatedLimit) -> float | None:
    """What is left of a limit that was met: no requests; for tokens it is unknown."""
    if limit.limit is not None and limit.used is not None:
        return max(0.0, limit.limit - limit.used)
    return 0.0 if limit.dimension is Dimension.REQUESTS else None


def _dimension(failure: _Failure) -> Dimension | None:
    """Which limit was met: named by a header or the message, otherwise the only one that is used up."""
    named = limit_headers.header_value(failure.row, failure.profile, failure.profile.dimension_header)
    if named:
        return Dimension.TOKENS if named.lower().startswith("token") else Dimension.REQUESTS
    for limit in failure.stated_limits:
        if limit.dimension is not None:
            return limit.dimension
    used_up = [report.dimension for report in _used_up(failure)]
    return used_up[0] if len(used_up) == 1 else None
