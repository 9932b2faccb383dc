"""Metrics that a configuration computes from others: `f1: 2 * precision * recall / (precision + recall)`.

An expression has numbers, names of metrics, `+ - * / ^`, parentheses and a few functions. It is parsed and walked here, and never
executed as Python. A name stands for the metric's sum over a column, and `__count` for the number of its cells.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Final

#: A longer expression is refused: the depth of the walk follows from its length.
MOST_CHARACTERS: Final = 1_000

_OPERATORS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: math.fmod,
    ast.Pow: math.pow,
}
_FUNCTIONS: Final[dict[str, Callable[..., float]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "max": max,
    "min": min,
    "pow": math.pow,
    "round": round,
    "sqrt": math.sqrt,
}


def derived(expressions: Mapping[str, str], metrics: Mapping[str, float], cells: int) -> dict[str, float]:
    """The derived metrics of a column, in the order of the configuration: one may use those before it.

    One that cannot be computed (an unknown name, a division by zero) is left out.
    """
    known = {**metrics, "__count": float(cells)}
    values: dict[str, float] = {}
    for name, expression in expressions.items():
        if (value := evaluate(expression, known)) is not None:
            known[name] = values[name] = value
    return values


def evaluate(expression: str, names: Mapping[str, float]) -> float | None:
    """The value of an expression; None if it has none."""
    if len(expression) > MOST_CHARACTERS:
        return None
    try:
        value = float(_value(ast.parse(expression.strip().replace("^", "**"), mode="eval").body, names))
    except (ArithmeticError, KeyError, RecursionError, SyntaxError, TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _FUNCTIONS[name](*(_value(one, names) for one in arguments))
    raise ValueError(f"no part of an expression: {type(node).__name__}")
