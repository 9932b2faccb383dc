"""OpenAI's chat completions: requests, answers in one piece, answers as a stream of chunks."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headway.fake.apis.answer_format import AnswerFormat, forced_tool, format_or_text, named_format
from headway.fake.apis.api_request import ApiRequest, InvalidRequest, tokens_of
from headway.fake.apis.attached_media import openai_tokens
from headway.fake.apis.error_dialects import OPENAI
from headway.fake.apis.message_content import (
    Content,
    MaxTokens,
    RequestMetadata,
    Tool,
    conversation_so_far,
    media_chars,
    openai_parse_error,
    request_reader,
    text_of,
    tool_names,
    unit_name,
)
from headway.fake.apis.reply import ModelReply, StreamEvent, sse_data

_FINISH = {"stop": "stop", "length": "length", "tool": "tool_calls"}
SYSTEM_FINGERPRINT = "fp_headwayfake"


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: str = ""


class _ChatToolCall(msgspec.Struct, gc=False):
    function: _Function


class _ChatMessage(msgspec.Struct, gc=False):
    role: str
    content: Content = None
    tool_calls: list[_ChatToolCall] | None = None


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool = False


class _ChatRequest(msgspec.Struct, gc=False):
    model: str
    messages: list[_ChatMessage]
    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Any = None
    response_format: Any = None
    metadata: RequestMetadata | None = None
    user: str | None = None


class Chat:
    """`POST /v1/chat/completions`"""

    dialect = OPENAI

    def __init__(self) -> None:
        self._read = request_reader(_ChatRequest, openai_parse_error)
        self._encode = msgspec.json.Encoder().encode

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""
        request = self._read(body)
        if not request.messages:
            why = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
            raise InvalidRequest(why, "messages", "empty_array")
        last = request.messages[-1]
        more = media_chars((message.content for message in request.messages), openai_tokens)
        said, turn = conversation_so_far(request.messages)
        return ApiRequest(
            model=request.model,
            chars=sum(map(_chars, request.messages)) + more,
            last_text=text_of(last.content),
            said=said,
            turn=turn,
            max_tokens=request.max_completion_tokens or request.max_tokens,
            stream=bool(request.stream),
            include_usage=request.stream_options is not None and request.stream_options.include_usage,
            after_tool=last.role == "tool",
            tools=tool_names(request.tools),
            unit=unit_name(request.metadata, request.user),
            choices=request.n or 1,
            wanted=_wanted(request),
        )

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text if reply.call is None else None,
            "refusal": None,
            "annotations": [],
        }
        if reply.call is not None:
            message["tool_calls"] = [_tool_call(reply)]
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.finish]}
            for index in range(request.choices)
        ]
        return self._encode(
            {
                "id": f"chatcmpl-{reply.id}",
                "object": "chat.completion",
                "created": reply.created,
                "model": request.model,
                "choices": choices,
                "usage": _usage(request, reply),
                "service_tier": "default",
                "system_fingerprint": SYSTEM_FINGERPRINT,
            }
        )

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """The answer as a stream: role, pieces, finish reason, usage if requested, and `[DONE]`."""
        first: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        if reply.call is not None:
            first = {"role": "assistant", "content": None, "tool_calls": [_tool_call(reply, streamed=True)]}
        events = [self._chunk(request, reply, first)]
        for piece, weight in reply.pieces_with_tokens():
            delta: dict[str, Any] = {"content": piece}
            if reply.call is not None:
                delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
            events.append(self._chunk(request, reply, delta, tokens=weight))
        events.append(self._chunk(request, reply, {}, finish=_FINISH[reply.finish]))
        if request.include_usage:
            events.append(self._event(request, reply, [], _usage(request, reply)))
        events.append(StreamEvent(b"data: [DONE]\n\n"))
        return events

    def _chunk(
        self,
        request: ApiRequest,
        reply: ModelReply,
        delta: dict[str, Any],
        *,
        finish: str | None = None,
        tokens: int = 0,
    ) -> StreamEvent:
        choices = [
            {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
            for index in range(request.choices)
        ]
        return self._event(request, reply, choices, None, tokens)

    def _event(
        self,
        request: ApiRequest,
        reply: ModelReply,
        choices: list[dict[str, Any]],
        used: dict[str, Any] | None,
        tokens: int = 0,
    ) -> StreamEvent:
        chunk = {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion.chunk",
            "created": reply.created,
            "model": request.model,
            "service_tier": "default",
            "system_fingerprint": SYSTEM_FINGERPRINT,
            "choices": choices,
        }
        if request.include_usage:
            chunk["usage"] = used
        return StreamEvent(sse_data(chunk), tokens)


def _wanted(request: _ChatRequest) -> AnswerFormat | None:
    named = forced_tool(request.tools, request.tool_choice) or named_format(request.response_format)
    system = (text_of(one.content) for one in request.messages if one.role in ("system", "developer"))
    return format_or_text(named, "\n".join(system))


def _chars(message: _ChatMessage) -> int:
    calls = message.tool_calls or ()
    return len(text_of(message.content)) + sum(
        len(call.function.name) + len(call.function.arguments) for call in calls
    )


def _tool_call(reply: ModelReply, *, streamed: bool = False) -> dict[str, Any]:
    assert reply.call is not None
    arguments = "" if streamed else reply.call.arguments
    call = {
        "id": f"call_{reply.call.id}",
        "type": "function",
        "function": {"name": reply.call.name, "arguments": arguments},
    }
    return {"index": 0, **call} if streamed else call


def _usage(request: ApiRequest, reply: ModelReply) -> dict[str, Any]:
    """The usage object."""
    input_tokens = tokens_of(request.chars)
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
