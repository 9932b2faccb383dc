"""ROUGE and BLEU against worked examples."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.overlap_checks import bleu, rouge, words

TEXTS = st.lists(st.sampled_from(["the", "cat", "sat", "on", "mat", "."]), max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat sat.", ["the", "cat", "sat", "."]),
        ("It isn't John's", ["it", "is", "n't", "john", "'s"]),
        ("we'll can't cannot gonna", ["we", "'ll", "ca", "n't", "can", "not", "gon", "na"]),
        ('He said "hi" (twice) -- then...', ["he", "said", "``", "hi", "''", "(", "twice", ")", "--", "then", "..."]),
        ("$1,234.56 at 12:30, a/b", ["$", "1,234.56", "at", "12:30", ",", "a/b"]),
        ("'tis the dogs' bones", ["'t", "is", "the", "dogs", "'", "bones"]),
        ('"Stop."', ["``", "stop", ".", "''"]),
        ("naïve café – 🎉", ["naïve", "café", "–", "🎉"]),
        ("", []),
    ],
)  # fmt: skip
def test_words_are_those_of_the_treebank(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@pytest.mark.parametrize(
    ("candidate", "reference", "score"),
    [
        ("The cat sat", "the CAT sat", 1),
        ("the cat", "the cat sat on", 2 * 1 * 0.5 / 1.5),
        ("the the the", "the cat", 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2)),
        ("dog", "cat", 0),
        ("", "cat", 0),
        ("", "", 0),
    ],
)
def test_rouge(candidate: str, reference: str, score: float) -> None:
    assert rouge(candidate, reference) == pytest.approx(score)


@pytest.mark.parametrize(
    ("candidate", "references", "score"),
    [
        ("the cat sat on the mat", ["The cat sat on the mat"], 1),
        ("the cat", ["the cat"], 1),
        ("the cat", ["the cat sat on"], math.exp(1 - 4 / 2)),
        ("a b c d", ["a b c e"], (3 / 4 * 2 / 3 * 1 / 2 * 1e-7) ** 0.25),
        ("a b c d", ["x", "a b c d"], 1),
        ("   ", ["x"], 0),
    ],
)
def test_bleu(candidate: str, references: list[str], score: float) -> None:
    assert bleu(candidate, references) == pytest.approx(score)


@given(TEXTS, TEXTS)
def test_scores_are_between_0_and_1_and_1_for_the_same_text(left: str, right: str) -> None:
    assert 0 <= rouge(left, right) <= 1
    assert 0 <= bleu(left, [right]) <= 1 + 1e-9
    assert rouge(left, right) == pytest.approx(rouge(right, left))
    if left.split():
        assert bleu(left, [left]) == pytest.approx(1)
        assert rouge(left, left) == 1
