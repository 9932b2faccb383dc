"""One line of a batch → one `Row` that is ready to be sent, or a `BadRow` that says what is wrong.

Owns the two forms of input and how a short row becomes a request. A line is decoded once, into plain objects, and
the body encoded once: compact, with its keys in the order they came in and every field that is not Headway's own.
That costs less than typed records with raw fields, which would pass a body's spaces on and still have to look into
its messages for their length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote

import msgspec

from headway.batch import field_checks, input_size
from headway.batch.prompt_families import NO_TRAITS, FamilyTraits, traits_of
from headway.batch.reader import LONGEST_LINE, Reader
from headway.batch.request_options import RequestOptions
from headway.config import KINDS, Config
from headway.config.routing import Router, Target
from headway.errors import UsageError
from headway.providers.dialects.structured_output import SchemaRequests, schema_dialect

#: Anthropic demands a limit; this is what every model of theirs allows.
ANTHROPIC_MAX_TOKENS: Final = 4096

CHAT: Final = "/v1/chat/completions"
RESPONSES: Final = "/v1/responses"
EMBEDDINGS: Final = "/v1/embeddings"
MESSAGES: Final = "/v1/messages"
#: Where the model is in the path.
GENERATE: Final = "/v1beta/models/{model}:generateContent"
CONVERSE: Final = "/model/{model}/converse"
INVOKE: Final = "/model/{model}/invoke"
_MODEL_IN_URL: Final = re.compile(r"(?:/v1beta|/v1)?/models?/([^/]+?)(:generateContent|/converse|/invoke)")

_BATCH_KEYS: Final = frozenset(
    ("custom_id", "id", "method", "url", "body", "metadata", "priority", "serial", "conversation", "store_as")
)


class Row(msgspec.Struct, frozen=True, gc=False):
    """One request. `body` is exactly what will be sent to `path`; `raw_model` the model as the line named it.

    `max_tokens` is the most that may come back, all answers together, and 0.0 where nothing limits it.
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
    #: The conversation that it is a turn of, and the name that its answer is stored under; "": none.
    conversation: str = ""
    store_as: str = ""


class BadRow(msgspec.Struct, frozen=True, gc=False):
    """A line that is no request, and why."""

    line: int
    message: str

    def at(self, name: str) -> str:
        """As it is reported: `requests.jsonl:17: "max_tokens" must be a whole number above 0`."""
        return f"{name}:{self.line}: {self.message}"


class Endpoint(msgspec.Struct, frozen=True):
    """Where requests go, what their input is called and how long it is. `url` is how rows and people call it.

    `within` is the object in the body that has the settings; "" where they stand in the body itself. `key` is "" where
    a body is the model's own.
    """

    url: str
    check: Callable[[object, str], None]
    key: str
    chars: Callable[[Mapping[str, Any]], int]
    limits: tuple[str, ...] = ()
    #: The path that is asked, with the model in it where it belongs there; "": as `url`.
    path: str = ""
    within: str = ""
    #: How many answers there are to be.
    answers: str = "n"

    @property
    def model_in_path(self) -> bool:
        """Whether the body has no model."""
        return "{model}" in self.url

    def path_for(self, model: str) -> str:
        """Where a model is asked."""
        path = self.path or self.url
        return path.replace("{model}", quote(model, safe="")) if "{model}" in path else path


def _of_openai(where: str = "") -> tuple[Endpoint, ...]:
    """OpenAI's endpoints; `where` their models are, if they have places of their own."""
    below = [f"{where}{url.removeprefix('/v1')}" if where else "" for url in (CHAT, EMBEDDINGS)]
    limits = ("max_completion_tokens", "max_tokens")
    return (
        Endpoint(CHAT, field_checks.messages, "messages", input_size.of_chat, limits, below[0]),
        Endpoint(RESPONSES, field_checks.texts, "input", input_size.of_response, ("max_output_tokens",)),
        Endpoint(EMBEDDINGS, field_checks.texts, "input", input_size.of_embedding, path=below[1]),
    )


