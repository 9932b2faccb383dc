"""What the bodies of requests and answers are, where that is not obvious."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.providers.dialects.lenient_json import decoded, encoded, mapping
from headway.providers.error_messages import short_message
from headway.providers.limits.hints import Facts


class _StreamField(msgspec.Struct, gc=False):
    stream: bool | None = None


def asks_for_stream(request: bytes) -> bool:
    """Whether a request asks for a stream itself."""
    if b'"stream"' not in request:
        return False
    try:
        return msgspec.json.decode(request, type=_StreamField).stream is True
    except ValueError:
        return False


def valid_json(body: bytes, value: Any) -> bytes:
    """The body if it is valid UTF-8 JSON; otherwise what could be decoded of it."""
    try:
        body.decode()
        msgspec.json.decode(body, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return encoded(value)
    return body.strip()


def limit_source(facts: Facts, without_body: Facts) -> str:
    """Where a limit was reported: `without_body` is what is known without the body."""
    if facts.kind is without_body.kind and without_body.hint.retry_after_s is not None:
        return "headers"
    in_body = facts.code or facts.kind is not without_body.kind or facts.hint.retry_after_s is not None
    return "body" if in_body else "status"


def streaming_refused(body: bytes) -> bool:
    """OpenAI: {"error": {"param": "stream", "code": "unsupported_value", …}} for an organization not verified."""
    try:
        error = mapping(mapping(decoded(body)).get("error"))
    except ValueError:
        return False
    return str(error.get("param")).startswith("stream")


def describe_body(body: bytes, content_type: str) -> str:
    """What a body is that is not JSON."""
    start = body.strip()[:200]
    if not start:
        return "the body is empty"
    if start[:1] in (b"{", b"["):
        return f"the body is cut off or broken JSON ({len(body)} bytes)"
    return f"the body is not JSON ({short_message(content_type, otherwise='no content type')[:80]})"
