"""The JSON that models answer with: its schema, and a tolerant reader.

Models wrap JSON in prose and fences, write severities in their own words, and numbers as texts. The reader accepts what has one meaning. What it
cannot read is named, so that the model can be asked once more.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from headway.reviews.records import SEVERITIES, Severity

#: Findings that are read of one answer, and characters of each of their texts. More is named as a problem, or ends with a mark.
MOST_READ: Final = 200
MOST_TEXT: Final = 8_000
#: Places of an answer at which JSON is looked for, and characters that are read in all: both bound the time.
MOST_STARTS: Final = 5_000
MOST_CHARACTERS: Final = 5_000_000
_RULE: Final = 80

_TEXT: Final = {"type": "string"}
FINDINGS_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "rule": _TEXT,
                    "severity": {"type": "string", "enum": list(SEVERITIES)},
                    "confidence": {"type": "number"},
                    "start_line": {"type": "integer"},
                    "end_line": {"type": "integer"},
                    "quote": _TEXT,
                    "message": _TEXT,
                    "suggestion": _TEXT,
                },
                "required": [
                    "rule", "severity", "confidence", "start_line", "end_line", "quote", "message", "suggestion",
                ],
                "additionalProperties": False,
            },
        }
    },
    "required": ["findings"],
    "additionalProperties": False,
}  # fmt: skip

_OTHER_WORDS: Final[dict[str, Severity]] = {
    "blocker": "critical",
    "error": "high",
    "major": "high",
    "severe": "high",
    "moderate": "medium",
    "warning": "medium",
    "warn": "medium",
    "minor": "low",
    "style": "low",
    "note": "info",
    "hint": "info",
    "informational": "info",
    "none": "info",
}
_START: Final = re.compile(r"[{\[]")
_NUMBER: Final = re.compile(r"-?\d{1,9}(?:\.\d+)?")
#: "12| " before a line: the number that we wrote there.
_LINE_NUMBER: Final = re.compile(r"^ *\d+\| ?", re.MULTILINE)


class AnsweredFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding as a model wrote it, read but not compared with the file."""

    rule: str
    severity: Severity
    confidence: float
    start_line: int
    end_line: int
    quote: str
    message: str
    suggestion: str


class Unreadable(Exception):
    """An answer, or a finding in it, that cannot be read. The text says why, for the model."""


def answered_findings(text: str) -> tuple[list[AnsweredFinding], list[str]]:
    """The findings in an answer, and what is wrong with those that cannot be read. Raises Unreadable if the answer has no list of findings."""
    items, is_broken = _items(text)
    findings: list[AnsweredFinding] = []
    problems: list[str] = []
    for number, item in enumerate(items[:MOST_READ], 1):
        try:
            findings.append(_finding(item))
        except Unreadable as problem:
            problems.append(f"Finding {number} of your list {problem}.")
    if len(items) > MOST_READ:
        problems.append(f"Your list has {len(items):,} findings; only the first {MOST_READ} can be read.")
    if is_broken:
        problems.append(f"Your answer is no valid JSON. Findings after number {len(items)} cannot be read.")
    return findings, problems


def objects_of(text: str) -> Iterator[Any]:
    """The JSON objects and lists in a text, the outermost ones, in order."""
    decoder = json.JSONDecoder(strict=False)
    place = read = 0
    for _ in range(MOST_STARTS):
        match = _START.search(text, place)
        if match is None or read > MOST_CHARACTERS:
            return
        place = match.start() + 1
        try:
            value, place = decoder.raw_decode(text, match.start())
        except json.JSONDecodeError as error:
            read += error.pos - match.start()
        except (ValueError, RecursionError):
            read += len(text) - match.start()
        else:
            yield value


def _items(text: str) -> tuple[list[Any], bool]:
    """The list of findings, and whether it is broken. The last one counts: models that think aloud draft answers before it.

    Findings one after the other, without a list, are one list: so what can be read of a broken list is read.
    """
    last: list[Any] | None = [] if text.strip() == "[]" else None
    single: list[Any] = []
    has_list = False
    for value in objects_of(text):
        if _is_item(value) and "findings" not in value:
            single.append(value)
            last = single
        elif (items := _list_of(value)) is not None:
            last, single, has_list = items, [], True
    if last is None:
        raise Unreadable('it has no JSON object with a list under "findings"')
    return last, last is single and not has_list and '"findings"' in text


def _list_of(value: Any) -> list[Any] | None:
    """The findings of an object, or a list of nothing but findings."""
    if isinstance(value, dict):
        items = value.get("findings")
        return items if isinstance(items, list) else None
    return value if value and all(_is_item(item) for item in value) else None


def _is_item(value: Any) -> bool:
    return isinstance(value, dict) and "rule" in value and "message" in value


def _finding(item: Any) -> AnsweredFinding:
    if not isinstance(item, dict):
        raise Unreadable("is no object")
    start = _line(item, "start_line")
    end = _line(item, "end_line") if item.get("end_line") is not None else start
    message = _words(item, "message")
    if not message:
        raise Unreadable("has no message")
    return AnsweredFinding(
        rule=rule_name(_words(item, "rule")),
        severity=_severity(item.get("severity")),
        confidence=_confidence(item.get("confidence")),
        start_line=min(start, end),
        end_line=max(start, end),
        quote=_LINE_NUMBER.sub("", _raw(item, "quote")),
        message=message,
        suggestion=_raw(item, "suggestion").strip(),
    )


def rule_name(text: str) -> str:
    """A name in lower case with hyphens. A rule without a name is called "other"."""
    name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return name[:_RULE].strip("-") or "other"


def _raw(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"has a {key} that is no text")
    return value if len(value) <= MOST_TEXT else value[: MOST_TEXT - 1] + "…"


def _words(item: dict[str, Any], key: str) -> str:
    return _raw(item, key).strip()


def _line(item: dict[str, Any], key: str) -> int:
    value = item.get(key)
    if isinstance(value, str) and (match := _NUMBER.search(value)):
        value = float(match[0])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable(f"has no line number under {key}")
    return value


def _severity(value: Any) -> Severity:
    word = value.strip().lower() if isinstance(value, str) else ""
    for severity in SEVERITIES:
        if word == severity:
            return severity
    if word in _OTHER_WORDS:
        return _OTHER_WORDS[word]
    raise Unreadable(f"has none of the severities {', '.join(SEVERITIES)}")


def _confidence(value: Any) -> float:
    """From 0 to 1. A percentage is accepted; without a number it is 0.5, which says nothing."""
    if isinstance(value, str) and (match := _NUMBER.search(value)):
        value = float(match[0])
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.5
    share = value / 100 if 1 < value <= 100 else value
    return round(min(1.0, max(0.0, float(share))), 4)
