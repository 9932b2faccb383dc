"""Structured output: how each API is asked for JSON that fits a schema, where its answers have it, and how a repair is requested.

Pure. Each API has a `SchemaDialect`, found by `schema_dialect`; another API adds its own there. A dialect uses as much of a schema
as its API accepts. If that is not enough, the schema is described in the system prompt. In both cases the caller validates
the answer against the whole schema.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

Body = dict[str, Any]
Schema = dict[str, Any]

#: The name of the schema, which OpenAI requires.
NAME: Final = "answer"
_INSTRUCTION: Final = (
    "Answer with JSON alone, without a code fence or any other text. It must fit this JSON Schema:\n"
)
#: Stands for an answer without text: APIs refuse an empty message.
_NO_TEXT: Final = "(no text)"


class SchemaDialect(msgspec.Struct, frozen=True):
    """One API. `native` makes the value of `key` in the `field` of a body; None for a schema that the API refuses.

    `instruct` puts words into the system prompt, `turns` adds what the model said and what is said to that.
    """

    field: str
    key: str
    native: Callable[[Schema], Any]
    instruct: Callable[[Body, str], None]
    turns: Callable[[Body, str, str], None]
    #: Other keys that determine the form of an answer.
    other_fields: tuple[str, ...] = ()
    #: Other spellings of the field and the key.
    aliases: tuple[str, ...] = ()
    #: Whether a body can only have the schema as text, in its instructions.
    needs_text: Callable[[Body], bool] = lambda body: False


class SchemaRequests:
    """A schema for the bodies of a job, prepared once for each API."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._text = _INSTRUCTION + msgspec.json.encode(schema).decode()
        self._native: dict[Callable[[Schema], Any], Any] = {}

    @property
    def instruction(self) -> str:
        """The schema in words, for a prompt that goes to no API."""
        return self._text

    def put(self, dialect: SchemaDialect, body: Body) -> None:
        """Add it to a body. A body that determines the form of its answer itself stays as it is."""
        field = next((name for name in dialect.aliases if name in body), dialect.field)
        own = body.get(field)
        keys = (dialect.key, *dialect.aliases)
        shaped = own is not None and (not isinstance(own, dict) or any(key in own for key in keys))
        if shaped or any(body.get(name) is not None for name in dialect.other_fields):
            return
        if dialect.native not in self._native:
            self._native[dialect.native] = dialect.native(self._schema)
        native = self._native[dialect.native]
        if native is None or dialect.needs_text(body):
            dialect.instruct(body, self._text)
        else:
            body[field] = {**own, **native} if own else native


_DEPLOYMENT: Final = re.compile(r"^(?:/openai)?/deployments/[^/]+/")


def schema_dialect(kind: str, path: str) -> SchemaDialect | None:
    """The dialect of a provider kind for a path; None: its answers have no text that could be JSON."""
    if kind == "azure":  # OpenAI's API, with or without a deployment in the path.
        kind, path = "openai", _DEPLOYMENT.sub("/v1/", path)
    if kind == "gemini":
        return _GEMINI if path.endswith(":generateContent") else None
    if kind == "bedrock":
        return _converse_for(path) if path.endswith("/converse") else None
    return _DIALECTS.get((kind, path))


def follow_up(dialect: SchemaDialect, body: bytes, answer: str, text: str) -> bytes:
    """The same conversation two turns later: the answer of the model, and the reply to it."""
    fields: Body = msgspec.json.decode(body)
    dialect.turns(fields, answer or _NO_TEXT, text)
    return msgspec.json.encode(fields)


# -- OpenAI -------------------------------------------------------------------------------------------------------

#: The keywords that its strict mode accepts. https://platform.openai.com/docs/guides/structured-outputs
_OPENAI_STRICT_KEYWORDS: Final = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description", "enum", "exclusiveMaximum",
        "exclusiveMinimum", "format", "items", "maxItems", "maximum", "minItems", "minimum", "multipleOf", "pattern",
        "properties", "required", "title", "type",
    }
)  # fmt: skip


def _openai_format(schema: Schema) -> Schema | None:
    """Only objects are possible; in strict mode if the schema allows it."""
    if schema.get("type") != "object":
        return None
    adapted = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "$comment")}
    return {"name": NAME, "schema": adapted, "strict": all(map(_is_strict, subschemas(adapted)))}


