"""The parts of messages that the APIs have in common, as records, and what their texts are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from headway.fake.apis.api_request import Unacceptable

_FIELD = re.compile(r"missing required field `(\w+)`")
T = TypeVar("T")
MaxTokens = Annotated[int, msgspec.Meta(ge=1)]


class Part(msgspec.Struct, gc=False):
    """A piece of a message: a text, a call of a tool, or a tool's result. What else there is has no text."""

    type: str = "text"
    text: str | None = None
    name: str | None = None
    input: Any = None
    content: str | list[Part] | None = None

    @property
    def words(self) -> str:
        """Every text in it."""
        if self.text is not None:
            return self.text
        if self.type == "tool_use":
            return (self.name or "") + msgspec.json.encode(self.input).decode()
        return words_of(self.content)


Content = str | list[Part] | None


class Tool(msgspec.Struct, gc=False):
    """A tool that the client offers; OpenAI's chat wraps its name once more."""

    name: str | None = None
    function: Tool | None = None

    @property
    def called(self) -> str:
        """Its name."""
        return (self.function.name if self.function else self.name) or ""


class Named(msgspec.Struct, gc=False):
    """Which unit of work a client says this is."""

    id: str | int | None = None


class Spoken(Protocol):
    """A message of a conversation."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> Content: ...


def words_of(content: Content) -> str:
    """Every text of a message's content, joined by line ends."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (part.words for part in content or ())))


def opened(messages: Sequence[Spoken]) -> tuple[str | None, int]:
    """How a conversation of several messages began, and how many answers it has."""
    if len(messages) == 1:
        return None, 0
    first = next((words_of(message.content) for message in messages if message.role == "user"), None)
    return first, sum(message.role == "assistant" for message in messages)


def names_of(tools: list[Tool] | None) -> tuple[str, ...]:
    """The names of the tools that a client offers."""
    return tuple(tool.called for tool in tools) if tools else ()


def unit_of(metadata: Named | None, user: str | None) -> str:
    """How the client names this unit of work: metadata.id, or user."""
    if metadata is not None and metadata.id is not None:
        return str(metadata.id)
    return user or ""


def missing_field(error: msgspec.ValidationError) -> str | None:
    """The field whose absence `error` is about."""
    found = _FIELD.search(str(error))
    return found.group(1) if found else None


def place_of(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """What is wrong and where, as (message, path)."""
    what, _, place = str(error).partition(" - at `$")
    return what, place.rstrip("`").lstrip(".") or None


def reader(kind: type[T], unreadable: Callable[[msgspec.DecodeError], Unacceptable]) -> Callable[[bytes], T]:
    """Reads requests of a kind; `unreadable` says what the API says to a body that is none."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise unreadable(error) from None

    return read


def unreadable_openai(error: msgspec.DecodeError) -> Unacceptable:
    """What OpenAI says to a body that it cannot use."""
    if not isinstance(error, msgspec.ValidationError):
        return Unacceptable(
            "We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP "
            "library correctly. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.)"
        )
    what, place = place_of(error)
    field = missing_field(error)
    if field == "model" and place is None:
        return Unacceptable("you must provide a model parameter")
    if field is not None:
        param = f"{place}.{field}" if place else field
        return Unacceptable(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    return Unacceptable(f"Invalid value for '{place or 'body'}': {what}.", place, "invalid_value")