#: Every endpoint by kind; the first is what short rows ask.
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
#: Each may be written without its version.
_BY_URL: Final = {
    kind: {url: e for e in endpoints for url in (e.url, e.url.removeprefix("/v1beta").removeprefix("/v1"))}
    for kind, endpoints in _ENDPOINTS.items()
}

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_encode: Final = msgspec.json.Encoder().encode


def read(path: str | Path, config: Config, stdin: BinaryIO | None = None) -> Iterator[Row | BadRow]:
    """Every row of a file, in order, the bad ones among them."""
    return rows_of(Reader(path, stdin), Router(config))


def rows_of(reader: Reader, router: Router) -> Iterator[Row | BadRow]:
    """The same from a reader that the caller keeps, for its digest."""
    return (row for _, row in numbered(reader, router))


def numbered(
    reader: Reader, router: Router, request_options: RequestOptions | None = None
) -> Iterator[tuple[int, Row | BadRow]]:
    """Every row with its line. A request_options gives short rows what they lack, and its schema to all."""
    asking = None if request_options is None else request_options.schema_requests()
    for number, line in reader:
        if line is None:
            yield number, BadRow(number, f"longer than {LONGEST_LINE / 1e6:g} MB")
        else:
            yield number, parse(number, line, router, request_options, asking)


def _worker(
    row: dict[str, Any], router: Router, request_options: RequestOptions | None = None
) -> Target | None:
    """The function that a row is for, if it is for one. A request of OpenAI's Batch API never is."""
    if "body" in row and "url" in row:
        return None
    if request_options is not None and request_options.model is not None and row.get("model") is None:
        row["model"] = request_options.model
    target = router.route(field_checks.model(row.get("model"), ""))
    return target if KINDS[target.kind].takes_any_row else None


def _work_row(number: int, row: dict[str, Any], target: Target, asking: SchemaRequests | None) -> Row:
    """`{"id", "payload"}`, or whatever keys there are: the function gets the payload, or all that is not Headway's own."""
    if asking is not None:
        raise UsageError("--schema is for a model's answers; a function checks what it returns itself")
    raw_model = row.pop("model", None)
    given = row.get("conversation")
    # Its own keys are any JSON: only a text can be the name of a conversation.
    conversation = given if type(given) is str else ""
    store_as = field_checks.store_as(row.get("store_as"))
    own = _own(number, row, raw_model)
    if "payload" in row:
        row.pop("conversation", None)
        row.pop("store_as", None)
        if len(row) > 1:
            stray = next(key for key in row if key != "payload")
            raise UsageError(f'"{_cut(stray)}" does not belong beside "payload": put it inside')
        payload = row["payload"]
    else:
        payload = row if raw_model is None else {**row, "model": target.model}
    body = _encode(payload)
    return Row(
        own.custom_id, target.provider, target.model, target.kind, body, len(body), 0.0, own.priority, own.serial,
        own.metadata, raw_model or "", conversation=conversation, store_as=store_as,
    )  # fmt: skip


def from_fields(
    number: int, row: dict[str, Any], router: Router, asking: SchemaRequests | None = None
) -> Row | BadRow:
    """A short row that does not come from a line of JSON: a template made its texts."""
    try:
        if router.takes_any_row and (target := _worker(row, router)) is not None:
            return _work_row(number, row, target, asking)
        return _short_row(number, row, router, asking, templated=True)
    except UsageError as error:
        return BadRow(number, str(error))


def parse(
    number: int,
    line: bytes,
    router: Router,
    request_options: RequestOptions | None = None,
    asking: SchemaRequests | None = None,
) -> Row | BadRow:
    """One line."""
    try:
        row = _decode(line)
        if router.takes_any_row and (target := _worker(row, router, request_options)) is not None:
            return _work_row(number, row, target, asking)
        if "body" in row or "url" in row:
            return _batch_row(number, row, router, asking)
        if request_options is not None:
            request_options.fill(row)
        return _short_row(number, row, router, asking)
    except UsageError as error:
        return BadRow(number, str(error))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return BadRow(number, _not_json(error, line))


