"""Checks of JSON in an answer: it is JSON, it contains JSON, and it fits a schema. PURE."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from headway.errors import UsageError
from headway.evals.assertions.graded_answer import CannotJudge, CheckFinding, Demand, GradedAnswer
from headway.evals.assertions.patterns import MOST_STEPS, took_too_long
from headway.evals.template_language.js_values import json_text
from headway.install_hint import install_command

#: Places of an answer at which an object is looked for, and characters that are read in all: both bound the time.
MOST_STARTS: Final = 10_000
MOST_READ: Final = 20_000_000
#: Keywords that draft 7 does not have. A schema without them and without `$schema` is of draft 7, as in promptfoo.
_NEWER: Final = (
    "prefixItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "dependentRequired",
    "dependentSchemas",
)
#: Characters of a schema's mismatch in a reason.
_LONGEST: Final = 300


def is_json(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    """The whole answer is JSON, and fits the schema, if there is one."""
    try:
        value = msgspec.json.decode(answer.text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return CheckFinding(False, "the answer is not JSON")
    mismatch = schema_mismatch(demand.value, value) if demand.value else ""
    return CheckFinding(not mismatch, mismatch or "the answer is JSON that fits")


def contains_json(demand: Demand, answer: GradedAnswer) -> CheckFinding:
    """One of the objects in the answer fits the schema, or there is an object."""
    objects = objects_in(answer.text)
    if not objects:
        return CheckFinding(False, "the answer contains no JSON object")
    mismatch = ""
    for value in objects:
        mismatch = schema_mismatch(demand.value, value) if demand.value else ""
        if not mismatch:
            return CheckFinding(True, "the answer contains JSON that fits")
    return CheckFinding(False, mismatch)


def objects_in(text: str) -> list[Any]:
    """The JSON objects in a text, also between prose and in code fences, and with line ends in their texts.

    Objects inside of others are not counted.
    """
    found: list[Any] = []
    decoder, place, read = json.JSONDecoder(strict=False), text.find("{"), 0
    for _ in range(MOST_STARTS):
        if place < 0 or read > MOST_READ:
            break
        try:
            value, end = decoder.raw_decode(text, place)
        except json.JSONDecodeError as error:
            read, end = read + error.pos - place, place + 1
        except (RecursionError, ValueError):
            read, end = read + len(text) - place, place + 1
        else:
            found.append(value)
        place = text.find("{", end)
    return found


def schema_mismatch(schema: Any, value: Any) -> str:
    """How a value does not fit a schema; "" if it fits. The schema is an object, or a text with YAML or JSON."""
    validator = _validator(_schema_text(schema))
    try:
        error = next(iter(validator.iter_errors(value)), None)
    except (ValueError, RecursionError, OverflowError):
        raise CannotJudge("the JSON is nested too deeply, or a number in it is too large") from None
    if error is None:
        return ""
    if took_too_long(error):
        raise CannotJudge("a pattern of its schema takes too long on this answer", hint="make it simpler")
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    line = " ".join(error.message.split())
    where = f"{place[1:] if place.startswith('.') else place}: " if place else ""
    return f"the JSON does not fit the schema: {where}{line[:_LONGEST]}"


def schema_problem(schema: Any) -> str:
    """What is wrong with a schema; "" if nothing is."""
    try:
        _validator(_schema_text(schema))
    except CannotJudge as problem:
        return str(problem)
    return ""


def _schema_text(schema: Any) -> str:
    """The schema as JSON, which is the key of its validator."""
    if isinstance(schema, str):
        try:
            schema = yaml.safe_load(schema)
        except (yaml.YAMLError, RecursionError):
            raise CannotJudge("its schema is neither YAML nor JSON") from None
    if not isinstance(schema, dict):
        raise CannotJudge("its schema is not an object", hint="for example {type: object, required: [name]}")
    return json_text(schema)


@lru_cache(maxsize=256)
def _validator(schema: str) -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise UsageError("schemas need jsonschema-rs", hint=install_command("eval")) from None
    names_draft = any(f'"{key}"' in schema for key in ("$schema", *_NEWER))
    build = jsonschema_rs.validator_for if names_draft else jsonschema_rs.Draft7Validator
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=MOST_STEPS)
    try:
        return build(
            msgspec.json.decode(schema), validate_formats=True, retriever=_refuse, pattern_options=options
        )
    except (ValueError, RecursionError) as error:
        line = str(error).partition("\n")[0]
        raise CannotJudge(f"its schema is wrong: {line[:_LONGEST]}") from None


def _refuse(uri: str) -> Any:
    """Called for references outside of the schema: nothing is fetched."""
    raise ValueError(f"it refers to {uri}, which is not in it")
