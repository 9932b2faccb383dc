"""One table for every way to run work: what is a rate limit, with which wait, and what is not."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.executors.limit_rows import (
    ANSWER,
    CLAUDE,
    EVENT,
    EXCEPTIONS,
    NO_EXCEPTIONS,
    NO_RESULTS,
    REJECTED,
    RESULTS,
    RateLimitError,
    RateLimitInfo,
)

import headway
from headway.core.model import Kind, Outcome
from headway.executors import worker_entry
from headway.executors.limit_evidence import in_preflight
from headway.providers.limits.error_kinds import NO_STATUS
from headway.providers.limits.exception_outcome import outcome_of
from headway.providers.limits.false_positives import LIMIT_MARKERS
from headway.providers.limits.limit_detection import LIMIT_KINDS, limit_in_result, limit_in_text
from headway.providers.limits.profiles import PROFILES

#: The longest that a time of day is away: once a year a day has an hour more.
DAY_S = 25 * 3600


def check(outcome: Outcome, kind: Kind, wait_s: float | None) -> None:
    assert outcome.kind is kind
    told_s = None if outcome.hint is None else outcome.hint.retry_after_s
    if wait_s == -1:
        assert told_s is not None
        assert 0 < told_s <= DAY_S
    else:
        assert told_s == (None if wait_s is None else pytest.approx(wait_s, abs=0.5))


def words(error: object) -> str:
    """The name of a case, without addresses of objects, so that it is the same in every process."""
    said = re.sub(r"id='\d+'|0x[0-9a-f]+", "", f"{type(error).__name__}-{error}")
    return re.sub(r"\W+", "-", said)[:60]


def test_the_columns_are_long_enough() -> None:
    assert len(EXCEPTIONS) + len(RESULTS) >= 40
    assert len(NO_EXCEPTIONS) + len(NO_RESULTS) >= 40


@pytest.mark.parametrize(("error", "kind", "wait_s"), EXCEPTIONS, ids=[words(row[0]) for row in EXCEPTIONS])
def test_an_exception_that_is_a_limit(error: BaseException, kind: Kind, wait_s: float | None) -> None:
    check(outcome_of(error), kind, wait_s)
    note = worker_entry.failure_note(error, None, ())  # As a worker process reports it.
    check(note.outcome, kind, wait_s)


@pytest.mark.parametrize("error", NO_EXCEPTIONS, ids=words)
def test_an_exception_that_is_not_a_limit(error: BaseException) -> None:
    assert outcome_of(error).kind not in LIMIT_KINDS
    assert worker_entry.failure_note(error, None, ()).outcome.kind not in LIMIT_KINDS


@pytest.mark.parametrize(("value", "kind", "wait_s"), RESULTS, ids=[words(row[0]) for row in RESULTS])
def test_a_result_that_is_a_limit(value: Any, kind: Kind, wait_s: float | None) -> None:
    limit = worker_entry.limit_outcome(value)
    assert limit is not None
    check(limit, kind, wait_s)


@pytest.mark.parametrize("value", NO_RESULTS, ids=words)
def test_a_result_that_is_an_answer(value: Any) -> None:
    assert limit_in_result(value) is None


def test_a_wait_too_long_to_print_is_unknown() -> None:
    """Python does not print integers of more than 4,300 digits."""
    endless = 10**5000
    limit = worker_entry.limit_outcome({"rate_limit": {"retry_after_s": endless}})
    assert limit is not None
    check(limit, Kind.RATE, None)
    check(outcome_of(RateLimitError("slower", RateLimitInfo(retry_after_seconds=endless))), Kind.RATE, None)
    check(outcome_of(headway.RateLimited(retry_after=endless)), Kind.RATE, None)


def test_an_exception_that_cannot_be_pickled_is_read_in_the_worker() -> None:
    class Local(Exception):
        def __reduce__(self) -> Any:
            raise pickle.PicklingError("never")

    note = worker_entry.failure_note(Local(CLAUDE), None, ())
    assert (note.error, note.outcome.kind, note.source) == (b"", Kind.HOLD, "Local")


def test_an_exception_whose_fields_raise_does_not_break_detection() -> None:
    class Hostile(dict[str, Any]):
        def get(self, *_: Any) -> Any:
            raise RuntimeError("no")

    assert outcome_of(RateLimitError("rate limit exceeded", Hostile())).kind is Kind.INVALID
    assert limit_in_result({"rate_limit_info": Hostile(x=1)}) is None


# -- a preflight command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "kind"),
    [
        (CLAUDE, "", 0, Kind.HOLD),
        (f"{CLAUDE}\n/upgrade to increase your usage limit.\n", "", 0, Kind.HOLD),
        ("Claude AI usage limit reached|4102444800", "", 0, Kind.HOLD),
        (CLAUDE, "", 1, Kind.HOLD),
        ("", CLAUDE, 0, Kind.HOLD),
        ("", CLAUDE, 1, Kind.HOLD),
        ("", "Error: 429 rate limit exceeded", 0, Kind.RATE),
        ("checking\n", f"checking\n{CLAUDE}\n", 0, Kind.HOLD),
        (EVENT, "", 0, Kind.RATE),
        (f'{{"type": "system"}}\n{REJECTED}\n', "", 0, Kind.HOLD),
        (json.dumps({"type": "result", "is_error": True, "result": CLAUDE}), "", 0, Kind.HOLD),
        ("Error: rate limit exceeded, try again in 5s", "", 0, Kind.RATE),
        ("OK", "", 0, None),
        ("pong", "", 0, None),
        ("", "", 0, None),
        ("", "", 1, None),
        ("You've hit your limit, says the model", "", 0, None),
        ("A rate limit exceeded error is an HTTP 429.", "", 0, None),
        ("pong", "429 rate limit exceeded, retrying in 1s\nconnected\n", 0, None),
        ("pong", "note: your rate limit is 50 per minute", 0, None),
        ("", "usage: 40% of the weekly window", 0, None),
        (ANSWER, "", 0, None),
        (ANSWER, CLAUDE, 0, None),
        ("", "command not found", 127, None),
        ("", "KeyError: 'rate_limit'", 1, None),
        (CLAUDE + "\n" + "And so the story goes on. " * 40, "", 0, None),
    ],
)
def test_a_preflight(stdout: str, stderr: str, code: int, kind: Kind | None) -> None:
    facts = in_preflight(stdout.encode(), stderr.encode(), code)
    assert (None if facts is None else facts.kind) is kind


# -- what holds for all ---------------------------------------------------------------------------------------------


def test_every_code_and_phrase_of_a_limit_has_a_telltale_word() -> None:
    """Texts without such a word are not read any further."""
    for name in ("claude", "codex", "gemini-cli"):
        profile = PROFILES[name]
        for table in (profile.all_codes, profile.all_soft):
            missed = [code for code, kind in table.items() if kind in LIMIT_KINDS and not _telling(code)]
            assert missed == []
        for phrase in profile.all_phrases:
            if phrase.kind in LIMIT_KINDS and NO_STATUS in phrase.statuses:
                for way in _alternatives(phrase.pattern.pattern):
                    assert _telling(way), way


def _telling(text: str) -> bool:
    return any(word in text for word in LIMIT_MARKERS)


def _alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern at its top level that are words."""
    ways, depth, way = [], 0, ""
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and not depth:
            ways.append(way)
            way = ""
        else:
            way += letter
    return [each.lower().replace("\\", "") for each in (*ways, way)]


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=400))
def test_an_ordinary_text_is_no_limit(text: str) -> None:
    if not _telling(text.lower()):
        assert outcome_of(RuntimeError(text)).kind is Kind.INVALID


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["the", "file", "row", "value", "agent", "grade", "answer", "could", "not", "be", "read", "is", "was", "at", "for", "with", "4", "17", "error", "failed", "next", "window", "resets", "in", "5s", "'x'", "[1]", "{}", "\n"]), max_size=30))  # fmt: skip
def test_ordinary_errors_are_no_limits(said: list[str]) -> None:
    text = " ".join(said)
    for error in (RuntimeError(text), ValueError(text), Exception(text), KeyError(text), OSError(text)):
        assert outcome_of(error).kind is Kind.INVALID, text


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=300),
    st.sampled_from(["rate limit", "429", "{", "[", "'", "limit resets 4pm", "You've hit your"]),
)
def test_no_text_raises(text: str, word: str) -> None:
    limit_in_text(f"{text}{word}{text}")


@pytest.mark.parametrize("text", ["no " * 30_000, " " * 60_000 + "limit", "rate limit " * 6_000, '  File "' * 8_000 + "limit", "{'a': " * 9_000 + "limit", "hit the " * 8_000 + "limit"])  # fmt: skip
def test_a_hostile_text_takes_no_longer_than_a_long_one(text: str) -> None:
    """The patterns have no nested repetitions: 64 KB take milliseconds, and the test would time out otherwise."""
    limit_in_text(text)
