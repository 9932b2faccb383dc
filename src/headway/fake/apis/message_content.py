"""The parts of messages that several APIs share: records, their texts, and the parsing of request bodies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Protocol, TypeVar

import msgspec

from headway.fake.apis.api_request import InvalidRequest
from headway.fake.apis.attached_media import Size, media_of

_FIELD = re.compile(r"missing required field `(\w+)`")
T = TypeVar("T")
MaxTokens = Annotated[int, msgspec.Meta(ge=1)]


class ContentPart(msgspec.Struct, gc=False):
    """A part of a message: a text, a tool call, a tool's result, an image or a document. Any other part has no text."""

    type: str = "text"
    text: str | None = None
    name: str | None = None
    input: Any = None
    content: str | list[ContentPart] | None = None
    #: Images and documents, in the forms of OpenAI, Anthropic and Bedrock.
    image_url: Any = None
    file: Any = None
    file_data: str | None = None
    file_url: str | None = None
    source: Any = None
    image: Any = None
    document: Any = None

    @property
    def all_text(self) -> str:
        """Its text, and the text of the parts in it."""
        if self.text is not None:
            return self.text
        if self.type == "tool_use":
            return (self.name or "") + msgspec.json.encode(self.input).decode()
        return text_of(self.content)


Content = str | list[ContentPart] | None


class Tool(msgspec.Struct, gc=False):
    """A tool that the client offers. OpenAI's chat API puts the name into `function`."""

    name: str | None = None
    function: Tool | None = None
    parameters: dict[str, Any] | None = None
    input_schema: dict[str, Any] | None = None

    @property
    def tool_name(self) -> str:
        """Its name."""
        return (self.function.name if self.function else self.name) or ""

    @property
    def input_fields(self) -> dict[str, Any] | None:
        """The schema of its input."""
        return (self.function or self).parameters or self.input_schema


class RequestMetadata(msgspec.Struct, gc=False):
    """A request's metadata: the client's name for the unit of work."""

    id: str | int | None = None


class RoleMessage(Protocol):
    """A message of a conversation."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> Content: ...


def text_of(content: Content) -> str:
    """All texts of a message, joined by newlines."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (part.all_text for part in content or ())))


def media_chars(contents: Iterable[Content], count: Callable[[Size], int]) -> int:
    """The characters that all images and documents count as. Each of these parts gets a text that says what it is."""
    chars = 0
    for content in contents:
        for part in content if isinstance(content, list) else ():
            media = media_of(msgspec.structs.asdict(part), count) if part.text is None else None
            if media is not None:
                part.text = media.text
                chars += media.chars
    return chars


def conversation_so_far(messages: Sequence[RoleMessage]) -> tuple[str | None, int]:
    """All texts of the user in a conversation of several messages, without tools' results, and the number of its answers."""
    if len(messages) == 1:
        return None, 0
    said = "\n".join(_said(message.content) for message in messages if message.role == "user")
    return said, sum(message.role == "assistant" for message in messages)


def _said(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content or () if part.text is not None)


def tool_names(tools: list[Tool] | None) -> tuple[str, ...]:
    """The names of the tools that a client offers."""
    return tuple(tool.tool_name for tool in tools) if tools else ()


def unit_name(metadata: RequestMetadata | None, user: str | None) -> str:
    """The client's name for this unit of work: metadata.id, or user."""
    if metadata is not None and metadata.id is not None:
        return str(metadata.id)
    return user or ""


def missing_field(error: msgspec.ValidationError) -> str | None:
    """The missing field that `error` names, if it names one."""
    match = _FIELD.search(str(error))
    return match.group(1) if match else None


def error_place(error: msgspec.ValidationError) -> tuple[str, str | None]:
    """Split an error into its message and its path."""
    what, _, place = str(error).partition(" - at `$")
    return what, place.rstrip("`").lstrip(".") or None


def request_reader(
    kind: type[T], parse_error: Callable[[msgspec.DecodeError], InvalidRequest]
) -> Callable[[bytes], T]:
    """A parser of request bodies. `parse_error` turns a failure into the API's own error."""
    decode = msgspec.json.Decoder(kind).decode

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except msgspec.DecodeError as error:
            raise parse_error(error) from None

    return read


def openai_parse_error(error: msgspec.DecodeError) -> InvalidRequest:
    """OpenAI's error for a body that it cannot parse."""
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
