"""PURE: the messages of a request and its answer, in the form of the conventions. Only for those who want texts in their traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from headway.providers.dialects.dialect import KINDS, dialect_of

#: Backends cut attributes, and refuse spans of many megabytes.
LONGEST: Final = 32_000


def message_texts(
    kind: str, path: str, request: bytes, answer: bytes, scrub: Callable[[str], str]
) -> tuple[str, str]:
    """The input and the output messages as JSON. Secrets are removed, and what is too long is cut."""
    asked, answered = _value(request), _value(answer)
    if kind in KINDS:
        endpoint = dialect_of(kind).endpoint(path)
        whole = endpoint.conversation(asked, answered)
        given = len(endpoint.conversation(asked, {}))
        sent, got = whole[:given], whole[given:]
    else:
        sent = [{"role": "user", "content": asked}]
        got = [{"role": "assistant", "content": answered}]
    return _as_json(sent, scrub), _as_json(got, scrub)


def _value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return {}


def _as_json(messages: list[dict[str, Any]], scrub: Callable[[str], str]) -> str:
    left = LONGEST
    shaped = []
    for message in messages:
        text = scrub(_text(message.get("content")))[:left]
        left -= len(text)
        shaped.append(
            {"role": str(message.get("role", ""))[:40], "parts": [{"type": "text", "content": text}]}
        )
    return msgspec.json.encode(shaped).decode()


def _text(content: Any) -> str:
    """The text of a content: a string, parts with texts, or anything else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        if texts and all(isinstance(text, str) for text in texts):
            return "\n".join(texts)  # type: ignore[arg-type]  # all are strings
    return "" if content is None else msgspec.json.encode(content).decode()
