"""The answer before any API has shaped it: a text that belongs to its request, or a scripted tool call.

The text is `echo: ` and the last message's text. Where the plan says how long answers are, it is filled up with
words, or cut, to exactly that many tokens; a scripted answer is said as it is. max_tokens cuts either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from headway.fake.apis.api_request import CHARS_PER_TOKEN, ApiRequest, tokens_of
from headway.fake.fake_config import AnswerRule, ToolRule

ECHO = "echo: "
WORDS = "the quick brown fox jumps over the lazy dog and runs on "
#: How much of a text one event of a stream carries: four tokens.
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
    """What is answered: `finish` is `stop`, `length` or `tool`."""

    id: str
    created: int
    text: str
    output_tokens: int
    finish: str = "stop"
    call: ToolCall | None = None

    def pieces(self) -> list[str]:
        """The text, or the call's arguments, as a stream hands it out."""
        text = self.text if self.call is None else self.call.arguments
        return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]

    def pieces_with_tokens(self) -> list[tuple[str, int]]:
        """Each piece with the output tokens that it brings; they add up to all there are."""
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
    """The answer to `asked`; `output_tokens` is how long the plan wants it."""
    rule = _tool_rule(request, rules) if rules else None
    if rule is not None:
        arguments = msgspec.json.encode(rule.arguments).decode()
        length = tokens_of(len(rule.name) + len(arguments))
        return ModelReply(identity, created, "", length, "tool", ToolCall(identity, rule.name, arguments))
    scripted = _scripted_answer(request, answers) if answers else None
    text = ECHO + request.last_text if scripted is None else scripted
    if output_tokens is not None and scripted is None:
        text = _fitted(text, output_tokens * CHARS_PER_TOKEN)
    finish = "stop"
    if request.max_tokens is not None and len(text) > request.max_tokens * CHARS_PER_TOKEN:
        text, finish = text[: request.max_tokens * CHARS_PER_TOKEN], "length"
    return ModelReply(identity, created, text, tokens_of(len(text)) * request.choices, finish)


def _tool_rule(request: ApiRequest, rules: tuple[ToolRule, ...]) -> ToolRule | None:
    """The first rule that fits, of a tool that the client offers; after a tool's result there is text."""
    if request.after_tool:
        return None
    for rule in rules:
        if rule.name in request.tools and rule.contains in request.last_text:
            return rule
    return None


def _scripted_answer(request: ApiRequest, answers: tuple[AnswerRule, ...]) -> str | None:
    """What the first rule that fits says at this turn of the conversation."""
    opening = request.last_text if request.opening is None else request.opening
    return next((rule.answer(request.turn) for rule in answers if rule.contains in opening), None)


def _fitted(text: str, chars: int) -> str:
    if len(text) < chars:
        text += " " + WORDS * ((chars - len(text)) // len(WORDS) + 1)
    return text[:chars]


class StreamEvent(NamedTuple):
    """What is written at once."""

    frame: bytes
    tokens: int = 0


def sse_data(body: object) -> bytes:
    """An event without a name, as in chat completions."""
    return b"data: " + _encode(body) + b"\n\n"


def sse_event(name: str, body: object) -> bytes:
    """An event with its name, as in Responses and in Messages."""
    return b"event: " + name.encode() + b"\ndata: " + _encode(body) + b"\n\n"
