"""Bedrock's dialect: Converse for every model, Invoke for rows with a model's own body; and signing.

Requests go over our own connections. A Bedrock API key is a bearer token; AWS credentials sign each request (`sigv4`).
AWS's library only provides credentials, if the environment has none, so it never retries.
Converse is streamed only for someone who reads along: its headers report nothing more, or earlier.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Protocol

import msgspec
from yarl import URL

from headway.config.kinds.bedrock import AWS_CHAIN
from headway.core.model import Usage
from headway.errors import ConfigError
from headway.install_hint import install_command
from headway.providers.attached_body import AttachedBody
from headway.providers.dialects.addresses import address_of
from headway.providers.dialects.aws_events import AwsEventParser
from headway.providers.dialects.lenient_json import AnyObject, counts, decoded, encoded, mapping, objects
from headway.providers.dialects.part_counter import PartCounter
from headway.providers.dialects.sigv4 import Credentials, signature_headers
from headway.providers.dialects.sse import Draft, EventParser, SseEvent, event_object

SERVICE: Final = "bedrock"

Count = Annotated[float, msgspec.Meta(ge=0)]
Message = dict[str, Any]
#: A request's URL and body → the headers that sign it.
Sign = Callable[[URL, bytes | AttachedBody], dict[str, str]]


# -- answers ------------------------------------------------------------------------------------------------------


class _BedrockUsage(msgspec.Struct, gc=False):
    """The fields of Converse, Anthropic and OpenAI. Only OpenAI's input includes the cached tokens."""

    inputTokens: Count | None = None
    outputTokens: Count | None = None
    cacheReadInputTokens: Count | None = None
    cacheWriteInputTokens: Count | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None

    def counted(self) -> Usage | None:
        cached = self.cacheReadInputTokens or self.cache_read_input_tokens or 0.0
        written = self.cacheWriteInputTokens or self.cache_creation_input_tokens or 0.0
        fresh = _first(self.inputTokens, self.input_tokens, self.prompt_tokens)
        output = _first(self.outputTokens, self.output_tokens, self.completion_tokens)
        return _usage(fresh, output, cached, written)


def _first(*counts: float | None) -> float | None:
    return next((count for count in counts if count is not None), None)


def _usage(
    fresh: float | None, output: float | None, cached: float = 0.0, written: float = 0.0
) -> Usage | None:
    """The usage; None if nothing was counted. A missing count is not 0."""
    if fresh is None and output is None and not cached + written:
        return None
    tokens_in = (fresh or 0.0) + cached + written
    partial = fresh is None or output is None
    return Usage(tokens_in, output or 0.0, cached, cache_write_tokens=written, partial=partial)


class BedrockAnswer(msgspec.Struct, gc=False, kw_only=True):
    """The fields of every answer; Llama's counts are beside its text."""

    error: AnyObject | None = None
    usage: _BedrockUsage | None = None
    prompt_token_count: Count | None = None
    generation_token_count: Count | None = None

    def counted(self) -> Usage | None:
        """The usage."""
        if self.usage is not None:
            return self.usage.counted()
        return _usage(self.prompt_token_count, self.generation_token_count)


class _ConverseOutput(msgspec.Struct, gc=False):
    message: AnyObject


class _ConverseAnswer(BedrockAnswer, gc=False):
    output: _ConverseOutput


