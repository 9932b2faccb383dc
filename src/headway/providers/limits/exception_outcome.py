"""An exception → an outcome, by its attributes and its text. No HTTP client and no SDK is imported for it.

The exception that was raised is read first, then the exceptions of its group, its cause and its context; the first one
that is understood counts. Anything else is the callable's own failure, and is not retried.
"""

from __future__ import annotations

import socket
import time
from typing import Final

from headway.core.model import Kind, Outcome, Usage
from headway.core.retry import HOPELESS
from headway.providers.call_reports import KnownOutcome, RateLimited, limited_outcome
from headway.providers.error_messages import describe_exception, short_message
from headway.providers.exhaustion import exhaustion_text
from headway.providers.limits.error_kinds import normalized_code
from headway.providers.limits.error_texts import attribute, qualified_text
from headway.providers.limits.exception_response import (
    ExceptionLink,
    exception_chain,
    network_error_kind,
    response_in,
)
from headway.providers.limits.hints import Facts, understand
from headway.providers.limits.limit_detection import limit_in_exception
from headway.providers.limits.profile import Profile
from headway.providers.limits.profiles import GENERIC, profile_for
from headway.runtime.signals import from_signal

#: Forbidden, not found, gone.
_PAGE_STATUSES: Final = (403, 404, 410)
_CONNECTION_ERRORS: Final = (ConnectionError, socket.gaierror)


def outcome_of(
    error: BaseException, used: Usage | None = None, retry_on: tuple[type[BaseException], ...] = ()
) -> Outcome:
    """The outcome of an attempt that raised an exception."""
    try:
        outcomes = (_outcome(link, used, retry_on) for link in exception_chain(error))
        outcome = next(filter(None, outcomes), None)
    except (
        BaseException
    ) as fault:  # A class of `retry_on`, or the exception itself, may raise when it is read.
        if from_signal(fault):
            raise
        text = f"{qualified_text(error)} ({describe_exception(fault)}, when it was looked at)"
        return Outcome(Kind.INVALID, used, message=short_message(text))
    return outcome or Outcome(Kind.INVALID, used, message=short_message(qualified_text(error)))


def _outcome(
    link: ExceptionLink, used: Usage | None, retry_on: tuple[type[BaseException], ...]
) -> Outcome | None:
    """The outcome that one exception of the chain stands for, if it is understood."""
    error = link.error
    if isinstance(error, RateLimited):
        return limited_outcome(error, used)
    if isinstance(error, KnownOutcome):
        return error.outcome
    outcome = (
        _response_outcome(error, used)
        or _exhausted_outcome(error, used)
        or _limit_outcome(error, used)
        or _connection_outcome(error, used)
    )
    if isinstance(error, retry_on) and (outcome is None or outcome.kind in HOPELESS):
        return Outcome(Kind.TRANSIENT, used, message=short_message(qualified_text(error)))
    return (
        outcome if outcome is not None and outcome.kind is not None and link.decides(outcome.kind) else None
    )


def _response_outcome(error: BaseException, used: Usage | None) -> Outcome | None:
    """The outcome if the exception carries a provider's response."""
    carried = response_in(error)
    if carried is None:
        return None
    raw, names = carried
    profile = profile_for(*filter(None, names))
    facts = understand(raw, profile, now_utc=time.time())
    if raw.status is None and not _is_from_provider(facts, profile, names):
        return None
    kind = Kind.INVALID if _only_a_page(raw.status, facts, profile) else facts.kind
    return Outcome(kind, used, facts.hint, facts.message)


def _only_a_page(status: int | None, facts: Facts, profile: Profile) -> bool:
    """Whether it is a plain 403, 404 or 410 of an unknown host: about a page, not about a model or a key."""
    if profile is not GENERIC or status not in _PAGE_STATUSES or facts.kind is not Kind.AUTH:
        return False
    return normalized_code(facts.code) not in profile.all_codes


def _is_from_provider(facts: Facts, profile: Profile, names: tuple[str, ...]) -> bool:
    """Whether an error without a status comes from a provider: other exceptions have bodies, too."""
    code = normalized_code(facts.code)
    known = code in profile.all_codes or code in profile.all_soft
    return known or facts.kind is not Kind.TRANSIENT or bool(names[-1])


def _limit_outcome(error: BaseException, used: Usage | None) -> Outcome | None:
    """The outcome if its type, its text or its output reports a rate limit."""
    facts = limit_in_exception(error)
    return None if facts is None else Outcome(facts.kind, used, facts.hint, facts.message)


def _exhausted_outcome(error: BaseException, used: Usage | None) -> Outcome | None:
    """The outcome if this process had no file, port or memory left."""
    why = exhaustion_text(error, connected=network_error_kind(error) is not None)
    return Outcome(Kind.TRANSIENT, used, message=why, exhausted=True) if why else None


def exit_codes_in(error: BaseException | None) -> tuple[int, ...]:
    """Exit codes in an exception: of programs that it reports on, and of `sys.exit`."""
    if error is None:
        return ()
    chain = [link.error for link in exception_chain(error)]
    codes = [attribute(each, name) for each in chain for name in ("returncode", "exit_code")]
    codes += [each.code for each in chain if isinstance(each, SystemExit)]
    return tuple(code for code in codes if type(code) is int)


def _connection_outcome(error: BaseException, used: Usage | None) -> Outcome | None:
    """The outcome of a timeout or a broken connection."""
    kind: Kind | None
    if isinstance(error, TimeoutError):
        kind = Kind.TIMEOUT
    elif isinstance(error, _CONNECTION_ERRORS):
        kind = Kind.TRANSIENT
    else:
        kind = network_error_kind(error)
    return None if kind is None else Outcome(kind, used, message=short_message(qualified_text(error)))
