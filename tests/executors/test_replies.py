"""Whatever a worker sends, no reply is taken for another unit's, and its pool neither hangs nor raises.

Here a worker's process is a `sleep`, and the test sends the replies, so that they can be anything.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import os
import pickle
import socket
import subprocess
from collections.abc import Iterator
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.core.model import Outcome, Usage
from headway.executors import worker_process
from headway.executors.entry_point import EntryPoint
from headway.executors.process_pool import ProcessPool
from headway.executors.work_result import WorkResult, work_result_of
from headway.executors.worker_protocol import (
    ASK,
    LARGEST,
    PAGE,
    REPLY,
    SETUP,
    SIZE,
    STOP,
    BadReply,
    ReplyNote,
    ReplyReader,
    encode_message,
    read_usage,
    write_usage,
)

#: A unit whose worker says nothing ends after this; a test that lasts longer than the second has hung.
TIMEOUT_S, HUNG_S = 0.2, 30.0
UNITS = 4


class Piece(msgspec.Struct, frozen=True):
    """One thing that a worker sends: a reply that may be wrong in several ways, or any bytes.

    `number` and `pid` are added to the correct ones. `keep` cuts the end off, `copies` repeats it.
    """

    number: int = 0
    pid: int = 0
    note: bytes = b""
    longer: int = 0
    keep: int | None = None
    copies: int = 1
    raw: bytes | None = None


RIGHT = Piece()
pieces = st.one_of(
    st.just(RIGHT),
    st.builds(Piece, number=st.integers(-3, 3)),
    st.builds(Piece, pid=st.integers(-1, 1)),
    st.builds(
        Piece,
        number=st.sampled_from([0, 0, -1, 1, 2, -3]),
        pid=st.sampled_from([0, 0, 1, -1, 2**40]),
        note=st.one_of(
            st.just(b""), st.just(encode_message(ReplyNote(spoiled=True))), st.binary(max_size=20)
        ),
        longer=st.sampled_from([0, 0, 0, 1, LARGEST - 100]),
        keep=st.one_of(st.none(), st.integers(0, REPLY.size + 4)),
        copies=st.integers(1, 3),
    ),
    st.builds(Piece, raw=st.binary(max_size=2 * REPLY.size)),
)
#: What is sent when one unit is asked for; None hangs up.
answers = st.lists(st.one_of(pieces, pieces, pieces, st.none()), max_size=3)
#: The setup is answered rightly in most examples, so that units are reached.
scripts = st.tuples(st.one_of(st.just([RIGHT]), st.just([RIGHT]), answers), st.lists(answers, max_size=2))


#: What one worker sends: as its setup, and for each unit.
Script = tuple[list[Any], list[list[Any]]]


class Impostor:
    """Sends replies in place of one worker's process."""

    def __init__(self, script: Iterator[Script], values: dict[int, bytes]) -> None:
        default: Script = ([RIGHT], [])
        self._setup, units = next(script, default)
        self._left = iter(units)
        self._values = values
        self._buffer = bytearray()
        self._socket: socket.socket | None = None

    def start(self, command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        """Replaces `Popen`: the process is real, but its replies come from here."""
        self._socket = socket.socket(fileno=os.dup(how["pass_fds"][0]))
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket.fileno(), self._read)
        how["pass_fds"] = ()
        self._process = subprocess.Popen(["sleep", "60"], **how)
        return self._process

    def close(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _read(self) -> None:
        assert self._socket is not None
        try:
            chunk = self._socket.recv(65_536)
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
        self._buffer += chunk
        while len(self._buffer) >= ASK.size:
            number, length = ASK.unpack_from(self._buffer)
            payload = bytes(self._buffer[ASK.size : ASK.size + length])
            del self._buffer[: ASK.size + length]
            self._asked(number, payload)

    def _asked(self, number: int, payload: bytes) -> None:
        if number == STOP:
            self._process.terminate()
            return
        self._values[number] = SIZE.pack(1) if number == SETUP else payload
        for piece in self._setup if number == SETUP else next(self._left, [RIGHT]):
            if piece is None:
                self.close()
            elif self._socket is not None:
                self._send(self._socket, encoded(piece, number, self._process.pid, self._values))

    def _send(self, to: socket.socket, said: bytes) -> None:
        try:
            to.send(said)
        except OSError:  # It has ended.
            self.close()


def encoded(piece: Piece, number: int, pid: int, values: dict[int, bytes]) -> bytes:
    """The reply that a piece describes. Its value always belongs to the number in it."""
    if piece.raw is not None:
        return piece.raw
    number = (number + piece.number) % 2**64
    value = values.get(number, b"unknown")
    length = min(len(value) + piece.longer, LARGEST)
    frame = REPLY.pack(number, pid + piece.pid, length, len(piece.note), 1)
    return ((frame + value + piece.note)[: piece.keep]) * piece.copies


async def run_units(scripts: list[Script], size: int, timeout_s: float = TIMEOUT_S) -> list[WorkResult]:
    """Run units in a pool of impostor workers; the payload of each unit is its name."""
    loop, complaints = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))
    script, values, impostors = iter(scripts), dict[int, bytes](), list[Impostor]()

    def start(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        impostors.append(Impostor(script, values))
        return impostors[-1].start(command, **how)

    fake = mock.Mock(Popen=start, DEVNULL=subprocess.DEVNULL)
    with mock.patch.object(worker_process, "subprocess", fake):
        pool = ProcessPool(EntryPoint("nothing:nothing", pickle.dumps(())), size, start_s=timeout_s)
        try:
            async with asyncio.timeout(HUNG_S):
                result = await asyncio.gather(
                    *(pool.run(b"unit %d" % unit, timeout_s) for unit in range(UNITS))
                )
        finally:
            await pool.close()
            for impostor in impostors:
                impostor.close()
    assert complaints == []
    return result


@settings(max_examples=60)
@given(st.lists(scripts, max_size=4), st.integers(1, 2))
@example([([RIGHT], [[RIGHT], [Piece(number=-1)]])], 1)  # The reply to an earlier unit.
@example([([RIGHT], [[RIGHT, Piece(number=-1)], [RIGHT]])], 1)
@example([([RIGHT], [[Piece(pid=1), RIGHT]])], 1)  # A forked child replies first.
@example([([RIGHT], [[RIGHT, Piece(pid=1)]])], 1)  # Or after its parent.
@example([([RIGHT], [[RIGHT, Piece(number=1)]])], 1)  # A reply before its unit is sent.
@example([([RIGHT], [[Piece(note=b"\xc1")]])], 1)  # Not MessagePack.
@example([([RIGHT], [[Piece(longer=LARGEST - 100)]])], 1)
@example([([RIGHT, RIGHT], [])], 1)  # Ready twice.
@example([([Piece(raw=b"\0" * REPLY.size)], [])], 2)
def test_no_reply_is_taken_for_another_unit(scripts: list[Script], size: int) -> None:
    for unit, result in enumerate(asyncio.run(run_units(scripts, size))):
        if result.end == "value":
            assert result.value == b"unit %d" % unit
        else:
            assert result.outcome.kind is not None
            assert result.outcome.message


async def test_a_reply_that_does_not_match_kills_its_worker_with_a_reason() -> None:
    for piece, said in (
        (Piece(pid=1), "its worker died: a process that it forked replied in its place after"),
        (Piece(number=-1), "its worker died: it replied to a message that it was not sent after"),
        (Piece(note=b"\xc1"), "its worker died: it sent a damaged reply after"),
    ):
        # The units were never begun, so each goes to three workers before it fails.
        result = await run_units([([RIGHT], [[piece]])] * 3 * UNITS, 1, HUNG_S)
        assert [each.end for each in result] == ["crash"] * UNITS
        assert all(said in each.outcome.message for each in result)


# -- the reader alone -----------------------------------------------------------------------------------------------

PID = 77


@given(
    st.binary(max_size=200),
    st.one_of(st.none(), st.builds(ReplyNote, trace=st.text(max_size=20), spoiled=st.booleans())),
    st.integers(1, 50),
)
def test_a_correct_reply_is_read_in_pieces_of_any_size(
    value: bytes, note: ReplyNote | None, size: int
) -> None:
    replies = ReplyReader(PID)
    replies.expect(5)
    encoded_note = b"" if note is None else encode_message(note)
    said = REPLY.pack(5, PID, len(value), len(encoded_note), 9) + value + encoded_note
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    assert [replies.feed(piece) for piece in pieces] == [None] * (len(pieces) - 1) + [(5, value, note, 9)]
    replies.check()


@given(st.binary(min_size=1, max_size=300), st.integers(1, 100))
def test_other_bytes_are_refused_or_incomplete(said: bytes, size: int) -> None:
    replies = ReplyReader(PID)
    replies.expect(5)
    try:
        for at in range(0, len(said), size):
            assert replies.feed(said[at : at + size]) is None
            assert replies.wanted() <= 4_194_304
    except BadReply:
        return
    assert len(said) < REPLY.size or said.startswith(REPLY.pack(5, PID, 0, 0, 0)[:16])


def test_a_note_with_invalid_unicode_can_be_sent() -> None:
    note = ReplyNote(
        trace="a file named \udcff", messages=[{"role": "user", "content": 2**70}], error=b"\xff"
    )
    note.outcome = msgspec.structs.replace(note.outcome, message="\ud800", usage=Usage(1.0, 2.0))
    replies = ReplyReader(PID)
    replies.expect(1)
    encoded_note = encode_message(note)
    reply = replies.feed(REPLY.pack(1, PID, 0, len(encoded_note), 0) + encoded_note)
    assert reply is not None
    assert reply.note is not None
    assert reply.note.trace == "a file named ?"
    assert reply.note.messages == [{"role": "user", "content": str(2**70)}]
    assert (reply.note.error, reply.note.outcome.message) == (b"\xff", "?")
    assert reply.note.outcome.usage == Usage(1.0, 2.0)


def test_a_value_above_the_ceiling_is_refused_by_its_length() -> None:
    replies = ReplyReader(PID, 1000)
    replies.expect(1)
    assert replies.feed(REPLY.pack(1, PID, 1000, 0, 0)) is None
    replies = ReplyReader(PID, 1000)
    replies.expect(1)
    with pytest.raises(BadReply, match=r"1,001 bytes; max_answer_bytes is 1,000"):
        replies.feed(REPLY.pack(1, PID, 1001, 0, 0))


@pytest.mark.parametrize(
    "used",
    [
        Usage(1.0, 1.0, 0.0, -5.0),
        Usage(-1.0, 1.0),
        Usage(1.0, math.nan),
        Usage(1.0, 1.0, math.inf),
        Usage(1.0, 1.0, 0.0, math.inf),
        Usage(1.0, 1.0, 0.0, math.nan),
        Usage(1.0, 1.0, cache_write_tokens=-1.0),
    ],
)
def test_impossible_usage_is_dropped(used: Usage) -> None:
    outcome = work_result_of(b"1", ReplyNote(Outcome(message="kept", usage=used))).outcome
    assert (outcome.usage, outcome.message) == (None, "kept")


@pytest.mark.parametrize("used", [Usage(1.0, 1.0, 0.0, -5.0), Usage(math.nan, 1.0), Usage(1.0, 1.0, -1.0)])
def test_impossible_usage_of_a_dead_worker_is_dropped(used: Usage) -> None:
    with mmap.mmap(-1, PAGE) as page:
        write_usage(page, 7, used)
        assert read_usage(bytes(page), 7) is None
        write_usage(page, 7, Usage(1.0, 2.0, 0.0, 0.5))
        assert read_usage(bytes(page), 7) == Usage(1.0, 2.0, 0.0, 0.5)
