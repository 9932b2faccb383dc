"""What programs print when they met a limit, in the words that people write by hand."""

from __future__ import annotations

import pytest

from headway.core.model import Kind
from headway.providers.hints import understand
from headway.providers.profiles import profile_for
from headway.providers.seen import Seen


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
    facts = understand(Seen(text=text, origin="exception"), profile_for("generic"), now_utc=1.0)
    assert (facts.kind, facts.hint.retry_after_s) == (Kind.RATE, wait_s)


@pytest.mark.parametrize("text", ["I counted 429 rate limits in the log", "the 429 error is old"])
def test_a_number_in_a_sentence_is_none(text: str) -> None:
    facts = understand(Seen(text=text, origin="exception"), profile_for("generic"), now_utc=1.0)
    assert facts.kind is not Kind.RATE
