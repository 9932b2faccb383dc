"""The expressions of flows: `$.score >= 8 && length($.findings) > 0`.

    or       and ("||" and)*
    and      compared ("&&" compared)*
    compared operand (("==" | "!=" | "<" | "<=" | ">" | ">=") operand)?
    operand  "!" operand | "(" or ")" | "length" "(" or ")" | path | number | string | true | false | null
    path     "$" ("." name | "[" index "]" | "[" string "]")+

There are no variables, no loops and no calls but `length`, so every expression ends. Evaluation never raises: a path that
leads nowhere is *missing*, and so is the length of something that has none. Every comparison with a missing value is
false, except `!=`. Numbers compare with numbers and texts with texts; other orderings are false.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from headway.errors import ConfigError
from headway.flows.lazy_list import LazyList

LONGEST: Final = 4_000
DEEPEST: Final = 50

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)|(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>&&|\|\||==|!=|<=|>=|[<>!()$.\[\]]))""",
    re.VERBOSE,
)
_ORDERS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_COMPARISONS: Final = ("==", "!=", *_ORDERS)
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
#: Mistakes that have a better spelling.
_INSTEAD: Final = {"and": "&&", "or": "||", "not": "!", "len": "length", "True": "true", "False": "false"} | {
    "None": "null"
}


class ExpressionError(ConfigError):
    """An expression that cannot be read. `column` counts from 1."""

    def __init__(self, message: str, column: int, *, hint: str | None = None) -> None:
        super().__init__(f"{message} (column {column})", hint=hint)
        self.column = column


class Missing:
    """What a path that leads nowhere evaluates to."""

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing()


class LiteralTerm(msgspec.Struct, frozen=True):
    """A number, a text, true, false or null."""

    value: Any

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        return self.value


class StatePath(msgspec.Struct, frozen=True):
    """`$.a.b[0]`: a field of the state, and a way into its value."""

    steps: tuple[str | int, ...]

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        value: Any = state
        for step in self.steps:
            value = _inside(value, step)
            if value is MISSING:
                break
        return value


class LengthOf(msgspec.Struct, frozen=True):
    """`length(x)` of a text, a list or an object."""

    operand: Term

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        value = self.operand.evaluate(state)
        return len(value) if isinstance(value, str | list | tuple | dict | LazyList) else MISSING


class Negation(msgspec.Struct, frozen=True):
    """`!x`."""

    operand: Term

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        return not self.operand.evaluate(state)


class ComparisonTerm(msgspec.Struct, frozen=True):
    """`a == b` and its kind."""

    mark: str
    left: Term
    right: Term

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        left, right = self.left.evaluate(state), self.right.evaluate(state)
        if self.mark == "==":
            return _equal(left, right)
        if self.mark == "!=":
            return not _equal(left, right)
        return _comparable(left, right) and _ORDERS[self.mark](left, right)


class AllOf(msgspec.Struct, frozen=True):
    """`a && b`: true or false."""

    terms: tuple[Term, ...]

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        return all(term.evaluate(state) for term in self.terms)


class AnyOf(msgspec.Struct, frozen=True):
    """`a || b`: true or false."""

    terms: tuple[Term, ...]

    def evaluate(self, state: Mapping[str, Any]) -> Any:
        return any(term.evaluate(state) for term in self.terms)


Term = LiteralTerm | StatePath | LengthOf | Negation | ComparisonTerm | AllOf | AnyOf


class Expression(msgspec.Struct, frozen=True):
    """An expression that was read. `fields` are the fields of the state that it reads, sorted."""

    text: str
    term: Term
    fields: tuple[str, ...]

    def value(self, state: Mapping[str, Any]) -> Any:
        """Its value, or `MISSING`."""
        return self.term.evaluate(state)

    def is_true(self, state: Mapping[str, Any]) -> bool:
        """Its value as a condition: false, null, 0, an empty text, list or object, and a missing value are false."""
        return bool(self.value(state))

    @property
    def is_path(self) -> bool:
        """Whether it only names a place in the state."""
        return isinstance(self.term, StatePath)


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expression:
    """Read an expression. Raises `ExpressionError`."""
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST:,} characters", LONGEST)
    parser = _Parser(text)
    term = parser.whole()
    return Expression(text, term, tuple(sorted(parser.fields)))


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    column: int


