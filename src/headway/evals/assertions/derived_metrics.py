"""Metrics that are computed from other metrics: `2 * precision * recall / (precision + recall)`. PURE.

    sum      product (("+" | "-") product)*
    product  sign (("*" | "/" | "%") sign)*
    sign     "-"* power
    power    operand ("^" sign)?
    operand  number | name | function "(" sum ("," sum)* ")" | "(" sum ")"

Nothing is executed, and every expression ends. `__count` is the number of cells.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final

from headway.errors import ConfigError

LONGEST: Final = 4_000
DEEPEST: Final = 50
COUNT: Final = "__count"

_TOKEN: Final = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][-+]?\d{1,3})?|\.\d+)|([^\W\d][\w.-]*\w|[^\W\d])|(\*\*|[-+*/%^(),]))"
)
_FUNCTIONS: Final[Mapping[str, Callable[..., float]]] = {
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "round": lambda value, places=0.0: math.floor(value * 10**places + 0.5) / 10**places,
    "floor": math.floor,
    "ceil": math.ceil,
    "pow": math.pow,
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "mean": lambda *values: math.fsum(values) / len(values),
    "sum": lambda *values: math.fsum(values),
}


class BadMetric(ConfigError):
    """The expression of a derived metric cannot be read."""


def problem_of_expression(text: str) -> str:
    """What is wrong with an expression; "" if nothing is."""
    try:
        _Reader(text, None).whole()
    except BadMetric as problem:
        return str(problem)
    return ""


def derived(expressions: Mapping[str, str], metrics: Mapping[str, float], count: int) -> dict[str, float]:
    """The derived metrics, in their order; each may use the ones before it. One that cannot be computed is 0."""
    known = {**metrics, COUNT: float(count)}
    results: dict[str, float] = {}
    for name, text in expressions.items():
        results[name] = known[name] = _value(text, known)
    return results


def _value(text: str, known: Mapping[str, float]) -> float:
    try:
        value = _Reader(text, known).whole()
    except (BadMetric, ArithmeticError, ValueError, TypeError):
        return 0.0
    return value if math.isfinite(value) else 0.0


class _Reader:
    """Reads an expression and computes it. Without metrics it only reads: every name is 1."""

    def __init__(self, text: str, known: Mapping[str, float] | None) -> None:
        if len(text) > LONGEST:
            raise BadMetric(f"the expression is longer than {LONGEST:,} characters")
        self._tokens, self._place, self._known, self._depth = _tokens(text), 0, known, 0

    def whole(self) -> float:
        value = self._sum()
        if self._place < len(self._tokens):
            raise BadMetric(f"the expression has '{self._tokens[self._place]}' where it should end")
        return value

    def _next(self, *marks: str) -> str:
        """The next token if it is one of these."""
        token = self._tokens[self._place] if self._place < len(self._tokens) else ""
        if token not in marks:
            return ""
        self._place += 1
        return token

    def _sum(self) -> float:
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadMetric("the expression is nested too deeply")
        value = self._product()
        while mark := self._next("+", "-"):
            other = self._product()
            value = value + other if mark == "+" else value - other
        self._depth -= 1
        return value

    def _product(self) -> float:
        value = self._sign()
        while mark := self._next("*", "/", "%"):
            other = self._sign()
            if mark == "*":
                value *= other
            elif self._known is not None:
                value = value / other if mark == "/" else math.fmod(value, other)
        return value

    def _sign(self) -> float:
        negative = False
        while self._next("-"):
            negative = not negative
        value = self._power()
        return -value if negative else value

    def _power(self) -> float:
        value = self._operand()
        if self._next("^", "**"):
            self._depth += 1
            if self._depth > DEEPEST:
                raise BadMetric("the expression is nested too deeply")
            other = self._sign()
            self._depth -= 1
            return math.pow(value, other) if self._known is not None else 1.0
        return value

    def _operand(self) -> float:
        if self._next("("):
            value = self._sum()
            self._close()
            return value
        if self._place >= len(self._tokens):
            raise BadMetric("the expression ends too early")
        token = self._tokens[self._place]
        self._place += 1
        if token[0].isdecimal() or token[0] == ".":
            return float(token)
        if not (token[0].isalpha() or token[0] == "_"):
            raise BadMetric(f"the expression has '{token}' where a number or a name should be")
        if self._next("("):
            return self._call(token)
        return self._metric(token)

    def _metric(self, name: str) -> float:
        if self._known is None:
            return 1.0
        if name not in self._known:
            raise BadMetric(f"there is no metric '{name}'")
        return self._known[name]

    def _call(self, name: str) -> float:
        function = _FUNCTIONS.get(name)
        if function is None:
            raise BadMetric(f"there is no function '{name}'; there are {', '.join(_FUNCTIONS)}")
        values = [self._sum()]
        while self._next(","):
            values.append(self._sum())
        self._close()
        return float(function(*values)) if self._known is not None else 1.0

    def _close(self) -> None:
        if not self._next(")"):
            raise BadMetric("a parenthesis is not closed")


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise BadMetric(f"the expression has '{text[place:].strip()[:1]}', which means nothing here")
        tokens.append(match[0].strip())
        place = match.end()
    return tokens
