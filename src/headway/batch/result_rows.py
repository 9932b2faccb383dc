"""The result of one unit → one line of the output file; and the job to which an output file belongs.

A line is an OpenAI Batch result row with one more key, `headway`. The stored body is JSON, and is inserted unchanged, except that
a body of several lines is put on one line (OpenAI indents its answers).
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from headway.batch.answer_text import answer_of, plain_text
from headway.core.model import Usage

#: Costs are sums of floats: digits below a millionth of a cent are noise.
COST_DIGITS: Final = 10


class ResultRow(msgspec.Struct, frozen=True, gc=False):
    """The result of a unit. With an `error_code` it failed, and the row has no response.

    `body` is the JSON of the answer, `metadata` that of the input row. `started_utc` and `finished_utc` are seconds since 1970.
    """

    job: str
    index: int
    custom_id: str
    status: str
    lane: str
    attempts: int
    status_code: int | None = None
    request_id: str = ""
    body: bytes = b""
    error_code: str | None = None
    error_message: str = ""
    usage: Usage | None = None
    cost_usd: float | None = None
    started_utc: float | None = None
    finished_utc: float | None = None
    metadata: bytes | None = None


class _Usage(msgspec.Struct, frozen=True, gc=False):
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int


class _Response(msgspec.Struct, frozen=True, gc=False):
    status_code: int | None
    request_id: str
    body: Raw


class _Error(msgspec.Struct, frozen=True, gc=False):
    code: str
    message: str


class _Headway(msgspec.Struct, frozen=True, gc=False):
    index: int
    status: str
    lane: str
    attempts: int
    usage: _Usage | None
    cost_usd: float | None
    started_utc: str | None
    finished_utc: str | None
    text: str | None
    metadata: Raw | UnsetType = UNSET


class _Line(msgspec.Struct, frozen=True, gc=False):
    id: str
    custom_id: str
    response: _Response | None
    error: _Error | None
    headway: _Headway


class _TextLine(msgspec.Struct, frozen=True, gc=False):
    id: str
    text: str | None
    error: _Error | UnsetType = UNSET


class _Place(msgspec.Struct, frozen=True, gc=False):
    index: int


class _Head(msgspec.Struct, frozen=True, gc=False):
    """The part of a line that says to which job it belongs."""

    id: str
    headway: _Place


_encode: Final = msgspec.json.Encoder().encode
_head: Final = msgspec.json.Decoder(_Head).decode
_NULL: Final = Raw(b"null")
#: As numbers: searching for a number is four times as fast as searching for bytes. Many readers end a line at either.
_LINE_FEED: Final = ord("\n")
_RETURN: Final = ord("\r")
_THOUSANDTHS: Final = tuple(f".{thousandths:03d}Z" for thousandths in range(1000))


def result_line(result: ResultRow) -> bytes:
    """The line of one unit, including its line end."""
    index, usage, cost, metadata = result.index, result.usage, result.cost_usd, result.metadata
    response = error = None
    if result.error_code is None:
        response = _Response(result.status_code, result.request_id, _one_line(result.body))
    else:
        error = _Error(result.error_code, result.error_message)
    line = _Line(
        f"{result.job}-{index}",
        result.custom_id,
        response,
        error,
        _Headway(
            index,
            result.status,
            result.lane,
            result.attempts,
            _whole(usage) if usage is not None else None,
            round(cost, COST_DIGITS) if cost is not None else None,
            instant(result.started_utc),
            instant(result.finished_utc),
            None if response is None else plain_text(result.body),
            Raw(metadata) if metadata is not None else UNSET,
        ),
    )
    return _encode(line) + b"\n"


def text_line(result: ResultRow) -> bytes:
    """The line of one unit with `--text-only`: its id and the text of its answer, or its error. Without a text, the answer's body."""
    if result.error_code is not None:
        return (
            _encode(_TextLine(result.custom_id, None, _Error(result.error_code, result.error_message)))
            + b"\n"
        )
    text = plain_text(result.body)
    return _encode(_TextLine(result.custom_id, answer_of(result.body) if text is None else text)) + b"\n"


def owner_of(first_line: bytes) -> str | None:
    """The job whose output begins with this line; None if it is not an output of Headway."""
    try:
        head = _head(first_line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    job, mark, index = head.id.rpartition("-")
    return job if mark and job and index == str(head.headway.index) else None


def instant(seconds: float | None) -> str | None:
    """Seconds since 1970 as `2026-01-31T08:15:00.250Z`."""
    if seconds is None:
        return None
    milliseconds = int(seconds * 1000.0 + 0.5)
    return _second(milliseconds // 1000) + _THOUSANDTHS[milliseconds % 1000]


@lru_cache(1024)
def _second(seconds: int) -> str:
    """The date and time of a second. Cached: many units end in one second, and formatting costs more than the rest of the line."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _one_line(body: bytes) -> Raw:
    if _LINE_FEED in body or _RETURN in body:
        body = msgspec.json.format(body, indent=-1)
    return Raw(body) if body else _NULL


def _whole(usage: Usage) -> _Usage:
    return _Usage(int(usage.input_tokens), int(usage.output_tokens), int(usage.cached_input_tokens))
