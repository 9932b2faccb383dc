"""AWS's event stream: the binary messages in which Bedrock streams its answers."""

from __future__ import annotations

import struct
import zlib

import msgspec

STREAM_TYPE = "application/vnd.amazon.eventstream"
#: The type of a header's value: a text.
_TEXT = 7


def event_frame(name: str, body: object) -> bytes:
    """An event."""
    return _message(
        {":event-type": name, ":content-type": "application/json", ":message-type": "event"}, body
    )


def exception_frame(name: str, body: object) -> bytes:
    """An exception, which ends a stream."""
    return _message(
        {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}, body
    )


def _message(headers: dict[str, str], body: object) -> bytes:
    packed = b"".join(
        struct.pack(">B", len(name)) + name.encode() + struct.pack(">BH", _TEXT, len(value)) + value.encode()
        for name, value in headers.items()
    )
    payload = msgspec.json.encode(body)
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + payload
    return message + struct.pack(">I", zlib.crc32(message))
