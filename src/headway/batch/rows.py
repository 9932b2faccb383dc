"""One line of a batch → one `Row` that is ready to be sent, or a `BadRow` that says what is wrong.

Owns the two formats of rows, and how a short row becomes a request. A line is decoded once, into plain objects, and the body is
encoded once: compact, with its keys in their order, and with every field that is not for Headway. This costs less than
typed records with raw fields, which would keep spaces and still need a second pass over the messages for their length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote

import msgspec

from headway.batch import field_checks, input_size
from headway.batch.attachments.attached_file import AttachedFile
from headway.batch.attachments.references import Reference, references_of
from headway.batch.prompt_families import NO_TRAITS, FamilyTraits, traits_of
from headway.batch.reader import LONGEST_LINE, Reader
from headway.batch.request_options import RequestOptions
from headway.config import KINDS, Config
from headway.config.near_names import near_name
from headway.config.routing import Router, Target
from headway.errors import MissingModel, UsageError
from headway.providers.dialects.structured_output import SchemaRequests, schema_dialect

#: Anthropic requires a limit; all its models allow this one.
ANTHROPIC_MAX_TOKENS: Final = 4096

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
EMBEDDINGS: Final = "/v1/embeddings"
MESSAGES: Final = "/v1/messages"
#: APIs with the model in the path.
GENERATE: Final = "/v1beta/models/{model}:generateContent"
CONVERSE: Final = "/model/{model}/converse"
INVOKE: Final = "/model/{model}/invoke"
_MODEL_IN_URL: Final = re.compile(r"(?:/v1beta|/v1)?/models?/([^/]+?)(:generateContent|/converse|/invoke)")

#: Nearly all rows of OpenAI's Batch API have only these keys.
_USUAL_KEYS: Final = frozenset(("custom_id", "method", "url", "body"))
_BATCH_KEYS: Final = frozenset(
    (
        "custom_id", "id", "method", "url", "body", "metadata", "priority", "serial", "conversation", "store_as",
        "attachments",
    )
)  # fmt: skip


class Row(msgspec.Struct, frozen=True, gc=False):
    """One request. `body` is sent unchanged to `path`. `raw_model` is the model as the line names it.

    `max_tokens` is the limit of all answers together; 0.0 without a limit.
    """

    custom_id: str
    provider: str
    model: str
    path: str
    body: bytes
    chars: int
    max_tokens: float
    priority: int
    serial: bool
    metadata: bytes | None
    raw_model: str
    traits: FamilyTraits = NO_TRAITS
    #: Its conversation, and the name under which its answer is stored; "": none.
    conversation: str = ""
    store_as: str = ""
    #: The model that it is for, in a job with several (`--model a --model b`).
    variant: str = ""
    #: What it attaches as the row names it, and the files that are in its request (`attachments.row_attachments`).
    references: tuple[Reference, ...] = ()
    files: tuple[AttachedFile, ...] = ()


class BadRow(msgspec.Struct, frozen=True, gc=False):
    """A line that is not a valid request, and why."""

    line: int
    message: str
    #: The name under which its answer would have been stored.
    store_as: str = ""
    #: The file that is this row, if the input is a set of files.
    path: str = ""
    #: If it only lacks a model, which a setting could name: the error if no row of the file names one.
    no_model: UsageError | None = None

    def at(self, name: str) -> str:
        """The message with its place: `requests.jsonl:17: "max_tokens" must be a whole number above 0`."""
        return f"{self.path or f'{name}:{self.line}'}: {self.message}"


class Endpoint(msgspec.Struct, frozen=True):
    """An API endpoint: the check, the name and the length of its input. `url` is the address that rows use.

    `within` is the object in the body that has the settings; "" if they are in the body itself. `key` is "" if the format of the
    body depends on the model.
    """

    url: str
    check: Callable[[object, str], None]
    key: str
    chars: Callable[[Mapping[str, Any]], int]
    limits: tuple[str, ...] = ()
    #: The path of requests, which may contain the model; "": the same as `url`.
    path: str = ""
    within: str = ""
    #: The name of the setting for the number of answers.
    answers: str = "n"

    @property
    def model_in_path(self) -> bool:
        """Whether the path has the model, and the body has none."""
        return "{model}" in self.url

    def path_for(self, model: str) -> str:
        """The path of requests to a model."""
        path = self.path or self.url
        return path.replace("{model}", quote(model, safe="")) if "{model}" in path else path


def _of_openai(where: str = "") -> tuple[Endpoint, ...]:
    """OpenAI's endpoints. `where` is the path of a model, if models have paths of their own."""
    below = [f"{where}{url.removeprefix('/v1')}" if where else "" for url in (CHAT, EMBEDDINGS)]
    limits = ("max_completion_tokens", "max_tokens")
    return (
        Endpoint(CHAT, field_checks.messages, "messages", input_size.of_chat, limits, below[0]),
        Endpoint(RESPONSES, field_checks.texts, "input", input_size.of_response, ("max_output_tokens",)),
        Endpoint(EMBEDDINGS, field_checks.texts, "input", input_size.of_embedding, path=below[1]),
    )


