"""Server-sent events: one event as bytes, with the output tokens that it carries."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

_encode = msgspec.json.Encoder().encode


class Event(NamedTuple):
    """What is written at once."""

    frame: bytes
    tokens: int = 0


def data(body: object) -> bytes:
    """An event without a name, as in chat completions."""
    return b"data: " + _encode(body) + b"\n\n"


def named(name: str, body: object) -> bytes:
    """An event with its name, as in Responses and in Messages."""
    return b"event: " + name.encode() + b"\ndata: " + _encode(body) + b"\n\n"
