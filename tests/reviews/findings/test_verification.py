"""A second model refutes findings by their numbers; what it does not refute stands."""

from __future__ import annotations

import json

import pytest
from tests.reviews.findings.answers import PATH, TEXT, answer, item

from headway.reviews.findings.answer_schema import Unreadable
from headway.reviews.findings.checking import read_answer
from headway.reviews.findings.source_text import SourceText
from headway.reviews.findings.verification import after_verdicts, verdict_problem, verify_question

SOURCE = SourceText(PATH, TEXT)
FINDINGS = read_answer(
    answer(
        item(),
        item(
            rule="off-by-one",
            quote="for place in range(1, len(items)):",
            message="The first\nitem is skipped.",
        ),
        item(rule="race", start_line=99, end_line=99),
    ),
    SOURCE,
    "correctness",
).all_findings


def verdicts(*each: tuple[int, bool]) -> str:
    return json.dumps(
        {"verdicts": [{"number": n, "refuted": refuted, "reason": f"because of {n}"} for n, refuted in each]}
    )


def test_the_question_has_each_finding_with_its_code() -> None:
    prompt = verify_question(FINDINGS, SOURCE).prompt
    assert "Finding 1: command-injection (high), lines 9 to 9\n| The name reaches a shell." in prompt
    assert "| The first item is skipped." in prompt
    assert "   23|     for place in range(1, len(items)):" in prompt
    assert "Finding 3" not in prompt, "a finding with a mark is not verified"


def test_what_is_refuted_is_marked_with_the_reason() -> None:
    marked = after_verdicts(FINDINGS, f"```json\n{verdicts((2, True), (1, False))}\n```")
    assert [(each.mark, each.mark_reason) for each in marked] == [
        ("", ""),
        ("refuted", "because of 2"),
        ("no_such_line", ""),
    ]


@pytest.mark.parametrize(
    "text", [verdicts((1, True), (1, False), (2, False)), verdicts((7, True)), verdicts((3, True))]
)
def test_silence_and_contradiction_are_no_refutation(text: str) -> None:
    assert after_verdicts(FINDINGS, text) == FINDINGS


@pytest.mark.parametrize(
    "text",
    ["", "All of them hold.", '{"verdicts": [{"number": "one", "refuted": true}]}', '{"verdicts": []}'],
)
def test_verdicts_that_cannot_be_read_are_no_verdicts(text: str) -> None:
    assert verdict_problem(text)
    with pytest.raises(Unreadable):
        after_verdicts(FINDINGS, text)


def test_readable_verdicts_have_no_problem() -> None:
    assert verdict_problem(verdicts((1, True))) == ""