def _is_strict(schema: Schema) -> bool:
    """Whether every keyword is known, every object closed, and every property required."""
    if not schema.keys() <= _OPENAI_STRICT_KEYWORDS:
        return False
    if not _is_object(schema):
        return True
    properties = schema.get("properties", {})
    return schema.get("additionalProperties") is False and set(properties) == set(schema.get("required", ()))


def _chat_native(schema: Schema) -> Any:
    adapted = _openai_format(schema)
    return None if adapted is None else {"type": "json_schema", "json_schema": adapted}


def _responses_native(schema: Schema) -> Any:
    adapted = _openai_format(schema)
    return None if adapted is None else {"format": {"type": "json_schema", **adapted}}


def _chat_instruct(body: Body, text: str) -> None:
    """Append to the system prompt, or make one."""
    messages = body["messages"]
    first = messages[0]
    if first.get("role") in ("system", "developer") and isinstance(first.get("content"), str):
        body["messages"] = [{**first, "content": f"{first['content']}\n\n{text}"}, *messages[1:]]
    else:
        body["messages"] = [{"role": "system", "content": text}, *messages]


def _responses_instruct(body: Body, text: str) -> None:
    before = body.get("instructions")
    body["instructions"] = f"{before}\n\n{text}" if isinstance(before, str) else text


def _message_turns(body: Body, answer: str, text: str) -> None:
    body["messages"] = [*body["messages"], *_turns(answer, text)]


def _responses_turns(body: Body, answer: str, text: str) -> None:
    given = body["input"]
    before = [{"role": "user", "content": given}] if isinstance(given, str) else given
    body["input"] = [*before, *_turns(answer, text)]


def _turns(answer: str, text: str) -> list[Body]:
    return [{"role": "assistant", "content": answer}, {"role": "user", "content": text}]


# -- Anthropic ----------------------------------------------------------------------------------------------------

#: The keywords that its structured outputs accept. https://platform.claude.com/docs/en/build-with-claude/structured-outputs
_ANTHROPIC_KEYWORDS: Final = frozenset(
    {
        "$defs", "$ref", "additionalProperties", "allOf", "anyOf", "const", "default", "definitions", "description", "enum",
        "format", "items", "properties", "required", "title", "type",
    }
)  # fmt: skip
#: Keywords that it refuses and that a description can replace. The answer is validated against them anyway.
_DESCRIBED: Final = frozenset(
    {
        "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength",
        "minProperties", "minimum", "multipleOf", "pattern", "uniqueItems",
    }
)  # fmt: skip
_DROPPED: Final = frozenset({"$schema", "$id", "$comment", "examples"})


def _anthropic_native(schema: Schema) -> Any:
    """The schema with closed objects, and bounds as text; None if that is not possible."""
    adapted = copy.deepcopy(schema)
    if not all(_adapt_for_anthropic(each) for each in list(subschemas(adapted))) or _is_recursive(adapted):
        return None
    return {"format": {"type": "json_schema", "schema": adapted}}


def _adapt_for_anthropic(schema: Schema) -> bool:
    """Adapt one level of a schema to Anthropic; returns whether that is possible."""
    for key in _DROPPED & schema.keys():
        del schema[key]
    if "oneOf" in schema and "anyOf" not in schema:
        schema["anyOf"] = schema.pop("oneOf")
    _describe_bounds(schema, _DESCRIBED)
    if _is_object(schema):
        schema.setdefault("additionalProperties", False)
    if schema.get("additionalProperties", False) is not False:
        return False
    mixed = any("$ref" in each for each in schema.get("allOf", ()) if isinstance(each, dict))
    compound = any(isinstance(value, dict | list) for value in schema.get("enum", ()))
    return schema.keys() <= _ANTHROPIC_KEYWORDS and not mixed and not compound


def _describe_bounds(schema: Schema, keys: frozenset[str]) -> None:
    """Move unsupported keywords into the description."""
    present = sorted(keys & schema.keys())
    bounds = [f"{key}: {msgspec.json.encode(schema.pop(key)).decode()}" for key in present]
    if bounds:
        schema["description"] = " ".join(filter(None, (schema.get("description"), f"({', '.join(bounds)})")))


