"""The messages between a pool and its workers.

A unit is sent as a number and bytes. Its value comes back as bytes, with an optional note. The pool does not read the
bytes: they are JSON for rows and pickles for `headway.map`.

The number names one submission and is never used again, so it identifies the unit and the attempt. A reply repeats the number
and adds the process that wrote it. `ReplyReader` accepts the reply that is expected, and nothing else.
"""

from __future__ import annotations

import math
import mmap
import struct
from typing import Any, Final, NamedTuple

import msgspec

from headway.core.model import SUCCESS, Outcome, Usage

#: To a worker: the number of the submission, the length of its payload.
ASK: Final = struct.Struct("<QI")
#: Back: the number, the process that wrote the reply, the lengths of value and note, the peak memory of the process in bytes.
REPLY: Final = struct.Struct("<QQIIQ")
#: Numbers that no unit has.
SETUP: Final = 0
STOP: Final = 2**64 - 1
#: The largest length that a message can have.
LARGEST: Final = 2**32 - 1
#: The size of one read; most units fit.
CHUNK: Final = 65_536
#: The longest read of a reply that came in pieces: a length in a message must not reserve memory.
MOST_READ: Final = 4_194_304

#: The page that both sides see. It begins with the number of the unit that was begun last: it tells whether a worker that
#: died had begun its unit.
PAGE: Final = 4096
BEGUN: Final = struct.Struct("<Q")
#: After it: the number of a unit and its usage so far, as input, output and cached tokens and the cost in USD (NaN:
#: unknown). If the worker dies, this usage was paid.
USED: Final = struct.Struct("<Qdddd")
#: The value of the reply to the setup: the memory of the process now. The memory in that reply's header is the figure with
#: which the kernel began to count.
SIZE: Final = struct.Struct("<Q")


class WorkerSetup(msgspec.Struct):
    """What a worker needs before its first unit.

    `entry` names the function that makes the function which serves units ("package.module:name"), `arguments` are its pickled
    arguments. `main` is the caller's script, if what is pickled may be defined in it.
    """

    entry: str
    arguments: bytes
    path: list[str]
    argv: list[str]
    main: tuple[str, str] | None = None


class ReplyNote(msgspec.Struct, omit_defaults=True):
    """What a worker reports in addition to a unit's value."""

    outcome: Outcome = SUCCESS
    #: The exception, pickled if possible, and its traceback.
    error: bytes = b""
    trace: str = ""
    messages: list[Any] = []
    files: list[str] = []
    #: Where a rate limit was found; "" if the outcome is none.
    source: str = ""
    #: Exit codes of programs that the exception names.
    exit_codes: list[int] = []
    #: The code that the unit wanted its process to exit with.
    code: int | None = None
    #: The process should not be used again.
    spoiled: bool = False


class WorkerReply(NamedTuple):
    """A worker's reply to one message. `memory` is the peak of its process in bytes."""

    number: int
    value: bytes
    note: ReplyNote | None
    memory: int


class BadReply(Exception):
    """A worker sent bytes that are not the expected reply. The message says why the worker is killed."""


class ReplyReader:
    """Turns the bytes of one worker into replies. It never accepts a reply that is not expected.

    `expect` sets the number of the next reply. Bytes that come while none is expected, another number, another process,
    a value of more than `most` bytes and a note that cannot be decoded raise `BadReply`. After that no byte of the worker
    counts.
    """

    __slots__ = ("_buffer", "_expected", "_most", "_pid")

    def __init__(self, pid: int, most: int = LARGEST) -> None:
        self._pid, self._most = pid, most
        self._buffer = bytearray()
        self._expected: int | None = None

    def expect(self, number: int) -> None:
        """The next reply must have this number."""
        self._expected = number

    def wanted(self) -> int:
        """How many bytes to read next."""
        if len(self._buffer) < REPLY.size:
            return CHUNK
        _, _, length, note_length, _ = REPLY.unpack_from(self._buffer)
        missing: int = REPLY.size + length + note_length - len(self._buffer)
        return max(CHUNK, min(missing, MOST_READ))

    def feed(self, chunk: bytes) -> WorkerReply | None:
        """The reply once it is complete, otherwise None. Call `check` afterwards: more bytes may have come with it."""
        buffer = self._buffer
        buffer += chunk
        self.check()
        if len(buffer) < REPLY.size:
            return None
        number, pid, length, note_length, memory = REPLY.unpack_from(buffer)
        if number != self._expected:
            raise BadReply("it replied to a message that it was not sent")
        if pid != self._pid:
            raise BadReply("a process that it forked replied in its place")
        if length > self._most:
            raise BadReply(f"it sent {length:,} bytes; max_answer_bytes is {self._most:,}")
        middle = REPLY.size + length
        end = middle + note_length
        if len(buffer) < end:
            return None
        value = bytes(buffer[REPLY.size : middle])
        note = _read_note(buffer[middle:end]) if note_length else None
        if number == SETUP and len(value) != SIZE.size:
            raise BadReply("it sent a damaged reply")
        del buffer[:end]
        self._expected = None
        return WorkerReply(number, value, note, memory)

    def check(self) -> None:
        """Raise if the worker has sent anything that is not expected."""
        if self._buffer and self._expected is None:
            raise BadReply("it sent an unexpected reply")


def _read_note(encoded: bytearray) -> ReplyNote:
    try:
        return decode_note(encoded)
    except Exception as error:  # The bytes may be anything: a RecursionError is possible.
        raise BadReply("it sent a damaged reply") from error


def write_usage(page: mmap.mmap, number: int, used: Usage) -> None:
    """Write a unit's usage so far into the page. The number is written last: an unfinished write does not count."""
    BEGUN.pack_into(page, BEGUN.size, STOP)
    cost_usd = math.nan if used.cost_usd is None else used.cost_usd
    values = (used.input_tokens, used.output_tokens, used.cached_input_tokens, cost_usd)
    USED.pack_into(page, BEGUN.size, STOP, *values)
    BEGUN.pack_into(page, BEGUN.size, number)


def read_usage(page: bytes, number: int) -> Usage | None:
    """The usage that a unit has written into the page; None if it has written none."""
    unit, tokens_in, tokens_out, cached, cost_usd = USED.unpack_from(page, BEGUN.size)
    if unit != number:
        return None
    return checked_usage(Usage(tokens_in, tokens_out, cached, None if math.isnan(cost_usd) else cost_usd))


def checked_usage(used: Usage | None) -> Usage | None:
    """A worker's reported usage; None if a number in it is negative or not finite."""
    if used is None:
        return None
    tokens = (used.input_tokens, used.output_tokens, used.cached_input_tokens, used.cache_write_tokens)
    return used if all(0.0 <= number < math.inf for number in (*tokens, used.cost_usd or 0.0)) else None


encode_setup: Final = msgspec.msgpack.Encoder().encode
decode_setup: Final = msgspec.msgpack.Decoder(WorkerSetup).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_message(message: Any) -> bytes:
    """As MessagePack. Never fails: text that is not valid Unicode and numbers of any size are converted."""
    try:
        return _encode(message)
    except (UnicodeEncodeError, OverflowError):
        return _encode(_encodable(msgspec.to_builtins(message, builtin_types=(bytes,))))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    if isinstance(value, dict):
        return {_encodable(name): _encodable(each) for name, each in value.items()}
    return value


decode_note: Final = msgspec.msgpack.Decoder(ReplyNote).decode
