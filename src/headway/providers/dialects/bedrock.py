"""Bedrock's dialect: Converse for every model, Invoke for rows with a model's own body; and signing.

Requests go over our own connections. A Bedrock API key is a bearer token; AWS credentials sign each request (`sigv4`).
AWS's library only provides credentials, if the environment has none, so it never retries.
Streams are not used: they have a binary format of their own, and their headers report nothing more, or earlier.
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
from headway.providers.dialects.addresses import address_of
from headway.providers.dialects.lenient_json import AnyObject, mapping, objects
from headway.providers.dialects.sigv4 import Credentials, signature_headers
from headway.providers.dialects.sse import Draft

SERVICE: Final = "bedrock"

Count = Annotated[float, msgspec.Meta(ge=0)]
Message = dict[str, Any]
#: A request's URL and body → the headers that sign it.
Sign = Callable[[URL, bytes], dict[str, str]]


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


class ConverseEndpoint:
    """Converse: a turn of a conversation, in one format for all models."""

    name = "turn of a conversation"
    shape: type[BedrockAnswer] = _ConverseAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """Never."""
        return None

    def draft(self, request: bytes) -> Draft | None:
        """It has no streams."""
        return None

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
        """There are no streams."""
        return self.url(root, path)

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

    def sign(url: URL, body: bytes) -> dict[str, str]:
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
            "AWS credentials are not in the environment", hint="pip install 'headway[bedrock]'"
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
