"""Assertions about the likeness of embeddings: which texts to embed, and what their vectors say. PURE."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import mul
from typing import Final

from headway.evals.assertions.graded_answer import (
    CannotJudge,
    CheckFinding,
    GradedAnswer,
    failed_result,
    rendered_value,
    result,
)
from headway.evals.records import AssertionResult
from headway.evals.spec import AssertionSpec

DEFAULT_SIMILARITY: Final = 0.75
#: How far a score may miss the threshold by rounding.
_ROUNDING: Final = 2.0**-52

Vector = Sequence[float]


def texts_to_embed(assertion: AssertionSpec, answer: GradedAnswer) -> tuple[str, ...]:
    """The text of the answer, and then the texts that it is compared with. Raises CannotJudge."""
    value = rendered_value(assertion, answer)
    expected = tuple(value) if isinstance(value, list | tuple) else (value,)
    if not expected or not all(isinstance(text, str) and text for text in expected):
        raise CannotJudge("its value is neither a text nor a list of texts")
    return (answer.text, *expected)


def read_similarity(
    assertion: AssertionSpec, number: int, answer: GradedAnswer, vectors: Sequence[Vector]
) -> AssertionResult:
    """The result out of the vectors of `texts_to_embed`. With several texts the closest one counts."""
    try:
        return result(assertion, number, answer, _finding(assertion, vectors))
    except CannotJudge as problem:
        return failed_result(assertion, number, answer, f"{assertion.name}: {problem}")


def _finding(assertion: AssertionSpec, vectors: Sequence[Vector]) -> CheckFinding:
    if len(vectors) < 2 or len({len(vector) for vector in vectors}) != 1 or not vectors[0]:
        raise CannotJudge("the embeddings have different lengths, or some are missing")
    measure = _MEASURES[assertion.type.partition(":")[2] or "cosine"]
    values = [measure(vectors[0], other) for other in vectors[1:]]
    if not all(map(math.isfinite, values)):
        raise CannotJudge("the embeddings are not finite numbers")
    threshold = DEFAULT_SIMILARITY if assertion.threshold is None else assertion.threshold
    if assertion.type == "similar:euclidean":
        nearest = min(values)
        what = f"the distance is {nearest:.2f}; the threshold is {threshold:g}"
        return CheckFinding(nearest <= threshold + _ROUNDING, what, 1 / (1 + nearest))
    best = max(values)
    what = f"the similarity is {best:.2f}; the threshold is {threshold:g}"
    return CheckFinding(best >= threshold - _ROUNDING, what, best)


def cosine(left: Vector, right: Vector) -> float:
    lengths = math.hypot(*left) * math.hypot(*right)
    return math.fsum(map(mul, left, right)) / lengths if lengths else 0.0


def _dot(left: Vector, right: Vector) -> float:
    return math.fsum(map(mul, left, right))


_MEASURES: Final[Mapping[str, Callable[[Vector, Vector], float]]] = {
    "cosine": cosine,
    "dot": _dot,
    "euclidean": math.dist,
}
