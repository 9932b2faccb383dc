"""The kinds of values in a flow file. Each one reads a value, reporting what is wrong, and describes itself as JSON Schema.

`read` returns None after it has reported a problem.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headway.config.duration_setting import parse_duration
from headway.config.file_problems import ProblemList
from headway.config.yaml_file import Marked
from headway.flows.expressions import ExpressionError, parse_expression
from headway.flows.spec import AUTO, MaxFailures

#: Ids and fields.
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}", re.ASCII)
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s?%", re.ASCII)
MOST: Final = 1_000_000_000


def type_name(value: Any) -> str:
    """The type of a value, for messages."""
    if value is None:
        return "nothing"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return names.get(type(value), "a mapping")


class ValueKind:
    """One kind of value. `expected` completes 'expected …'."""

    expected = "a value"

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        value = self.accept(item)
        if value is None:
            problems.error(item.line, f"{place}: expected {self.expected}, not {_shown(item.value)}")
        return value

    def accept(self, item: Marked) -> Any:
        """The value, or None if it is of another kind."""
        return item.plain()

    def schema(self) -> dict[str, Any]:
        return {}


def _shown(value: Any) -> str:
    if isinstance(value, str) and len(value) <= 40:
        return f"'{value}'"
    return str(value) if isinstance(value, int | float) and value is not True else type_name(value)


class TextValue(ValueKind):
    """A text that is not empty."""

    expected = "a text"

    def accept(self, item: Marked) -> Any:
        return item.value if isinstance(item.value, str) and item.value.strip() else None

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "minLength": 1}


class NameValue(TextValue):
    """An id or the name of a field."""

    expected = "a name of letters, digits, '_' and '-'"

    def accept(self, item: Marked) -> Any:
        return item.value if isinstance(item.value, str) and NAME.fullmatch(item.value) else None

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{NAME.pattern}$"}


class ChoiceValue(ValueKind):
    """One of a few words."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        if item.value in self._words:
            return item.value
        problems.unknown(
            item.line, f"{place}: {_shown(item.value)} is not possible", str(item.value), self._words
        )
        return None

    def schema(self) -> dict[str, Any]:
        return {"enum": list(self._words)}


class WholeNumber(ValueKind):
    """A whole number within bounds."""

    def __init__(self, least: int, most: int = MOST) -> None:
        self._least, self._most = least, most
        self.expected = f"a whole number from {least:,}" + (f" to {most:,}" if most < MOST else " on")

    def accept(self, item: Marked) -> Any:
        value = item.value
        whole = isinstance(value, int) and not isinstance(value, bool)
        return value if whole and self._least <= value <= self._most else None

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self._least, "maximum": self._most}


class ConcurrencyValue(WholeNumber):
    """A whole number, or `auto`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.expected = "a whole number from 1 on, or 'auto'"

    def accept(self, item: Marked) -> Any:
        return AUTO if item.value == "auto" else super().accept(item)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"const": "auto"}, super().schema()]}


class SwitchValue(ValueKind):
    """True or false."""

    expected = "true or false"

    def accept(self, item: Marked) -> Any:
        return item.value if isinstance(item.value, bool) else None

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class DollarValue(ValueKind):
    """An amount of money above 0."""

    expected = "an amount in USD, such as 0.50"

    def accept(self, item: Marked) -> Any:
        value = item.value
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if number and 0 < value < math.inf else None

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "exclusiveMinimum": 0}


class DurationValue(ValueKind):
    """A duration above 0, in seconds."""

    expected = 'a duration such as "10m" or "90s"'

    def accept(self, item: Marked) -> Any:
        if not isinstance(item.value, str | int | float):
            return None
        try:
            return parse_duration(item.value) or None
        except ValueError:
            return None

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number"]}


class ToleranceValue(ValueKind):
    """`max_failures`: a number of iterations or a percentage."""

    expected = "a whole number or a percentage such as '5%'"

    def accept(self, item: Marked) -> Any:
        value = item.value
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
            return MaxFailures(value)
        match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
        return MaxFailures(0, float(match[1])) if match and float(match[1]) <= 100 else None

    def schema(self) -> dict[str, Any]:
        percent = {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,6})?\s?%$"}
        return {"anyOf": [{"type": "integer", "minimum": 0}, percent]}


class JsonObject(ValueKind):
    """Any mapping: `args`."""

    expected = "a mapping"

    def accept(self, item: Marked) -> Any:
        return item.plain() if isinstance(item.value, dict) else None

    def schema(self) -> dict[str, Any]:
        return {"type": "object"}


class AnyJson(ValueKind):
    """Any value, wrapped: `default: null` is a default."""

    def accept(self, item: Marked) -> Any:
        return (item.plain(),)


class SchemaValue(JsonObject):
    """A JSON Schema, or the name of a file with one."""

    expected = "a JSON Schema or the name of a file with one"

    def accept(self, item: Marked) -> Any:
        return item.value if isinstance(item.value, str) and item.value else super().accept(item)

    def schema(self) -> dict[str, Any]:
        return {"type": ["object", "string"]}


class ConditionValue(ValueKind):
    """An expression, as its text."""

    expected = "an expression such as '$.score >= 8'"

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        text = str(item.value).lower() if isinstance(item.value, bool) else item.value
        if not isinstance(text, str):
            return super().read(Marked(item.value, item.line), place, problems)
        try:
            return parse_expression(text).text
        except ExpressionError as error:
            problems.error(item.line, f"{place}: {error.message}", error.hint or "")
            return None

    def accept(self, item: Marked) -> Any:
        return None

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "boolean"]}


class SourceValue(ConditionValue):
    """`$.path`, as its text, or a literal list, as a tuple."""

    expected = "a path such as '$.issues', or a list"

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        if isinstance(item.value, list):
            return tuple(item.plain())
        text = super().read(item, place, problems)
        if text is not None and not parse_expression(text).is_path:
            problems.error(item.line, f"{place}: expected {self.expected}, not '{text}'")
            return None
        return text

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "array"]}


class NamesValue(ValueKind):
    """A list of names without repetition; a single name is a list of one."""

    expected = "a name or a list of names"

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        items = item.value if isinstance(item.value, list) else [item]
        names: dict[str, None] = {}
        for one in items:
            name = NameValue().read(one, place, problems)
            if name in names:
                problems.error(one.line, f"{place}: '{name}' is here twice")
            elif name is not None:
                names[name] = None
        return tuple(names)

    def schema(self) -> dict[str, Any]:
        name = NameValue().schema()
        return {"anyOf": [name, {"type": "array", "items": name, "uniqueItems": True}]}


class FileKey(msgspec.Struct, frozen=True):
    """A key of a mapping: the kind of its value, what it means, and whether it must be there."""

    kind: ValueKind
    meaning: str
    required: bool = False


class ReadMapping(dict[str, Any]):
    """The values of a mapping that were read, and their lines."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


