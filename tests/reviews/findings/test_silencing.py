"""`headway: ignore RULE reason` silences one rule at one place, and needs a reason."""

from __future__ import annotations

import pytest
from tests.reviews.findings.answers import PATH, TEXT, answer, item

from headway.reviews.findings.checking import read_answer
from headway.reviews.findings.silencing import ignore_comments, silenced
from headway.reviews.findings.source_text import SourceText

LINE = '        os.system("rm " + name)'


def marks(text: str, axis: str = "security") -> list[tuple[str, str]]:
    """The marks of the finding at `rm` and of the same rule at `cat`."""
    source = SourceText(PATH, text)
    other = item(quote='os.system("cat " + name)')
    findings = read_answer(answer(item(), other), source, axis).findings
    return [(each.mark, each.mark_reason) for each in silenced(findings, source)]


@pytest.mark.parametrize(
    "replacement",
    [
        f"{LINE}  # headway: ignore command-injection names are fixed",
        f"{LINE}  # headway:ignore security names are fixed",
        f"        # headway: ignore command-injection names are fixed\n\n{LINE}",
        f"        # headway: ignore race other reason\n        # headway: ignore command-injection names are fixed\n{LINE}",
        f"        /* headway: ignore command-injection names are fixed */\n{LINE}",
        f"{LINE}  // headway: ignore Command-Injection names are fixed",
    ],
)
def test_it_silences_one_place(replacement: str) -> None:
    assert marks(TEXT.replace(LINE, replacement)) == [("ignored", "names are fixed"), ("", "")]


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("# headway: ignore", "names no rule"),
        ("# headway: ignore command-injection", "gives no reason"),
    ],
)
def test_without_a_rule_or_a_reason_it_silences_nothing(comment: str, problem: str) -> None:
    text = TEXT.replace(LINE, f"{LINE}  {comment}")
    assert marks(text) == [("", ""), ("", "")]
    [found] = ignore_comments(SourceText(PATH, text))
    assert problem in found.problem
    assert found.problem.startswith("line 9: ")


def test_another_rule_and_a_text_that_is_no_comment_silence_nothing() -> None:
    assert marks(TEXT.replace(LINE, f"{LINE}  # headway: ignore race it is fine")) == [("", ""), ("", "")]
    assert list(ignore_comments(SourceText(PATH, 'x = "headway: ignore race it is fine"\n'))) == []


def test_a_comment_without_code_after_it_is_named() -> None:
    [found] = ignore_comments(SourceText(PATH, "x = 1\n# headway: ignore race it is fine\n\n"))
    assert "no code follows" in found.problem


def test_a_marked_finding_keeps_its_mark() -> None:
    text = TEXT.replace(LINE, f"{LINE}  # headway: ignore command-injection fixed")
    source = SourceText(PATH, text)
    wrong = read_answer(answer(item(quote="nothing like it")), source, "security").doubtful
    assert [each.mark for each in silenced(wrong, source)] == ["no_such_quote"]
