"""The answer to a request, independent of the API: a text, or a configured tool call; and the frames of a stream.

The text is `echo: ` and the last message's text. If the configuration gives a length, the text is padded with
words, or cut, to exactly that many tokens. A request for JSON gets JSON instead, which fits its schema. A configured
answer is sent as it is. max_tokens cuts them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from headway.fake.apis.api_request import CHARS_PER_TOKEN, ApiRequest, tokens_of
from headway.fake.fake_config import AnswerRule, ToolRule

ECHO = "echo: "
WORDS = "the quick brown fox jumps over the lazy dog and runs on "
#: The characters in one event of a stream: four tokens.
PIECE_CHARS = 4 * CHARS_PER_TOKEN

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class ToolCall:
    """A call of one of the client's tools."""

    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ModelReply:
    """An answer; `finish` is `stop`, `length` or `tool`."""

    id: str
    created: int
    text: str
    output_tokens: int
    finish: str = "stop"
    call: ToolCall | None = None

    def pieces(self) -> list[str]:
        """The text, or the tool call's arguments, in the pieces of a stream."""
        text = self.text if self.call is None else self.call.arguments
        return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]

    def pieces_with_tokens(self) -> list[tuple[str, int]]:
        """Each piece with its output tokens; they add up to `output_tokens`."""
        pieces = self.pieces()
        weights = [tokens_of(len(piece)) for piece in pieces]
        if weights:
            weights[-1] += self.output_tokens - sum(weights)
        return list(zip(pieces, weights, strict=True))


def make_reply(
    request: ApiRequest,
    identity: str,
    created: int,
    output_tokens: int | None,
    rules: tuple[ToolRule, ...] = (),
    answers: tuple[AnswerRule, ...] = (),
) -> ModelReply:
    """The answer to a request; `output_tokens` is the configured length."""
    rule = _tool_rule(request, rules) if rules else None
    if rule is not None:
        arguments = msgspec.json.encode(rule.arguments).decode()
        length = tokens_of(len(rule.name) + len(arguments))
        return ModelReply(identity, created, "", length, "tool", ToolCall(identity, rule.name, arguments))
    text = _scripted_answer(request, answers) if answers else None
    if text is None and request.wanted is not None and not (request.after_tool and request.wanted.tool):
        text = request.wanted.answer(request.last_text)
        if request.wanted.tool:
            call = ToolCall(identity, request.wanted.tool, text)
            return ModelReply(identity, created, "", tokens_of(len(call.name) + len(text)), "tool", call)
    if text is None:
        text = ECHO + request.last_text
        if output_tokens is not None:
            text = _fitted(text, output_tokens * CHARS_PER_TOKEN)
    finish = "stop"
    if request.max_tokens is not None and len(text) > request.max_tokens * CHARS_PER_TOKEN:
        text, finish = text[: request.max_tokens * CHARS_PER_TOKEN], "length"
    return ModelReply(identity, created, text, tokens_of(len(text)) * request.choices, finish)


def _tool_rule(request: ApiRequest, rules: tuple[ToolRule, ...]) -> ToolRule | None:
    """The first matching rule whose tool the client offers; None after a tool's result."""
    if request.after_tool:
        return None
    for rule in rules:
        if rule.name in request.tools and rule.contains in request.user_text:
            return rule
    return None


def _scripted_answer(request: ApiRequest, answers: tuple[AnswerRule, ...]) -> str | None:
    """The answer of the first matching rule at this turn of the conversation."""
    said = request.user_text
    return next((rule.answer(request.turn) for rule in answers if rule.contains in said), None)


def _fitted(text: str, chars: int) -> str:
    if len(text) < chars:
        text += " " + WORDS * ((chars - len(text)) // len(WORDS) + 1)
    return text[:chars]


class StreamEvent(NamedTuple):
    """Bytes that are written together, and the output tokens in them."""

    frame: bytes
    tokens: int = 0


def sse_data(body: object) -> bytes:
    """A server-sent event without a name, as in chat completions."""
    return b"data: " + _encode(body) + b"\n\n"


def sse_event(name: str, body: object) -> bytes:
    """A server-sent event with a name, as in Responses and Messages."""
    return b"event: " + name.encode() + b"\ndata: " + _encode(body) + b"\n\n"
