"""How a mapping of a configuration is read by a table of keys: unknown, refused and misshapen keys are reported with their lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from headway.config.yaml_file import Marked
from headway.evals.config.source_file import SourceFile


class ValueForm(msgspec.Struct, frozen=True):
    """A form of values. `expected` completes 'expected …'."""

    expected: str
    accepts: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_amount(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool) or _is_number(value)


TEXT: Final = ValueForm("a text", lambda value: isinstance(value, str))
WORDS: Final = ValueForm("a text", _is_scalar)
NUMBER: Final = ValueForm("a number", _is_number)
AMOUNT: Final = ValueForm("a number from 0 on", _is_amount)
COUNT: Final = ValueForm("a whole number from 1 on", _is_count)
SWITCH: Final = ValueForm("true or false", lambda value: isinstance(value, bool))
MAPPING: Final = ValueForm("a mapping", lambda value: isinstance(value, dict))
LIST: Final = ValueForm("a list", lambda value: isinstance(value, list))
TEXTS: Final = ValueForm("a text or a list of texts", lambda value: isinstance(value, str | list))
TEXT_OR_MAPPING: Final = ValueForm("a text or a mapping", lambda value: isinstance(value, str | dict))
ENTRIES: Final = ValueForm("a text, a mapping or a list", lambda value: isinstance(value, str | dict | list))
ANY: Final = ValueForm("any value", lambda value: True)


class EvalKey(msgspec.Struct, frozen=True):
    """A key: the form of its value and what it means; or why it is refused, and what to write instead."""

    form: ValueForm
    meaning: str
    refused: bool = False
    instead: str = ""
    #: Values of a refused key that say what is the case anyway.
    agrees: tuple[Any, ...] = (None, False, [], {})


def refused(why: str, instead: str = "") -> EvalKey:
    """A key that is known and not supported."""
    return EvalKey(ANY, why, True, instead)


def refused_unless(value: Any, why: str, instead: str = "") -> EvalKey:
    """A key of which only one value is the case here."""
    return EvalKey(ANY, why, True, instead, (None, value))


def unused(meaning: str) -> EvalKey:
    """A key that changes nothing here, and does no harm."""
    return EvalKey(ANY, meaning)


class Fields(dict[str, Marked]):
    """The values of a mapping that were accepted, by key, and their lines. An absent key and null are the same."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}

    def value(self, key: str, default: Any = None) -> Any:
        """The value of a key without lines."""
        node = self.get(key)
        return default if node is None else node.plain()


class KeySection:
    """A mapping with known keys. `others` says what all other keys are; "" if they are errors."""

    def __init__(self, title: str, keys: Mapping[str, EvalKey], about: str = "", others: str = "") -> None:
        self.title, self.keys, self.about, self.others = title, keys, about, others

    def read(self, node: Marked, place: str, source: SourceFile) -> Fields:
        """The accepted values. Everything else is reported."""
        fields = Fields(node.line)
        if not isinstance(node.value, dict):
            source.error(node.line, f"{place}: expected a mapping, not {kind_of_value(node.value)}")
            return fields
        for name, inner in node.value.items():
            self._take(name, inner, node.key_lines.get(name, node.line), (place, fields, source))
        return fields

    def _take(self, name: str, inner: Marked, line: int, to: tuple[str, Fields, SourceFile]) -> None:
        place, fields, source = to
        key, full = self.keys.get(name), f"{place}.{name}" if place else name
        if key is None and not self.others:
            source.unknown(line, f"{full}: unknown key", name, self.keys)
        elif key is not None and key.refused:
            if not any(type(one) is type(inner.value) and one == inner.value for one in key.agrees):
                source.refuse(line, full, key.meaning, key.instead)
        elif inner.value is None:
            return
        elif key is not None and not key.form.accepts(inner.value):
            what = kind_of_value(inner.value)
            source.error(line, f"{full}: expected {key.form.expected}, not {what}")
        else:
            fields[name] = inner
            fields.lines[name] = line


def kind_of_value(value: Any) -> str:
    """The form of a value, for messages."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"'{value[:40]}'" if value and "\n" not in value else "a text"
    names = {bool: "true or false", list: "a list", dict: "a mapping"}
    return names.get(type(value), str(value))
