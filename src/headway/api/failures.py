"""An exception → an outcome, by its shape. No HTTP client and no SDK is imported for it."""

from __future__ import annotations

from headway.api.attempt import RateLimited, limited
from headway.core.model import Kind, Outcome, Usage


def outcome_of(
    error: BaseException, used: Usage | None = None, retry_on: tuple[type[BaseException], ...] = ()
) -> Outcome:
    """How an attempt that raised is understood. What nobody knows is the callable's own: it is not tried again."""
    if isinstance(error, RateLimited):
        return limited(error, used)
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, TimeoutError):
        return Outcome(Kind.TIMEOUT, used, message=message)
    if isinstance(error, (*retry_on, ConnectionError)):
        return Outcome(Kind.TRANSIENT, used, message=message)
    return Outcome(Kind.INVALID, used, message=message)
