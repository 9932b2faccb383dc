"""The program of a worker process: receives units and replies with their values until it must stop or its owner is gone.

No exception of a unit leaves this loop. What cannot be caught, the death of the process, is noticed by the owner. A
worker has a process group of its own, which must end with the owner: the kernel kills the worker (Linux), a thread that watches
the lifeline kills the group, and the guardian kills it from outside if neither works.

Only the process that was started as a worker may reply. A process that a unit forks has no pipe, and exits when the
unit's function returns in it.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import pickle
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib import import_module
from typing import Any, Final

from headway.core.model import Kind, Outcome, Usage
from headway.executors.process_state import ProcessState
from headway.executors.process_tree import kill_tree, own_mark
from headway.executors.unit_trace import take_trace
from headway.executors.worker_protocol import (
    ASK,
    BEGUN,
    CHUNK,
    LARGEST,
    PAGE,
    REPLY,
    SETUP,
    SIZE,
    STOP,
    ReplyNote,
    WorkerSetup,
    decode_setup,
    encode_message,
    write_usage,
)
from headway.providers.error_messages import describe_exception

#: Serves a unit: its payload → its value and an optional note.
Serve = Callable[[bytes], tuple[bytes, ReplyNote | None]]

_SET_PARENT_DEATH_SIGNAL: Final = 1
#: getrusage counts in kilobytes, on macOS in bytes.
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
#: Bytes that are freed when memory runs out, so that the failure can be reported.
_RESERVE: Final = 1_000_000

#: Whether this process is a worker that is not ready yet. While it imports the caller's script it must not start workers.
setting_up = False
#: The page that the owner reads, if this process is a worker.
_page: _Page | None = None


class _Page:
    """The page that the owner reads after this process has died."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, PAGE)
        os.close(descriptor)
        self._pid = os.getpid()
        #: Threads of earlier units may still run. A signal handler may call `write_usage` within `write_usage`.
        self._lock = threading.RLock()
        self.running = SETUP

    def begin(self, number: int) -> None:
        """The unit with this number begins."""
        self.running = number
        BEGUN.pack_into(self._map, 0, number)

    def write_usage(self, number: int, used: Usage) -> None:
        """Write a unit's usage, if this unit runs and this process is the worker."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if number == self.running:
                write_usage(self._map, number, used)


def running_unit() -> int:
    """The number of the unit that runs in this process; 0 if this process is not a worker."""
    return SETUP if _page is None else _page.running


def publish_usage(number: int, used: Usage) -> None:
    """Make a unit's usage so far visible to the owner: if this process dies, the owner knows what was paid.

    It counts only while this unit runs: threads and processes that an earlier unit left behind cannot add to it.
    """
    if _page is not None:
        _page.write_usage(number, used)


def main(link: int, page: int, lifeline: int, owner: int) -> None:
    """Serve units. The arguments are three file descriptors and the owner's process number."""
    global _page  # noqa: PLW0603 - a process serves once
    libc = _die_with(owner)
    for descriptor in (link, page, lifeline):
        os.set_inheritable(descriptor, False)  # Only this program may have them, not its children.
    threading.Thread(target=_watch, args=(lifeline,), name="headway-lifeline", daemon=True).start()
    with suppress(Exception):  # Standard error may be no file.
        faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a TextIOWrapper
    with closing(_Channel(link)) as channel:
        messages = channel.messages()
        number, payload = next(messages, (STOP, b""))
        if number != SETUP:
            return
        serve, note = _set_up(payload)
        channel.end_if_forked(note)
        memory = _Memory()
        channel.answer(SETUP, SIZE.pack(memory.peak()), note, memory.floor)
        if serve is not None:
            _page = _Page(page)
            _serve(channel, messages, serve, _page, memory, libc)


def _serve(
    channel: _Channel,
    messages: Iterator[tuple[int, bytes]],
    serve: Serve,
    page: _Page,
    memory: _Memory,
    libc: Any,
) -> None:
    reserve: bytes | None = bytes(_RESERVE)
    mark = own_mark()
    state = ProcessState()
    for number, payload in messages:
        if number == STOP:
            kill_tree(mark, below=os.getpid())
            return
        page.begin(number)
        note: ReplyNote | None
        try:
            value, note = serve(take_trace(payload))
        except BaseException as error:
            reserve = None
            # `serve` catches what a unit raises, so this process is broken.
            value, note = b"", _broken(error)
        channel.end_if_forked(note)
        if len(value) > LARGEST:
            text = f"returned {len(value) / 1e9:.1f} GB, more than a worker can send"
            value, note = b"", ReplyNote(Outcome(Kind.INVALID, message=text))
        _flush(libc)
        if state.is_spoiled():
            note = ReplyNote() if note is None else note
            note.spoiled = True
        channel.answer(number, value, note, memory.peak())
        if reserve is None:
            reserve = bytes(_RESERVE)


def _broken(error: BaseException) -> ReplyNote:
    return ReplyNote(Outcome(Kind.CRASH, message=fault(error)), spoiled=True)


def fault(error: BaseException) -> str:
    """The message for an exception after which a process is not used again."""
    text = describe_exception(error)
    return f"out of memory: {text}" if isinstance(error, MemoryError) else text