#: The endpoints of each provider kind. Short rows use the first one.
_ENDPOINTS: Final[dict[str, tuple[Endpoint, ...]]] = {
    "openai": _of_openai(),
    "azure": _of_openai("/deployments/{model}"),
    "anthropic": (
        Endpoint(MESSAGES, field_checks.messages, "messages", input_size.of_chat, ("max_tokens",)),
    ),
    "gemini": (
        Endpoint(
            GENERATE,
            field_checks.contents,
            "contents",
            input_size.of_contents,
            ("maxOutputTokens",),
            within="generationConfig",
            answers="candidateCount",
        ),
    ),
    "bedrock": (
        Endpoint(
            CONVERSE,
            field_checks.messages,
            "messages",
            input_size.of_chat,
            ("maxTokens",),
            within="inferenceConfig",
        ),
        Endpoint(INVOKE, field_checks.anything, "", input_size.of_json, ("max_tokens", "max_gen_len")),
    ),
}
#: A URL may be written without its version.
_BY_URL: Final = {
    kind: {url: e for e in endpoints for url in (e.url, e.url.removeprefix("/v1beta").removeprefix("/v1"))}
    for kind, endpoints in _ENDPOINTS.items()
}

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode


def read(path: str | Path, config: Config, stdin: BinaryIO | None = None) -> Iterator[Row | BadRow]:
    """Every row of a file, in order, including bad ones."""
    return rows_of(Reader(path, stdin), Router(config))


def rows_of(reader: Reader, router: Router) -> Iterator[Row | BadRow]:
    """The same from a reader of the caller, who needs its digest."""
    return (row for _, row in numbered(reader, router))


def numbered(
    reader: Reader, router: Router, request_options: RequestOptions | None = None
) -> Iterator[tuple[int, Row | BadRow]]:
    """Every row with its line number. The options add missing fields to short rows, and the schema to all rows."""
    schema_requests = None if request_options is None else request_options.schema_requests()
    for number, line in reader:
        if line is None:
            yield number, BadRow(number, f"longer than {LONGEST_LINE / 1e6:g} MB")
        else:
            yield number, parse(number, line, router, request_options, schema_requests)


def _worker(
    row: dict[str, Any], router: Router, request_options: RequestOptions | None = None
) -> Target | None:
    """The Python function that gets this row, if any. A row of OpenAI's Batch API never goes to a function."""
    if "body" in row and "url" in row:
        return None
    if request_options is not None and request_options.model is not None and row.get("model") is None:
        row["model"] = request_options.model
    target = router.route(field_checks.model(row.get("model"), ""))
    return target if KINDS[target.kind].takes_any_row else None


def _work_row(
    number: int,
    row: dict[str, Any],
    target: Target,
    router: Router,
    schema_requests: SchemaRequests | None,
    *,
    templated: bool = False,
) -> Row:
    """`{"id", "payload"}`, or any keys. The function gets the payload, or all keys that are not for Headway."""
    if schema_requests is not None:
        raise UsageError("--schema is for a model's answers; a function checks what it returns itself")
    raw_model = row.pop("model", None)
    own = _own(number, row, raw_model)
    if "payload" in row:
        _with_links(own, row)
        if len(row) > 1:
            stray = next(key for key in row if key != "payload")
            raise UsageError(f'"{_cut(stray)}" does not belong beside "payload": put it inside')
        payload = row["payload"]
    else:
        # The function gets all keys, with any JSON value. Only a text names a conversation, and only a name stores an answer.
        conversation = row.get("conversation")
        own.conversation = conversation if type(conversation) is str else ""
        own.store_as = _stored_name(row.get("store_as"))
        payload = row if raw_model is None else {**row, "model": target.model}
        if (
            templated and KINDS[target.kind].builder == "command"
        ):  # Options that were not given are not part of it.
            payload = {key: value for key, value in payload.items() if value is not None}
    router.check_row(target, payload)
    body = _encode(payload)
    return Row(
        own.custom_id, target.provider, target.model, target.kind, body, len(body), 0.0, own.priority, own.serial,
        own.metadata, raw_model or "", conversation=own.conversation, store_as=own.store_as,
    )  # fmt: skip