class _ConverseBlock:
    """One block of a streamed turn: a text, the call of a tool, or reasoning."""

    def __init__(self, start: dict[str, Any]) -> None:
        self._tool = dict(mapping(start.get("toolUse")))
        self._texts: list[str] = []
        self._arguments: list[str] = []
        self._reasoning: dict[str, list[str]] = {}

    def add(self, delta: dict[str, Any]) -> None:
        if isinstance(text := delta.get("text"), str):
            self._texts.append(text)
        if isinstance(piece := mapping(delta.get("toolUse")).get("input"), str):
            self._arguments.append(piece)
        for name, value in mapping(delta.get("reasoningContent")).items():
            if isinstance(value, str):
                self._reasoning.setdefault(name, []).append(value)

    def built(self) -> dict[str, Any]:
        if self._tool or self._arguments:
            return {"toolUse": {**self._tool, "input": _tool_input("".join(self._arguments))}}
        if self._reasoning:
            fields = {name: "".join(pieces) for name, pieces in self._reasoning.items()}
            redacted = fields.pop("redactedContent", None)
            content = {"redactedContent": redacted} if redacted else {"reasoningText": fields}
            return {"reasoningContent": content}
        return {"text": "".join(self._texts)}


def _tool_input(text: str) -> Any:
    """The input of a tool; what max_tokens cut off is kept as text."""
    try:
        return decoded(text.encode("utf-8", "surrogatepass")) if text.strip() else {}
    except ValueError:
        return {"INVALID_JSON": text}


class ConverseDraft:
    """A turn of a conversation from its events, in AWS's own format."""

    begun = True
    on_text: Callable[[str], None] | None = None

    def __init__(self) -> None:
        self._role = "assistant"
        self._blocks: dict[int, _ConverseBlock] = {}
        self._counter = PartCounter()
        self._rest: dict[str, Any] = {}
        self.ended = False

    def parser(self, longest: int) -> EventParser:
        """The parser of its stream."""
        return AwsEventParser(longest)

    @property
    def whole(self) -> bool:
        """Whether the stop reason has arrived, in the last but one event."""
        return "stopReason" in self._rest

    @property
    def usage(self) -> Usage | None:
        """The usage, which the last event has."""
        usage = counts(self._rest.get("usage"))
        return msgspec.convert(usage, _BedrockUsage).counted() if usage else None

    def add(self, event: SseEvent) -> None:
        """Take an event."""
        fields = event_object(event)
        match event.name:
            case b"messageStart":
                self._role = fields.get("role") or self._role
            case b"contentBlockStart":
                self._block(fields, mapping(fields.get("start")))
            case b"contentBlockDelta":
                self._grow(fields)
            case b"messageStop":
                self._keep(fields)
            case b"metadata":
                self._keep(fields)
                self.ended = True

    def _grow(self, fields: dict[str, Any]) -> None:
        delta = mapping(fields.get("delta"))
        self._block(fields).add(delta)
        if self.on_text is not None and isinstance(piece := delta.get("text"), str) and piece:
            self.on_text(piece)

    def _block(self, fields: dict[str, Any], start: dict[str, Any] | None = None) -> _ConverseBlock:
        index = fields.get("contentBlockIndex")
        place = index if type(index) is int else 0
        if place not in self._blocks:
            self._counter.add_part("blocks")
            self._blocks[place] = _ConverseBlock(start or {})
        return self._blocks[place]

    def _keep(self, fields: dict[str, Any]) -> None:
        # "p" pads the messages of a stream and is not part of the answer.
        self._counter.update(self._rest, {name: value for name, value in fields.items() if name != "p"})

    def body(self) -> bytes:
        """The turn."""
        content = [self._blocks[place].built() for place in sorted(self._blocks)]
        return encoded({"output": {"message": {"role": self._role, "content": content}}, **self._rest})


class ConverseEndpoint:
    """Converse: a turn of a conversation, in one format for all models."""

    name = "turn of a conversation"
    shape: type[BedrockAnswer] = _ConverseAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """The same request: only the URL of a stream differs."""
        return request

    def draft(self, request: bytes) -> Draft | None:
        """The draft of its stream."""
        return ConverseDraft()

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The system prompt, the messages and the answer; tools are blocks of their content."""
        fields = mapping(request)
        first = [{"role": "system", "content": fields["system"]}] if fields.get("system") else []
        reply = mapping(mapping(mapping(answer).get("output")).get("message"))
        return [*first, *objects(fields.get("messages")), *([reply] if reply else [])]


class InvokeEndpoint(ConverseEndpoint):
    """Invoke: a model in its own format. Its answer is a JSON object, never a stream."""

    name = "JSON object"
    shape: type[BedrockAnswer] = BedrockAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """Never: each model has a format of its own."""
        return None

    def draft(self, request: bytes) -> Draft | None:
        """It has no streams."""
        return None

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The request, if it has messages. The answer is in the format of the model."""
        return objects(mapping(request).get("messages"))


