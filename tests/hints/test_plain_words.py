"""What programs print when they meet a limit, in free text."""

from __future__ import annotations

import pytest

from headway.core.model import Kind
from headway.providers.limits.hints import RawResponse, understand
from headway.providers.limits.profiles import profile_for


@pytest.mark.parametrize(
    ("text", "wait_s"),
    [
        ("Error: 429 rate limit exceeded, please try again in 3600 seconds", 3600.0),
        ("429 rate limit exceeded", None),
        ("RuntimeError: Error 429: rate limit exceeded, try again in 30 seconds", 30.0),
        ("Rate limit exceeded", None),
    ],
)
def test_a_limit(text: str, wait_s: float | None) -> None:
    facts = understand(RawResponse(text=text, origin="exception"), profile_for("generic"), now_utc=1.0)
    assert (facts.kind, facts.hint.retry_after_s) == (Kind.RATE, wait_s)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("quota exceeded", Kind.QUOTA),
        ("Error: Quota exceeded", Kind.QUOTA),
        ("RuntimeError: your monthly quota has been exceeded", Kind.QUOTA),
        ("RuntimeError: insufficient_quota: pay first", Kind.QUOTA),
        ("write error: Disk quota exceeded", Kind.TRANSIENT),
        ("You exceeded your current quota, please check your plan and billing details.", Kind.QUOTA),
        ("429 You exceeded your current quota, please check your plan and billing details.", Kind.QUOTA),
        ("Error: daily quota exceeded", Kind.HOLD),
        ("Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'", Kind.RATE),
        ("RuntimeError: context_length_exceeded", Kind.TOO_LARGE),
        ("429 quota exceeded", Kind.RATE),
        (
            "You exceeded your current quota, please check your plan and billing details. For more information on this "
            "error, head to: https://ai.google.dev/gemini-api/docs/rate-limits",
            Kind.TRANSIENT,
        ),
        ("the log says that quota exceeded is a message", Kind.TRANSIENT),
        ("ValueError: bad_value in row 3", Kind.TRANSIENT),
    ],
)
def test_a_quota(text: str, kind: Kind) -> None:
    """Without a status or a code: a sentence that begins with it counts, its words elsewhere do not."""
    facts = understand(RawResponse(text=text, origin="exception"), profile_for("generic"), now_utc=1.0)
    assert facts.kind is kind


@pytest.mark.parametrize("text", ["I counted 429 rate limits in the log", "the 429 error is old"])
def test_a_number_in_a_sentence_is_not_a_limit(text: str) -> None:
    facts = understand(RawResponse(text=text, origin="exception"), profile_for("generic"), now_utc=1.0)
    assert facts.kind is not Kind.RATE
