"""The likeness of embeddings."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.evals.assertions.graded_answer import CannotJudge, GradedAnswer
from headway.evals.assertions.similarity import cosine, read_similarity, texts_to_embed
from headway.evals.spec import AssertionSpec

ANSWER = GradedAnswer(output="hello", vars={"x": "y"})
VECTORS = st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3)


def assertion(name: str = "similar", value: Any = "like {{ x }}", **fields: Any) -> AssertionSpec:
    return AssertionSpec(type=name, value=value, **fields)


def test_the_texts_are_the_answer_and_the_values() -> None:
    assert texts_to_embed(assertion(), ANSWER) == ("hello", "like y")
    assert texts_to_embed(assertion(value=["a", "{{ x }}"]), ANSWER) == ("hello", "a", "y")
    for bad in (None, "", [], [1], {"a": 1}):
        with pytest.raises(CannotJudge, match="neither a text"):
            texts_to_embed(assertion(value=bad), ANSWER)


@pytest.mark.parametrize(
    ("name", "vectors", "fields", "passed", "score"),
    [
        ("similar", [[1, 0], [2, 0]], {}, True, 1),
        ("similar", [[1, 0], [1, 1]], {}, False, math.sqrt(0.5)),
        ("similar:cosine", [[1, 0], [1, 1]], {"threshold": 0.7}, True, math.sqrt(0.5)),
        ("similar", [[1, 0], [0, 1], [1, 0]], {}, True, 1),
        ("similar", [[1, 0], [0, 1]], {"negated": True}, True, 1),
        ("similar", [[1, 0], [0, 1], [1, 0]], {"negated": True}, False, 0),
        ("similar", [[0, 0], [1, 0]], {}, False, 0),
        ("similar:dot", [[1, 2], [3, 0]], {"threshold": 3}, True, 3),
        ("similar:euclidean", [[0, 0], [0, 0.5]], {}, True, 1 / 1.5),
        ("similar:euclidean", [[0, 0], [3, 4]], {}, False, 1 / 6),
    ],
)
def test_measures(
    name: str, vectors: list[list[float]], fields: dict[str, Any], passed: bool, score: float
) -> None:
    graded = read_similarity(assertion(name, **fields), 0, ANSWER, vectors)
    assert (graded.error, graded.passed) == ("", passed)
    assert graded.score == pytest.approx(score)


@pytest.mark.parametrize(
    "vectors", [[], [[1, 0]], [[1, 0], [1]], [[], []], [[math.nan, 0], [1, 0]], [[math.inf], [1]]]
)
def test_vectors_that_do_not_fit_are_an_error(vectors: list[list[float]]) -> None:
    graded = read_similarity(assertion(), 0, ANSWER, vectors)
    assert "embeddings" in graded.error


@given(VECTORS, VECTORS)
def test_a_cosine_is_symmetric_and_bounded(left: list[float], right: list[float]) -> None:
    assert -1 - 1e-9 <= cosine(left, right) <= 1 + 1e-9
    assert cosine(left, right) == pytest.approx(cosine(right, left))
