"""Server-sent events: parses bytes into events, and adds them to an answer (`Draft`). Knows no provider, does no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Usage
from headway.providers.dialects.answer_errors import AnswerTooComplex, AnswerTooLong, UnreadableAnswer
from headway.providers.dialects.lenient_json import decoded

#: A whole response in one event (OpenAI's `response.completed`) may have images, and then has a few MB.
LONGEST_EVENT: Final = MAX_ANSWER_BYTES
DONE: Final = b"[DONE]"

_TOO_DEEP: Final = "an event of the stream is nested too deeply"
_BOM: Final = b"\xef\xbb\xbf"


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its name, if any, and its joined data lines."""

    name: bytes
    data: bytes


class EventParser(Protocol):
    """Parses the bytes of a stream into events."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes."""

    def close(self) -> list[SseEvent]:
        """The events that the end of the stream completes."""


class Draft(Protocol):
    """An answer that is assembled event by event, to the body of the unstreamed call."""

    #: Gets each piece of the text of the first answer, as `answer_text` reads it; None: it is not wanted.
    on_text: Callable[[str], None] | None

    def parser(self, longest: int) -> EventParser:
        """The parser of its stream; no event may have more than `longest` bytes."""

    @property
    def begun(self) -> bool:
        """Whether everything that comes at the beginning has arrived."""

    @property
    def whole(self) -> bool:
        """Whether the answer is complete. Further events may follow."""

    @property
    def ended(self) -> bool:
        """Whether no event follows."""

    @property
    def usage(self) -> Usage | None:
        """The usage so far."""

    def add(self, event: SseEvent) -> None:
        """Add an event. Raises `StreamedError` for an error of the provider and `UnreadableAnswer` for a malformed event."""

    def body(self) -> bytes:
        """The whole answer."""


def add_events(draft: Draft, events: Iterable[SseEvent]) -> None:
    """Add events to a draft. Raises `StreamedError` and `UnreadableAnswer`, the latter also for events that are nested too deeply."""
    try:
        for event in events:
            draft.add(event)
    except RecursionError:
        raise UnreadableAnswer(_TOO_DEEP) from None


def draft_body(draft: Draft, most: int) -> bytes:
    """The body of a draft. Raises `UnreadableAnswer` if it cannot be encoded, and `AnswerTooLong` above `most` bytes."""
    try:
        body = draft.body()
    except RecursionError:
        raise UnreadableAnswer(_TOO_DEEP) from None
    if len(body) > most:
        raise AnswerTooLong(most)
    return body


class SseDraft:
    """A draft whose stream has server-sent events."""

    on_text: Callable[[str], None] | None = None

    def parser(self, longest: int) -> EventParser:
        """The parser of its stream."""
        return SseParser(longest)


class SseParser:
    """Parses bytes into events. Lines and events may arrive in any pieces. Raises `AnswerTooLong` for an event whose lines
    have more than `longest` bytes. Takes time in proportion to the bytes, however they are cut.
    """

    def __init__(self, longest: int = LONGEST_EVENT) -> None:
        self._longest = longest
        # Byte arrays, not lists of pieces: each piece would take 80 bytes more.
        self._line = bytearray()  # The incomplete line.
        self._name = b""
        self._data: bytes | bytearray | None = None
        self._data_size = 0  # Of the lines with the data.
        self._first = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that this chunk completes."""
        # A carriage return at the end may be half a line end: keep it for the next chunk.
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
        """The events that the end of the stream completes: the last one may lack its blank line."""
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
        """Add a line of the present event."""
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
    """The JSON object of an event."""
    try:
        value = decoded(event.data)
    except AnswerTooComplex:
        raise
    except ValueError:
        raise UnreadableAnswer("an event of the stream is not JSON") from None
    if not isinstance(value, dict):
        raise UnreadableAnswer("an event of the stream is not JSON object")
    return value
