"""How JavaScript prints, compares and adds plain values. Templates and assertions were written for it.

Values are what JSON has, and UNDEFINED. Nothing here raises for such a value.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any, Final

#: The largest integer that a number of JavaScript holds exactly.
_EXACT: Final = 2**53
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class UndefinedValue:
    """JavaScript's `undefined`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED: Final = UndefinedValue()


def is_nothing(value: Any) -> bool:
    """Whether it is `null` or `undefined`."""
    return value is None or value is UNDEFINED


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def text_of_value(value: Any) -> str:
    """`String(value)`."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, list | tuple):
        return ",".join(printed(item) for item in value)
    if value is None:
        return "null"
    return "undefined" if value is UNDEFINED else "[object Object]"


def text_length(text: str) -> int:
    """The length of a text in JavaScript: a character outside of the basic plane counts twice."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def printed(value: Any) -> str:
    """What a template prints for a value."""
    return "" if is_nothing(value) else text_of_value(value)


def number_text(value: float) -> str:
    """A number as JavaScript writes it: 1.0 is 1, and exponents start at 1e+21 and 1e-7."""
    number = rounded(value)
    if isinstance(number, int):
        return str(number)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    text = repr(number)
    if 1e-6 <= abs(number) < 1e21:
        plain = format(Decimal(text), "f")
        return plain.removesuffix(".0")
    return re.sub(r"e([+-])0+", r"e\1", text.replace(".0e", "e"))


def rounded(value: float) -> int | float:
    """The number that JavaScript has for it: an integer where it is one and exact, otherwise a double."""
    if isinstance(value, int):
        if abs(value) <= _EXACT:
            return int(value)
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if math.isfinite(value) and value == int(value) and abs(value) <= _EXACT:
        return int(value)
    return value


def to_number(value: Any) -> int | float:
    """`Number(value)`; NaN if it is none."""
    if isinstance(value, int | float):
        return rounded(value)
    if value is None:
        return 0
    if isinstance(value, list | tuple):
        value = text_of_value(value)
    if not isinstance(value, str):
        return math.nan
    text = value.strip()
    if not text:
        return 0
    return rounded(float(text)) if _NUMBER.fullmatch(text) else math.nan


def truthy(value: Any) -> bool:
    """JavaScript's truth: empty lists and objects are true."""
    if isinstance(value, list | tuple | dict):
        return True
    if isinstance(value, float) and math.isnan(value):
        return False
    return bool(value)


def loosely_equal(left: Any, right: Any) -> bool:
    """`left == right`: 1 equals "1", and null equals undefined."""
    if is_nothing(left) or is_nothing(right):
        return is_nothing(left) and is_nothing(right)
    compound = (list, tuple, dict)
    if isinstance(left, compound) and isinstance(right, compound):
        return left is right
    if isinstance(left, compound):
        left = text_of_value(left)
    if isinstance(right, compound):
        right = text_of_value(right)
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    return to_number(left) == to_number(right)


def identical(left: Any, right: Any) -> bool:
    """`left === right`."""
    if is_nothing(left) or is_nothing(right) or isinstance(left, list | tuple | dict):
        return left is right
    if is_number(left) != is_number(right) or isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def is_less(left: Any, right: Any) -> bool:
    """`left < right`: texts by their order, everything else as numbers."""
    if isinstance(left, str) and isinstance(right, str):
        return left < right
    return to_number(left) < to_number(right)


def plain(value: Any) -> Any:
    """The value as JSON has it: integral numbers without a fraction, and no `undefined`."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items() if item is not UNDEFINED}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        number = rounded(value)
        return number if math.isfinite(number) else None
    return None if value is UNDEFINED else value


def json_text(value: Any, indent: int | None = None) -> str:
    """`JSON.stringify(value, null, indent)`. Raises RecursionError for a value that is nested too deeply."""
    separators = (",", ":") if indent is None else (",", ": ")
    return json.dumps(plain(value), ensure_ascii=False, separators=separators, indent=indent, default=str)