def _set_up(payload: bytes) -> tuple[Serve | None, ReplyNote | None]:
    """The function that serves units, or a note that says why there is none."""
    global setting_up  # noqa: PLW0603 - a process is set up once
    setting_up = True
    try:
        setup = decode_setup(payload)
        module, _, name = setup.entry.partition(":")
        if module.startswith("headway."):
            # Before the caller's folders are on the path: the standard library tries to import modules of other systems,
            # such as `msvcrt`, and would run a file of that name beside headway.toml.
            import_module(module)
        sys.path[:] = setup.path
        sys.argv[:] = setup.argv
        _import_main(setup)
        make = getattr(import_module(module), name)
        serve: Serve = make(*pickle.loads(setup.arguments))
    except BaseException as error:
        import traceback

        note = _broken(error)
        note.trace = traceback.format_exc()
        return None, note
    finally:
        setting_up = False
    return serve, None


def _import_main(setup: WorkerSetup) -> None:
    """Import the caller's script under the name that multiprocessing gives it: code below `if __name__ == "__main__"` is not run."""
    if setup.main is None:
        return
    from multiprocessing.spawn import prepare

    how, what = setup.main
    prepare({f"init_main_from_{how}": what})


# -- the pipe -----------------------------------------------------------------------------------------------------


class _Channel:
    """This end of the pipe. Only the process that opened it can use it.

    A fork by Python closes it in the child. A fork by other code is noticed by the process number.
    """

    def __init__(self, link: int) -> None:
        self._link = link
        self._socket = socket.socket(fileno=link)
        self._pid = os.getpid()
        self._identity = _identity(link)
        os.register_at_fork(after_in_child=self.close)

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Numbers and payloads as they come, until the owner closes its end."""
        buffer = bytearray()
        while True:
            while len(buffer) < ASK.size:
                chunk = self._socket.recv(CHUNK)
                if not chunk:
                    return
                buffer += chunk
            number, length = ASK.unpack_from(buffer)
            end = ASK.size + length
            while len(buffer) < end:
                chunk = self._socket.recv(max(CHUNK, end - len(buffer)))
                if not chunk:
                    return
                buffer += chunk
            payload = bytes(buffer[ASK.size : end])
            del buffer[:end]
            yield number, payload

    def answer(self, number: int, value: bytes, note: ReplyNote | None, memory: int) -> None:
        """Send a unit's value and note."""
        encoded = b"" if note is None else encode_message(note)
        if not self._is_open():
            raise OSError("the unit closed the pipe to Headway, or opened another file in its place")
        frame = REPLY.pack(number, os.getpid(), len(value), len(encoded), memory)
        self._socket.sendall(frame + value + encoded)

    def end_if_forked(self, note: ReplyNote | None) -> None:
        """If this is a forked child in which the unit's function returned, exit as a script would.

        The exit code is that of the function. Exit handlers and output buffers belong to the parent and are left alone.
        """
        if os.getpid() == self._pid:
            return
        code = 0
        if note is not None and note.outcome.kind is not None:
            code = 1 if note.code is None else note.code
            text = note.trace or f"{note.outcome.message}\n"
            with suppress(OSError):
                os.write(2, text.encode("utf-8", errors="replace"))
        os._exit(code & 0xFF)

    def close(self) -> None:
        """Close it, unless the unit has closed it and the descriptor is another file now."""
        if self._is_open():
            self._socket.close()

    def _is_open(self) -> bool:
        try:
            return _identity(self._link) == self._identity
        except OSError:
            return False


def _identity(descriptor: int) -> tuple[int, int]:
    """What distinguishes an open file from every other."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _flush(libc: Any) -> None:
    """Flush the buffers of Python and C: their content belongs to the unit that ends."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    if libc is not None:
        libc.fflush(None)


# -- memory, and the end -------------------------------------------------------------------------------------------


class _Memory:
    """The peak memory of this process.

    The kernel's figure begins with the parent's memory at the start of this process. Until the process has used more than
    that, the largest figure of /proc is taken.
    """

    def __init__(self) -> None:
        self.floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        self._most = 0
        try:
            self._statm = os.open("/proc/self/statm", os.O_RDONLY)
        except OSError:
            self._statm = -1

    def peak(self) -> int:
        """In bytes."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        if peak > self.floor or self._statm < 0:
            return peak
        with suppress(OSError, IndexError, ValueError):  # A unit may have closed it.
            pages = int(os.pread(self._statm, 64, 0).split()[1])
            self._most = max(self._most, pages * mmap.PAGESIZE)
        return self._most


def _die_with(owner: int) -> Any:
    """Let the kernel kill this process when its owner dies (Linux). Returns the C library."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        if sys.platform == "linux":
            libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        libc = None
    if os.getppid() != owner:
        os._exit(1)  # The owner was gone before.
    return libc


def _watch(lifeline: int) -> None:
    """Wait until the owner's end of the lifeline closes, then kill this process group."""
    poll = select.poll()
    poll.register(lifeline, 0)  # Only the closing is reported.
    while not poll.poll():
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