_CONVERSE: Final = ConverseEndpoint()
_INVOKE: Final = InvokeEndpoint()


class BedrockDialect:
    """The dialect of Bedrock. A key with a colon is not a bearer token: requests are signed with it."""

    kind = "bedrock"
    root = ""
    request_id = "x-amzn-requestid"

    def headers(self, key: str) -> Iterator[tuple[str, str]]:
        """The bearer token, if there is one."""
        if key and ":" not in key:
            yield "Authorization", f"Bearer {key}"

    def address(self, base_url: str) -> str:
        """The address itself."""
        return address_of(base_url)

    def url(self, root: str, path: str) -> URL:
        """The URL of a model. A colon in its name stays encoded: it is part of the signature."""
        return URL(root + path, encoded=True)

    def stream_url(self, root: str, path: str) -> URL:
        """The URL that answers with AWS's event stream."""
        return self.url(root, f"{path}-stream" if path.endswith("/converse") else path)

    def endpoint(self, path: str) -> ConverseEndpoint:
        """The endpoint of a path."""
        return _CONVERSE if path.endswith("/converse") else _INVOKE

    def named_in(self, body: bytes) -> str:
        """None: a header has the id."""
        return ""


# -- signing ------------------------------------------------------------------------------------------------------


class CredentialSource(Protocol):
    """Where credentials come from; they may change while a job runs."""

    def __call__(self) -> Credentials:
        """The present credentials."""


def signer(key: str, region: str) -> tuple[Sign | None, list[str]]:
    """The signer of requests with this key, and its secret parts. None: the key is a bearer token."""
    if ":" not in key:
        return None, [key]
    source: CredentialSource
    if key.startswith(AWS_CHAIN):
        source, secrets = _chain(key.removeprefix(AWS_CHAIN)), []
    else:
        access, secret, *token = key.split(":", 2)
        fixed = Credentials(access, secret, token[0] if token else "")
        source, secrets = (lambda: fixed), [secret, fixed.token]

    def sign(url: URL, body: bytes | AttachedBody) -> dict[str, str]:
        host = url.host_port_subcomponent or ""  # As in the Host header.
        return signature_headers(source(), region, SERVICE, host, url.raw_path, body, time.time())

    return sign, secrets


def _chain(profile: str) -> CredentialSource:
    """Credentials that AWS's own library finds: a profile, SSO, the role of a machine. The library renews them."""
    try:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    except ImportError:
        raise ConfigError(
            "AWS credentials are not in the environment", hint=install_command("bedrock")
        ) from None
    try:
        provider = Session(profile=None if profile == "default" else profile).get_credentials()
    except BotoCoreError as error:
        raise ConfigError(f"AWS credentials: {error}", hint="check AWS_PROFILE and ~/.aws/config") from None
    if provider is None:
        raise ConfigError(
            "AWS credentials are neither in the environment nor in ~/.aws, and this machine has no role",
            hint="export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_BEARER_TOKEN_BEDROCK",
        )

    frozen = provider.get_frozen_credentials()
    last = Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")

    def source() -> Credentials:
        nonlocal last
        try:
            now = provider.get_frozen_credentials()
        except BotoCoreError:  # Not renewable: AWS will report that the old ones have expired.
            return last
        last = Credentials(now.access_key, now.secret_key, now.token or "")
        return last

    return source