class _Parser:
    """A recursive descent parser; `_nested` bounds the recursion."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._place = 0
        self._depth = 0
        self.fields: set[str] = set()

    def whole(self) -> Term:
        term = self._any_of()
        if self._next.kind != "end":
            raise self._unexpected("an operator such as '&&' or '=='")
        return term

    @property
    def _next(self) -> _Token:
        return self._tokens[self._place]

    def _take(self, *marks: str) -> str | None:
        """The next token's text if it is one of these marks, which is then passed."""
        token = self._next
        if token.kind != "mark" or token.text not in marks:
            return None
        self._place += 1
        return token.text

    def _need(self, mark: str) -> None:
        if self._take(mark) is None:
            raise self._unexpected(f"'{mark}'")

    def _unexpected(self, expected: str) -> ExpressionError:
        token = self._next
        shown = "the end" if token.kind == "end" else f"'{token.text[:40]}'"
        better = _INSTEAD.get(token.text) if token.kind == "name" else None
        hint = f"write '{better}'" if better else None
        return ExpressionError(f"expected {expected}, not {shown}", token.column, hint=hint)

    def _any_of(self) -> Term:
        terms = [self._all_of()]
        while self._take("||"):
            terms.append(self._all_of())
        return terms[0] if len(terms) == 1 else AnyOf(tuple(terms))

    def _all_of(self) -> Term:
        terms = [self._compared()]
        while self._take("&&"):
            terms.append(self._compared())
        return terms[0] if len(terms) == 1 else AllOf(tuple(terms))

    def _compared(self) -> Term:
        left = self._operand()
        mark = self._take(*_COMPARISONS)
        return left if mark is None else ComparisonTerm(mark, left, self._operand())

    def _operand(self) -> Term:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ExpressionError(f"nested more than {DEEPEST} deep", self._next.column)
        try:
            return self._one_operand()
        finally:
            self._depth -= 1

    def _one_operand(self) -> Term:
        if self._take("!"):
            return Negation(self._operand())
        if self._take("("):
            return self._closed()
        if self._take("$"):
            return self._path()
        token = self._next
        if token.kind == "name" and token.text == "length":
            self._place += 1
            self._need("(")
            return LengthOf(self._closed())
        return self._literal()

    def _closed(self) -> Term:
        term = self._any_of()
        self._need(")")
        return term

    def _literal(self) -> Term:
        token = self._next
        if token.kind == "number":
            value: Any = _number(token)
        elif token.kind == "text":
            value = _unquoted(token)
        elif token.kind == "name" and token.text in _WORDS:
            value = _WORDS[token.text]
        else:
            if token.kind == "name" and token.text not in _INSTEAD:
                message = f"'{token.text[:40]}' is not a value"
                hint = f"a field is '$.{token.text[:40]}', a text is in quotes"
                raise ExpressionError(message, token.column, hint=hint)
            raise self._unexpected("a value")
        self._place += 1
        return LiteralTerm(value)

    def _path(self) -> StatePath:
        steps: list[str | int] = []
        while mark := self._take(".", "["):
            steps.append(self._name_step() if mark == "." else self._bracket_step())
        if not steps or not isinstance(steps[0], str):
            raise self._unexpected("a field, as in '$.findings'")
        self.fields.add(steps[0])
        return StatePath(tuple(steps))

    def _name_step(self) -> str:
        token = self._next
        if token.kind != "name":
            raise self._unexpected("a name")
        self._place += 1
        return token.text

    def _bracket_step(self) -> str | int:
        token = self._next
        step: Any = _unquoted(token) if token.kind == "text" else None
        if token.kind == "number":
            step = _number(token)
        if not isinstance(step, str | int):
            raise self._unexpected("a whole number or a quoted name")
        self._place += 1
        self._need("]")
        return step


def _tokens(text: str) -> list[_Token]:
    tokens = []
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            raise _unreadable(text, place)
        tokens.append(_Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1))
        place = match.end()
    return [*tokens, _Token("end", "", end + 1)]


def _unreadable(text: str, place: int) -> ExpressionError:
    place += len(text[place:]) - len(text[place:].lstrip())
    character = text[place]
    hint = {"=": "equality is '=='", "&": "and is '&&'", "|": "or is '||'"}.get(character)
    if character in "\"'":
        return ExpressionError("the text is not closed", place + 1)
    return ExpressionError(f"unexpected {character!r}", place + 1, hint=hint)


def _number(token: _Token) -> int | float:
    if token.text.lstrip("-").isdigit():
        if len(token.text) > 30:
            raise ExpressionError("a number has at most 30 digits", token.column)
        return int(token.text)
    return float(token.text)


def _unquoted(token: _Token) -> str:
    inside = token.text[1:-1]
    if "\\" not in inside:
        return inside
    if token.text[0] == "'":
        inside = re.sub(r"\\(.)|(\")", lambda m: {"'": "'"}.get(m[1], m[0]) if m[1] else '\\"', inside)
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        raise ExpressionError("an escape in the text is not one of JSON's", token.column) from None


def _inside(value: Any, step: str | int) -> Any:
    if isinstance(step, int):
        if isinstance(value, list | tuple | LazyList) and -len(value) <= step < len(value):
            return value[step]
        return MISSING
    return value.get(step, MISSING) if isinstance(value, Mapping) else MISSING


def _comparable(left: Any, right: Any) -> bool:
    """Two numbers or two texts. True and false are no numbers."""
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return (isinstance(left, int | float) and isinstance(right, int | float)) or (
        isinstance(left, str) and isinstance(right, str)
    )


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values, without recursion: 1 equals 1.0, and true does not equal 1."""
    pairs = [(left, right)]
    while pairs:
        one, other = pairs.pop()
        if isinstance(one, list | tuple | LazyList) and isinstance(other, list | tuple | LazyList):
            if len(one) != len(other):
                return False
            pairs += zip(one, other, strict=True)
        elif isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            pairs += [(one[key], other[key]) for key in one]
        elif one is MISSING or isinstance(one, bool) is not isinstance(other, bool) or one != other:
            return False
    return True
