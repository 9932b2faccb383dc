"""Regular expressions mean what they mean in JavaScript, and end."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.graded_answer import CannotJudge
from headway.evals.assertions.patterns import matches, pattern_problem

#: Which of the texts these patterns are found in, recorded by running them in node 22.
RECORDED = json.loads(Path(__file__).with_name("javascript_patterns.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("fact", RECORDED["patterns"], ids=lambda fact: fact["pattern"])
def test_a_pattern_finds_what_javascript_finds(fact: dict[str, Any]) -> None:
    assert [text for text in RECORDED["texts"] if matches(fact["pattern"], text)] == fact["found_in"]


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("b", "abc", True),
        ("^b", "a\nb", False),
        ("a.c", "a\nc", False),
        (r"a[^]c", "a\nc", True),
        ("[]", "x", False),
        (r'{"a": \d}', '{"a": 1}', True),
        ("a{2,3}", "caat", True),
        ("a{,3}", "a{,3}", True),
        (r"(?<year>\d{4})-\k<year>", "2026-2026", True),
        (r"(\w)\1", "hello", True),
        (r"(?<!\$)\b\d+", "$5", False),
        (r"(?=.*\d)(?=.*[a-z])", "a1", True),
        (r"[\d-x]", "-", True),
        ("[[:alpha:]]", "x", False),
        ("[a&&b]", "&", True),
        (r"[\b]", "\b", True),
        (r"\Z", "Z", True),
        (r"\p{L}", "é", True),
        (r"\u00e9\x41\/", "éA/", True),
        ("🎉+$", "🎉🎉", True),
        (r"\d", "٣", False),
        ("(?i)HI", "hi", True),
        (r"^\S+@\S+\.\w+$", "me@example.org", True),
    ],
)
def test_patterns_are_those_of_javascript(pattern: str, text: str, found: bool) -> None:
    assert matches(pattern, text) is found


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^(a+)+$", "a" * 50_000 + "b"), (r"(.*)*=(.*)*=x", "=" * 50_000), (r"(a|aa)+$", "a" * 50_000 + "b")],
)
def test_patterns_that_hang_other_engines_end(pattern: str, text: str) -> None:
    start = time.process_time()
    assert matches(pattern, text) is False
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "pattern", [r"^(?:(x+)\1)+$", r"(?=(a+))(?:\1|a)+b(?!c)c", r"(?:(?=a)a?)*(?!.)x\1?(a?)*"]
)
def test_a_pattern_that_takes_too_long_is_an_error(pattern: str) -> None:
    start = time.process_time()
    with contextlib.suppress(CannotJudge):
        matches(pattern, "x" * 301 + "a" * 30_000 + "y")
    assert time.process_time() - start < 5


def test_steps_of_patterns_that_refer_back_are_counted() -> None:
    with pytest.raises(CannotJudge, match="takes too long"):
        matches(r"^(?:(x+)\1)+$", "x" * 301 + "y")


@pytest.mark.parametrize("pattern", ["(", "a**", "[z-a]", "x" * 20_000, "(?:a{1000}){1000}"])
def test_bad_patterns_are_named(pattern: str) -> None:
    assert "pattern" in pattern_problem(pattern)


@given(st.text(max_size=20))
def test_a_pattern_of_plain_characters_finds_itself(text: str) -> None:
    pattern = "".join(
        f"\\u{ord(mark):04x}" if ord(mark) < 0x10000 else mark
        for mark in text
        if not 0xD800 <= ord(mark) < 0xE000
    )
    plain = "".join(mark for mark in text if not 0xD800 <= ord(mark) < 0xE000)
    assert matches(pattern, f"before {plain} after")
