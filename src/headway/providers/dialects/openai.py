"""OpenAI's dialect: chat completions, responses, embeddings and other endpoints, for OpenAI and compatible servers.

Pure: the form of requests, the usage of answers, and how streamed chunks become the body that the
unstreamed call gives. The transport is `http.http_adapter`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from headway.core.model import Usage
from headway.providers.dialects.addresses import VersionedPaths
from headway.providers.dialects.answer_errors import StreamedError, UnreadableAnswer
from headway.providers.dialects.delta_merge import MergedObject
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
from headway.providers.dialects.sse import DONE, Draft, SseDraft, SseEvent, event_object

Count = Annotated[float, msgspec.Meta(ge=0)]
Message = dict[str, Any]


# -- answers ------------------------------------------------------------------------------------------------------


class _CachedTokens(msgspec.Struct, gc=False):
    cached_tokens: Count | None = None


class _OpenAIUsage(msgspec.Struct, gc=False):
    """The usage of any endpoint: older ones have prompt and completion tokens, newer ones input and output tokens."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    prompt_tokens_details: _CachedTokens | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: _CachedTokens | None = None

    def counted(self, *, has_output: bool = True) -> Usage | None:
        """The usage; None if both counts are missing. One count alone makes a partial usage: a missing count is
        not 0, and may have to be paid for.
        """
        tokens_in = self.prompt_tokens if self.prompt_tokens is not None else self.input_tokens
        tokens_out = self.completion_tokens if self.completion_tokens is not None else self.output_tokens
        if tokens_in is None and tokens_out is None:
            return None
        details = self.prompt_tokens_details or self.input_tokens_details
        cached = (details.cached_tokens or 0.0) if details is not None else 0.0
        return Usage(
            tokens_in or 0.0,
            tokens_out or 0.0,
            min(cached, tokens_in or 0.0),
            partial=tokens_in is None or (tokens_out is None and has_output),
        )


class OpenAIAnswer(msgspec.Struct, gc=False, kw_only=True):
    """The fields of every answer."""

    error: AnyObject | None = None
    usage: _OpenAIUsage | None = None

    def counted(self) -> Usage | None:
        """The usage."""
        return None if self.usage is None else self.usage.counted()


class _ChoicesAnswer(OpenAIAnswer, gc=False):
    choices: list[AnyObject]


class _ResponseAnswer(OpenAIAnswer, gc=False):
    output: list[AnyObject]


class _EmbeddingsAnswer(OpenAIAnswer, gc=False):
    data: list[AnyObject]

    def counted(self) -> Usage | None:
        """Embeddings have no output."""
        return None if self.usage is None else self.usage.counted(has_output=False)


def _counted(usage: dict[str, Any] | None) -> Usage | None:
    """The usage of an object in a stream."""
    return None if usage is None else msgspec.convert(counts(usage), _OpenAIUsage).counted()


# -- chat completions, and the older completions ------------------------------------------------------------------


class _Choice:
    """One choice of a streamed completion."""

    def __init__(self, index: int, counter: PartCounter) -> None:
        self._index = index
        self._counter = counter
        self._message = MergedObject(counter)
        self._has_message = False
        self._pieces = MergedObject(counter)  # logprobs, and the text of the older completions
        self._others: dict[str, Any] = {"finish_reason": None}

    @property
    def finished(self) -> bool:
        return self._others["finish_reason"] is not None

    def add(self, choice: dict[str, Any]) -> None:
        before = len(self._others)
        for name, value in choice.items():
            if name == "delta":
                self._has_message = True
                self._message.add(mapping(value))
            elif name in ("logprobs", "text"):
                self._pieces.add({name: value})
            elif name != "index" and (value is not None or name not in self._others):
                self._others[name] = value
        if len(self._others) > before:
            self._counter.add_fields(len(self._others) - before)

    def built(self) -> dict[str, Any]:
        built: dict[str, Any] = {"index": self._index}
        if self._has_message:
            built["message"] = {"role": "assistant", "content": None, **self._message.built()}
        return self._others | self._pieces.built() | built


