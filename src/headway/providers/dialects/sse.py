"""Server-sent events: bytes in any pieces → events, and the answer that grows from them (`Draft`). Knows no provider, does no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Usage
from headway.providers.dialects.answer_errors import AnswerTooComplex, AnswerTooLong, UnreadableAnswer
from headway.providers.dialects.lenient_json import decoded

#: A whole response in one event (OpenAI's `response.completed`) with images in it has a few MB.
LONGEST_EVENT: Final = MAX_ANSWER_BYTES
DONE: Final = b"[DONE]"

_TOO_DEEP: Final = "an event of the stream is nested too deep"
_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its name, where it has one, and its data lines joined."""

    name: bytes
    data: bytes


class Draft(Protocol):
    """An answer that grows event by event to the body that the unstreamed call gives."""

    @property
    def begun(self) -> bool:
        """Whether all that is ever known at the beginning is here."""

    @property
    def whole(self) -> bool:
        """Whether the answer is complete, though something may still follow."""

    @property
    def ended(self) -> bool:
        """Whether nothing follows."""

    @property
    def usage(self) -> Usage | None:
        """What is counted so far."""

    def add(self, event: SseEvent) -> None:
        """Take an event. Raises `StreamedError` for the provider's error and `UnreadableAnswer` for what makes no sense."""

    def body(self) -> bytes:
        """The whole answer."""


def add_events(draft: Draft, events: Iterable[SseEvent]) -> None:
    """Add events to a draft. Raises `StreamedError` and `UnreadableAnswer`, the latter also for what is nested too deep to be walked."""
    try:
        for event in events:
            draft.add(event)
    except RecursionError:
        raise UnreadableAnswer(_TOO_DEEP) from None


def draft_body(draft: Draft, most: int) -> bytes:
    """What a draft has come to. Raises `UnreadableAnswer` where that cannot be written, and `AnswerTooLong` above `most` bytes."""
    try:
        body = draft.body()
    except RecursionError:
        raise UnreadableAnswer(_TOO_DEEP) from None
    if len(body) > most:
        raise AnswerTooLong(most)
    return body


class SseParser:
    """Bytes → events. A line, and all data of an event, may come in any pieces. Raises `AnswerTooLong` for an event whose lines
    have more than `longest` bytes. Takes time in proportion to the bytes, however they are cut.
    """

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        # Arrays of bytes, not lists of pieces: joining takes 80 bytes more for each piece.
        self._line = bytearray()  # that is not complete
        self._name = b""
        self._data: bytes | bytearray | None = None
        self._data_size = 0  # of the lines that the data stood in
        self._first = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes."""
        # A carriage return at the very end may be half a line end: it waits for the next chunk.
        cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, -1)) + 1
        events: list[SseEvent] = []
        if cut:
            lines, chunk = chunk[:cut], chunk[cut:]
            if self._line:
                lines = bytes(self._line) + lines
                self._line = bytearray()
            self._take(lines, events)
        if chunk:
            self._line += chunk
            if self._data_size + len(self._line) > self._longest:
                raise AnswerTooLong(self._longest, "an event of the stream")
        return events

    def close(self) -> list[SseEvent]:
        """The events that the end completes: the last one may lack its blank line."""
        events: list[SseEvent] = []
        self._take(bytes(self._line), events)
        self._line = bytearray()
        self._dispatch(events)
        return events

    def _take(self, lines: bytes, events: list[SseEvent]) -> None:
        for line in lines.splitlines():
            if self._first:
                self._first = False
                line = line.removeprefix(_BOM)
            if not line:
                self._dispatch(events)
            elif line[0] != 0x3A:  # A colon in front: a comment.
                self._field(line)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data_size += len(line) + 1
            if self._data is None:
                self._data = value.removeprefix(b" ")
            else:
                self._more(value.removeprefix(b" "))
        elif name == b"event":
            self._name = value.removeprefix(b" ")

    def _more(self, value: bytes) -> None:
        """One more line of the same event."""
        if not isinstance(self._data, bytearray):
            self._data = bytearray(self._data or b"")
        self._data += b"\n" + value
        if self._data_size > self._longest:
            raise AnswerTooLong(self._longest, "an event of the stream")

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data is not None:
            events.append(SseEvent(self._name, bytes(self._data)))
            self._data = None
        self._name = b""
        self._data_size = 0


def event_object(event: SseEvent) -> dict[str, Any]:
    """The JSON object that an event carries."""
    try:
        value = decoded(event.data)
    except AnswerTooComplex:
        raise
    except ValueError:
        raise UnreadableAnswer("an event of the stream is no JSON") from None
    if not isinstance(value, dict):
        raise UnreadableAnswer("an event of the stream is no JSON object")
    return value
