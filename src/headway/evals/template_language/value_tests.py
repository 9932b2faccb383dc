"""The tests of templates (`x is defined`), as Nunjucks has them. PURE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headway.evals.template_language.js_values import (
    UNDEFINED,
    identical,
    is_less,
    is_number,
    to_number,
    truthy,
)

TESTS: Final[Mapping[str, Callable[..., bool]]] = {
    "defined": lambda value: value is not UNDEFINED,
    "undefined": lambda value: value is UNDEFINED,
    "none": lambda value: value is None,
    "null": lambda value: value is None,
    "truthy": truthy,
    "falsy": lambda value: not truthy(value),
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "mapping": lambda value: isinstance(value, dict),
    "iterable": lambda value: isinstance(value, str | list | tuple),
    "odd": lambda value: to_number(value) % 2 == 1,
    "even": lambda value: to_number(value) % 2 == 0,
    "divisibleby": lambda value, by: truthy(to_number(by)) and to_number(value) % to_number(by) == 0,
    "lower": lambda value: isinstance(value, str) and value == value.lower(),
    "upper": lambda value: isinstance(value, str) and value == value.upper(),
    "equalto": identical,
    "eq": identical,
    "sameas": identical,
    "ne": lambda value, other: not identical(value, other),
    "lt": is_less,
    "lessthan": is_less,
    "gt": lambda value, other: is_less(other, value),
    "greaterthan": lambda value, other: is_less(other, value),
    "le": lambda value, other: is_less(value, other) or identical(value, other),
    "ge": lambda value, other: is_less(other, value) or identical(value, other),
}