def from_fields(
    number: int, row: dict[str, Any], router: Router, schema_requests: SchemaRequests | None = None
) -> Row | BadRow:
    """A short row that is not from a line of JSON: its texts were made from a template."""
    try:
        if router.takes_any_row and (target := _worker(row, router)) is not None:
            return _work_row(number, row, target, router, schema_requests, templated=True)
        return _short_row(number, row, router, schema_requests, templated=True)
    except UsageError as error:
        return BadRow(number, str(error), no_model=_no_model(error))


def parse(
    number: int,
    line: bytes,
    router: Router,
    request_options: RequestOptions | None = None,
    schema_requests: SchemaRequests | None = None,
) -> Row | BadRow:
    """One line."""
    try:
        row = _decode(line)
        if request_options is not None:
            request_options.add_attachments(row)
        if router.takes_any_row and (target := _worker(row, router, request_options)) is not None:
            return _work_row(number, row, target, router, schema_requests)
        if "body" in row or "url" in row:
            return _batch_row(number, row, router, schema_requests)
        if request_options is not None:
            request_options.fill(row)
        return _short_row(number, row, router, schema_requests)
    except UsageError as error:
        return BadRow(
            number, str(error), _stored_name(_decode(line).get("store_as")), no_model=_no_model(error)
        )
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return BadRow(number, _not_json(error, line))


def _no_model(error: UsageError) -> UsageError | None:
    return error.of_file if isinstance(error, MissingModel) else None


def _stored_name(value: object) -> str:
    """The name, if it is a valid one; otherwise ""."""
    return value if type(value) is str and field_checks.STORED_NAME.fullmatch(value) else ""


def _not_json(error: Exception, line: bytes) -> str:
    if isinstance(error, UnicodeError):
        return "not valid UTF-8: save the file as UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        what = str(error).partition(" - at ")[0]
        return (
            "must be a JSON object, one per line (for an array: jq -c '.[]')"
            if what.startswith("Expected `object`")
            else f"not JSON: {what.lower()}"
        )
    what = str(error).removeprefix("JSON is malformed: ")
    if what == "Input data was truncated":
        # msgspec also says this if half of a surrogate pair is at the end of a string.
        halved = line.endswith(b"}") and b"\\ud" in line.lower()
        what = "half of a surrogate pair" if halved else "it ends too early"
    return f"not JSON: {what}"


class _Own(msgspec.Struct, gc=False):
    """The fields of a line that are for Headway and are not sent. `templated`: its texts were made from a template."""

    custom_id: str
    priority: int
    serial: bool
    metadata: bytes | None
    raw_model: str | None
    templated: bool = False
    conversation: str = ""
    store_as: str = ""
    references: tuple[Reference, ...] = ()


def _own(number: int, row: dict[str, Any], raw_model: str | None) -> _Own:
    """Remove these fields from the row, since they are not sent."""
    short, custom, metadata = row.pop("id", None), row.pop("custom_id", None), row.pop("metadata", None)
    if short is not None and custom is not None:
        raise UsageError('expected one of "id" and "custom_id", not both')
    return _Own(
        field_checks.custom_id(short, number, "id")
        if custom is None
        else field_checks.custom_id(custom, number, "custom_id"),
        field_checks.priority(row.pop("priority", None)),
        field_checks.serial(row.pop("serial", None)),
        _encode(metadata) if metadata is not None else None,
        raw_model,
    )


def _with_links(own: _Own, row: dict[str, Any]) -> _Own:
    """Add the fields that link a row to others. A function's row keeps these keys: the function gets them, too."""
    own.conversation = field_checks.conversation(row.pop("conversation", None))
    own.store_as = field_checks.store_as(row.pop("store_as", None))
    return own


def _with_files(own: _Own, row: dict[str, Any]) -> _Own:
    """Add what links a request to other rows and to files."""
    if "attachments" in row:
        own.references = references_of(row.pop("attachments"))
    return _with_links(own, row)


