"""JavaScript of an eval file: what a worker process does with it.

The worker keeps one node process, and gives it one call at a time. The pool sees only the worker: its deadline, its output and its
death hold for node, too, which is in the worker's process group. If node ends during a call, the call is a crash, and the next call
starts another node.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

import msgspec

from headway.core.model import Kind, Outcome
from headway.executors.code.code_call import CodeCall, decode_call
from headway.executors.work_result import Death
from headway.executors.worker_entry import Serve, UnitReply
from headway.executors.worker_protocol import ReplyNote
from headway.providers.error_messages import short_message

_RUNNER: Final = Path(__file__).with_name("run_javascript.cjs")
_CHUNK: Final = 65_536
#: Bytes of a reply besides its value: an error with its stack.
_SPARE: Final = 1_000_000
#: How long node may take to exit after its end of the socket closed.
_EXIT_S: Final = 2.0
NO_NODE: Final = "there is no program 'node', which runs JavaScript: install Node.js 20 or newer, or write the code in Python"


class NodeReply(msgspec.Struct, rename="camel"):
    """What node sends back."""

    number: int
    value: msgspec.Raw = msgspec.Raw(b"")
    error: str = ""
    stack: str = ""
    #: Why the code cannot be loaded.
    unusable: str = ""
    #: The size of a value that is larger than allowed.
    too_large: int = 0


class NodeEnded(Exception):
    """Node ended, or sent something that is no reply. `code` is its exit code."""

    def __init__(self, text: str, code: int | None = None) -> None:
        super().__init__(text)
        self.code = code


def serve_javascript(directory: str, most: int) -> Serve:
    """Serves code that works in `directory`. A value has at most `most` bytes."""
    os.chdir(directory)
    node = NodeProcess(most)

    def serve(payload: bytes) -> UnitReply:
        code = decode_call(payload)
        try:
            reply = node.call(code)
        except FileNotFoundError:
            return b"", ReplyNote(Outcome(Kind.AUTH, message=NO_NODE))
        except NodeEnded as error:
            return b"", ReplyNote(Outcome(Kind.CRASH, message=str(error)), code=error.code)
        return _reply(code, reply, most)

    return serve


class NodeProcess:
    """One node process. It is started with the first call, and again after it has ended."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None

    def call(self, code: CodeCall) -> NodeReply:
        """Run one call. Raises `NodeEnded`, or FileNotFoundError where there is no node."""
        link = self._link or self._start()
        number = next(self._numbers)
        line = msgspec.json.encode(
            {**msgspec.to_builtins(code), "arguments": code.arguments, "number": number}
        )
        try:
            link.sendall(line + b"\n")
            reply = self._read(link)
        except OSError:
            raise self._ended("node closed its connection") from None
        if reply.number != number:
            raise self._ended("node sent a reply to another call")
        return reply

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    ["node", str(_RUNNER), str(theirs.fileno()), str(self._most)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                )
            except OSError:
                ours.close()
                raise
        self._link = ours
        return ours

    def _read(self, link: socket.socket) -> NodeReply:
        buffer = bytearray()
        while not buffer.endswith(b"\n"):
            chunk = link.recv(_CHUNK)
            if not chunk:
                raise self._ended("node ended")
            buffer += chunk
            if len(buffer) > self._most + _SPARE:
                raise self._ended("node sent too much")
        try:
            return msgspec.json.decode(buffer, type=NodeReply)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise self._ended("node sent something that is no reply") from None

    def _ended(self, text: str) -> NodeEnded:
        """Forget this process, and say how it ended."""
        process, link = self._process, self._link
        self._process = self._link = None
        assert process is not None
        assert link is not None
        link.close()
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(_EXIT_S)
            return NodeEnded(f"{text}: {Death(code)}", code)
        process.kill()
        process.wait()
        return NodeEnded(text)


def _reply(code: CodeCall, reply: NodeReply, most: int) -> UnitReply:
    if reply.too_large:
        text = f"returned {reply.too_large:,} bytes of JSON; max_answer_bytes of this provider is {most:,}"
    elif reply.unusable:
        text = f"{code.place} cannot be used: {reply.unusable}"
    elif reply.error:
        text = _error_text(code, reply)
    else:
        return bytes(reply.value), None
    outcome = Outcome(Kind.INVALID, message=short_message(text))
    return b"", ReplyNote(outcome, trace=reply.stack)


def _error_text(code: CodeCall, reply: NodeReply) -> str:
    """The error, with the line of the file that it is from."""
    file = os.path.basename(code.file)
    if not file:
        return reply.error
    lines = [line for line in reply.stack.splitlines() if f"/{file}:" in line]
    place = lines[0].rpartition(f"/{file}:")[2].partition(":")[0] if lines else ""
    return f"{file}, line {place}: {reply.error}" if place.isdecimal() else f"{file}: {reply.error}"
