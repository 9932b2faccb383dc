"""A long table of texts: each counts as a limit wherever a failed program printed it, or nowhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.executors.limit_texts import LIMIT_TEXTS, OTHER_TEXTS

from headway.executors.limit_evidence import in_preflight
from headway.providers.limits.hints import Facts
from headway.providers.limits.limit_detection import limit_in_result
from headway.providers.limits.limit_text import limit_in_message, limit_in_output, limit_in_statement

NOW_UTC = 1_770_000_000.0
Reader = Callable[[str], Facts | None]
LIMITS = [(text, kind) for kind, texts in LIMIT_TEXTS.items() for text in texts]

#: What agent CLIs print where answers go, and nothing else.
STATEMENTS = [
    "You've hit your session limit · resets 11:18am (UTC)",
    "You’ve hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 3 days 4 hours 5 minutes.",
    "You've hit your usage limit",
    "Claude usage limit reached|1794741540",
    "Claude AI usage limit reached|1794741540",
    "5-hour limit reached ∙ resets 3am",
    "Weekly limit reached ∙ resets Oct 9 at 5am",
    "Credit balance is too low",
    "Insufficient credits",
    "insufficient_quota",
    "Request failed (429)",
    "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute'",
    "Resource has been exhausted (e.g. check quota).",
    "[API Error: Resource has been exhausted (e.g. check quota).]",
    "API Error: Repeated 529 Overloaded errors",
    "API Error: Request rejected (429) · this may be a temporary capacity issue",
    "API Error: Server is temporarily limiting requests (not your usage limit) · Rate limited",
    'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    "exceeded retry limit, last status: 429 Too Many Requests, request id: 9c84",
]


def on_stderr(text: str) -> Facts | None:
    return limit_in_output(b"", text.encode(), NOW_UTC, "UTC")


def raised(text: str) -> Facts | None:
    return limit_in_message(f"RuntimeError: {text}", NOW_UTC, "UTC")


def test_the_table_is_long_enough() -> None:
    assert len({text for text, _ in LIMITS}) == len(LIMITS) >= 60
    assert len(set(OTHER_TEXTS)) == len(OTHER_TEXTS) >= 60


@pytest.mark.parametrize("where", [on_stderr, raised])
def test_refusals_count(where: Reader) -> None:
    assert [text for text, _ in LIMITS if where(text) is None] == []


def test_refusals_have_the_expected_kind() -> None:
    facts = [(text, kind, on_stderr(text)) for text, kind in LIMITS]
    assert [(text, each) for text, kind, each in facts if each is None or each.kind is not kind] == []


def test_refusals_count_between_other_lines() -> None:
    missed = [
        text for text, _ in LIMITS if on_stderr(f"starting\nreading 12 rows\n{text}\n1 failed\n") is None
    ]
    assert missed == []


@pytest.mark.parametrize("where", [on_stderr, raised])
def test_the_words_of_a_limit_alone_do_not_count(where: Reader) -> None:
    assert [text for text in OTHER_TEXTS if where(text) is not None] == []
    assert [text for text in OTHER_TEXTS if where(f"starting\n{text}\n1 failed\n") is not None] == []


def test_the_words_of_a_limit_do_not_hide_a_refusal() -> None:
    for before, after in (("", "\nYou've hit your usage limit"), ("429 rate limit exceeded\n", "")):
        assert [text for text in OTHER_TEXTS if on_stderr(f"{before}{text}{after}\n") is None] == []


def test_the_output_of_a_successful_program_is_no_limit() -> None:
    assert [text for text in OTHER_TEXTS if in_preflight(text.encode(), b"", 0) is not None] == []
    assert [text for text in OTHER_TEXTS if in_preflight(b"pong", text.encode(), 0) is not None] == []


def test_an_answer_that_quotes_a_refusal_is_an_answer() -> None:
    """Structured events count anywhere on standard output: no answer has their form."""
    texts = [text for text, _ in LIMITS if not text.startswith("{")]
    assert [
        text for text in texts if in_preflight(f"The log has:\n{text}".encode(), b"", 0) is not None
    ] == []
    assert [text for text in texts if limit_in_result({"answer": text}) is not None] == []


def test_addresses_stay_in_the_message() -> None:
    facts = on_stderr("429 Too Many Requests, see https://docs.example.com/rate-limits for help")
    assert facts is not None
    assert facts.message.endswith("see https://docs.example.com/rate-limits for help")


def test_a_refusal_in_place_of_an_answer_counts() -> None:
    assert [text for text in STATEMENTS if limit_in_statement(text, NOW_UTC, "UTC") is None] == []
    assert [text for text in STATEMENTS if in_preflight(text.encode(), b"", 1) is None] == []


@pytest.mark.parametrize("shown", ["\x1b[31m{}\x1b[0m", "\x1b[1m✗\x1b[0m {}", "  ⎿  {}", "■ {}"])
def test_colours_and_leading_marks_are_ignored(shown: str) -> None:
    assert [text for text in STATEMENTS if on_stderr(shown.replace("{}", text)) is None] == []
