"""The `schema=` argument: what an answer must be, and how its text becomes an instance of that.

A Pydantic model validates with its own methods, so Pydantic is not imported here. Dataclasses, msgspec structs and other types
are read by msgspec, and dicts are JSON Schemas. Each also makes the JSON Schema that is sent to the provider.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, is_typeddict

import msgspec

from headway.batch.answer_schema import MOST_REPORTED, Mismatch, not_json
from headway.config.argument_checks import brief
from headway.errors import UsageError
from headway.providers.dialects.structured_output import subschemas

_HINT: Final = "it is a Pydantic model, a dataclass, a msgspec struct or a JSON Schema (a dict)"
#: Values that a frame can hold: they stay as they are.
_KEPT: Final = (datetime, date, Decimal)
_AT: Final = " - at `$"


class DoesNotFit(ValueError):
    """An answer is not what was asked for."""

    def __init__(self, mismatches: list[Mismatch]) -> None:
        more = f" (and {len(mismatches) - 1} more)" if len(mismatches) > 1 else ""
        super().__init__(f"it does not fit the schema: {mismatches[0]}{more}")
        self.mismatches = mismatches


class AnswerType(ABC):
    """What answers must be. `schema` is its JSON Schema."""

    schema: dict[str, Any]
    #: The type to read recorded values as; `Any` for a JSON Schema.
    kept_as: Any = Any

    @abstractmethod
    def parse(self, text: str) -> Any:
        """The instance that a text holds as JSON. Raises `DoesNotFit`."""

    @abstractmethod
    def convert(self, value: Any) -> Any:
        """The instance for a value of Python: a dict, or an instance already. Raises `DoesNotFit`."""

    def plain(self, value: Any) -> Any:
        """An instance as dicts, lists and plain values."""
        return msgspec.to_builtins(value, builtin_types=_KEPT)

    @property
    def field_names(self) -> list[str]:
        """The fields of an answer that is an object; none for any other."""
        properties = self.schema.get("properties")
        return (
            list(properties) if self.schema.get("type") == "object" and isinstance(properties, dict) else []
        )

    def fit(self, value: Any) -> Any:
        """The instance for what a function returned: a text with JSON, a dict, or an instance."""
        if isinstance(value, bytes | bytearray):
            value = bytes(value).decode(errors="replace")
        return self.parse(value) if isinstance(value, str) else self.convert(value)

    def mismatches(self, text: str) -> list[Mismatch]:
        """The first mismatches of an answer; none if it fits."""
        try:
            self.parse(text)
        except DoesNotFit as error:
            return error.mismatches
        return []


def answer_type(schema: Any) -> AnswerType:
    """What `schema=` means. Raises `UsageError` for anything that cannot be one."""
    if isinstance(schema, dict):
        return _JsonSchemaType(schema)
    return _of_class(schema) if isinstance(schema, type) else _of_type(schema)


def _of_type(schema: Any) -> AnswerType:
    try:
        if callable(getattr(schema, "model_json_schema", None)):
            return _PydanticType(
                schema.model_json_schema(), schema.model_validate_json, schema.model_validate, schema
            )
        if hasattr(schema, "__pydantic_validator__"):  # A dataclass of Pydantic's.
            adapter = sys.modules["pydantic"].TypeAdapter(schema)
            return _PydanticType(
                adapter.json_schema(), adapter.validate_json, adapter.validate_python, schema
            )
        if isinstance(schema, str | bytes | int | float | list | None):
            raise TypeError("no type")
        return _MsgspecType(schema)
    except UsageError:
        raise
    except Exception as error:  # Reading the type hints of a class may raise anything.
        hint = f"no JSON Schema can be made of it: {error}" if isinstance(schema, type) else _HINT
        raise UsageError(f"schema is {brief(schema)}", hint=hint) from None


#: Questions in a loop have the same class: its schema is made once.
_of_class: Final = lru_cache(128)(_of_type)


class _JsonSchemaType(AnswerType):
    """A JSON Schema: answers stay dicts, lists and plain values."""

    def __init__(self, schema: dict[str, Any]) -> None:
        from headway.batch.answer_schema import Validator, checked_schema

        checked_schema("schema", schema)
        self.schema = schema
        self._validator = Validator(schema)

    def parse(self, text: str) -> Any:
        if found := self._validator.mismatches(text):
            raise DoesNotFit(found)
        return msgspec.json.decode(text)

    def convert(self, value: Any) -> Any:
        try:
            return self.parse(msgspec.json.encode(value).decode())
        except (TypeError, ValueError) as error:
            if isinstance(error, DoesNotFit):
                raise
            raise DoesNotFit([Mismatch("", f"it is a {type(value).__name__}", "")]) from None


class _PydanticType(AnswerType):
    """A Pydantic model, or a dataclass of Pydantic's."""

    def __init__(self, schema: dict[str, Any], from_json: Any, from_value: Any, model: Any) -> None:
        self.schema = _closed(schema)
        self._from_json, self._from_value, self.kept_as = from_json, from_value, model

    def parse(self, text: str) -> Any:
        return self._checked(self._from_json, text)

    def plain(self, value: Any) -> Any:
        dump = getattr(value, "model_dump", None)
        return msgspec.to_builtins(value) if dump is None else dump(by_alias=True)

    def convert(self, value: Any) -> Any:
        if isinstance(value, self.kept_as):
            return value
        return self._checked(self._from_value, value)

    def _checked(self, read: Any, value: Any) -> Any:
        try:
            return read(value)
        except ValueError as error:
            errors = getattr(error, "errors", None)
            found = errors() if callable(errors) else [{"loc": (), "msg": str(error)}]
            raise DoesNotFit([_pydantic_mismatch(one) for one in found[:MOST_REPORTED]]) from None


def _pydantic_mismatch(error: dict[str, Any]) -> Mismatch:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    return Mismatch(place.lstrip("."), str(error["msg"]), "")


class _MsgspecType(AnswerType):
    """A dataclass, a msgspec struct, or another type that msgspec reads."""

    def __init__(self, kind: Any) -> None:
        self.schema = _closed(_with_root(msgspec.json.schema(kind)))
        self._decode = msgspec.json.Decoder(kind).decode
        self.kept_as = kind
        #: A TypedDict has no instances of its own.
        self._is_class = isinstance(kind, type) and not is_typeddict(kind)

    def parse(self, text: str) -> Any:
        try:
            return self._decode(text)
        except (ValueError, RecursionError) as error:
            raise DoesNotFit([_msgspec_mismatch(error, text)]) from None

    def convert(self, value: Any) -> Any:
        if self._is_class and isinstance(value, self.kept_as):
            return value
        try:
            return msgspec.convert(value, self.kept_as, from_attributes=True)
        except (ValueError, RecursionError) as error:
            raise DoesNotFit([_msgspec_mismatch(error, "")]) from None


def _msgspec_mismatch(error: Exception, text: str) -> Mismatch:
    if isinstance(error, msgspec.ValidationError):
        what, _, place = str(error).partition(_AT)
        return Mismatch(place.rstrip("`").lstrip("."), what, "")
    return not_json(text, str(error).removeprefix("JSON is malformed: "))


def _with_root(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its root in place of a reference to it: APIs want an object at the top."""
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    root = schema.get("$defs", {}).get(name)
    return schema if root is None else {**root, "$defs": schema["$defs"]}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with every object closed: strict modes want that, and the type decides what fits."""
    for each in subschemas(schema):
        if each.get("type") == "object" and "properties" in each:
            each.setdefault("additionalProperties", False)
    return schema
