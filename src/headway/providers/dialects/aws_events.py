"""AWS's event stream: parses its binary messages into events. Knows no API, does no I/O.

A message is: its length and the length of its headers (4 bytes each), a checksum of those, the headers, the payload, and a checksum of all
before. https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import msgspec

from headway.providers.dialects.answer_errors import AnswerTooLong, StreamedError, UnreadableAnswer
from headway.providers.dialects.lenient_json import encoded
from headway.providers.dialects.sse import LONGEST_EVENT, SseEvent

_PRELUDE: Final = struct.Struct(">III")
_CHECKSUM: Final = struct.Struct(">I")
#: The lengths of header values by their type; None: a length of two bytes precedes the value.
_VALUES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: None, 7: None, 8: 8, 9: 16}


class AwsEventParser:
    """Parses bytes into events, named by their type. Raises `StreamedError` for an exception of the service, `UnreadableAnswer` for a
    damaged message, and `AnswerTooLong` for one with more than `longest` bytes.
    """

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes."""
        self._bytes += chunk
        events = []
        start = 0
        while len(self._bytes) - start >= _PRELUDE.size:
            size, header_size, checksum = _PRELUDE.unpack_from(self._bytes, start)
            if (
                zlib.crc32(self._bytes[start : start + 8]) != checksum
                or size < _PRELUDE.size + header_size + 4
            ):
                raise UnreadableAnswer("a message of the stream is damaged")
            if size > self._longest:
                raise AnswerTooLong(self._longest, "an event of the stream")
            if len(self._bytes) - start < size:
                break
            events.append(_event(bytes(self._bytes[start : start + size]), header_size))
            start += size
        del self._bytes[:start]
        return events

    def close(self) -> list[SseEvent]:
        """Nothing: a message that is not complete is lost."""
        return []


def _event(message: bytes, header_size: int) -> SseEvent:
    if zlib.crc32(message[:-4]) != _CHECKSUM.unpack(message[-4:])[0]:
        raise UnreadableAnswer("a message of the stream is damaged")
    end = _PRELUDE.size + header_size
    headers = dict(_headers(message[_PRELUDE.size : end]))
    payload = message[end:-4]
    if headers.get(b":message-type", b"event") == b"event":
        return SseEvent(headers.get(b":event-type", b""), payload)
    kind = headers.get(b":exception-type") or headers.get(b":error-code", b"")
    said = headers.get(b":error-message", b"") or payload
    raise StreamedError(encoded({"__type": kind.decode(errors="replace"), "message": _message(said)}))


def _message(payload: bytes) -> str:
    """The text of an exception."""
    try:
        fields = msgspec.json.decode(payload)
    except ValueError:
        return payload.decode(errors="replace")
    message = fields.get("message") if isinstance(fields, dict) else None
    return message if isinstance(message, str) else payload.decode(errors="replace")


def _headers(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The headers of a message, each with the bytes of its value."""
    place = 0
    try:
        while place < len(data):
            name_end = place + 1 + data[place]
            name, kind = data[place + 1 : name_end], data[name_end]
            place = name_end + 1
            length = _VALUES[kind]
            if length is None:
                length = int.from_bytes(data[place : place + 2])
                place += 2
            yield name, data[place : place + length]
            place += length
    except (IndexError, KeyError):
        raise UnreadableAnswer("the headers of a message of the stream are damaged") from None
