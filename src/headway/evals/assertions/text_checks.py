"""Checks of an answer's text: equals, contains, starts with, matches a pattern, its words, its distance. PURE."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from headway.errors import UsageError
from headway.evals.assertions.graded_answer import CannotJudge, CheckFinding, Demand, GradedAnswer
from headway.evals.assertions.patterns import matches
from headway.evals.template_language.js_values import is_number, json_text, plain, text_of_value, to_number
from headway.install_hint import install_command

#: Characters of texts whose distance is computed: the time grows with the square.
LONGEST_COMPARED: Final = 100_000
DEFAULT_DISTANCE: Final = 5
#: A field of a list in one text: quoted, with "" or \" for a quote in it; or everything up to the next comma.
_FIELD: Final = re.compile(r'\s*(?:"((?:[^"\\]|""|\\.)*+)"\s*(?:,|$)|([^,]*+)(?:,|$))', re.DOTALL)


def equals(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    """Objects and lists are compared with the JSON of the answer, everything else as text."""
    if isinstance(demand.value, dict | list | tuple) or demand.value is None:
        equal, expected = _equals_json(demand.value, answer.text), json_text(demand.value)
    else:
        expected = text_of_value(demand.value)
        equal, expected = answer.text == expected, f"'{expected}'"
    return CheckFinding(equal, f"the answer {'is' if equal else 'is not'} {expected}")


def _equals_json(expected: Any, text: str) -> bool:
    try:
        return same(plain(expected), plain(msgspec.json.decode(text)))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False


def same(left: Any, right: Any) -> bool:
    """Deep equality in which true is not 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(isinstance(left, bool) == isinstance(right, bool) and left == right)


def contains(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    return _contains([_sought(demand)], answer.text, every=True)


def icontains(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    return _contains([_sought(demand).lower()], answer.text.lower(), every=True)


def contains_any(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    return _contains(_all_sought(demand), answer.text, every=False)


def contains_all(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    return _contains(_all_sought(demand), answer.text, every=True)


def icontains_any(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    return _contains([text.lower() for text in _all_sought(demand)], answer.text.lower(), every=False)


def icontains_all(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    return _contains([text.lower() for text in _all_sought(demand)], answer.text.lower(), every=True)


def _contains(sought: list[str], text: str, *, every: bool) -> CheckFinding:
    found = [each for each in sought if each in text]
    missing = [each for each in sought if each not in text]
    if every:
        what = f"does not contain {_listed(missing)}" if missing else f"contains {_listed(sought)}"
        return CheckFinding(not missing, f"the answer {what}")
    what = f"contains {_listed(found)}" if found else f"contains none of {_listed(sought)}"
    return CheckFinding(bool(found), f"the answer {what}")


def _listed(texts: list[str]) -> str:
    return ", ".join(f"'{text}'" for text in texts) or "nothing"


def _sought(demand: Demand) -> str:
    value = demand.value
    if (isinstance(value, str) and value) or (is_number(value) and value == value):
        return text_of_value(value)
    if value == "":
        raise CannotJudge("its value is empty", hint="write a text, and check the names of its variables")
    raise CannotJudge("its value is neither a text nor a number", hint="write under 'value' what to look for")


def _all_sought(demand: Demand) -> list[str]:
    """A list, or the fields of one text: `red, "light, blue"`."""
    if isinstance(demand.value, list | tuple):
        return [text_of_value(item) for item in demand.value]
    return fields(demand.text())


def fields(text: str) -> list[str]:
    """The fields of a text with commas between them. Empty fields without quotes are left out."""
    found: list[str] = []
    place = 0
    while place < len(text):
        match = _FIELD.match(text, place)
        if match is None or (match[2] or "").startswith('"'):
            raise CannotJudge("a quoted text in its value does not end", hint="write the value as a list")
        quoted, bare = match[1], (match[2] or "").strip()
        if quoted is not None:
            found.append(re.sub(r'\\(["\\])|""', lambda mark: mark[1] or '"', quoted))
        elif bare:
            found.append(bare)
        place = match.end()
    return found


def starts_with(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    passed = answer.text.startswith(demand.text())
    return CheckFinding(
        passed, f"the answer {'starts' if passed else 'does not start'} with '{demand.text()}'"
    )


def regex(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    passed = matches(demand.text(), answer.text)
    return CheckFinding(passed, f"the answer {'matches' if passed else 'does not match'} /{demand.text()}/")


def word_count(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    """An exact number, or `min` and `max`."""
    words = len(answer.text.split())
    low, high = _bounds(demand.value)
    return CheckFinding(low <= words <= high, f"the answer has {words} words")


def _bounds(value: Any) -> tuple[float, float]:
    if isinstance(value, dict):
        low, high = value.get("min", 0), value.get("max", float("inf"))
        if value.keys() & {"min", "max"} and is_number(low) and is_number(high) and low <= high:
            return low, high
    else:
        exact = to_number(value) if isinstance(value, str) else value
        if is_number(exact) and exact == exact:
            return exact, exact
    raise CannotJudge(
        "its value is neither a number nor 'min' and 'max'", hint="for example 50, or {max: 100}"
    )


def levenshtein(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError:
        raise UsageError("'levenshtein' needs rapidfuzz", hint=install_command("eval")) from None
    if not isinstance(demand.value, str):
        raise CannotJudge("its value is not a text", hint="write a text under 'value'")
    if max(len(demand.value), len(answer.text)) > LONGEST_COMPARED:
        raise CannotJudge(f"a distance is computed for texts of up to {LONGEST_COMPARED:,} characters")
    threshold = DEFAULT_DISTANCE if demand.threshold is None else demand.threshold
    distance = Levenshtein.distance(_units(answer.text), _units(demand.value))
    return CheckFinding(distance <= threshold, f"the distance is {distance}; the threshold is {threshold:g}")


def _units(text: str) -> str | list[int]:
    """The text as JavaScript counts it: a character outside of the basic plane is two units."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    return list(memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"))
