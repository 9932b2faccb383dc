"""What crosses between a pool and its workers, and nothing else of either.

A unit goes in as a number and bytes; its value comes back as bytes, with a note beside it where there is more to say.
What the bytes mean is for the two ends of the pool's user: JSON for rows, pickles for `headway.map`.
"""

from __future__ import annotations

import math
import mmap
import struct
from typing import Any, Final

import msgspec

from headway.core.model import SUCCESS, Outcome, Usage

#: To a worker: the unit's number, the length of its payload.
ASK: Final = struct.Struct("<QI")
#: Back: the number, the lengths of value and note, the most memory that the process has had so far in bytes.
REPLY: Final = struct.Struct("<QIIQ")
#: Numbers that are no unit's.
SETUP: Final = 0
STOP: Final = 2**64 - 1
#: What fits into a frame's length.
LARGEST: Final = 2**32 - 1
#: One read; most units fit.
CHUNK: Final = 65_536

#: The page that both sides see: the number of the unit that was begun last. It tells whether a worker that died had
#: begun the unit that it was given.
PAGE: Final = 4096
BEGUN: Final = struct.Struct("<Q")
#: Behind it: whose usage this is, and input, output and cached tokens and the cost in USD (NaN: not told). A unit whose
#: worker dies has paid for what it told.
USED: Final = struct.Struct("<Qdddd")
#: With its setup's reply, in which the memory is what the kernel began to count with: what the process has now.
SIZE: Final = struct.Struct("<Q")


class Setup(msgspec.Struct):
    """What a worker needs to know before its first unit.

    `entry` names what makes the function that serves units ("package.module:name"), `given` its arguments, pickled.
    `main` is the script that the caller runs, where what is pickled may live in it.
    """

    entry: str
    given: bytes
    path: list[str]
    argv: list[str]
    main: tuple[str, str] | None = None


class Note(msgspec.Struct, omit_defaults=True):
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


def keep_used(page: mmap.mmap, number: int, used: Usage) -> None:
    """Write down what a unit has used so far. Its number comes last: half a figure counts for nothing."""
    BEGUN.pack_into(page, BEGUN.size, STOP)
    cost_usd = math.nan if used.cost_usd is None else used.cost_usd
    values = (used.input_tokens, used.output_tokens, used.cached_input_tokens, cost_usd)
    USED.pack_into(page, BEGUN.size, STOP, *values)
    BEGUN.pack_into(page, BEGUN.size, number)


def kept_used(page: mmap.mmap, number: int) -> Usage | None:
    """What a unit told of itself, if it told anything."""
    whose, tokens_in, tokens_out, cached, cost_usd = USED.unpack_from(page, BEGUN.size)
    if whose != number:
        return None
    return Usage(tokens_in, tokens_out, cached, None if math.isnan(cost_usd) else cost_usd)


encode_setup: Final = msgspec.msgpack.Encoder().encode
decode_setup: Final = msgspec.msgpack.Decoder(Setup).decode
encode_note: Final = msgspec.msgpack.Encoder().encode
decode_note: Final = msgspec.msgpack.Decoder(Note).decode
