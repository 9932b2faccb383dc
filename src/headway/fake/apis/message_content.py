"""The parts of messages that the APIs have in common, as records, and what their texts are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from headway.fake.apis.api_request import InvalidRequest

_FIELD = re.compile(r"missing required field `(\w+)`")
T = TypeVar("T")
MaxTokens = Annotated[int, msgspec.Meta(ge=1)]


class ContentPart(msgspec.Struct, gc=False):
    """A piece of a message: a text, a call of a tool, or a tool's result. What else there is has no text."""

    type: str = "text"
    text: str | None = None
    name: str | None = None
    input: Any = None
    content: str | list[ContentPart] | None = None

    @property
    def all_text(self) -> str:
        """Every text in it."""
        if self.text is not None:
            return self.text
        if self.type == "tool_use":
            return (self.name or "") + msgspec.json.encode(self.input).decode()
        return text_of(self.content)


Content = str | list[ContentPart] | None


class Tool(msgspec.Struct, gc=False):
    """A tool that the client offers; OpenAI's chat wraps its name once more."""

    name: str | None = None
    function: Tool | None = None

    @property
    def called_name(self) -> str:
        """Its name."""
        return (self.function.name if self.function else self.name) or ""


class RequestMetadata(msgspec.Struct, gc=False):
    """Which unit of work a client says this is."""

    id: str | int | None = None


class RoleMessage(Protocol):
    """A message of a conversation."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> Content: ...


def text_of(content: Content) -> str:
    """Every text of a message's content, joined by line ends."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (part.all_text for part in content or ())))


def conversation_start(messages: Sequence[RoleMessage]) -> tuple[str | None, int]:
    """How a conversation of several messages began, and how many answers it has."""
    if len(messages) == 1:
        return None, 0
    first = next((text_of(message.content) for message in messages if message.role == "user"), None)
    return first, sum(message.role == "assistant" for message in messages)


def tool_names(tools: list[Tool] | None) -> tuple[str, ...]:
    """The names of the tools that a client offers."""
    return tuple(tool.called_name for tool in tools) if tools else ()


def unit_name(metadata: RequestMetadata | None, user: str | None) -> str:
    """How the client names this unit of work: metadata.id, or user."""
    if metadata is not None and metadata.id is not None:
        return str(metadata.id)
    return user or ""


def missing_field(error: msgspec.ValidationError) -> str | None:
    """The field whose absence `error` is about."""
    found = _FIELD.search(str(error))
    return found.group(1) if found else None


def error_place(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """What is wrong and where, as (message, path)."""
    what, _, place = str(error).partition(" - at `$")
    return what, place.rstrip("`").lstrip(".") or None


def request_reader(
    kind: type[T], unreadable: Callable[[msgspec.DecodeError], InvalidRequest]
) -> Callable[[bytes], T]:
    """Reads requests of a kind; `unreadable` says what the API says to a body that is none."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise unreadable(error) from None

    return read


def openai_parse_error(error: msgspec.DecodeError) -> InvalidRequest:
    """What OpenAI says to a body that it cannot use."""
    if not isinstance(error, msgspec.ValidationError):
        return InvalidRequest(
            "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP "
            "library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
        )
    what, place = error_place(error)
    field = missing_field(error)
    if field == "model" and place is None:
        return InvalidRequest("you must provide a model parameter")
    if field is not None:
        param = f"{place}.{field}" if place else field
        return InvalidRequest(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    return InvalidRequest(f"Invalid value for '{place or 'body'}': {what}.", place, "invalid_value")