class MappingValue(ValueKind):
    """A mapping with known keys. A text stands for one of them if `short` names it: `on_error: skip`."""

    expected = "a mapping"

    def __init__(self, keys: Mapping[str, FileKey], short: str = "") -> None:
        self.keys, self.short = keys, short

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        if self.short and isinstance(item.value, str):
            inner, item = item, Marked({self.short: item}, item.line)
            item.key_lines = {self.short: inner.line}
        if not isinstance(item.value, dict):
            problems.error(item.line, f"{place}: expected {self.expected}, not {type_name(item.value)}")
            return None
        return self._read_keys(item, place, problems)

    def _read_keys(self, item: Marked, place: str, problems: ProblemList) -> ReadMapping:
        result = ReadMapping(item.line)
        for name, inner in item.value.items():
            line = result.lines[name] = item.key_lines.get(name, item.line)
            key = self.keys.get(name)
            if key is None:
                problems.unknown(line, f"{place}: unknown key '{name}'", name, self.keys)
                continue
            value = key.kind.read(inner, f"{place}.{name}", problems)
            if value is not None:
                result[name] = value
        for name, key in self.keys.items():
            if key.required and name not in item.value:
                problems.error(item.line, f"{place}: '{name}' is missing")
        return result

    def schema(self) -> dict[str, Any]:
        properties = {
            name: {"description": key.meaning, **key.kind.schema()} for name, key in self.keys.items()
        }
        required = [name for name, key in self.keys.items() if key.required]
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        schema |= {"required": required} if required else {}
        if not self.short:
            return schema
        text = self.keys[self.short].kind.schema()
        if "type" in text:
            text["type"] = "string"  # A list does not stand for a key.
        return {"anyOf": [text, schema]}


class ListOf(ValueKind):
    """A list of mappings."""

    expected = "a list"

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        if not isinstance(item.value, list):
            problems.error(item.line, f"{place}: expected a list, not {type_name(item.value)}")
            return None
        read = [self._kind.read(one, _place(one, place, n), problems) for n, one in enumerate(item.value)]
        return [one for one in read if one is not None]

    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self._kind.schema()}


class NamedMappings(ValueKind):
    """A mapping from names to mappings: the fields of the state."""

    def __init__(self, kind: ValueKind) -> None:
        self._kind = kind

    def read(self, item: Marked, place: str, problems: ProblemList) -> Any:
        if not isinstance(item.value, dict):
            problems.error(item.line, f"{place}: expected a mapping, not {type_name(item.value)}")
            return None
        result = {}
        for name, inner in item.value.items():
            line = item.key_lines.get(name, item.line)
            if NAME.fullmatch(name) is None:
                problems.error(line, f"{place}: '{name}' is not {NameValue.expected}")
            value = self._kind.read(inner, f"{place}.{name}", problems)
            result[name] = ReadMapping(line) if value is None else value
            result[name].line = line
        return result

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self._kind.schema()}


def _place(item: Marked, place: str, number: int) -> str:
    """`node review` if it has an id, else `graph.nodes[3]`."""
    inner = item.value.get("id") if isinstance(item.value, dict) else None
    if inner is None or not isinstance(inner.value, str):
        return f"{place}[{number}]"
    return f"{place.rpartition('.')[2].removesuffix('s')} '{inner.value[:100]}'"
