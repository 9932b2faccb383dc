"""The ids of an eval's units: `0/1` is the answer in row 0 and column 1; what is run to judge it has its id before its own name.

| id | unit |
|---|---|
| `0/vars` | the variables of a row, changed by `transformVars` |
| `0/var.NAME` | a variable that code computes |
| `0/1` | the answer |
| `0/1/provider-transform`, `0/1/transform` | the answer, transformed for its provider and for its test |
| `0/1/assert2.transform` | the same for one assertion |
| `0/1/assert2`, `0/1/assert2.score` | an assertion: code, a question to a grader, texts to embed |
| `0/select-best` | the best answer of a row |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

TRANSFORM: Final = "transform"
PROVIDER_TRANSFORM: Final = "provider-transform"


def vars_unit(row: int) -> str:
    return f"{row}/vars"


def variable_unit(row: int, name: str) -> str:
    return f"{row}/var.{name}"


def answer_unit(row: int, column: int) -> str:
    return f"{row}/{column}"


def assertion_unit(answer: str, place: Sequence[int], question: str = "") -> str:
    """`place`: the number of the assertion, and its number within an `assert-set`."""
    dotted = ".".join(map(str, place))
    return f"{answer}/assert{dotted}" + (f".{question}" if question else "")


def best_unit(row: int, number: int, *, is_first: bool) -> str:
    return f"{row}/select-best" + ("" if is_first else str(number))


def row_of(unit: str) -> int:
    """The row of any unit."""
    return int(unit.partition("/")[0])


def is_answer(unit: str) -> bool:
    """Whether a unit is the answer of a cell."""
    _, _, column = unit.partition("/")
    return column.isdecimal()
