"""What an HTTP adapter has to know of a kind of API: where its paths are, what an answer looks like, how it streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

from yarl import URL

from headway.core.model import Usage
from headway.providers.dialects.anthropic import AnthropicDialect
from headway.providers.dialects.openai import OpenAIDialect
from headway.providers.dialects.sse import Draft

#: The kinds that can be asked over HTTP.
KINDS: Final = ("anthropic", "azure", "bedrock", "gemini", "openai")
#: Whose streams are known to work, and to tell limits before the answer is done.
STREAMED: Final = frozenset({"openai", "anthropic"})


class AnswerShape(Protocol):
    """A decoded answer."""

    @property
    def error(self) -> object | None:
        """The error that it is, if it is one."""

    def counted(self) -> Usage | None:
        """What the call took."""


class ApiEndpoint(Protocol):
    """What is behind a path."""

    @property
    def name(self) -> str:
        """What an answer is, for messages."""

    @property
    def shape(self) -> type[AnswerShape]:
        """The least that makes an answer one."""

    def streamed(self, request: bytes) -> bytes | None:
        """The same request as a stream; None where it may not be one."""

    def draft(self, request: bytes) -> Draft | None:
        """What a stream is assembled in."""

    def conversation(self, request: Any, answer: Any) -> list[dict[str, Any]]:
        """Both as messages: role, content, and whatever else they have."""


class Dialect(Protocol):
    """How one kind of API is asked."""

    @property
    def kind(self) -> str:
        """Its name in the configuration."""

    @property
    def root(self) -> str:
        """Where it is, if nothing else is said."""

    @property
    def request_id(self) -> str:
        """The header that names a request."""

    def headers(self, key: str) -> Iterable[tuple[str, str]]:
        """The headers of every request beside the usual ones."""

    def address(self, base_url: str) -> str:
        """What its paths stand below, from what was configured."""

    def url(self, root: str, path: str) -> URL:
        """Where a row's path is."""

    def stream_url(self, root: str, path: str) -> URL:
        """Where the same is answered as a stream."""

    def endpoint(self, path: str) -> ApiEndpoint:
        """What is behind a path."""

    def named_in(self, body: bytes) -> str:
        """What an answer calls itself, where no header names it."""


def dialect_of(kind: str, *, api_version: str = "", asks_usage: bool = True) -> Dialect:
    """How a kind is asked. Those that few use are loaded when somebody does: they would cost every run 5 ms."""
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
