"""The contract of a dialect: the URLs of an API, the form of its answers, its streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from yarl import URL

from headway.core.model import Usage
from headway.providers.dialects.anthropic import AnthropicDialect
from headway.providers.dialects.openai import OpenAIDialect
from headway.providers.dialects.sse import Draft

#: The provider kinds over HTTP.
KINDS: Final = ("anthropic", "azure", "bedrock", "gemini", "openai")
#: Hosts whose streams are known to work, and to report limits before the answer is complete.
STREAMED: Final = frozenset({"openai", "anthropic"})


class AnswerShape(Protocol):
    """A decoded answer."""

    @property
    def error(self) -> object | None:
        """Its error, if it is one."""

    def counted(self) -> Usage | None:
        """The usage."""


class ApiEndpoint(Protocol):
    """An endpoint of an API."""

    @property
    def name(self) -> str:
        """The name of an answer, for messages."""

    @property
    def shape(self) -> type[AnswerShape]:
        """The required fields of an answer."""

    def streamed(self, request: bytes) -> bytes | None:
        """The same request as a stream; None if it must not be one."""

    def draft(self, request: bytes) -> Draft | None:
        """The draft of a stream."""

    def conversation(self, request: Any, answer: Any) -> list[dict[str, Any]]:
        """Request and answer as messages: role, content, and further fields."""


class Dialect(Protocol):
    """How requests to one kind of API are made, and how its answers are read."""

    @property
    def kind(self) -> str:
        """Its name in the configuration."""

    @property
    def root(self) -> str:
        """The default address."""

    @property
    def request_id(self) -> str:
        """The response header with the id of the request."""

    def headers(self, key: str) -> Iterable[tuple[str, str]]:
        """Its own headers of every request."""

    def address(self, base_url: str) -> str:
        """The base URL of its paths, from the configured address."""

    def url(self, root: str, path: str) -> URL:
        """The URL of a row's path."""

    def stream_url(self, root: str, path: str) -> URL:
        """The URL that answers the same with a stream."""

    def endpoint(self, path: str) -> ApiEndpoint:
        """The endpoint of a path."""

    def named_in(self, body: bytes) -> str:
        """The id in an answer, if no header has one."""


def dialect_of(kind: str, *, api_version: str = "", asks_usage: bool = True) -> Dialect:
    """The dialect of a kind. Rare ones are imported only when used: otherwise they would cost every run 5 ms."""
    match kind:
        case "anthropic":
            return AnthropicDialect()
        case "azure":
            from headway.providers.dialects.azure import AzureDialect

            return AzureDialect(api_version)
        case "bedrock":
            from headway.providers.dialects.bedrock import BedrockDialect

            return BedrockDialect()
        case "gemini":
            from headway.providers.dialects.gemini import GeminiDialect

            return GeminiDialect()
    return OpenAIDialect(asks_usage=asks_usage)
