"""Server-sent events: bytes in any pieces → events, and the JSON in them as providers really send it.

Owns the wire format, what an answer that grows event by event promises (`Draft`), and decoding that throws no good
answer away: half an emoji and a NaN are no valid JSON, and both are sent. Knows no provider and does no I/O.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from math import inf
from typing import Any, Final, Protocol

import msgspec

from headway.config.settings import MAX_ANSWER_BYTES
from headway.core.model import Usage

#: A whole response in one event (OpenAI's `response.completed`) with images in it has a few MB.
LONGEST_EVENT: Final = MAX_ANSWER_BYTES
DONE: Final = b"[DONE]"
#: JSON of up to so many bytes is decoded whatever is in it.
LIGHT: Final = 4_000_000
#: What JSON may take as Python objects: as many embeddings as the ceiling of an answer lets through take 240 MB.
HEAVY: Final = 300_000_000

_TOO_DEEP: Final = "an event of the stream is nested too deep"
_BOM: Final = b"\xef\xbb\xbf"


class Broken(Exception):
    """The stream is not what it should be. The text says why, without quoting it."""


class TooLong(Broken):
    """An answer, or one event of it, is longer than what is taken into memory. It was made, and perhaps paid for."""

    remedy = "raise max_answer_bytes of this provider to take it"

    def __init__(self, most: int, what: str = "the answer") -> None:
        super().__init__(f"{what} is longer than {size_words(most)}")


class TooMany(TooLong, ValueError):
    """An answer that has more parts or values than any model sends, and would take too much memory."""

    remedy = "check base_url"

    def __init__(self, most: str) -> None:
        Broken.__init__(self, f"the answer has more {most}, which no model sends")


def size_words(size: int) -> str:
    """A number of bytes for people: 64 MB, 1.5 MB, 200 bytes."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} bytes"


class Refused(Exception):
    """The provider reports an error in the stream; `body` is its own words."""

    def __init__(self, body: bytes) -> None:
        super().__init__("an error in the stream")
        self.body = body


class Event(msgspec.Struct, frozen=True, gc=False):
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

    def add(self, event: Event) -> None:
        """Take an event. Raises `Refused` for the provider's error and `Broken` for what makes no sense."""

    def body(self) -> bytes:
        """The whole answer."""


def add_to(draft: Draft, events: Iterable[Event]) -> None:
    """Add events to a draft. Raises `Refused` and `Broken`, the latter also for what is nested too deep to be walked."""
    try:
        for event in events:
            draft.add(event)
    except RecursionError:
        raise Broken(_TOO_DEEP) from None


def body_of(draft: Draft, most: int) -> bytes:
    """What a draft has come to. Raises `Broken` where that cannot be written, and `TooLong` above `most` bytes."""
    try:
        body = draft.body()
    except RecursionError:
        raise Broken(_TOO_DEEP) from None
    if len(body) > most:
        raise TooLong(most)
    return body


class Parser:
    """Bytes → events. A line, and all data of an event, may come in any pieces. Raises `TooLong` for an event whose lines
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

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes."""
        # A carriage return at the very end may be half a line end: it waits for the next chunk.
        cut = max(chunk.rfind(b"\n"), chunk.rfind(b"\r", 0, -1)) + 1
        events: list[Event] = []
        if cut:
            lines, chunk = chunk[:cut], chunk[cut:]
            if self._line:
                lines = bytes(self._line) + lines
                self._line = bytearray()
            self._take(lines, events)
        if chunk:
            self._line += chunk
            if self._data_size + len(self._line) > self._longest:
                raise TooLong(self._longest, "an event of the stream")
        return events

    def close(self) -> list[Event]:
        """The events that the end completes: the last one may lack its blank line."""
        events: list[Event] = []
        self._take(bytes(self._line), events)
        self._line = bytearray()
        self._dispatch(events)
        return events

    def _take(self, lines: bytes, events: list[Event]) -> None:
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
            raise TooLong(self._longest, "an event of the stream")

    def _dispatch(self, events: list[Event]) -> None:
        if self._data is not None:
            events.append(Event(self._name, bytes(self._data)))
            self._data = None
        self._name = b""
        self._data_size = 0


# -- JSON that is taken for granted nowhere -----------------------------------------------------------------------


def is_heavy(data: bytes, most: int | None = None) -> bool:
    """Whether JSON of this many lists, objects and values would take too much memory as Python objects.

    Sixty million bytes of "[]," are 1.4 GB of empty lists. The figures are what CPython takes for one of each. An object of
    up to five fields takes 240 bytes where their names are those of other objects, too; each further one takes 120 bytes.
    """
    if len(data) <= LIGHT:
        return False
    objects_in = data.count(b"{")
    further_fields = max(0, data.count(b'":') - 5 * objects_in)
    weight = 240 * objects_in + 120 * further_fields + 72 * data.count(b"[") + 40 * data.count(b",")
    return weight > (HEAVY if most is None else most)


def check_objects(data: bytes) -> None:
    """Raise `TooMany` for JSON of so many objects that a list of empty ones in their place would take too much memory."""
    if len(data) > LIGHT and 32 * data.count(b"{") > HEAVY:
        raise _too_heavy()


def _too_heavy() -> TooMany:
    return TooMany(f"values than fit into {size_words(HEAVY)} of memory")


def decoded(data: bytes) -> Any:
    """Decode, with NaN as null and lone surrogates as they are. Raises ValueError, and `TooMany` for what `is_heavy`."""
    if is_heavy(data):
        raise _too_heavy()
    try:
        return msgspec.json.decode(data)
    except ValueError:
        return _lenient(data)
    except RecursionError as deep:
        raise ValueError("nested too deep") from deep


def _lenient(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig", "replace"), parse_constant=_no_number)
    except RecursionError as deep:
        raise ValueError("nested too deep") from deep


def _no_number(_name: str) -> None:
    """NaN and infinities have no place in JSON."""
    return


def encoded(value: Any) -> bytes:
    """Encode. Halves of a character that came apart are joined again; one that stayed alone is replaced."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeError, OverflowError):  # The latter: an integer of more than 64 bits.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def event_object(event: Event) -> dict[str, Any]:
    """The JSON object that an event carries."""
    try:
        value = decoded(event.data)
    except TooMany:
        raise
    except ValueError:
        raise Broken("an event of the stream is no JSON") from None
    if not isinstance(value, dict):
        raise Broken("an event of the stream is no JSON object")
    return value


def mapping(value: Any) -> dict[str, Any]:
    """The value where it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def index_of(item: dict[str, Any]) -> int:
    """An item's place; 0 where it says none."""
    index = item.get("index")
    return index if type(index) is int else 0


def counts(usage: Any) -> dict[str, Any]:
    """The numbers of a usage object, and of the details that it has. One below 0 is infinite: that cannot be either."""
    sound: dict[str, Any] = {}
    for name, value in mapping(usage).items():
        if name.endswith("_details"):
            sound[name] = counts(value)
        elif type(value) in (int, float):
            sound[name] = value if 0 <= value <= sys.float_info.max else inf
    return sound