def _batch_row(
    number: int, row: dict[str, Any], router: Router, schema_requests: SchemaRequests | None
) -> Row:
    """`{"custom_id", "method", "url", "body"}`: the format of OpenAI's Batch API."""
    if not row.keys() <= _BATCH_KEYS:
        stray = next(key for key in row if key not in _BATCH_KEYS)
        raise UsageError(f'"{_cut(stray)}" does not belong beside "body": put it inside')
    body = row.get("body")
    if type(body) is not dict:
        raise UsageError('"body" must be an object: the request itself')
    if row.get("method") not in (None, "POST"):
        raise UsageError('"method" must be "POST"')
    url, in_url = _without_model(row.get("url"))
    raw_model = field_checks.model(body.get("model"), "body.") or in_url
    target = router.route(raw_model)
    if in_url is not None and in_url != target.model:
        raise UsageError(f'"url" names the model \'{_cut(in_url)}\', and "body.model" another one')
    endpoint = _endpoint(url, target)
    endpoint.check(body.get(endpoint.key), "body.")
    if endpoint.url == MESSAGES and body.get("max_tokens") is None:
        raise UsageError(f'"body.max_tokens" is missing: {MESSAGES} requires it')
    if endpoint.model_in_path:
        body.pop("model", None)
    elif raw_model is None:
        body.pop("model", None)
        body = {"model": target.model, **body}
    else:
        body["model"] = target.model
    if row.keys() <= _USUAL_KEYS:
        own = _Own(
            field_checks.custom_id(row.get("custom_id"), number, "custom_id"), 0, False, None, raw_model
        )
    else:
        own = _with_files(_own(number, row, raw_model), row)
    return _row(own, target, endpoint, body, "body.", schema_requests)


def _without_model(url: object) -> tuple[object, str | None]:
    """A URL with its model taken out, and that model. Other URLs are returned unchanged."""
    match = _MODEL_IN_URL.fullmatch(url) if type(url) is str else None
    if match is None:
        return url, None
    template = {":generateContent": GENERATE, "/converse": CONVERSE, "/invoke": INVOKE}[match[2]]
    return template, None if match[1] == "{model}" else unquote(match[1])


def _endpoint(url: object, target: Target) -> Endpoint:
    endpoint = _BY_URL[target.kind].get(url) if type(url) is str else None
    if endpoint is not None:
        return endpoint
    known = ", ".join(endpoint.url for endpoint in _ENDPOINTS[target.kind])
    other = next((by_url[url] for by_url in _BY_URL.values() if type(url) is str and url in by_url), None)
    if other is None:
        raise UsageError(f'"url" must be one of {known}')
    raise UsageError(
        f"\"url\" {other.url} does not fit provider '{target.provider}', whose kind is {target.kind}: "
        f"it has {known}"
    )


def _short_row(
    number: int,
    row: dict[str, Any],
    router: Router,
    schema_requests: SchemaRequests | None,
    *,
    templated: bool = False,
) -> Row:
    """`{"id", "prompt" | "messages" | "input", "model", …}`: all keys that are not for Headway go into the body."""
    prompt, messages, texts = row.pop("prompt", None), row.pop("messages", None), row.pop("input", None)
    if (prompt is not None) + (messages is not None) + (texts is not None) != 1:
        raise UsageError(
            'expected one of "prompt", "messages" and "input"' + _several(row, prompt, messages, texts)
        )
    own = _with_files(_own(number, row, field_checks.model(row.pop("model", None), "")), row)
    own.templated = templated
    target = router.route(own.raw_model)
    if texts is not None:
        return _embedding_row(own, target, texts, row, schema_requests)
    if prompt is not None:
        if type(prompt) is not str or not prompt:
            raise UsageError('"prompt" must be a string that is not empty')
        messages = [{"role": "user", "content": prompt}]
    else:
        field_checks.messages(messages, "")
    return _row(
        own, target, _ENDPOINTS[target.kind][0], _chat_body(target, messages, row), "", schema_requests
    )


def _chat_body(target: Target, messages: list[Any], row: dict[str, Any]) -> dict[str, Any]:
    """The body in the format of the provider's API."""
    match target.kind:
        case "anthropic":
            return _for_messages(target, messages, row)
        case "gemini" | "bedrock":
            from headway.batch.requests import request_bodies

            return (request_bodies.for_gemini if target.kind == "gemini" else request_bodies.for_converse)(
                messages, row
            )
    return {"model": target.model, "messages": _with_system(row, messages), **row}


