"""A JSON Schema for answers: read and checked before anything is sent; then every answer is validated against it.

The validator is jsonschema-rs (docs/decisions/0017). It is imported only here, and only for jobs with a schema. References to
other files or addresses are never fetched. A keyword that JSON Schema does not define is an error, since it is probably a typo.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.errors import ConfigError, UsageError
from headway.install_hint import install_command
from headway.providers.dialects.structured_output import subschemas_with_paths

FLAG: Final = "--schema"
#: In bytes. A schema is sent with every request.
LARGEST: Final = 1_000_000
#: Mismatches of one answer that are reported, and the longest text of each.
MOST_REPORTED: Final = 10
_LONGEST: Final = 200
NOT_JSON: Final = "it is not JSON"
#: Characters of an answer that is not JSON in its message.
_QUOTED: Final = 60

#: Every keyword of a schema in the drafts 4 to 2020-12.
KEYWORDS: Final = frozenset(
    {
        "$anchor", "$comment", "$defs", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef",
        "$ref", "$schema", "$vocabulary", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
        "contains", "contentEncoding", "contentMediaType", "contentSchema", "default", "definitions", "dependencies",
        "dependentRequired", "dependentSchemas", "deprecated", "description", "else", "enum", "examples",
        "exclusiveMaximum", "exclusiveMinimum", "format", "id", "if", "items", "maxContains", "maxItems", "maxLength",
        "maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf",
        "not", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "readOnly",
        "required", "then", "title", "type", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "writeOnly",
    }
)  # fmt: skip


class Mismatch(msgspec.Struct, frozen=True):
    """One way in which an answer does not fit: its place, what is wrong, and the rule of the schema."""

    place: str
    what: str
    rule: str

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.what} ({self.rule})" if self.rule else f"{where}{self.what}"


class Validator:
    """Validates answers against one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._validator = _compiled(schema)

    def mismatches(self, text: str) -> list[Mismatch]:
        """The first mismatches of an answer; none if it fits."""
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return [not_json(text, _plain(error))]
        try:
            if self._validator.is_valid(value):
                return []
            errors = self._validator.iter_errors(value)
            return [_mismatch(error) for _, error in zip(range(MOST_REPORTED), errors, strict=False)]
        except (
            ValueError,
            RecursionError,
            OverflowError,
        ) as error:  # A pattern that takes too long, or a number that is too large.
            return [Mismatch("", f"it cannot be checked: {_cut(str(error))}", "")]


def not_json(text: str, why: str) -> Mismatch:
    """The mismatch of an answer that is not JSON, with its beginning."""
    if text.lstrip().startswith("```"):
        why = "it is inside a code fence"
    line = " ".join(text[: 2 * _QUOTED].split())
    quoted = f"'{line[:_QUOTED]}{'…' if len(line) > _QUOTED else ''}'" if line else ""
    if quoted and why.startswith("invalid character (byte 0)"):
        why = ""  # The beginning shows it.
    return Mismatch("", f"{NOT_JSON}: {': '.join(filter(None, (why, quoted)))}", "")


def _mismatch(error: Any) -> Mismatch:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    rule = next((step for step in reversed(error.schema_path) if isinstance(step, str)), "")
    return Mismatch(f"answer{place}", _cut(error.message), rule)


def _plain(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    what = str(error).removeprefix("JSON is malformed: ")
    return "it ends too early" if what == "Input data was truncated" else what


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def read_schema(path: Path) -> str:
    """The schema of a file as compact JSON. A bad schema is an error of one line."""
    name = f"{FLAG} {path}"
    return checked_schema(name, _decoded(name, _bytes(name, path)))


def checked_schema(name: str, schema: Any) -> str:
    """A schema as compact JSON. `name` is where it comes from, for the error about a bad one."""
    if not isinstance(schema, dict):
        raise ConfigError(
            f"{name}: a schema is a JSON object", hint='for example {"type": "object", "properties": {…}}'
        )
    _check_keywords(name, schema)
    try:
        _compiled(schema)
    except ValueError as error:
        raise ConfigError(
            f"{name}: {_what_is_wrong(error)}", hint="a schema is written in JSON Schema: json-schema.org"
        ) from None
    if not schema:
        raise ConfigError(f"{name}: the schema is empty: anything would fit it", hint='set "type" at least')
    return msgspec.json.encode(schema).decode()


def _bytes(name: str, path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", hint="name a file with a JSON Schema") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise UsageError(f"{name}: cannot be read: {why}", hint="name a file with a JSON Schema") from None
    if len(data) > LARGEST:
        raise ConfigError(
            f"{name}: larger than {LARGEST / 1e6:g} MB",
            hint="a schema goes into every request: make it smaller",
        )
    return data.removeprefix(b"\xef\xbb\xbf")


def _decoded(name: str, data: bytes) -> Any:
    import json  # Its errors name a line; those of msgspec name a byte.

    try:
        return json.loads(data)
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: not valid UTF-8", hint="save it as UTF-8") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{name}:{error.lineno}: not JSON: {error.msg.lower()}", hint="fix that line"
        ) from None


def _check_keywords(name: str, schema: dict[str, Any]) -> None:
    for place, each in subschemas_with_paths(schema):
        for key in each.keys() - KEYWORDS:
            near = difflib.get_close_matches(key, KEYWORDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "notes go into '$comment' or 'description'"
            where = f" at {place[1:]}" if place else ""
            raise ConfigError(f"{name}: there is no keyword '{_cut(key)}'{where}", hint=hint)


def _compiled(schema: dict[str, Any]) -> Any:
    """The validator. Raises ValueError if the schema is invalid."""
    try:
        import jsonschema_rs
    except ImportError:
        raise UsageError(f"{FLAG} needs jsonschema-rs", hint=install_command("schema")) from None
    return jsonschema_rs.validator_for(schema, validate_formats=True, retriever=_refuse)


def _refuse(uri: str) -> Any:
    """Called for references outside the file: nothing is fetched."""
    raise ValueError(f"it refers to {uri}, which is not in the file")


def _what_is_wrong(error: ValueError) -> str:
    """The error of the validator about a schema, with its place."""
    steps = getattr(error, "instance_path", None) or ()
    place = ".".join(str(step) for step in steps)
    message = _cut(getattr(error, "message", None) or str(error).partition("\n")[0])
    if message.startswith("Resource '"):
        where = message.split("'")[1]
        return f"'$ref' points outside the file, to {where}: nothing is fetched; put it into '$defs'"
    if message.startswith("Pointer '"):
        return message.replace("Pointer '", "'$ref' points to nothing: '#")
    if place.rpartition(".")[2] == "type" or place == "type":
        message = message.partition(" is not valid under")[0] + " is no type"
    return f"{place}: {message}" if place else message
