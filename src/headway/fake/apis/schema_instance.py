"""A small value that fits a JSON Schema: the fake's answer to a request for JSON by a schema.

The same text and schema give the same value. `not`, `if`, `pattern` and other rare keywords are ignored. Schemas of Gemini
(`"type": "STRING"`, `nullable`) and bounds that a client wrote into a description (`(minimum: 1)`) are understood too.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]

#: Optional properties are left out below this depth; everything is below the second.
OPTIONAL_DEPTH = 4
DEEPEST = 12
#: Bounds of one answer: its values, the items of one list, and the characters of one text.
MOST_VALUES = 5_000
MOST_ITEMS = 100
MOST_CHARS = 10_000
#: Characters of the echo in a text whose length is free.
ECHO_CHARS = 40
_FILLER = "the quick brown fox jumps over the lazy dog "

_FORMATS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "duration": "PT1H",
    "email": "echo@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "12:00:00Z",
    "uri": "https://example.com/echo",
    "url": "https://example.com/echo",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_BOUND = re.compile(
    r"\b(exclusiveMaximum|exclusiveMinimum|maxItems|maxLength|maximum|minItems|minLength|minimum|multipleOf): "
    r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
)
#: The type of a schema that names none, by a keyword that it has.
_TYPE_SIGNS = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "minimum": "number",
    "maximum": "number",
    "multipleOf": "number",
}


def fitting_value(schema: Any, text: str) -> Any:
    """A value that fits `schema`; `text` is what texts echo, and chooses among the values of an enum."""
    return _Maker(schema, text).value(schema)


class _Maker:
    """Makes the values of one answer."""

    def __init__(self, root: Any, text: str) -> None:
        self._root = root
        self._text = text
        self._choice = zlib.crc32(text.encode())
        self._values = 0

    def value(self, schema: Any, depth: int = 0, place: int = 0) -> Any:
        """A value for a schema at a depth; the values of one list differ by their `place`."""
        self._values += 1
        if depth > DEEPEST or self._values > MOST_VALUES:
            return None
        schema = self._resolved(schema, depth)
        if "const" in schema:
            return schema["const"]
        if options := schema.get("enum"):
            return options[(self._choice + place) % len(options)]
        kind = _kind(schema)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        if kind in ("integer", "number"):
            return _number(schema, kind == "integer", self._choice + place)
        if kind == "boolean":
            return (self._choice + place) % 2 == 0
        return None if kind == "null" else self._string(schema, place)

    def _resolved(self, schema: Any, depth: int) -> dict[str, Any]:
        """The schema without references, with `allOf` and one option of `anyOf` or `oneOf` merged into it."""
        if not isinstance(schema, Mapping):
            return {}
        merged = _with_described_bounds(schema)
        for _ in range(DEEPEST):
            if isinstance(ref := merged.pop("$ref", None), str):
                merged = _merge(merged, self._pointed(ref))
            for part in merged.pop("allOf", None) or ():
                merged = _merge(merged, part)
            for key in ("anyOf", "oneOf"):
                if options := merged.pop(key, None):
                    merged = _merge(merged, self._option(options, depth))
            if not merged.keys() & {"$ref", "allOf", "anyOf", "oneOf"}:
                break
        return merged

    def _pointed(self, ref: str) -> Any:
        """The schema that a reference within the document points to."""
        found = self._root
        for step in ref.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                found = found.get(name, {}) if isinstance(found, Mapping) else {}
        return found

    def _option(self, options: list[Any], depth: int) -> Any:
        """The first option that is not null; far down one that is not nested further."""
        if depth >= OPTIONAL_DEPTH:
            flat = [one for one in options if isinstance(one, Mapping) and _is_flat(one)]
            return (flat or options)[0]
        return next(
            (one for one in options if not isinstance(one, Mapping) or one.get("type") != "null"), options[0]
        )

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        names = list(dict.fromkeys(schema.get("required") or ()))
        if depth < OPTIONAL_DEPTH:
            names += [name for name in properties if name not in names]
        most = schema.get("maxProperties", len(names))
        others = schema.get("additionalProperties", {})
        least = min(int(schema.get("minProperties", 0)), MOST_ITEMS)
        names = names[:most] + [f"key{number}" for number in range(1, least - len(names[:most]) + 1)]
        ordered = [name for name in properties if name in names]
        ordered += [name for name in names if name not in properties]
        return {name: self.value(properties.get(name, others), depth + 1) for name in ordered}

    def _array(self, schema: Schema, depth: int) -> list[Any]:
        first = schema.get("prefixItems") or []
        least = int(schema.get("minItems", 1 if depth < OPTIONAL_DEPTH else 0))
        least = min(max(least, len(first)), int(schema.get("maxItems", MOST_ITEMS)), MOST_ITEMS)
        each = schema.get("items", {})
        if isinstance(each, list):  # Older drafts: a schema for each place.
            first, each = each, schema.get("additionalItems", {})
        kinds = [first[place] if place < len(first) else each for place in range(least)]
        return [self.value(kind, depth + 1, place) for place, kind in enumerate(kinds)]

    def _string(self, schema: Schema, place: int) -> str:
        if (form := schema.get("format")) in _FORMATS:
            return _FORMATS[str(form)]
        text = f"echo: {self._text}"[:ECHO_CHARS]
        if place:
            text = f"{place + 1} {text}"
        least = min(int(schema.get("minLength", 0)), MOST_CHARS)
        if len(text) < least:
            text = (text + " " + _FILLER * (least // len(_FILLER) + 1))[:least]
        return text[: int(schema.get("maxLength", len(text)))]


def _kind(schema: Schema) -> str:
    """The type of a value, in lower case; of several the first that is not null."""
    named = schema.get("type")
    names = [str(one).lower() for one in (named if isinstance(named, list) else [named]) if one]
    if names:
        return next((name for name in names if name != "null"), "null")
    return next((kind for sign, kind in _TYPE_SIGNS.items() if sign in schema), "string")


def _is_flat(schema: Schema) -> bool:
    return _kind(schema) not in ("object", "array") and "$ref" not in schema


def _number(schema: Schema, whole: bool, choice: int) -> float:
    """A number within the bounds: one of the whole numbers if both bounds are given, otherwise one close to the bound."""
    step = schema.get("multipleOf") or (1 if whole else 0)
    low, high = _bound(schema, "minimum", "Minimum"), _bound(schema, "maximum", "Maximum")
    if low == schema.get("exclusiveMinimum") and low is not None:
        low += step or _gap(low, high)
    if high == schema.get("exclusiveMaximum") and high is not None:
        high -= step or _gap(low, high)
    unit = step or 1
    start = math.ceil((0 if low is None else low) / unit)
    if low is None and high is not None:
        start = min(start, math.floor(high / unit))
    last = start if low is None or high is None else math.floor(high / unit)
    if last < start:  # No multiple is in between: a fraction.
        return float(low or 0)
    number = (start + choice % (last - start + 1)) * unit
    return int(number) if whole else number


def _gap(low: float | None, high: float | None) -> float:
    return 1 if low is None or high is None else min(1.0, abs(high - low) / 4)


def _bound(schema: Schema, name: str, suffix: str) -> float | None:
    """The inner one of a bound and its exclusive form."""
    given = [schema[key] for key in (name, f"exclusive{suffix}") if _is_number(schema.get(key))]
    if not given:
        return None
    return float(max(given) if name == "minimum" else min(given))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _with_described_bounds(schema: Schema) -> dict[str, Any]:
    """The schema and the bounds that its description names."""
    described = schema.get("description")
    found = _BOUND.findall(described) if isinstance(described, str) else []
    return {
        key: float(value) if "." in value or "e" in value.lower() else int(value) for key, value in found
    } | dict(schema)


def _merge(schema: dict[str, Any], part: Any) -> dict[str, Any]:
    """Both schemas in one: their properties and required names together."""
    if not isinstance(part, Mapping):
        return schema
    merged = {**schema, **_with_described_bounds(part)}
    if "properties" in schema and "properties" in part:
        merged["properties"] = {**schema["properties"], **part["properties"]}
    if "required" in schema and "required" in part:
        merged["required"] = [*schema["required"], *part["required"]]
    return merged
