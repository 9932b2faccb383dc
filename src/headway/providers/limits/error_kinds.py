"""Statuses, codes and sentences of errors → a kind: the common tables, which profiles extend, and their order.

1. A *code* names one error, and decides.
2. A *sentence* distinguishes errors that share a code.
3. The *status* decides the rest. *Soft codes* are often used loosely ("invalid_request_error" for an empty account), so
   they count only without a status or with a plain 400.

Codes are compared as a whole, and sentences only with the message of an error: a `500` or a `429` somewhere in a text means
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from headway.core.model import Kind
from headway.providers.limits.message_limits import LONGEST_MESSAGE

if TYPE_CHECKING:
    from headway.providers.limits.error_bodies import ErrorInfo
    from headway.providers.limits.profile import Profile

#: Means "without a status" in the statuses of a phrase: an exception, an agent's error text, an error in a stream.
NO_STATUS: Final = 0


class Phrase(msgspec.Struct, frozen=True):
    """A sentence that means a kind if the status is one of these (none given: any error)."""

    #: A regular expression. Upper and lower case are the same.
    text: str
    kind: Kind
    code: str = ""
    statuses: frozenset[int] = frozenset()

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first needed: most runs meet no error with a text, and three dozen patterns take 3 ms."""
        return _compiled(self.text)


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


def phrase(pattern: str, kind: Kind, *statuses: int, code: str = "") -> Phrase:
    """A phrase whose pattern ignores case."""
    return Phrase(pattern, kind, code, frozenset(statuses))


def _table(words: dict[Kind, str]) -> dict[str, Kind]:
    return dict(_pairs(words))


def _pairs(words: dict[Kind, str]) -> Iterator[tuple[str, Kind]]:
    for kind, codes in words.items():
        for code in codes.split():
            yield code, kind


STATUSES: Final[dict[int, Kind]] = {
    401: Kind.AUTH,
    402: Kind.QUOTA,
    403: Kind.AUTH,
    404: Kind.AUTH,
    408: Kind.TRANSIENT,
    409: Kind.TRANSIENT,
    410: Kind.AUTH,
    413: Kind.TOO_LARGE,
    421: Kind.TRANSIENT,
    424: Kind.TRANSIENT,
    425: Kind.TRANSIENT,
    429: Kind.RATE,
    499: Kind.TRANSIENT,
    501: Kind.INVALID,
    503: Kind.OVERLOAD,
    505: Kind.INVALID,
    529: Kind.OVERLOAD,
}

CODES: Final = _table(
    {
        Kind.QUOTA: (
            "insufficient_quota credit_balance_exhausted organization_spend_limit_exceeded "
            "project_spend_limit_exceeded organization_usage_limit_exceeded billing_hard_limit_reached "
            "billing_not_active enforced_spend_limit_reached access_terminated insufficient_credits "
            "insufficient_balance billing_error payment_required exceeded_current_quota_error"
        ),
        Kind.CONCURRENCY: (
            "concurrency_limit_exceeded concurrent_limit_exceeded concurrency_limit_reached "
            "too_many_concurrent_requests concurrent_requests_limit_exceeded"
        ),
        Kind.HOLD: "usage_limit_reached daily_limit_exceeded",
        Kind.OVERLOAD: (
            "overloaded_error overloaded server_overloaded server_is_overloaded engine_overloaded "
            "engine_overloaded_error model_overloaded model_capacity_exhausted model_capacity_exceeded "
            "modelnotreadyexception serviceunavailableexception service_tier_capacity_exceeded capacity_exceeded"
        ),
        Kind.TOO_LARGE: (
            "context_length_exceeded context_window_exceeded request_too_large payload_too_large "
            "string_above_max_length exceed_context_size_error tokens_limit_reached prompt_too_long"
        ),
        Kind.AUTH: (
            "invalid_api_key incorrect_api_key authentication_error authentication_failed unauthenticated "
            "unauthorized api_key_invalid account_deactivated organization_deactivated model_not_found "
            "model_not_available model_not_supported invalid_model not_found_error deploymentnotfound "
            "unsupported_country_region_territory accessdeniedexception unrecognizedclientexception "
            "expiredtokenexception invalidsignatureexception missingauthenticationtokenexception "
            "resourcenotfoundexception usage_not_included token_expired consumer_suspended service_disabled"
        ),
        Kind.INVALID: (
            "content_filter content_policy_violation responsibleaipolicyviolation invalid_prompt bio_policy "
            "cyber_policy misalignment_policy_violation prompt_blocked"
        ),
    }
)