def _several(row: Mapping[str, Any], *inputs: object) -> str:
    if any(value is not None for value in inputs):
        return ", not several"
    near = ((key, near_name(key, ("prompt", "messages", "input"))) for key in row)
    return next((f'; did you mean "{name}" instead of "{_cut(key)}"?' for key, name in near if name), "")


def _with_system(row: dict[str, Any], messages: list[Any]) -> list[Any]:
    """In OpenAI's format, the system prompt is the first message."""
    system = row.pop("system", None)
    if system is None:
        return messages
    if type(system) is not str:
        raise UsageError('"system" must be a string')
    return [{"role": "system", "content": system}, *messages]


def _for_messages(target: Target, messages: list[Any], row: dict[str, Any]) -> dict[str, Any]:
    """In Anthropic's format, the system prompt is beside the messages, and a limit is required."""
    system = row.get("system", "")
    if system is None:
        del row["system"]
    elif type(system) is not str and type(system) is not list:
        raise UsageError('"system" must be a string, or a list of text blocks')
    if row.get("max_tokens") is None:
        row["max_tokens"] = ANTHROPIC_MAX_TOKENS
    return {"model": target.model, "messages": messages, **row}


def _embedding_row(
    own: _Own, target: Target, texts: object, row: dict[str, Any], schema_requests: SchemaRequests | None
) -> Row:
    endpoint = _BY_URL[target.kind].get(EMBEDDINGS)
    if endpoint is None:
        raise UsageError(
            f'"input" is for embeddings, and provider \'{target.provider}\' has none: use "prompt" or "messages"'
        )
    if own.raw_model is None:
        raise UsageError('"input" is for embeddings, and needs a "model" in its row')
    if row.pop("system", None) is not None:
        raise UsageError('"system" cannot be combined with "input"')
    field_checks.texts(texts, "")
    return _row(own, target, endpoint, {"model": target.model, "input": texts, **row}, "", schema_requests)


def _row(
    own: _Own,
    target: Target,
    endpoint: Endpoint,
    body: dict[str, Any],
    at: str,
    schema_requests: SchemaRequests | None,
) -> Row:
    """The common part of both formats. `at` is the path of the body's fields, for messages."""
    if own.conversation or own.store_as:
        _check_links(own, endpoint)
    if schema_requests is not None:
        _add_schema(schema_requests, target, endpoint, body, at)
    settings, at = field_checks.within(body, endpoint.within, at)
    most = field_checks.most_output(settings, endpoint.limits, at, endpoint.answers)
    path = endpoint.path_for(target.model)
    return Row(
        own.custom_id,
        target.provider,
        target.model,
        path,
        _encode(body),
        endpoint.chars(body),
        most,
        own.priority,
        own.serial,
        own.metadata,
        own.raw_model or "",
        traits_of(path, body, endpoint.limits, most, templated=own.templated),
        own.conversation,
        own.store_as,
        references=own.references,
    )


def _check_links(own: _Own, endpoint: Endpoint) -> None:
    """Only a chat has turns, and only an answer with text can be stored."""
    if endpoint.url == EMBEDDINGS:
        key = "conversation" if own.conversation else "store_as"
        raise UsageError(f'"{key}" is for text answers, and {endpoint.url} returns none')
    if own.conversation and endpoint.url == INVOKE:
        raise UsageError(
            f'"conversation" goes with {CONVERSE}, and not with a model\'s own words at {INVOKE}'
        )


def _add_schema(
    schema_requests: SchemaRequests, target: Target, endpoint: Endpoint, body: dict[str, Any], at: str
) -> None:
    """Add the schema of the answer to the request."""
    dialect = schema_dialect(target.kind, endpoint.path_for(target.model))
    if dialect is None:
        if endpoint.url == INVOKE:
            raise UsageError(f"--schema goes with {CONVERSE}, and not with a model's own format at {INVOKE}")
        raise UsageError(f"--schema is for text answers, and {endpoint.url} returns none")
    settings, where = field_checks.within(body, endpoint.within, at)
    if settings.get(endpoint.answers) not in (None, 1):
        raise UsageError(
            f'"{where}{endpoint.answers}" cannot be combined with --schema: every row has one answer'
        )
    schema_requests.put(dialect, body)


def _cut(name: str) -> str:
    return name if len(name) <= 40 else name[:40] + "…"