def _is_recursive(schema: Schema) -> bool:
    """Whether a schema is recursive, or may be."""
    named = {
        f"#/{holder}/{name}": part
        for holder in ("$defs", "definitions")
        for name, part in schema.get(holder, {}).items()
        if isinstance(part, dict)
    }
    if any(each.get("$ref", "#") not in ("#", *named) for each in subschemas(schema)):
        return True  # It points into the middle of a schema: unknown.
    leads = {name: {each.get("$ref", "") for each in subschemas(part)} for name, part in named.items()}
    leads["#"] = {each.get("$ref", "") for each in subschemas(schema)} - {""}
    if "#" in leads["#"]:
        return True
    for _ in leads:  # Names without references drop out, round by round; a cycle never does.
        leads = {name: to & leads.keys() for name, to in leads.items() if to & leads.keys() and name != "#"}
    return bool(leads)


def _messages_instruct(body: Body, text: str) -> None:
    before = body.get("system")
    if isinstance(before, list):
        body["system"] = [*before, {"type": "text", "text": text}]
    else:
        body["system"] = f"{before}\n\n{text}" if isinstance(before, str) and before else text


# -- Gemini -------------------------------------------------------------------------------------------------------

#: The keywords that responseJsonSchema accepts; it ignores the others. https://ai.google.dev/api/generate-content#generationconfig
_GEMINI_KEYWORDS: Final = frozenset(
    {
        "$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems",
        "maximum", "minItems", "minimum", "oneOf", "prefixItems", "properties", "required", "title", "type",
    }
)  # fmt: skip
_JSON_TYPE: Final = "application/json"


def _gemini_native(schema: Schema) -> Any:
    """The schema with the bounds that Gemini would ignore as text; None if it would ignore more than bounds."""
    adapted = copy.deepcopy(schema)
    if not all(_adapt_for_gemini(each) for each in list(subschemas(adapted))):
        return None
    return {"responseMimeType": _JSON_TYPE, "responseJsonSchema": adapted}


def _adapt_for_gemini(schema: Schema) -> bool:
    """Adapt one level of a schema to Gemini; returns whether that is possible."""
    for key in (_DROPPED - _GEMINI_KEYWORDS) & schema.keys():
        del schema[key]
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    _describe_bounds(schema, _DESCRIBED - _GEMINI_KEYWORDS)
    beside = any(not key.startswith("$") for key in schema) if "$ref" in schema else False
    plain = all(isinstance(value, str | int | float) for value in schema.get("enum", ()))
    return schema.keys() <= _GEMINI_KEYWORDS and not beside and plain


def _gemini_instruct(body: Body, text: str) -> None:
    """Ask for JSON, and describe the schema in the instructions."""
    name = "generation_config" if "generation_config" in body else "generationConfig"
    body[name] = {**(body.get(name) or {}), "responseMimeType": _JSON_TYPE}
    name = "system_instruction" if "system_instruction" in body else "systemInstruction"
    before = body.get(name) or {}
    body[name] = {**before, "parts": [*before.get("parts", ()), {"text": text}]}


def _gemini_turns(body: Body, answer: str, text: str) -> None:
    turns = [{"role": "model", "parts": [{"text": answer}]}, {"role": "user", "parts": [{"text": text}]}]
    body["contents"] = [*body["contents"], *turns]


# -- Bedrock ------------------------------------------------------------------------------------------------------

#: The name of the tool whose input is the answer.
TOOL: Final = "structured_answer"
#: The models that can be forced to use a tool: Claude from version 3 on, Mistral Large, and Nova, which accepts only simple
#: schemas. https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolChoice.html
_TOOL_MODELS: Final = re.compile(r"\banthropic\.claude-(?!v2|instant)|\bmistral\.mistral-large")
_NOVA: Final = re.compile(r"\bamazon\.nova-")
_NOVA_KEYWORDS: Final = ("type", "properties", "required")


def _tool(schema: Schema) -> Any:
    """One tool that must be used: in Converse this works with the most models."""
    described = "Gives the answer. Its input is the answer itself."
    spec = {"name": TOOL, "description": described, "inputSchema": {"json": schema}}
    return {"tools": [{"toolSpec": spec}], "toolChoice": {"any": {}}}


