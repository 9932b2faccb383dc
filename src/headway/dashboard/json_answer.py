"""Answers as JSON. Every text in them is safe to show: control characters and marks of direction are written out (`safe_text`).

The page writes texts as text nodes, never as markup; the content type is JSON whatever a text contains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from headway.safe_text import visible

_JSON: Final = "application/json"
#: How JSON writes control characters other than line breaks and tabs.
_ESCAPED: Final = re.compile(rb"\\[bfru]|\x7f")
_encode: Final = msgspec.json.Encoder().encode


def json_bytes(value: Any) -> bytes:
    """A value as JSON. Records become objects, numbers that JSON does not have become null."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return _encode(_safe(msgspec.to_builtins(value, str_keys=True)))
    if data.isascii() and not _ESCAPED.search(data):
        return data
    return _encode(_safe(msgspec.json.decode(data)))


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(name): _safe(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(each) for each in value]
    return value


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as a response."""
    return Response(json_bytes(value), status, media_type=_JSON)


def error_answer(status: int, text: str) -> Response:
    """An error: one line that says what to do."""
    return json_answer({"error": " ".join(text.split())}, status)


def html_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """A page."""
    return Response(text, status, headers=dict(headers or {}), media_type="text/html; charset=utf-8")