#: Names of exception types are here, too: some errors have nothing else.
SOFT_CODES: Final = _table(
    {
        Kind.RATE: (
            "rate_limit_exceeded rate_limit_error rate_limited rate_limit ratelimited ratelimiterror "
            "ratelimitexceeded ratelimitexceedederror too_many_requests toomanyrequests toomanyrequestsexception "
            "toomanyrequestserror throttlingexception throttling throttled throttling_error requestlimitexceeded "
            "resource_exhausted resourceexhausted slow_down dynamic_request_limited dynamic_token_limited"
        ),
        Kind.OVERLOAD: (
            "unavailable service_unavailable serviceunavailable serviceunavailableerror unavailable_error "
            "overloadederror"
        ),
        Kind.AUTH: (
            "permission_error permission_denied permissiondenied permissiondeniederror forbidden forbiddenerror "
            "not_found notfound notfounderror authenticationerror nocredentialserror"
        ),
        Kind.INVALID: (
            "invalid_request_error invalid_request validationexception invalid_argument invalidargument "
            "badrequesterror bad_request unprocessableentityerror"
        ),
        Kind.TRANSIENT: (
            "api_error server_error internal internal_error internal_server_error internalservererror "
            "internalserverexception modelerrorexception modelstreamerrorexception modeltimeoutexception "
            "deadline_exceeded timeout_error cancelled apiconnectionerror connectionerror connecterror "
            "connectionreseterror connectionrefusederror clientpayloaderror incompleteread remoteprotocolerror "
            "serverdisconnectederror readtimeout connecttimeout pooltimeout writetimeout sockettimeouterror "
            "servertimeouterror connectiontimeouterror readtimeouterror"
        ),
        Kind.TIMEOUT: "timeouterror timeoutexpired apitimeouterror",
    }
)

_PLAIN_400: Final = (NO_STATUS, 400, 413, 422)
_REFUSALS: Final = (400, 402, 403, 412, 429)
_BUSY: Final = (NO_STATUS, 429, 500, 502, 503, 529)

#: The beginning of a text, after names of exceptions: a whole sentence, not words in the middle of another one.
_BEGINS: Final = r"^(?:[\w. ]{1,60}: ){0,2}"