class ChatDraft(SseDraft):
    """A chat completion, or one of the older kind, from its chunks."""

    begun = True

    def __init__(self, wanted: int = 1) -> None:
        self._wanted = wanted
        self._top: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._counter = PartCounter()
        self._usage: dict[str, Any] | None = None
        self.ended = False

    @property
    def whole(self) -> bool:
        """Whether every requested choice has its finish reason, or the server has sent the end marker."""
        if self.ended:
            return bool(self._choices)
        return len(self._choices) >= self._wanted and all(c.finished for c in self._choices.values())

    @property
    def usage(self) -> Usage | None:
        """The usage of the last chunk."""
        return _counted(self._usage)

    def add(self, event: SseEvent) -> None:
        """Take a chunk."""
        if event.data.strip() == DONE:
            self.ended = True
            return
        chunk = event_object(event)
        if chunk.get("error") or event.name == b"error":
            raise StreamedError(event.data)
        self._keep(chunk)
        for choice in objects(chunk.get("choices")):
            self._choice(index_of(choice)).add(choice)
            if self.on_text is not None and index_of(choice) == 0:
                piece = mapping(choice.get("delta")).get("content") or choice.get("text")
                if isinstance(piece, str) and piece:
                    self.on_text(piece)

    def _choice(self, index: int) -> _Choice:
        choice = self._choices.get(index)
        if choice is None:
            self._counter.add_part("choices")
            choice = self._choices[index] = _Choice(index, self._counter)
        return choice

    def _keep(self, chunk: dict[str, Any]) -> None:
        """Take the fields beside the choices: the first value of the three that identify the answer, the last of others."""
        self._usage = mapping(chunk.get("usage")) or self._usage
        before = len(self._top)
        for name, value in chunk.items():
            # Obfuscation pads the chunks of a stream and is not part of the answer.
            if name in ("choices", "usage", "obfuscation"):
                continue
            first = name in ("id", "created", "model") and self._top.get(name)
            if not first and (value is not None or name not in self._top):
                self._top[name] = value
        if len(self._top) > before:
            self._counter.add_fields(len(self._top) - before)

    def body(self) -> bytes:
        """The completion."""
        built: dict[str, Any] = {name: self._top.get(name) for name in ("id", "object", "created", "model")}
        built = {name: value for name, value in built.items() if name in self._top}
        if isinstance(built.get("object"), str):
            built["object"] = built["object"].removesuffix(".chunk")
        built["choices"] = [self._choices[index].built() for index in sorted(self._choices)]
        if self._usage is not None:
            built["usage"] = self._usage
        return encoded(built | {name: value for name, value in self._top.items() if name not in built})


class _ChoiceCount(msgspec.Struct, gc=False):
    n: int | None = None


def _choice_count(request: bytes) -> int:
    try:
        return msgspec.json.decode(request, type=_ChoiceCount).n or 1
    except ValueError:
        return 1


def raw_fields(request: bytes) -> dict[str, msgspec.Raw] | None:
    """The fields of a request as raw JSON; None if it is not an object."""
    try:
        return msgspec.json.decode(request, type=dict[str, msgspec.Raw])
    except ValueError:
        return None


def is_literal(fields: dict[str, msgspec.Raw], name: str, literal: bytes) -> bool:
    """Whether a field is written as this literal."""
    value = fields.get(name)
    return value is not None and bytes(value) == literal


def _wants_audio(fields: dict[str, msgspec.Raw]) -> bool:
    return b'"audio"' in bytes(fields.get("modalities", b""))


class CompletionsEndpoint:
    """The older completions: streamed only if the request asks for it."""

    name = "completion"
    shape: type[OpenAIAnswer] = _ChoicesAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """None: it is never turned into a stream."""
        return None

    def draft(self, request: bytes) -> Draft | None:
        """The draft of its stream."""
        return ChatDraft(_choice_count(request))

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The prompt and its completion."""
        prompt = mapping(request).get("prompt")
        answers = [
            {"role": "assistant", "content": c.get("text")} for c in objects(mapping(answer).get("choices"))
        ]
        return [*([] if prompt is None else [{"role": "user", "content": prompt}]), *answers]


class ChatEndpoint(CompletionsEndpoint):
    """Chat completions."""

    name = "chat completion"

    def __init__(self, *, asks_usage: bool = True) -> None:
        self._asks_usage = asks_usage

    def streamed(self, request: bytes) -> bytes | None:
        """The same request as a stream that ends with its usage, which is requested if necessary. Speech comes in
        another format when it streams.
        """
        fields = raw_fields(request)
        if fields is None or is_literal(fields, "stream", b"false") or _wants_audio(fields):
            return None
        fields["stream"] = msgspec.Raw(b"true")
        if not self._asks_usage:
            return msgspec.json.encode(fields)
        options = mapping(decoded(bytes(fields.get("stream_options", b"null"))))
        fields["stream_options"] = msgspec.Raw(encoded(options | {"include_usage": True}))
        return msgspec.json.encode(fields)

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The messages, and those of the choices."""
        choices = objects(mapping(answer).get("choices"))
        return [*objects(mapping(request).get("messages")), *(mapping(c.get("message")) for c in choices)]


# -- responses ----------------------------------------------------------------------------------------------------

_COMPLETE_EVENTS: Final = ("response.completed", "response.incomplete")
_ERROR_EVENTS: Final = ("response.failed", "error")
_READ_EVENTS: Final = frozenset(name.encode() for name in _COMPLETE_EVENTS + _ERROR_EVENTS)
_TEXT_EVENT: Final = "response.output_text.delta"