def _not_json(error: Exception, line: bytes) -> str:
    if isinstance(error, UnicodeError):
        return "not valid UTF-8"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, msgspec.ValidationError):
        what = str(error).partition(" - at ")[0]
        return (
            "must be a JSON object, one a line (of an array: jq -c '.[]')"
            if what.startswith("Expected `object`")
            else f"not JSON: {what.lower()}"
        )
    what = str(error).removeprefix("JSON is malformed: ")
    if what == "Input data was truncated":
        # msgspec also says so where a character that takes two escapes was cut in half at a string's end.
        halved = line.endswith(b"}") and b"\\ud" in line.lower()
        what = "half of a surrogate pair" if halved else "it ends too early"
    return f"not JSON: {what}"


class _Own(msgspec.Struct, gc=False):
    """What a line says to Headway alone. `templated`: a template made its texts."""

    custom_id: str
    priority: int
    serial: bool
    metadata: bytes | None
    raw_model: str | None
    templated: bool = False
    conversation: str = ""
    store_as: str = ""


def _own(number: int, row: dict[str, Any], raw_model: str | None) -> _Own:
    """Taken out of the row: it is not sent."""
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
    """The same with what links a row to others. A function's row keeps these keys: they are part of what it gets."""
    own.conversation = field_checks.conversation(row.pop("conversation", None))
    own.store_as = field_checks.store_as(row.pop("store_as", None))
    return own


def _batch_row(number: int, row: dict[str, Any], router: Router, asking: SchemaRequests | None) -> Row:
    """`{"custom_id", "method", "url", "body"}`, as OpenAI's Batch API has it."""
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
        raise UsageError(f'"body.max_tokens" is missing: {MESSAGES} demands it')
    if endpoint.model_in_path:
        body.pop("model", None)
    elif raw_model is None:
        body.pop("model", None)
        body = {"model": target.model, **body}
    else:
        body["model"] = target.model
    return _row(_with_links(_own(number, row, raw_model), row), target, endpoint, body, "body.", asking)


def _without_model(url: object) -> tuple[object, str | None]:
    """An address that has a model in it, with that taken out; others as they are."""
    found = _MODEL_IN_URL.fullmatch(url) if type(url) is str else None
    if found is None:
        return url, None
    template = {":generateContent": GENERATE, "/converse": CONVERSE, "/invoke": INVOKE}[found[2]]
    return template, None if found[1] == "{model}" else unquote(found[1])


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
    asking: SchemaRequests | None,
    *,
    templated: bool = False,
) -> Row:
    """`{"id", "prompt" | "messages" | "input", "model", …}`: whatever is not Headway's own goes into the body."""
    prompt, messages, texts = row.pop("prompt", None), row.pop("messages", None), row.pop("input", None)
    if (prompt is not None) + (messages is not None) + (texts is not None) != 1:
        raise UsageError('expected one of "prompt", "messages" and "input"' + _given(prompt, messages, texts))
    own = _with_links(_own(number, row, field_checks.model(row.pop("model", None), "")), row)
    own.templated = templated
    target = router.route(own.raw_model)
    if texts is not None:
        return _embedding_row(own, target, texts, row, asking)
    if prompt is not None:
        if type(prompt) is not str or not prompt:
            raise UsageError('"prompt" must be a text, and not empty')
        messages = [{"role": "user", "content": prompt}]
    else:
        field_checks.messages(messages, "")
    return _row(own, target, _ENDPOINTS[target.kind][0], _asked(target, messages, row), "", asking)


