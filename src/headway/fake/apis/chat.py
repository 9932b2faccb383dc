"""OpenAI's chat completions: what is asked, the answer in one piece, and the same as a stream of chunks."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from headway.fake.apis.api_request import Asked, Unacceptable, tokens_of
from headway.fake.apis.error_dialects import OPENAI
from headway.fake.apis.message_content import (
    Content,
    MaxTokens,
    Named,
    Tool,
    names_of,
    opened,
    reader,
    unit_of,
    unreadable_openai,
    words_of,
)
from headway.fake.apis.reply import Event, Reply, data

_FINISH = {"stop": "stop", "length": "length", "tool": "tool_calls"}
SYSTEM_FINGERPRINT = "fp_headwayfake"


class _Function(msgspec.Struct, gc=False):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct, gc=False):
    function: _Function


class _Message(msgspec.Struct, gc=False):
    role: str
    content: Content = None
    tool_calls: list[_Call] | None = None


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool = False


class _Request(msgspec.Struct, gc=False):
    model: str
    messages: list[_Message]
    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    tools: list[Tool] | None = None
    metadata: Named | None = None
    user: str | None = None


class Chat:
    """`POST /v1/chat/completions`"""

    dialect = OPENAI

    def __init__(self) -> None:
        self._read = reader(_Request, unreadable_openai)
        self._encode = msgspec.json.Encoder().encode

    def parse(self, body: bytes) -> Asked:
        """What is asked, or why it cannot be."""
        request = self._read(body)
        if not request.messages:
            why = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
            raise Unacceptable(why, "messages", "empty_array")
        last = request.messages[-1]
        opening, turn = opened(request.messages)
        return Asked(
            model=request.model,
            chars=sum(map(_chars, request.messages)),
            last_text=words_of(last.content),
            opening=opening,
            turn=turn,
            max_tokens=request.max_completion_tokens or request.max_tokens,
            stream=bool(request.stream),
            include_usage=request.stream_options is not None and request.stream_options.include_usage,
            after_tool=last.role == "tool",
            tools=names_of(request.tools),
            unit=unit_of(request.metadata, request.user),
            choices=request.n or 1,
        )

    def body(self, asked: Asked, reply: Reply) -> bytes:
        """The answer in one piece."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": reply.text if reply.call is None else None,
            "refusal": None,
            "annotations": [],
        }
        if reply.call is not None:
            message["tool_calls"] = [_call(reply)]
        choices = [
            {"index": index, "message": message, "logprobs": None, "finish_reason": _FINISH[reply.finish]}
            for index in range(asked.choices)
        ]
        return self._encode(
            {
                "id": f"chatcmpl-{reply.id}",
                "object": "chat.completion",
                "created": reply.created,
                "model": asked.model,
                "choices": choices,
                "usage": usage(asked, reply),
                "service_tier": "default",
                "system_fingerprint": SYSTEM_FINGERPRINT,
            }
        )

    def events(self, asked: Asked, reply: Reply) -> list[Event]:
        """The answer as a stream: the role, the pieces, the reason it ends, the usage if wanted, and `[DONE]`."""
        first: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        if reply.call is not None:
            first = {"role": "assistant", "content": None, "tool_calls": [_call(reply, streamed=True)]}
        found = [self._chunk(asked, reply, first)]
        for piece, weight in reply.weighed():
            delta: dict[str, Any] = {"content": piece}
            if reply.call is not None:
                delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
            found.append(self._chunk(asked, reply, delta, tokens=weight))
        found.append(self._chunk(asked, reply, {}, finish=_FINISH[reply.finish]))
        if asked.include_usage:
            found.append(self._event(asked, reply, [], usage(asked, reply)))
        found.append(Event(b"data: [DONE]\n\n"))
        return found

    def _chunk(
        self, asked: Asked, reply: Reply, delta: dict[str, Any], *, finish: str | None = None, tokens: int = 0
    ) -> Event:
        choices = [
            {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
            for index in range(asked.choices)
        ]
        return self._event(asked, reply, choices, None, tokens)

    def _event(
        self,
        asked: Asked,
        reply: Reply,
        choices: list[dict[str, Any]],
        used: dict[str, Any] | None,
        tokens: int = 0,
    ) -> Event:
        chunk = {
            "id": f"chatcmpl-{reply.id}",
            "object": "chat.completion.chunk",
            "created": reply.created,
            "model": asked.model,
            "service_tier": "default",
            "system_fingerprint": SYSTEM_FINGERPRINT,
            "choices": choices,
        }
        if asked.include_usage:
            chunk["usage"] = used
        return Event(data(chunk), tokens)


def _chars(message: _Message) -> int:
    calls = message.tool_calls or ()
    return len(words_of(message.content)) + sum(
        len(call.function.name) + len(call.function.arguments) for call in calls
    )


def _call(reply: Reply, *, streamed: bool = False) -> dict[str, Any]:
    assert reply.call is not None
    arguments = "" if streamed else reply.call.arguments
    call = {
        "id": f"call_{reply.call.id}",
        "type": "function",
        "function": {"name": reply.call.name, "arguments": arguments},
    }
    return {"index": 0, **call} if streamed else call


def usage(asked: Asked, reply: Reply) -> dict[str, Any]:
    """The usage object."""
    given = tokens_of(asked.chars)
    return {
        "prompt_tokens": given,
        "completion_tokens": reply.output_tokens,
        "total_tokens": given + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 0,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
