"""The value of a recorded answer: the JSON of a tool, the text of an agent, or the JSON in that text. PURE."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headway.batch.answer_text import decoded, is_api_response, plain_text
from headway.flows.json_depth import TOO_DEEP, is_too_deep
from headway.flows.spec import NodeSpec

_decode: Final = msgspec.json.Decoder().decode


def answer_value(node: NodeSpec, body: bytes) -> Any:
    """The value. A text that should be JSON and is not stays a text, and does not fit later. ValueError: there is none."""
    if node.kind != "agent":
        return _decoded(body)
    text = answer_text(body)
    if not node.json_answer:
        return text
    try:
        return _decoded(text.encode())
    except (msgspec.DecodeError, UnicodeError):
        return text


def _decoded(json: bytes) -> Any:
    try:
        value = _decode(json)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    if is_too_deep(json):
        raise ValueError(TOO_DEEP)
    return value


def answer_text(body: bytes) -> str:
    """The text of an agent's answer; of a function that returns another value its JSON. ValueError: the response of an API has no text."""
    text = plain_text(body)
    if text is not None:
        return text
    if is_api_response(decoded(body)):
        raise ValueError("the answer has no text")
    return body.decode(errors="replace")
