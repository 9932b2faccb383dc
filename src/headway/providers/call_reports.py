"""What a callable reports while it runs: a rate limit (`RateLimited`), its usage (`usage`)."""

from __future__ import annotations

import time
from contextvars import ContextVar
from numbers import Real
from typing import Any, Final, Protocol

from headway.core.model import SUCCESS, Hint, Kind, Outcome, Usage
from headway.errors import HeadwayError, UsageError
from headway.providers.error_messages import short_message
from headway.providers.limits.instants import wait_from_value

#: A rate limit without a wait: the lane backs off.
_NO_HINT: Final = Hint()


class RateLimited(HeadwayError):
    """Raised by a callable or a worker that met a limit: the call is retried, and its whole lane waits.

    `retry_after` is in seconds, or a header's text: `"30"`, `"1m30s"`, an HTTP date. A value that cannot be read is not an
    error: the lane backs off, and the message says so.

    >>> raise RateLimited(retry_after=30, reason="the queue of the model server is full")
    Traceback (most recent call last):
    headway.providers.call_reports.RateLimited: the queue of the model server is full
    """

    def __init__(self, retry_after: float | str | None = None, reason: str = "") -> None:
        wait_s = _wait_s(retry_after)
        if wait_s is None and retry_after not in (None, ""):
            if isinstance(retry_after, str) and not reason:
                reason = retry_after  # It was probably meant as the reason.
            else:
                unread = short_message(_repr(retry_after))
                reason = (
                    f"{reason or 'a rate limit was reached'} (retry_after is {unread}, which is not a time)"
                )
        super().__init__(reason or "a rate limit was reached")
        self.retry_after = wait_s
        self.reason = reason


class KnownOutcome(HeadwayError):
    """Raised by work whose outcome is known exactly, so that nothing has to be guessed from the exception."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


def _repr(value: object) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits.
        return "a number of thousands of digits"


def _wait_s(retry_after: Any) -> float | None:
    """The wait in seconds, if it can be read; 0 for an instant in the past."""
    if isinstance(retry_after, int | float) and retry_after < 0:
        return 0.0
    if not isinstance(retry_after, int | float | str):
        return None
    span = wait_from_value(retry_after, time.time())
    return None if span is None else span.seconds


class UsageHolder(Protocol):
    """An attempt with its usage."""

    usage: Usage | None


#: A larger number is a mistake, and would spoil every sum.
MOST_USED: Final = 1e12
_COUNTED: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
current_attempt: Final[ContextVar[UsageHolder | None]] = ContextVar("headway_attempt", default=None)


def usage(
    *,
    input_tokens: float = 0,
    output_tokens: float = 0,
    cached_input_tokens: float = 0,
    cost_usd: float | None = None,
) -> None:
    """Report what the running call used, for its lane's meters. Several reports add up.

    Outside of a call that Headway makes it does nothing, so the same function works without Headway.

    >>> import headway
    >>> def call(text: str) -> str:
    ...     headway.usage(input_tokens=12, output_tokens=3)
    ...     return text
    >>> [done.usage.output_tokens for done in headway.stream(call, ["north"])]
    [3.0]
    """
    reported: tuple[object, ...] = (
        input_tokens,
        output_tokens,
        cached_input_tokens,
        0 if cost_usd is None else cost_usd,
    )
    for name, number in zip(_COUNTED, reported, strict=True):
        if not isinstance(number, Real) or not 0 <= float(number) <= MOST_USED:
            raise UsageError(
                f"usage: {name} is {short_message(repr(number))}", hint="it is a number, 0 or more"
            )
    attempt = current_attempt.get()
    if attempt is None:
        return
    before = attempt.usage or Usage()
    attempt.usage = Usage(
        before.input_tokens + input_tokens,
        before.output_tokens + output_tokens,
        before.cached_input_tokens + cached_input_tokens,
        before.cost_usd if cost_usd is None else (before.cost_usd or 0.0) + cost_usd,
    )


def success_outcome(attempt: UsageHolder) -> Outcome:
    """The outcome of an attempt that returned a value."""
    return SUCCESS if attempt.usage is None else Outcome(usage=attempt.usage)


def limited_outcome(error: RateLimited, used: Usage | None = None) -> Outcome:
    """The outcome of an attempt that met a limit."""
    hint = _NO_HINT if error.retry_after is None else Hint(retry_after_s=float(error.retry_after))
    return Outcome(Kind.RATE, used, hint, error.message)
