"""What crosses between a pool and its workers, and nothing else of either.

A unit goes in as a number and bytes; its value comes back as bytes, with a note beside it where there is more to say.
What the bytes mean is for the two ends of the pool's user: JSON for rows, pickles for `headway.map`.

The number names one submission: a pool never uses it again, so it tells the unit and the attempt. A reply repeats it and
adds the process that wrote it. `Replies` accepts the reply that its worker was asked for, and nothing else.
"""

from __future__ import annotations

import math
import mmap
import struct
from typing import Any, Final, NamedTuple

import msgspec

from headway.core.model import SUCCESS, Outcome, Usage

#: To a worker: the submission's number, the length of its payload.
ASK: Final = struct.Struct("<QI")
#: Back: the number, the process that wrote the reply, the lengths of value and note, the most memory that the process has
#: had so far in bytes.
REPLY: Final = struct.Struct("<QQIIQ")
#: Numbers that are no unit's.
SETUP: Final = 0
STOP: Final = 2**64 - 1
#: What fits into a frame's length.
LARGEST: Final = 2**32 - 1
#: One read; most units fit.
CHUNK: Final = 65_536
#: The longest read of a reply that did not come in one piece: a length in a frame reserves no memory.
MOST_READ: Final = 4_194_304

#: The page that both sides see: the number of the unit that was begun last. It tells whether a worker that died had
#: begun the unit that it was given.
PAGE: Final = 4096
BEGUN: Final = struct.Struct("<Q")
#: Behind it: whose usage this is, and input, output and cached tokens and the cost in USD (NaN: not told). A unit whose
#: worker dies has paid for what it told.
USED: Final = struct.Struct("<Qdddd")
#: With its setup's reply, in which the memory is what the kernel began to count with: what the process has now.
SIZE: Final = struct.Struct("<Q")


class WorkerSetup(msgspec.Struct):
    """What a worker needs to know before its first unit.

    `entry` names what makes the function that serves units ("package.module:name"), `given` its arguments, pickled.
    `main` is the script that the caller runs, where what is pickled may live in it.
    """

    entry: str
    arguments: bytes
    path: list[str]
    argv: list[str]
    main: tuple[str, str] | None = None


class ReplyNote(msgspec.Struct, omit_defaults=True):
    """What a worker says beside a unit's value."""

    outcome: Outcome = SUCCESS
    #: The exception itself, pickled, where that can be done; and how it came about, for people.
    error: bytes = b""
    trace: str = ""
    messages: list[Any] = []
    files: list[str] = []
    #: Where the outcome comes from, if it is a limit.
    source: str = ""
    #: Exit codes of programs that the exception reports on.
    exit_codes: list[int] = []
    #: The code that the unit wanted its process to exit with.
    code: int | None = None
    #: The process should not be used again.
    spoiled: bool = False


class WorkerReply(NamedTuple):
    """A worker's answer to what it was asked."""

    number: int
    value: bytes
    note: ReplyNote | None
    memory: int


class BadReply(Exception):
    """A worker sent bytes that are not the reply to what it was asked. Says why its worker is ended."""


class ReplyReader:
    """Turns the bytes that one worker sends into replies. It never accepts a reply that was not asked for.

    `expect` says what the worker was asked. Bytes that arrive while nothing is expected, another number, another process,
    a value of more than `most` bytes and a note that cannot be decoded raise `BadReply`. After that the worker's bytes mean
    nothing any more.
    """

    __slots__ = ("_buffer", "_expected", "_most", "_pid")

    def __init__(self, pid: int, most: int = LARGEST) -> None:
        self._pid, self._most = pid, most
        self._buffer = bytearray()
        self._expected: int | None = None

    def expect(self, number: int) -> None:
        """The worker was asked this."""
        self._expected = number

    def wanted(self) -> int:
        """How many bytes to read next."""
        if len(self._buffer) < REPLY.size:
            return CHUNK
        _, _, length, noted, _ = REPLY.unpack_from(self._buffer)
        missing: int = REPLY.size + length + noted - len(self._buffer)
        return max(CHUNK, min(missing, MOST_READ))

    def feed(self, chunk: bytes) -> WorkerReply | None:
        """The reply, once it is complete. Call `check` afterwards: more bytes may have come with it."""
        buffer = self._buffer
        buffer += chunk
        self.check()
        if len(buffer) < REPLY.size:
            return None
        number, pid, length, noted, memory = REPLY.unpack_from(buffer)
        if number != self._expected:
            raise BadReply("it sent a reply to something that it was not asked")
        if pid != self._pid:
            raise BadReply("a process that it forked answered in its place")
        if length > self._most:
            raise BadReply(f"it sent {length:,} bytes; max_answer_bytes is {self._most:,}")
        middle = REPLY.size + length
        end = middle + noted
        if len(buffer) < end:
            return None
        value = bytes(buffer[REPLY.size : middle])
        note = _read_note(buffer[middle:end]) if noted else None
        if number == SETUP and len(value) != SIZE.size:
            raise BadReply("it sent a damaged reply")
        del buffer[:end]
        self._expected = None
        return WorkerReply(number, value, note, memory)

    def check(self) -> None:
        """Raise if the worker has sent anything that it was not asked for."""
        if self._buffer and self._expected is None:
            raise BadReply("it sent a reply that it was not asked for")


def _read_note(encoded: bytearray) -> ReplyNote:
    try:
        return decode_note(encoded)
    except Exception as error:  # Bytes from outside: also a RecursionError.
        raise BadReply("it sent a damaged reply") from error


def keep_used(page: mmap.mmap, number: int, used: Usage) -> None:
    """Write down what a unit has used so far. Its number comes last: half a figure counts for nothing."""
    BEGUN.pack_into(page, BEGUN.size, STOP)
    cost_usd = math.nan if used.cost_usd is None else used.cost_usd
    values = (used.input_tokens, used.output_tokens, used.cached_input_tokens, cost_usd)
    USED.pack_into(page, BEGUN.size, STOP, *values)
    BEGUN.pack_into(page, BEGUN.size, number)


def kept_used(page: bytes, number: int) -> Usage | None:
    """What a unit told of itself, if it told anything."""
    whose, tokens_in, tokens_out, cached, cost_usd = USED.unpack_from(page, BEGUN.size)
    if whose != number:
        return None
    return checked_usage(Usage(tokens_in, tokens_out, cached, None if math.isnan(cost_usd) else cost_usd))


def checked_usage(used: Usage | None) -> Usage | None:
    """What a worker reports of its usage; None where a number is negative or not finite, which no call can have used."""
    if used is None:
        return None
    tokens = (used.input_tokens, used.output_tokens, used.cached_input_tokens, used.cache_write_tokens)
    return used if all(0.0 <= number < math.inf for number in (*tokens, used.cost_usd or 0.0)) else None


encode_setup: Final = msgspec.msgpack.Encoder().encode
decode_setup: Final = msgspec.msgpack.Decoder(WorkerSetup).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def encode_note(note: ReplyNote) -> bytes:
    """Never fails for what a unit may say: text that is not valid Unicode, numbers of any size."""
    try:
        return _encode(note)
    except (UnicodeEncodeError, OverflowError):
        return _encode(_made_sendable(msgspec.to_builtins(note, builtin_types=(bytes,))))


def _made_sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    if isinstance(value, list | tuple):
        return [_made_sendable(each) for each in value]
    if isinstance(value, dict):
        return {_made_sendable(name): _made_sendable(each) for name, each in value.items()}
    return value


decode_note: Final = msgspec.msgpack.Decoder(ReplyNote).decode
