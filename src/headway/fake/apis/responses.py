"""OpenAI's Responses: requests, answers in one piece, answers as numbered events."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.fake.apis.answer_format import AnswerFormat, forced_tool, format_or_text, named_format
from headway.fake.apis.api_request import ApiRequest, tokens_of
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
from headway.fake.apis.reply import ModelReply, StreamEvent, sse_event


class _Item(msgspec.Struct, gc=False):
    type: str = "message"
    role: str = ""
    content: Content = None
    output: Content = None
    name: str = ""
    arguments: str = ""

    @property
    def text(self) -> str:
        if self.type == "function_call":
            return self.name + self.arguments
        return text_of(self.output if self.type == "function_call_output" else self.content)


class _ResponsesRequest(msgspec.Struct, gc=False):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    max_output_tokens: MaxTokens | None = None
    stream: bool | None = None
    tools: list[Tool] | None = None
    tool_choice: Any = None
    text: Any = None
    metadata: RequestMetadata | None = None
    user: str | None = None


class Responses:
    """`POST /v1/responses`"""

    dialect = OPENAI

    def __init__(self) -> None:
        self._read = request_reader(_ResponsesRequest, openai_parse_error)
        self._encode = msgspec.json.Encoder().encode

    def parse(self, body: bytes) -> ApiRequest:
        """Parse a request; raises InvalidRequest."""
        request = self._read(body)
        items = request.input if isinstance(request.input, list) else [_Item(content=request.input)]
        more = media_chars((item.content for item in items), openai_tokens)
        last = items[-1] if items else _Item(content="")
        said, turn = conversation_so_far(items) if items else (None, 0)
        return ApiRequest(
            model=request.model,
            chars=sum(len(item.text) for item in items) + len(request.instructions or "") + more,
            last_text=last.text,
            said=said,
            turn=turn,
            max_tokens=request.max_output_tokens,
            stream=bool(request.stream),
            after_tool=last.type == "function_call_output",
            tools=tool_names(request.tools),
            unit=unit_name(request.metadata, request.user),
            extra=request.instructions,
            wanted=_wanted(request),
        )

    def body(self, request: ApiRequest, reply: ModelReply) -> bytes:
        """The answer in one piece."""
        return self._encode(_response(request, reply, _status(reply), [_item(reply, "completed")]))

    def events(self, request: ApiRequest, reply: ModelReply) -> list[StreamEvent]:
        """The answer as events, numbered from 0."""
        events: _Events = [
            ("response.created", {"response": _response(request, reply, "in_progress", [])}, 0),
            ("response.in_progress", {"response": _response(request, reply, "in_progress", [])}, 0),
            (
                "response.output_item.added",
                {"output_index": 0, "item": _item(reply, "in_progress", empty=True)},
                0,
            ),
            *(_call_events(reply) if reply.call is not None else _text_events(reply)),
            ("response.output_item.done", {"output_index": 0, "item": _item(reply, "completed")}, 0),
        ]
        status = _status(reply)
        whole = _response(request, reply, status, [_item(reply, "completed")])
        events.append((f"response.{status}", {"response": whole}, 0))
        return [
            StreamEvent(sse_event(name, {"type": name, "sequence_number": number, **fields}), tokens)
            for number, (name, fields, tokens) in enumerate(events)
        ]


_Events = list[tuple[str, dict[str, Any], int]]


def _wanted(request: _ResponsesRequest) -> AnswerFormat | None:
    described = request.text.get("format") if isinstance(request.text, dict) else None
    named = forced_tool(request.tools, request.tool_choice) or named_format(described)
    return format_or_text(named, request.instructions or "")


def _text_events(reply: ModelReply) -> _Events:
    place = {"item_id": f"msg_{reply.id}", "output_index": 0, "content_index": 0}
    pieces: _Events = [
        ("response.output_text.delta", {**place, "delta": piece, "logprobs": []}, weight)
        for piece, weight in reply.pieces_with_tokens()
    ]
    return [
        ("response.content_part.added", {**place, "part": _text_part("")}, 0),
        *pieces,
        ("response.output_text.done", {**place, "text": reply.text, "logprobs": []}, 0),
        ("response.content_part.done", {**place, "part": _text_part(reply.text)}, 0),
    ]


def _call_events(reply: ModelReply) -> _Events:
    assert reply.call is not None
    place = {"item_id": f"fc_{reply.id}", "output_index": 0}
    pieces: _Events = [
        ("response.function_call_arguments.delta", {**place, "delta": piece}, weight)
        for piece, weight in reply.pieces_with_tokens()
    ]
    done = {**place, "name": reply.call.name, "arguments": reply.call.arguments}
    return [*pieces, ("response.function_call_arguments.done", done, 0)]


def _status(reply: ModelReply) -> str:
    return "incomplete" if reply.finish == "length" else "completed"


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _item(reply: ModelReply, status: str, *, empty: bool = False) -> dict[str, Any]:
    if reply.call is not None:
        return {
            "id": f"fc_{reply.id}",
            "type": "function_call",
            "status": status,
            "arguments": "" if empty else reply.call.arguments,
            "call_id": f"call_{reply.call.id}",
            "name": reply.call.name,
        }
    if reply.finish == "length" and not empty:
        status = "incomplete"
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "status": status,
        "content": [] if empty else [_text_part(reply.text)],
        "role": "assistant",
    }


def _response(
    request: ApiRequest, reply: ModelReply, status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    ended = status != "in_progress"
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": request.extra,
        "max_output_tokens": request.max_tokens,
        "model": request.model,
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default" if ended else "auto",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": _usage(request, reply) if ended else None,
        "user": None,
        "metadata": {},
    }


def _usage(request: ApiRequest, reply: ModelReply) -> dict[str, Any]:
    input_tokens = tokens_of(request.chars)
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + reply.output_tokens,
    }
