"""A fingerprint stays when the code around a finding changes, and tells equal code apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reviews.findings.answers import PATH, TEXT, answer, item

from headway.reviews.findings.checking import read_answer
from headway.reviews.findings.source_text import SourceText
from headway.reviews.records import Finding

QUOTE = "for place in range(1, len(items)):"


def found(text: str, **changes: object) -> Finding:
    """The finding of an answer about a file, which must have its quote."""
    line = next(number for number, line in enumerate(text.split("\n"), 1) if QUOTE in line)
    values = {"rule": "off-by-one", "quote": QUOTE, "start_line": line, "end_line": line, **changes}
    [finding] = read_answer(answer(item(**values)), SourceText(PATH, text), "correctness").findings
    return finding


def moved(text: str) -> str:
    """The file with its last function in front of the others."""
    start = text.index("def total")
    return text[: text.index("def remove")] + text[start:] + "\n\n" + text[text.index("def remove") : start]


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "# a comment\n" * 50 + text,
        moved,
        lambda text: "class Shop:\n" + "".join(f"    {line}\n" for line in text.split("\n")),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("    ", "\t"),
    ],
    ids=["fifty lines above", "a moved function", "indented", "other line ends", "tabs"],
)
def test_it_stays(change: object) -> None:
    assert callable(change)
    after = change(TEXT)
    assert after != TEXT
    assert found(after).fingerprint == found(TEXT).fingerprint


def test_message_line_and_length_of_the_quote_do_not_matter() -> None:
    first = found(TEXT)
    other = found(
        TEXT,
        message="Other words.",
        start_line=1,
        end_line=1,
        quote="range(1, len(items))",
        confidence=0.1,
        severity="low",
    )
    assert other.fingerprint == first.fingerprint
    assert (other.start_line, other.quote) == (first.start_line, f"    {QUOTE}")


@pytest.mark.parametrize("change", [{"rule": "missing-case"}, {"quote": "result = 0"}])
def test_rule_and_quote_matter(change: dict[str, str]) -> None:
    assert found(TEXT, **change).fingerprint != found(TEXT).fingerprint


def test_equal_code_has_a_fingerprint_for_each_place() -> None:
    values = {"rule": "lost-error", "quote": "except Exception:\n    pass"}
    text = answer(item(**values, start_line=10, end_line=11), item(**values, start_line=17, end_line=18))
    first, second = read_answer(text, SourceText(PATH, TEXT), "correctness").findings
    assert (first.start_line, second.start_line) == (10, 17)
    assert first.fingerprint != second.fingerprint
    lines = SourceText(PATH, "# new\n" * 50 + TEXT)
    shifted = answer(item(**values, start_line=60, end_line=61), item(**values, start_line=67, end_line=68))
    again = read_answer(shifted, lines, "correctness").findings
    assert [each.fingerprint for each in again] == [first.fingerprint, second.fingerprint]


@given(above=st.lists(st.text("abc #\t", max_size=8), max_size=60))
def test_lines_above_never_change_it(above: list[str]) -> None:
    text = "".join(f"{line}\n" for line in above) + TEXT
    finding = found(text)
    assert finding.fingerprint == found(TEXT).fingerprint
    assert SourceText(PATH, text).excerpt(finding.start_line, finding.end_line) == f"    {QUOTE}"
