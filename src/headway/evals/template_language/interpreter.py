"""Evaluates the tree of a template. PURE.

Jinja's own compiler is not used. A template is hostile text: here it reaches plain values and nothing of Python, every step is
counted (WorkLimit), and values print, compare and add as in Nunjucks, which is JavaScript.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from jinja2 import nodes

from headway.evals.template_language.filters import FILTERS
from headway.evals.template_language.js_values import (
    UNDEFINED,
    identical,
    is_less,
    loosely_equal,
    printed,
    rounded,
    text_of_value,
    to_number,
    truthy,
)
from headway.evals.template_language.members import Method, member
from headway.evals.template_language.value_tests import TESTS
from headway.evals.template_language.work_limit import STEP, TemplateProblem, WorkLimit

_RANGE: Final = object()


class Interpreter:
    """One rendering: its variables, its scopes and its output."""

    def __init__(self, values: Mapping[str, Any], limit: WorkLimit) -> None:
        self._values, self._limit = values, limit
        #: Innermost last. The outermost has what the template sets outside of loops.
        self._scopes: list[dict[str, Any]] = [{}]

    def render(self, tree: nodes.Template) -> str:
        """The text of the template."""
        return self._body(tree.body)

    # Statements

    def _body(self, body: list[nodes.Node]) -> str:
        return "".join(piece for node in body for piece in self._statement(node))

    def _statement(self, node: nodes.Node) -> Iterator[str]:
        self._limit.spend(STEP)
        if isinstance(node, nodes.Output):
            for part in node.nodes:
                yield self._printed(part)
        elif isinstance(node, nodes.If):
            yield from self._if(node)
        elif isinstance(node, nodes.For):
            yield from self._for(node)
        elif isinstance(node, nodes.Assign):
            self._assign(node.target, self.value(node.node))
        elif isinstance(node, nodes.AssignBlock):
            self._assign(node.target, self._body(node.body))
        else:
            raise TemplateProblem(f"line {node.lineno} of the template: this tag is not supported")

    def _printed(self, part: nodes.Expr) -> str:
        if isinstance(part, nodes.TemplateData):
            text: str = part.data
        else:
            value = self.value(part)
            self._limit.spend_on(value)
            text = printed(value)
        self._limit.spend(len(text))
        return text

    def _if(self, node: nodes.If) -> Iterator[str]:
        for branch in (node, *node.elif_):
            if truthy(self.value(branch.test)):
                yield self._body(branch.body)
                return
        yield self._body(node.else_)

    def _for(self, node: nodes.For) -> Iterator[str]:
        items = self._loop_items(self.value(node.iter), pairs=isinstance(node.target, nodes.Tuple))
        if not items:
            yield self._body(node.else_)
            return
        self._scopes.append({})
        for place, item in enumerate(items):
            self._scopes[-1]["loop"] = _loop(place, len(items))
            self._bind(node.target, item)
            yield self._body(node.body)
        self._scopes.pop()

    def _loop_items(self, value: Any, *, pairs: bool) -> list[Any]:
        if isinstance(value, dict):
            return [list(pair) for pair in value.items()] if pairs else []
        return list(value) if isinstance(value, str | list | tuple) else []

    def _bind(self, target: nodes.Node, item: Any) -> None:
        """Set the names of a loop."""
        if isinstance(target, nodes.Tuple):
            for place, name in enumerate(target.items):
                self._bind(name, member(item, place))
        elif isinstance(target, nodes.Name):
            self._scopes[-1][target.name] = item

    def _assign(self, target: nodes.Node, value: Any) -> None:
        """`set`: changes the variable where it is, also outside of the loop that it is written in."""
        if isinstance(target, nodes.Tuple):
            for name in target.items:
                self._assign(name, value)
        elif isinstance(target, nodes.Name):
            scopes = (scope for scope in reversed(self._scopes) if target.name in scope)
            next(scopes, self._scopes[-1])[target.name] = value

    # Expressions

    def value(self, node: nodes.Node) -> Any:
        """The value of an expression."""
        self._limit.spend(STEP)
        evaluate = _EXPRESSIONS.get(type(node))
        if evaluate is None:
            raise TemplateProblem(f"line {node.lineno} of the template: this expression is not supported")
        return evaluate(self, node)

    def _values_of(self, items: list[nodes.Expr]) -> list[Any]:
        return [self.value(item) for item in items]

    def _name(self, node: nodes.Name) -> Any:
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        if node.name in self._values:
            return self._values[node.name]
        return _RANGE if node.name == "range" else None if node.name == "null" else UNDEFINED

    def _dict(self, node: nodes.Dict) -> dict[str, Any]:
        return {text_of_value(self.value(pair.key)): self.value(pair.value) for pair in node.items}

    def _filter(self, node: nodes.Filter) -> Any:
        if node.node is None:
            raise TemplateProblem("a filter needs a value")
        value, arguments = self.value(node.node), self._values_of(node.args)
        named: dict[str, Any] = {str(pair.key): self.value(pair.value) for pair in node.kwargs}
        for read in (value, *arguments):
            self._limit.spend_on(read)
        return self._called(
            f"the filter '{node.name}'", FILTERS[node.name], self._limit, value, *arguments, **named
        )

    def _test(self, node: nodes.Test) -> bool:
        arguments = (self.value(node.node), *self._values_of(node.args))
        return bool(self._called(f"the test '{node.name}'", TESTS[node.name], *arguments))

    def _call(self, node: nodes.Call) -> Any:
        function, arguments = self.value(node.node), self._values_of(node.args)
        if function is _RANGE:
            return self._range(*map(to_number, arguments))
        if not isinstance(function, Method):
            raise TemplateProblem(f"line {node.lineno} of the template: it calls what is no function")
        for read in (function.value, *arguments):
            self._limit.spend_on(read)
        if function.name in ("replace", "join"):  # Their results can be much longer than what they get.
            self._limit.spend(sum(map(_size, arguments)) * len(function.value))
        return self._called(f"'{function.name}'", function.call, function.value, *arguments)

    def _called(self, what: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except (TypeError, ValueError, AttributeError, OverflowError):
            raise TemplateProblem(f"{what} got arguments that it does not take") from None

    def _range(self, *bounds: float) -> list[int]:
        if (
            not 1 <= len(bounds) <= 3
            or not all(isinstance(bound, int) for bound in bounds)
            or 0 in bounds[2:]
        ):
            raise TemplateProblem("'range' takes one to three integers")
        numbers = range(*(int(bound) for bound in bounds))
        self._limit.spend(STEP * len(numbers))
        return list(numbers)

    def _concat(self, node: nodes.Concat) -> str:
        for read in (values := self._values_of(node.nodes)):
            self._limit.spend_on(read)
        return self._joined([text_of_value(value) for value in values])

    def _joined(self, texts: list[str]) -> str:
        self._limit.spend(sum(map(len, texts)))
        return "".join(texts)

    def _add(self, node: nodes.Add) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if any(isinstance(side, str | list | tuple | dict) for side in (left, right)):
            self._limit.spend_on(left)
            self._limit.spend_on(right)
            return self._joined([text_of_value(left), text_of_value(right)])
        return rounded(_as_number(left) + _as_number(right))

    def _arithmetic(self, node: nodes.BinExpr) -> int | float:
        left, right = _as_number(self.value(node.left)), _as_number(self.value(node.right))
        try:
            return rounded(_ARITHMETIC[type(node)](left, right))
        except ZeroDivisionError:
            return math.nan if not left or isinstance(node, nodes.Mod) else math.copysign(math.inf, left)
        except (OverflowError, ValueError):
            return math.inf

    def _compare(self, node: nodes.Compare) -> bool:
        left = self.value(node.expr)
        for operand in node.ops:
            right = self.value(operand.expr)
            self._limit.spend_on(right)
            if not _COMPARISONS[operand.op](left, right):
                return False
            left = right
        return True

    def _and(self, node: nodes.And) -> Any:
        left = self.value(node.left)
        return self.value(node.right) if truthy(left) else left

    def _or(self, node: nodes.Or) -> Any:
        left = self.value(node.left)
        return left if truthy(left) else self.value(node.right)

    def _choice(self, node: nodes.CondExpr) -> Any:
        if truthy(self.value(node.test)):
            return self.value(node.expr1)
        return "" if node.expr2 is None else self.value(node.expr2)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else 1


def _loop(place: int, count: int) -> dict[str, Any]:
    """The variable `loop`."""
    return {
        "index": place + 1,
        "index0": place,
        "revindex": count - place,
        "revindex0": count - place - 1,
        "first": place == 0,
        "last": place == count - 1,
        "length": count,
    }


def _as_number(value: Any) -> int | float:
    return math.nan if value is UNDEFINED else to_number(value)


def _power(left: float, right: float) -> float:
    result = float(left) ** float(right)
    return math.nan if isinstance(result, complex) else result


def _remainder(left: float, right: float) -> float:
    """The sign is that of the left side."""
    return math.fmod(left, right) if right else math.nan


def _is_in(left: Any, right: Any) -> bool:
    if isinstance(right, str):
        return text_of_value(left) in right
    if isinstance(right, dict):
        return text_of_value(left) in right
    return isinstance(right, list | tuple) and any(identical(left, item) for item in right)


_ARITHMETIC: Final[Mapping[type[nodes.Node], Callable[[float, float], float]]] = {
    nodes.Sub: lambda left, right: left - right,
    nodes.Mul: lambda left, right: left * right,
    nodes.Div: lambda left, right: left / right,
    nodes.FloorDiv: lambda left, right: float(left // right),
    nodes.Mod: _remainder,
    nodes.Pow: _power,
}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": loosely_equal,
    "ne": lambda left, right: not loosely_equal(left, right),
    "lt": is_less,
    "gt": lambda left, right: is_less(right, left),
    "lteq": lambda left, right: is_less(left, right) or _at_bound(left, right),
    "gteq": lambda left, right: is_less(right, left) or _at_bound(left, right),
    "in": _is_in,
    "notin": lambda left, right: not _is_in(left, right),
}


def _at_bound(left: Any, right: Any) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return not (left is UNDEFINED or right is UNDEFINED) and to_number(left) == to_number(right)


_EXPRESSIONS: Final[Mapping[type[nodes.Node], Callable[[Interpreter, Any], Any]]] = {
    nodes.Const: lambda run, node: node.value,
    nodes.TemplateData: lambda run, node: node.data,
    nodes.Name: Interpreter._name,
    nodes.List: lambda run, node: run._values_of(node.items),
    nodes.Tuple: lambda run, node: run._values_of(node.items),
    nodes.Dict: Interpreter._dict,
    nodes.Filter: Interpreter._filter,
    nodes.Test: Interpreter._test,
    nodes.Call: Interpreter._call,
    nodes.Getattr: lambda run, node: member(run.value(node.node), node.attr),
    nodes.Getitem: lambda run, node: member(run.value(node.node), run.value(node.arg)),
    nodes.CondExpr: Interpreter._choice,
    nodes.Concat: Interpreter._concat,
    nodes.Compare: Interpreter._compare,
    nodes.And: Interpreter._and,
    nodes.Or: Interpreter._or,
    nodes.Not: lambda run, node: not truthy(run.value(node.node)),
    nodes.Neg: lambda run, node: rounded(-_as_number(run.value(node.node))),
    nodes.Pos: lambda run, node: _as_number(run.value(node.node)),
    nodes.Add: Interpreter._add,
    **dict.fromkeys(_ARITHMETIC, Interpreter._arithmetic),
}