def _converse_native(schema: Schema) -> Any:
    """The tool for a schema. Only an object can be the input of a tool, and not one of several; None for other schemas."""
    if schema.get("type") != "object" or {"anyOf", "allOf", "oneOf"} & schema.keys():
        return None
    return _tool({key: value for key, value in schema.items() if key not in ("$schema", "$id", "$comment")})


def _nova_native(schema: Schema) -> Any:
    """The tool for Nova, with only the keywords of an object at the top level. None for a schema with references."""
    if schema.get("type") != "object" or any("$ref" in each for each in subschemas(schema)):
        return None
    return _tool({key: schema[key] for key in _NOVA_KEYWORDS if key in schema})


def _converse_reasons(body: Body) -> bool:
    """Whether the model thinks: then it cannot be forced to use a tool."""
    more = body.get("additionalModelRequestFields")
    return isinstance(more, dict) and ("thinking" in more or "reasoning_config" in more)


def _converse_instruct(body: Body, text: str) -> None:
    body["system"] = [*(body.get("system") or ()), {"text": text}]


def _converse_turns(body: Body, answer: str, text: str) -> None:
    """The answer, which was a tool's input, is repeated as text, so that no tool result is necessary."""
    turns = [
        {"role": "assistant", "content": [{"text": answer}]},
        {"role": "user", "content": [{"text": text}]},
    ]
    body["messages"] = [*body["messages"], *turns]


def _converse_for(path: str) -> SchemaDialect:
    """Decided by the name of the model in the path. The model of an ARN is unknown."""
    if _TOOL_MODELS.search(path):
        return _CONVERSE
    return _NOVA_CONVERSE if _NOVA.search(path) else _CONVERSE_TEXT_ONLY


# -- schemas ------------------------------------------------------------------------------------------------------

#: The keywords with schemas: one, a list, or a mapping.
SUBSCHEMA_KEYWORDS: Final = frozenset(
    {
        "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames",
        "then", "unevaluatedItems", "unevaluatedProperties",
    }
)  # fmt: skip
LIST_KEYWORDS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
MAPPING_KEYWORDS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)


def subschemas(schema: Any) -> Iterator[Schema]:
    """A schema and every schema in it, except boolean ones."""
    for _, each in subschemas_with_paths(schema):
        yield each


def subschemas_with_paths(schema: Any, at: str = "") -> Iterator[tuple[str, Schema]]:
    """The same with their paths: `.properties.score`."""
    if not isinstance(schema, dict):
        return
    yield at, schema
    for key, value in schema.items():
        if key in SUBSCHEMA_KEYWORDS and isinstance(value, dict):
            yield from subschemas_with_paths(value, f"{at}.{key}")
        elif key in LIST_KEYWORDS and isinstance(value, list):
            for number, each in enumerate(value):
                yield from subschemas_with_paths(each, f"{at}.{key}[{number}]")
        elif key in MAPPING_KEYWORDS and isinstance(value, dict):
            for name, each in value.items():
                yield from subschemas_with_paths(each, f"{at}.{key}.{name}")


def _is_object(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (isinstance(kind, list) and "object" in kind)


_DIALECTS: Final = {
    ("openai", "/v1/chat/completions"): SchemaDialect("response_format", "type", _chat_native, _chat_instruct, _message_turns),
    ("openai", "/v1/responses"): SchemaDialect("text", "format", _responses_native, _responses_instruct, _responses_turns),
    ("anthropic", "/v1/messages"): SchemaDialect(
        "output_config", "format", _anthropic_native, _messages_instruct, _message_turns, ("output_format",)
    ),
}  # fmt: skip
_GEMINI: Final = SchemaDialect(
    "generationConfig",
    "responseMimeType",
    _gemini_native,
    _gemini_instruct,
    _gemini_turns,
    aliases=("generation_config", "response_mime_type"),
)
_CONVERSE: Final = SchemaDialect(
    "toolConfig", "tools", _converse_native, _converse_instruct, _converse_turns, needs_text=_converse_reasons
)
_NOVA_CONVERSE: Final = msgspec.structs.replace(_CONVERSE, native=_nova_native)
_CONVERSE_TEXT_ONLY: Final = msgspec.structs.replace(_CONVERSE, native=lambda schema: None)
