"""Anthropic's dialect: messages.

Pure: the form of requests, the usage of answers, and how streamed events become the body that the
unstreamed call gives. The transport is `http.http_adapter`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from headway.core.model import Usage
from headway.providers.dialects.addresses import VersionedPaths
from headway.providers.dialects.answer_errors import StreamedError, UnreadableAnswer
from headway.providers.dialects.lenient_json import (
    AnyObject,
    counts,
    decoded,
    encoded,
    index_of,
    mapping,
    objects,
)
from headway.providers.dialects.part_counter import PartCounter
from headway.providers.dialects.sse import Draft, SseDraft, SseEvent, event_object

#: The version of the API that this file speaks.
VERSION: Final = "2023-06-01"

Count = Annotated[float, msgspec.Meta(ge=0)]
Message = dict[str, Any]


# -- answers ------------------------------------------------------------------------------------------------------


class _AnthropicUsage(msgspec.Struct, gc=False):
    """Anthropic counts tokens read from the cache, and written to it, apart from the other input."""

    input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    output_tokens: Count | None = None

    def counted(self) -> Usage | None:
        """The usage; None if nothing was counted. A missing count is not 0."""
        counts_given = (self.input_tokens, self.output_tokens)
        if (*counts_given, self.cache_creation_input_tokens, self.cache_read_input_tokens) == (None,) * 4:
            return None
        cached = self.cache_read_input_tokens or 0.0
        written = self.cache_creation_input_tokens or 0.0
        fresh = (self.input_tokens or 0.0) + written
        return Usage(
            fresh + cached,
            self.output_tokens or 0.0,
            cached,
            cache_write_tokens=written,
            partial=None in counts_given,
        )


class AnthropicAnswer(msgspec.Struct, gc=False, kw_only=True):
    """The fields of every answer."""

    error: AnyObject | None = None
    usage: _AnthropicUsage | None = None

    def counted(self) -> Usage | None:
        """The usage."""
        return None if self.usage is None else self.usage.counted()


class _MessageAnswer(AnthropicAnswer, gc=False):
    content: list[AnyObject]


# -- messages -----------------------------------------------------------------------------------------------------


class _ContentBlock:
    """One block of a streamed message. It begins nearly empty; deltas add text, citations and JSON."""

    def __init__(self, start: dict[str, Any], counter: PartCounter) -> None:
        self._counter = counter
        self._fields = start
        self._texts: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def add(self, delta: dict[str, Any]) -> None:
        before = len(self._fields) + len(self._texts)
        for name, value in delta.items():
            if name == "citation":
                self._citations.append(value)
            elif isinstance(value, str) and name != "type":
                self._texts.setdefault(name, []).append(value)
            elif name != "type" and value is not None:
                self._fields[name] = value
        self._counter.add_fields(len(self._fields) + len(self._texts) - before)

    def built(self) -> dict[str, Any]:
        built = dict(self._fields)
        if self._citations:
            built["citations"] = [*(built.get("citations") or ()), *self._citations]
        for name, pieces in self._texts.items():
            text = "".join(pieces)
            if name == "partial_json":
                built["input"] = _input(text, built.get("input"))
            else:
                begun = built.get(name)
                built[name] = begun + text if isinstance(begun, str) else text
        return built


def _input(text: str, begun: Any) -> Any:
    """A tool's input. Input that max_tokens cut off is kept as Anthropic recommends."""
    if not text.strip():
        return begun
    try:
        return decoded(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {"INVALID_JSON": text}


class MessageDraft(SseDraft):
    """A message from its events."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _ContentBlock] = {}
        self._counter = PartCounter()
        self.ended = False

    @property
    def begun(self) -> bool:
        """Whether the first event has arrived; it has the usage of the input."""
        return bool(self._message)

    @property
    def whole(self) -> bool:
        """Whether the stop reason has arrived, in the last but one event."""
        return self.begun and (self.ended or self._message.get("stop_reason") is not None)

    @property
    def usage(self) -> Usage | None:
        """The input from the first event, the output so far from the latest."""
        return msgspec.convert(counts(self._usage), _AnthropicUsage).counted() if self._usage else None

    def add(self, event: SseEvent) -> None:
        """Take an event."""
        fields = event_object(event)
        match fields.get("type") or event.name.decode("utf-8", "replace"):
            case "message_start":
                self._start(mapping(fields.get("message")))
            case "content_block_start":
                self._begin(index_of(fields), mapping(fields.get("content_block")))
            case "content_block_delta":
                self._grow(fields)
            case "message_delta":
                self._change(fields)
            case "message_stop":
                self.ended = True
            case "error":
                raise StreamedError(event.data)
            case _ if fields.get("error"):
                raise StreamedError(event.data)

    def _start(self, message: dict[str, Any]) -> None:
        if not message:
            raise UnreadableAnswer("the first event of the stream has no message in it")
        self._message = dict(message)
        self._count(message.get("usage"))
        for index, block in enumerate(objects(message.get("content"))):
            self._begin(index, block)

    def _begin(self, index: int, block: dict[str, Any]) -> None:
        self._counter.add_part("blocks")
        self._counter.add_fields(len(block))
        self._blocks[index] = _ContentBlock(dict(block), self._counter)

    def _grow(self, fields: dict[str, Any]) -> None:
        block = self._blocks.get(index_of(fields))
        if block is None:
            raise UnreadableAnswer("the stream adds to a block that never began")
        delta = mapping(fields.get("delta"))
        block.add(delta)
        if self.on_text is not None and isinstance(piece := delta.get("text"), str) and piece:
            self.on_text(piece)

    def _change(self, fields: dict[str, Any]) -> None:
        """Take the stop reason, and other fields of the last events."""
        self._count(fields.get("usage"))
        later = {name: value for name, value in fields.items() if name not in ("type", "delta", "usage")}
        self._counter.update(self._message, later | mapping(fields.get("delta")))

    def _count(self, usage: Any) -> None:
        fields = mapping(usage)
        later = {name: fields[name] for name in fields if fields[name] is not None or name not in self._usage}
        self._counter.update(self._usage, later)

    def body(self) -> bytes:
        """The message."""
        built = self._message | {"content": [self._blocks[index].built() for index in sorted(self._blocks)]}
        return encoded(built | {"usage": self._usage} if self._usage else built)


class MessagesEndpoint:
    """Messages."""

    name = "message"
    shape: type[AnthropicAnswer] = _MessageAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """The same request as a stream."""
        try:
            fields = msgspec.json.decode(request, type=dict[str, msgspec.Raw])
        except ValueError:
            return None
        if bytes(fields.get("stream", b"")) == b"false":
            return None
        fields["stream"] = msgspec.Raw(b"true")
        return msgspec.json.encode(fields)

    def draft(self, request: bytes) -> Draft | None:
        """The draft of its stream."""
        return MessageDraft()

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The system prompt, the messages and the answer; tool calls and results are blocks of their content."""
        fields, reply = mapping(request), mapping(answer)
        first = [{"role": "system", "content": fields["system"]}] if fields.get("system") else []
        last = (
            [{"role": reply.get("role", "assistant"), "content": reply["content"]}]
            if "content" in reply
            else []
        )
        return [*first, *objects(fields.get("messages")), *last]


class OtherMessagesEndpoint:
    """Any other path. Its answer is a JSON object, never a stream."""

    name = "JSON object"
    shape: type[AnthropicAnswer] = AnthropicAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """Never."""
        return None

    def draft(self, request: bytes) -> Draft | None:
        """It has no streams."""
        return None

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The request. The answer is not a message."""
        return objects(mapping(request).get("messages"))


_MESSAGES: Final = MessagesEndpoint()
_OTHER: Final = OtherMessagesEndpoint()


class AnthropicDialect(VersionedPaths):
    """The dialect of Anthropic."""

    kind = "anthropic"
    root = "https://api.anthropic.com/v1"
    request_id = "request-id"

    def headers(self, key: str) -> Iterator[tuple[str, str]]:
        """The key and the version of the API."""
        yield "anthropic-version", VERSION
        if key:
            yield "x-api-key", key

    def endpoint(self, path: str) -> MessagesEndpoint | OtherMessagesEndpoint:
        """The endpoint of a path."""
        path = "/" + path.partition("?")[0].strip("/")
        return _MESSAGES if path.endswith("/messages") else _OTHER
