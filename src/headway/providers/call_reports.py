"""What a callable may say while it runs, and how its end is understood."""

from __future__ import annotations

import time
from contextvars import ContextVar
from numbers import Real
from typing import Any, Final, Protocol

from headway.core.model import SUCCESS, Hint, Kind, Outcome, Usage
from headway.errors import HeadwayError, UsageError
from headway.providers.messages import shown
from headway.providers.resets import wait

#: A rate limit that says no more than that: its lane backs off by itself.
_NO_HINT: Final = Hint()


class RateLimited(HeadwayError):
    """Raised by a callable or a worker that met a limit: the call is tried again, and its whole lane waits.

    `retry_after` is in seconds, or a header's text: `"30"`, `"1m30s"`, an HTTP date. It never raises: what cannot be read is
    left to the lane's own backoff, and the message says so. A limit that was met counts, whatever its header says.

    >>> raise RateLimited(retry_after=30, reason="the queue of the model server is full")
    Traceback (most recent call last):
    headway.providers.call_reports.RateLimited: the queue of the model server is full
    """

    def __init__(self, retry_after: float | str | None = None, reason: str = "") -> None:
        wait_s = _wait_s(retry_after)
        if wait_s is None and retry_after not in (None, ""):
            if isinstance(retry_after, str) and not reason:
                reason = retry_after  # Meant as the reason in the first place, or all that there is.
            else:
                unread = shown(repr(retry_after))
                reason = f"{reason or 'a rate limit was met'} (retry_after is {unread}, which is no time)"
        super().__init__(reason or "a rate limit was met")
        self.retry_after = wait_s
        self.reason = reason


def _wait_s(retry_after: Any) -> float | None:
    """Seconds, where they can be read. An instant that has just passed gives a negative number: that is over."""
    if isinstance(retry_after, int | float) and retry_after < 0:
        return 0.0
    if not isinstance(retry_after, int | float | str):
        return None
    span = wait(str(retry_after), time.time())
    return None if span is None else span.seconds


class Counted(Protocol):
    """Whatever keeps the usage of an attempt."""

    usage: Usage | None


#: More than all calls together ever use: a larger number is a mistake, and would drown every sum.
MOST_USED: Final = 1e12
_COUNTED: Final = ("input_tokens", "output_tokens", "cached_input_tokens", "cost_usd")
current: Final[ContextVar[Counted | None]] = ContextVar("headway_attempt", default=None)


def usage(
    *,
    input_tokens: float = 0,
    output_tokens: float = 0,
    cached_input_tokens: float = 0,
    cost_usd: float | None = None,
) -> None:
    """Say what the running call used, so that its lane's meters settle. Several calls of it add up.

    Outside of a call that Headway makes it counts nothing: the same function works without it.

    >>> import headway
    >>> def call(text: str) -> str:
    ...     headway.usage(input_tokens=12, output_tokens=3)
    ...     return text
    >>> [done.usage.output_tokens for done in headway.stream(call, ["north"])]
    [3.0]
    """
    told: tuple[object, ...] = (
        input_tokens,
        output_tokens,
        cached_input_tokens,
        0 if cost_usd is None else cost_usd,
    )
    for name, number in zip(_COUNTED, told, strict=True):
        if not isinstance(number, Real) or not 0 <= float(number) <= MOST_USED:
            raise UsageError(f"usage: {name} is {shown(repr(number))}", hint="it is a number, 0 or more")
    attempt = current.get()
    if attempt is None:
        return
    before = attempt.usage or Usage()
    attempt.usage = Usage(
        before.input_tokens + input_tokens,
        before.output_tokens + output_tokens,
        before.cached_input_tokens + cached_input_tokens,
        before.cost_usd if cost_usd is None else (before.cost_usd or 0.0) + cost_usd,
    )


def succeeded(attempt: Counted) -> Outcome:
    """The outcome of an attempt that gave its value."""
    return SUCCESS if attempt.usage is None else Outcome(usage=attempt.usage)


def limited(error: RateLimited, used: Usage | None = None) -> Outcome:
    """The outcome of one that met a limit."""
    hint = _NO_HINT if error.retry_after is None else Hint(retry_after_s=float(error.retry_after))
    return Outcome(Kind.RATE, used, hint, error.message)