def _asked(target: Target, messages: list[Any], row: dict[str, Any]) -> dict[str, Any]:
    """The body in the words of the API that is asked."""
    match target.kind:
        case "anthropic":
            return _for_messages(target, messages, row)
        case "gemini" | "bedrock":
            from headway.batch import request_bodies

            return (request_bodies.for_gemini if target.kind == "gemini" else request_bodies.for_converse)(
                messages, row
            )
    return {"model": target.model, "messages": _with_system(row, messages), **row}


def _given(*inputs: object) -> str:
    return ", not several" if any(value is not None for value in inputs) else ""


def _with_system(row: dict[str, Any], messages: list[Any]) -> list[Any]:
    """OpenAI's system prompt is the first message."""
    system = row.pop("system", None)
    if system is None:
        return messages
    if type(system) is not str:
        raise UsageError('"system" must be a text')
    return [{"role": "system", "content": system}, *messages]


def _for_messages(target: Target, messages: list[Any], row: dict[str, Any]) -> dict[str, Any]:
    """Anthropic's system prompt stands beside the messages, and there must be a limit."""
    system = row.get("system", "")
    if system is None:
        del row["system"]
    elif type(system) is not str and type(system) is not list:
        raise UsageError('"system" must be a text, or a list of text blocks')
    if row.get("max_tokens") is None:
        row["max_tokens"] = ANTHROPIC_MAX_TOKENS
    return {"model": target.model, "messages": messages, **row}


def _embedding_row(
    own: _Own, target: Target, texts: object, row: dict[str, Any], asking: SchemaRequests | None
) -> Row:
    endpoint = _BY_URL[target.kind].get(EMBEDDINGS)
    if endpoint is None:
        raise UsageError(
            f'"input" is for embeddings, and provider \'{target.provider}\' has none: use "prompt" or "messages"'
        )
    if own.raw_model is None:
        raise UsageError('"input" is for embeddings, and needs a "model" in its row')
    if row.pop("system", None) is not None:
        raise UsageError('"system" does not go with "input"')
    field_checks.texts(texts, "")
    return _row(own, target, endpoint, {"model": target.model, "input": texts, **row}, "", asking)


def _row(
    own: _Own,
    target: Target,
    endpoint: Endpoint,
    body: dict[str, Any],
    at: str,
    asking: SchemaRequests | None,
) -> Row:
    """What both forms have in common. `at` is where the body's fields lie, for messages."""
    if own.conversation or own.store_as:
        _check_links(own, endpoint)
    if asking is not None:
        _ask(asking, target, endpoint, body, at)
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
    )


def _check_links(own: _Own, endpoint: Endpoint) -> None:
    """Only a chat has turns, and only an answer with a text can be stored."""
    if endpoint.url == EMBEDDINGS:
        key = "conversation" if own.conversation else "store_as"
        raise UsageError(f'"{key}" is for answers with a text, and {endpoint.url} gives none')
    if own.conversation and endpoint.url == INVOKE:
        raise UsageError(
            f'"conversation" goes with {CONVERSE}, and not with a model\'s own words at {INVOKE}'
        )


def _ask(asking: SchemaRequests, target: Target, endpoint: Endpoint, body: dict[str, Any], at: str) -> None:
    """Ask for an answer that fits a schema."""
    dialect = schema_dialect(target.kind, endpoint.path_for(target.model))
    if dialect is None:
        if endpoint.url == INVOKE:
            raise UsageError(f"--schema goes with {CONVERSE}, and not with a model's own words at {INVOKE}")
        raise UsageError(f"--schema is for answers with a text, and {endpoint.url} gives none")
    settings, where = field_checks.within(body, endpoint.within, at)
    if settings.get(endpoint.answers) not in (None, 1):
        raise UsageError(f'"{where}{endpoint.answers}" does not go with --schema: every row has one answer')
    asking.put(dialect, body)


def _cut(name: str) -> str:
    return name if len(name) <= 40 else name[:40] + "…"
