"""The filters of templates, as Nunjucks has them, and promptfoo's `load`. PURE.

A filter gets the work limit, the value and its arguments. The interpreter has charged for reading them. A filter whose result
can be longer than its arguments charges for the result before it makes it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from functools import cmp_to_key
from typing import Any, Final
from urllib.parse import quote

import msgspec

from headway.evals.template_language.js_values import (
    UNDEFINED,
    is_less,
    is_nothing,
    json_text,
    printed,
    rounded,
    text_length,
    text_of_value,
    to_number,
    truthy,
)
from headway.evals.template_language.members import member
from headway.evals.template_language.work_limit import TemplateProblem, WorkLimit

_TAG: Final = re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>", re.DOTALL)
_ESCAPES: Final = str.maketrans(
    {"&": "&amp;", '"': "&quot;", "'": "&#39;", "<": "&lt;", ">": "&gt;", "`": "&#96;"}
)
_UNRESERVED: Final = "-_.!~*'()"


def _items(value: Any) -> list[Any]:
    """The items of a list or the characters of a text; none of anything else."""
    return list(value) if isinstance(value, str | list | tuple) else []


def _default(limit: WorkLimit, value: Any, fallback: Any = "", if_false: Any = False) -> Any:
    return fallback if value is UNDEFINED or (truthy(if_false) and not truthy(value)) else value


def _dump(limit: WorkLimit, value: Any, indent: Any = None) -> Any:
    if value is UNDEFINED:
        return UNDEFINED
    spaces = max(0, min(10, int(indent))) if isinstance(indent, int) else None
    limit.spend_on(value)
    return json_text(value, spaces or None)


def _load(limit: WorkLimit, value: Any) -> Any:
    try:
        return msgspec.json.decode(text_of_value(value))
    except (msgspec.DecodeError, RecursionError):
        raise TemplateProblem("the filter 'load' got a text that is not JSON") from None


def _join(limit: WorkLimit, value: Any, mark: Any = "", attribute: Any = None) -> str:
    items = [member(item, attribute) for item in _items(value)] if attribute else _items(value)
    limit.spend(len(text_of_value(mark)) * len(items))
    return text_of_value(mark).join(map(printed, items))


def _length(limit: WorkLimit, value: Any) -> int:
    if isinstance(value, str):
        return text_length(value)
    return len(value) if isinstance(value, list | tuple | dict) else 0


def _replace(limit: WorkLimit, value: Any, old: Any, new: Any, most: Any = None) -> Any:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return value
    text, sought, put = text_of_value(value), text_of_value(old), text_of_value(new)
    times = text.count(sought) if most is None else min(text.count(sought), max(0, int(to_number(most))))
    limit.spend(len(text) + times * len(put))
    return text.replace(sought, put, times)


def _round(limit: WorkLimit, value: Any, places: Any = 0, method: Any = None) -> int | float:
    number, factor = to_number(value), 10.0 ** max(-300, min(300, int(to_number(places))))
    scaled = number * factor
    if not math.isfinite(scaled):
        return number
    if method == "ceil":
        return rounded(math.ceil(scaled) / factor)
    return rounded(math.floor(scaled if method == "floor" else scaled + 0.5) / factor)


def _int(limit: WorkLimit, value: Any, fallback: Any = UNDEFINED, base: Any = 10) -> Any:
    match = re.match(r"\s*[+-]?\d+", text_of_value(value))
    if match is None:
        return fallback
    return rounded(float(match[0]))


def _float(limit: WorkLimit, value: Any, fallback: Any = UNDEFINED) -> Any:
    match = re.match(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text_of_value(value))
    if match is None:
        return fallback
    return rounded(float(match[0]))


def _sort(
    limit: WorkLimit, value: Any, reverse: Any = False, case: Any = False, attribute: Any = None
) -> list[Any]:
    def key(item: Any) -> Any:
        chosen = item if is_nothing(attribute) else member(item, attribute)
        return chosen.lower() if isinstance(chosen, str) and not truthy(case) else chosen

    def order(left: Any, right: Any) -> int:
        return -1 if is_less(key(left), key(right)) else int(is_less(key(right), key(left)))

    return sorted(_items(value), key=cmp_to_key(order), reverse=truthy(reverse))


def _dictsort(limit: WorkLimit, value: Any, case: Any = False, by: Any = "key") -> list[list[Any]]:
    pairs = [[key, item] for key, item in value.items()] if isinstance(value, dict) else []
    return _sort(limit, pairs, False, case, 1 if by == "value" else 0)


def _sum(limit: WorkLimit, value: Any, attribute: Any = None, start: Any = 0) -> int | float:
    chosen = [member(item, attribute) if attribute else item for item in _items(value)]
    return rounded(to_number(start) + sum(map(to_number, chosen)))


def _select(limit: WorkLimit, value: Any, *test: Any) -> list[Any]:
    return [item for item in _items(value) if _passes(item, test)]


def _reject(limit: WorkLimit, value: Any, *test: Any) -> list[Any]:
    return [item for item in _items(value) if not _passes(item, test)]


def _passes(item: Any, test: tuple[Any, ...]) -> bool:
    from headway.evals.template_language.value_tests import TESTS

    if not test:
        return truthy(item)
    check = TESTS.get(text_of_value(test[0]))
    if check is None:
        raise TemplateProblem(f"there is no test '{text_of_value(test[0])}'")
    return check(item, *test[1:])


def _truncate(limit: WorkLimit, value: Any, length: Any = 255, kill: Any = False, end: Any = "...") -> str:
    text, most = printed(value), int(to_number(length))
    if len(text) <= most:
        return text
    cut = text[:most] if truthy(kill) else text[:most].rsplit(" ", 1)[0]
    return cut + text_of_value(end)


def _indent(limit: WorkLimit, value: Any, width: Any = 4, first: Any = False) -> str:
    lines, space = printed(value).split("\n"), max(0, int(to_number(width)))
    limit.spend(space * len(lines))
    return "\n".join(" " * space + line if i or truthy(first) else line for i, line in enumerate(lines))


def _center(limit: WorkLimit, value: Any, width: Any = 80) -> str:
    text = printed(value)
    spaces = max(0, int(to_number(width)) - len(text))
    limit.spend(spaces)
    return " " * (spaces // 2) + text + " " * (spaces - spaces // 2)


def _batch(limit: WorkLimit, value: Any, size: Any, fill: Any = None) -> list[list[Any]]:
    items, step = _items(value), max(1, int(to_number(size)))
    rows = [items[i : i + step] for i in range(0, len(items), step)]
    if rows and truthy(fill):
        limit.spend(step)
        rows[-1] += [fill] * (step - len(rows[-1]))
    return rows


def _slice(limit: WorkLimit, value: Any, count: Any, fill: Any = None) -> list[list[Any]]:
    """So many columns; the first ones are longer."""
    items, columns = _items(value), max(1, int(to_number(count)))
    limit.spend_on([None] * min(columns, 10_000_000))
    size, longer = divmod(len(items), columns)
    starts = [i * size + min(i, longer) for i in range(columns + 1)]
    rows = [items[start:end] for start, end in itertools.pairwise(starts)]
    return [[*row, fill] if truthy(fill) and i >= longer else row for i, row in enumerate(rows)]


def _groupby(limit: WorkLimit, value: Any, name: Any) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for item in _items(value):
        groups.setdefault(text_of_value(member(item, name)), []).append(item)
    return groups


def _title(limit: WorkLimit, value: Any) -> str:
    return " ".join(_capital(word) for word in printed(value).split(" "))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:].lower()


def _urlencode(limit: WorkLimit, value: Any) -> str:
    if isinstance(value, dict):
        return "&".join(f"{_quoted(key)}={_quoted(item)}" for key, item in value.items())
    return _quoted(value)


def _quoted(value: Any) -> str:
    return quote(text_of_value(value), safe=_UNRESERVED, errors="replace")


def _listed(limit: WorkLimit, value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [{"key": key, "value": item} for key, item in value.items()]
    return _items(value)


def _of_text(change: Callable[[str], Any]) -> Callable[..., Any]:
    """A filter that changes a text; nothing counts as an empty one."""
    return lambda limit, value: change(printed(value))


def _end(position: int) -> Callable[..., Any]:
    def item(limit: WorkLimit, value: Any) -> Any:
        items = _items(value)
        return items[position] if items else UNDEFINED

    return item


def _reversed(limit: WorkLimit, value: Any) -> Any:
    return value[::-1] if isinstance(value, str) else _items(value)[::-1]


def _with_field(limit: WorkLimit, value: Any, name: Any) -> list[Any]:
    return [item for item in _items(value) if truthy(member(item, name))]


def _without_field(limit: WorkLimit, value: Any, name: Any) -> list[Any]:
    return [item for item in _items(value) if not truthy(member(item, name))]


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "abs": lambda limit, value: abs(to_number(value)),
    "batch": _batch,
    "capitalize": _of_text(_capital),
    "center": _center,
    "d": _default,
    "default": _default,
    "dictsort": _dictsort,
    "dump": _dump,
    "e": _of_text(lambda text: text.translate(_ESCAPES)),
    "escape": _of_text(lambda text: text.translate(_ESCAPES)),
    "first": _end(0),
    "forceescape": _of_text(lambda text: text.translate(_ESCAPES)),
    "groupby": _groupby,
    "float": _float,
    "indent": _indent,
    "int": _int,
    "join": _join,
    "last": _end(-1),
    "length": _length,
    "list": _listed,
    "load": _load,
    "lower": _of_text(str.lower),
    "nl2br": _of_text(lambda text: re.sub(r"\r\n|\n", "<br />\n", text)),
    "reject": _reject,
    "rejectattr": _without_field,
    "replace": _replace,
    "reverse": _reversed,
    "round": _round,
    "safe": lambda limit, value: "" if is_nothing(value) else value,
    "select": _select,
    "selectattr": _with_field,
    "slice": _slice,
    "sort": _sort,
    "string": _of_text(str),
    "striptags": _of_text(lambda text: re.sub(r"\s+", " ", _TAG.sub("", text).strip())),
    "sum": _sum,
    "title": _title,
    "tojson": _dump,
    "trim": _of_text(str.strip),
    "truncate": _truncate,
    "upper": _of_text(str.upper),
    "urlencode": _urlencode,
    "wordcount": _of_text(lambda text: len(re.findall(r"\w+", text)) or None),
}
