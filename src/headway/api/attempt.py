"""What a callable may say while it runs, and how its end is understood."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final, Protocol

from headway.core.model import SUCCESS, Hint, Kind, Outcome, Usage
from headway.errors import HeadwayError, UsageError

#: A rate limit that says no more than that: its lane backs off by itself.
_NO_HINT: Final = Hint()


class RateLimited(HeadwayError):
    """Raised by a callable or a worker that met a limit: the call is tried again, and its whole lane waits.

    >>> raise RateLimited(retry_after=30, reason="the queue of the model server is full")
    Traceback (most recent call last):
    headway.api.attempt.RateLimited: the queue of the model server is full
    """

    def __init__(self, retry_after: float | str | None = None, reason: str = "") -> None:
        if isinstance(retry_after, str):  # A header's text, or the reason in the first place.
            retry_after, reason = _told(retry_after, reason)
        if retry_after is not None and not retry_after >= 0:
            raise UsageError(f"retry_after is {retry_after!r}", hint="seconds, 0 or more")
        super().__init__(reason or "a rate limit was met")
        self.retry_after = retry_after
        self.reason = reason


def _told(text: str, reason: str) -> tuple[float | None, str]:
    """Seconds as a header has them (a date is left to the lane's own backoff); anything else is why."""
    try:
        return float(text), reason
    except ValueError:
        return None, reason or text


class Counted(Protocol):
    """Whatever keeps the usage of an attempt."""

    usage: Usage | None


current: Final[ContextVar[Counted | None]] = ContextVar("headway_attempt", default=None)


def usage(
    *,
    input_tokens: float = 0,
    output_tokens: float = 0,
    cached_input_tokens: float = 0,
    cost_usd: float | None = None,
) -> None:
    """Say what the running call used, so that its lane's meters settle. Several calls of it add up.

    Outside of a call that Headway makes it does nothing: the same function works without it.

    >>> import headway
    >>> def call(text: str) -> str:
    ...     headway.usage(input_tokens=12, output_tokens=3)
    ...     return text
    >>> [done.usage.output_tokens for done in headway.stream(call, ["north"])]
    [3.0]
    """
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
