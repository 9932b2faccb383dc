"""Anthropic's Messages: requests, answers in one piece, answers as events."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.fake.apis.answer_format import AnswerFormat, forced_tool, format_or_text, named_format
from headway.fake.apis.api_request import ApiRequest, InvalidRequest, tokens_of
from headway.fake.apis.attached_media import anthropic_tokens
from headway.fake.apis.error_dialects import ANTHROPIC
from headway.fake.apis.message_content import (
    Content,
    MaxTokens,
    RequestMetadata,
    Tool,
    conversation_so_far,
    error_place,
    media_chars,
    missing_field,
    request_reader,
    text_of,
    tool_names,
    unit_name,
)
from headway.fake.apis.reply import ModelReply, StreamEvent, sse_event

_FINISH = {"stop": "end_turn", "length": "max_tokens", "tool": "tool_use"}


class _MessagesMessage(msgspec.Struct, gc=False):
    role: str
    content: Content


class _CountRequest(msgspec.Struct, gc=False):
    """The fields that count_tokens needs: no max_tokens."""

    model: str
    messages: list[_MessagesMessage]
    system: Content = None


class _MessagesRequest(_CountRequest, gc=False, kw_only=True):
    max_tokens: MaxTokens
    stream: bool | None = None
    tools: list[Tool] | None = None
    tool_choice: Any = None
    output_config: Any = None
    output_format: Any = None
    metadata: RequestMetadata | None = None


class Messages:
    """`POST /v1/messages` and `/v1/messages/count_tokens`"""

    dialect = ANTHROPIC

    def __init__(self) -> None:
        self._read = request_reader(_MessagesRequest, _parse_error)
        self._read_counted = request_reader(_CountRequest, _parse_error)
        self._encode = msgspec.json.Encoder().encode

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""
        request = self._read(body)
        last = _last_message(request)
        more = media_chars((message.content for message in request.messages), anthropic_tokens)
        said, turn = conversation_so_far(request.messages)
        return ApiRequest(
            model=request.model,
            chars=_chars(request) + more,
            last_text=text_of(last.content),
            said=said,
            turn=turn,
            max_tokens=request.max_tokens,
            stream=bool(request.stream),
            after_tool=isinstance(last.content, list)
            and any(part.type == "tool_result" for part in last.content),
            tools=tool_names(request.tools),
            unit=unit_name(request.metadata, None),
            wanted=_wanted(request),
        )

    def count(self, body: bytes) -> bytes:
        """The answer of count_tokens."""
        request = self._read_counted(body)
        _last_message(request)
        more = media_chars((message.content for message in request.messages), anthropic_tokens)
        return self._encode({"input_tokens": tokens_of(_chars(request) + more)})

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""
        return self._encode(
            _message(request, reply, [_block(reply)], _FINISH[reply.finish], reply.output_tokens)
        )

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """The answer as events, with the ping that the real API sends after the first ones."""
        start = _message(request, reply, [], None, 1)
        events = [
            _event("message_start", {"message": start}),
            _event("content_block_start", {"index": 0, "content_block": _block(reply, empty=True)}),
            _event("ping", {}),
        ]
        for piece, weight in reply.pieces_with_tokens():
            delta = {"type": "text_delta", "text": piece}
            if reply.call is not None:
                delta = {"type": "input_json_delta", "partial_json": piece}
            events.append(_event("content_block_delta", {"index": 0, "delta": delta}, weight))
        end = {"stop_reason": _FINISH[reply.finish], "stop_sequence": None}
        events += [
            _event("content_block_stop", {"index": 0}),
            _event("message_delta", {"delta": end, "usage": {"output_tokens": reply.output_tokens}}),
            _event("message_stop", {}),
        ]
        return events


def _wanted(request: _MessagesRequest) -> AnswerFormat | None:
    config = request.output_config
    described = config.get("format") if isinstance(config, dict) else None
    named = forced_tool(request.tools, request.tool_choice) or named_format(
        described or request.output_format
    )
    return format_or_text(named, text_of(request.system))


def _event(name: str, fields: dict[str, Any], tokens: int = 0) -> StreamEvent:
    return StreamEvent(sse_event(name, {"type": name, **fields}), tokens)


def _last_message(request: _CountRequest) -> _MessagesMessage:
    if not request.messages:
        raise InvalidRequest("at least one message is required", "messages")
    return request.messages[-1]


def _chars(request: _CountRequest) -> int:
    return len(text_of(request.system)) + sum(len(text_of(message.content)) for message in request.messages)


def _block(reply: ModelReply, *, empty: bool = False) -> dict[str, Any]:
    if reply.call is None:
        return {"type": "text", "text": "" if empty else reply.text}
    arguments = {} if empty else msgspec.json.decode(reply.call.arguments)
    return {"type": "tool_use", "id": f"toolu_{reply.call.id}", "name": reply.call.name, "input": arguments}


def _message(
    request: ApiRequest,
    reply: ModelReply,
    content: list[dict[str, Any]],
    stop: str | None,
    output_tokens: int,
) -> dict[str, Any]:
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": tokens_of(request.chars),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "output_tokens": output_tokens,
            "service_tier": "standard",
        },
    }


def _parse_error(error: msgspec.DecodeError) -> InvalidRequest:
    """Anthropic's error for a body that it cannot parse."""
    if not isinstance(error, msgspec.ValidationError):
        return InvalidRequest("The request body is not valid JSON: " + str(error))
    what, place = error_place(error)
    field = missing_field(error)
    if field is not None:
        return InvalidRequest("Field required", f"{place}.{field}" if place else field)
    return InvalidRequest(what, place or "body")