class ResponseDraft(SseDraft):
    """A response: its last event has everything. The pieces of its text are read only for `on_text`."""

    begun = True

    def __init__(self) -> None:
        self._body = b""
        self.usage: Usage | None = None

    @property
    def whole(self) -> bool:
        """Whether the last event has arrived."""
        return bool(self._body)

    ended = whole

    def add(self, event: SseEvent) -> None:
        """Take an event."""
        if event.data.strip() == DONE:
            return
        if event.name and event.name not in _READ_EVENTS:
            if self.on_text is not None and event.name == _TEXT_EVENT.encode():
                self._tell(event_object(event))
            return
        fields = event_object(event)
        kind = fields.get("type") or event.name.decode("utf-8", "replace")
        if kind in _ERROR_EVENTS or fields.get("error"):
            raise StreamedError(event.data)
        if kind in _COMPLETE_EVENTS:
            self._finish(mapping(fields.get("response")))
        elif kind == _TEXT_EVENT:  # Some servers name no events.
            self._tell(fields)

    def _tell(self, fields: dict[str, Any]) -> None:
        piece = fields.get("delta")
        if self.on_text is not None and isinstance(piece, str) and piece:
            self.on_text(piece)

    def _finish(self, response: dict[str, Any]) -> None:
        if not isinstance(response.get("output"), list):
            raise UnreadableAnswer("the last event of the stream has no response in it")
        self._body = encoded(response)
        self.usage = _counted(mapping(response.get("usage")) or None)

    def body(self) -> bytes:
        """The response."""
        return self._body


class ResponsesEndpoint:
    """The Responses API."""

    name = "response"
    shape: type[OpenAIAnswer] = _ResponseAnswer

    def streamed(self, request: bytes) -> bytes | None:
        """The same request as a stream. A background request is only accepted, so it is left alone."""
        fields = raw_fields(request)
        if (
            fields is None
            or is_literal(fields, "stream", b"false")
            or is_literal(fields, "background", b"true")
        ):
            return None
        fields["stream"] = msgspec.Raw(b"true")
        return msgspec.json.encode(fields)

    def draft(self, request: bytes) -> Draft | None:
        """The draft of its stream."""
        return ResponseDraft()

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """Instructions, input and output. An item without a role becomes the only part of a message."""
        fields = mapping(request)
        messages = (
            [{"role": "system", "content": fields["instructions"]}] if fields.get("instructions") else []
        )
        if isinstance(fields.get("input"), str):
            messages.append({"role": "user", "content": fields["input"]})
        items = (*objects(fields.get("input")), *objects(mapping(answer).get("output")))
        return [*messages, *map(_message, items)]


def _message(item: dict[str, Any]) -> Message:
    if "role" in item:
        return {"role": item["role"], "content": item.get("content")}
    result = str(item.get("type", "")).endswith("_output")
    return {"role": "tool" if result else "assistant", "content": [item]}


# -- everything else ----------------------------------------------------------------------------------------------


class OtherEndpoint:
    """Any other path. Its answer is a JSON object, never a stream."""

    def __init__(self, name: str = "JSON object", shape: type[OpenAIAnswer] = OpenAIAnswer) -> None:
        self.name = name
        self.shape = shape

    def streamed(self, request: bytes) -> bytes | None:
        """Never."""
        return None

    def draft(self, request: bytes) -> Draft | None:
        """It has no streams."""
        return None

    def conversation(self, request: Any, answer: Any) -> list[Message]:
        """The request. The answer is not a message."""
        given = mapping(request).get("input")
        return [] if given is None else [{"role": "user", "content": given}]


_OTHER: Final = OtherEndpoint()
_CHAT: Final = "/chat/completions"
_ENDPOINTS: Final[
    tuple[tuple[str, ChatEndpoint | CompletionsEndpoint | ResponsesEndpoint | OtherEndpoint], ...]
] = (
    ("/completions", CompletionsEndpoint()),
    ("/responses", ResponsesEndpoint()),
    ("/embeddings", OtherEndpoint("list of embeddings", _EmbeddingsAnswer)),
)


class OpenAIDialect(VersionedPaths):
    """The dialect of OpenAI and compatible servers. `asks_usage`: whether a request for a stream must ask for its usage."""

    kind = "openai"
    root = "https://api.openai.com/v1"
    request_id = "x-request-id"

    def __init__(self, *, asks_usage: bool = True) -> None:
        self._endpoints = ((_CHAT, ChatEndpoint(asks_usage=asks_usage)), *_ENDPOINTS)

    def headers(self, key: str) -> Iterator[tuple[str, str]]:
        """The key."""
        if key:
            yield "Authorization", f"Bearer {key}"

    def endpoint(self, path: str) -> ChatEndpoint | CompletionsEndpoint | ResponsesEndpoint | OtherEndpoint:
        """The endpoint of a path."""
        path = "/" + path.partition("?")[0].strip("/")
        return next((endpoint for end, endpoint in self._endpoints if path.endswith(end)), _OTHER)