#: The first match decides, so permanent errors come before temporary ones. Without a status the text may be any exception's,
#: so only unmistakable sentences count there.
PHRASES: Final = (
    phrase(
        r"credit balance (?:is )?too low|used all available credits|billing hard limit"
        r"|reached your (?:specified )?(?:workspace )?api usage limits",
        Kind.QUOTA,
        NO_STATUS,
        *_REFUSALS,
    ),
    phrase(
        r"insufficient (?:account )?(?:balance|credits?|funds)\b|\bout of credits\b|requires more credits"
        r"|monthly spending limit|(?:calls|requests|tokens) ?(?:/|per) ?month\b|reached your monthly (?:usage )?limit",
        Kind.QUOTA,
        *_REFUSALS,
    ),
    phrase(
        r"\bprompt is too long\b|\binput is too long\b|maximum context length|\brequest too large\b"
        r"|exceeds?[^.]{0,60}\bcontext (?:length|window|limit|size)\b|request entity too large"
        r"|reduce the length of the messages|(?:token count|number of tokens)[^.]{0,60}exceeds"
        r"|exceeds the maximum number of tokens|`?inputs`? tokens \+ `?max_new_tokens`? must be",
        Kind.TOO_LARGE,
        *_PLAIN_400,
    ),
    phrase(r"\brequest too large for\b", Kind.TOO_LARGE, 429),
    phrase(
        r"\bconcurrent (?:connections?|requests?|calls)\b|\bconcurrency limit\b|\btoo many concurrent\b"
        r"|\bsimultaneous requests\b",
        Kind.CONCURRENCY,
        NO_STATUS,
        403,
        429,
        503,
    ),
    phrase(
        r"\b(?:reached|exceeded|hit|used) your (?:current )?(?:session|hourly|daily|weekly|\d{1,2}-hour)\b[^.]{0,20}"
        r"\blimit\b|\b(?:session|hourly|daily|weekly|\d{1,2}-hour) (?:usage )?limit (?:was )?reached\b",
        Kind.HOLD,
        NO_STATUS,
        429,
    ),
    phrase(
        r"\b(?:is|are) (?:currently |temporarily )?overloaded\b|\boverloaded with other requests\b"
        r"|\b(?:service tier )?capacity exceeded\b|\bis at capacity\b",
        Kind.OVERLOAD,
        *_BUSY,
    ),
    phrase(
        r"\bmodel\b[^.]{0,90}\b(?:does not exist|is not found|not found|not exist|identifier is invalid)\b"
        r"|\binvalid model\b|\bnot a valid model\b",
        Kind.AUTH,
        400,
        404,
    ),
    phrase(r"\bapi key not valid\b|\binvalid api key\b", Kind.AUTH, NO_STATUS, 400, 404),
    # From here on: texts without a status.
    phrase(
        _BEGINS + r"(?:rate limit (?:is )?(?:reached|exceeded)|too many requests)",
        Kind.RATE,
        NO_STATUS,
    ),
    phrase(
        _BEGINS
        + r"(?:your |the )?(?:daily|weekly) (?:(?:api|usage|token|request) )?quota (?:is |was |has been )?(?:exceeded|exhausted|used up)",
        Kind.HOLD,
        NO_STATUS,
    ),
    # Google's sentence for any limit, most often one per minute. It is longer than "quota exceeded".
    phrase(_BEGINS + r"quota exceeded for (?:quota )?metric\b", Kind.RATE, NO_STATUS),
    phrase(
        _BEGINS
        + r"(?:(?:your |the )?(?:(?:api|usage|token|request|monthly|current|account|organization|project) ){0,2}"
        r"quota (?:is |was |has been )?(?:exceeded|exhausted|used up)\b|insufficient quota\b"
        r"|(?:\d{3} )?you exceeded your current quota, please check your plan and billing(?![^\n]{0,120}ai\.google\.dev))",
        Kind.QUOTA,
        NO_STATUS,
    ),
    phrase(r"\brequest timed out\b|\btimed out after \d", Kind.TIMEOUT, NO_STATUS),
)


# -- an error's kind -----------------------------------------------------------------------------------------------


def kind_of(status: int | None, error: ErrorInfo, profile: Profile) -> tuple[Kind, str]:
    """The kind of an error and the code that decided it: by codes, then sentences, then status and soft codes."""
    for code in error.codes:
        kind = profile.all_codes.get(normalized_code(code))
        if kind is not None:
            return kind, code
    first = error.codes[0] if error.codes else ""
    message = error.message[:LONGEST_MESSAGE]
    for known in profile.all_phrases:
        if known.statuses and (status or NO_STATUS) not in known.statuses:
            continue
        if known.pattern.search(message) is not None:
            return known.kind, known.code or first
    return _by_status(status, error, profile) or (Kind.TRANSIENT, first)


def normalized_code(code: str) -> str:
    """A code as the tables spell it."""
    return code.lower().replace("-", "_")


def _by_status(status: int | None, error: ErrorInfo, profile: Profile) -> tuple[Kind, str] | None:
    """The kind by status; by soft codes if there is no status, or if it means no more than "bad request"."""
    status_kind = None if status is None else _kind_of_status(status, profile)
    if status_kind is None or status_kind is Kind.INVALID:
        for code in error.codes:
            kind = profile.all_soft.get(normalized_code(code))
            if kind is not None and (status_kind is None or kind is not Kind.INVALID):
                return kind, code
    return None if status_kind is None else (status_kind, error.codes[0] if error.codes else "")


def _kind_of_status(status: int, profile: Profile) -> Kind:
    """The kind of a status alone. A redirect means a wrong address, and so does another protocol. A status of 600 or more
    counts as a 5xx (RFC 9110 §15).
    """
    kind = profile.all_statuses.get(status)
    if kind is not None:
        return kind
    return Kind.INVALID if status < 200 or 300 <= status < 500 else Kind.TRANSIENT
