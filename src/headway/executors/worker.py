"""The program that a worker process runs: units in, values out, until it is told to stop or its owner is gone.

Nothing that a unit does leaves this loop as an exception. What cannot be caught, a death, is seen from outside. It is
in a process group of its own, and takes that with it when its owner goes: the kernel kills it (Linux), a thread that
watches the lifeline kills the group, and a guardian does the same from outside for those that can do neither.
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
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from headway.core.model import Kind, Outcome, Usage
from headway.executors.frames import (
    ASK,
    BEGUN,
    CHUNK,
    LARGEST,
    PAGE,
    REPLY,
    SETUP,
    SIZE,
    STOP,
    Note,
    Setup,
    decode_setup,
    encode_note,
    keep_used,
)
from headway.executors.kin import end_kin, own_mark
from headway.providers.messages import said

#: What serves a unit: its payload → its value, and a note where there is more to say.
Serve = Callable[[bytes], tuple[bytes, Note | None]]

_SET_PARENT_DEATH_SIGNAL: Final = 1
#: getrusage counts in kilobytes, but for macOS.
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024
#: Given back when memory runs out, so that this can be said.
_RESERVE: Final = 1_000_000

#: Whether this process is a worker that is not ready yet: while it imports the caller's script it must start none itself.
setting_up = False
#: What its owner sees of this process, if it is a worker.
_shown: mmap.mmap | None = None


def spent(used: Usage) -> None:
    """Show what the running unit has used so far: should this process die, its owner knows what was paid for."""
    if _shown is not None:
        keep_used(_shown, BEGUN.unpack_from(_shown)[0], used)


def main(link: int, page: int, lifeline: int, owner: int) -> None:
    """Serve. The arguments are descriptors, and the owner's process number."""
    global _shown  # noqa: PLW0603 - a process serves once
    libc = _die_with(owner)
    threading.Thread(target=_watch, args=(lifeline,), name="headway-lifeline", daemon=True).start()
    with suppress(Exception):  # Where standard error is no file.
        faulthandler.enable()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it is a TextIOWrapper
    with socket.socket(fileno=link) as channel:
        asked = _asked(channel)
        number, payload = next(asked, (STOP, b""))
        if number != SETUP:
            return
        serve, note = _set_up(payload)
        memory = _Memory()
        _answer(channel, SETUP, SIZE.pack(memory.peak()), note, memory.floor)
        if serve is not None:
            _shown = mmap.mmap(page, PAGE)
            _serve(channel, asked, serve, _shown, memory, libc)


def _serve(
    channel: socket.socket,
    asked: Iterator[tuple[int, bytes]],
    serve: Serve,
    begun: mmap.mmap,
    memory: _Memory,
    libc: Any,
) -> None:
    reserve: bytes | None = bytes(_RESERVE)
    mark = own_mark()
    for number, payload in asked:
        if number == STOP:
            end_kin(mark, below=os.getpid())
            return
        BEGUN.pack_into(begun, 0, number)
        note: Note | None
        try:
            value, note = serve(payload)
        except BaseException as error:
            reserve = None
            # What is raised here was not meant to be: whoever serves says how it went.
            value, note = b"", _broken(error)
        if len(value) > LARGEST:
            text = f"returned {len(value) / 1e9:.1f} GB, more than can be passed on"
            value, note = b"", Note(Outcome(Kind.INVALID, message=text))
        _flush(libc)
        _answer(channel, number, value, note, memory.peak())
        if reserve is None:
            reserve = bytes(_RESERVE)


def _broken(error: BaseException) -> Note:
    return Note(Outcome(Kind.CRASH, message=fault(error)), spoiled=True)


def fault(error: BaseException) -> str:
    """What is said of an exception after which a process is not used again."""
    text = said(error)
    return f"out of memory: {text}" if isinstance(error, MemoryError) else text


def _set_up(payload: bytes) -> tuple[Serve | None, Note | None]:
    """What serves units, or why there is nothing."""
    global setting_up  # noqa: PLW0603 - a process is set up once
    setting_up = True
    try:
        setup = decode_setup(payload)
        sys.path[:] = setup.path
        sys.argv[:] = setup.argv
        _import_main(setup)
        module, _, name = setup.entry.partition(":")
        make = getattr(import_module(module), name)
        serve: Serve = make(*pickle.loads(setup.given))
    except BaseException as error:
        import traceback

        note = _broken(error)
        note.trace = traceback.format_exc()
        return None, note
    finally:
        setting_up = False
    return serve, None


def _import_main(setup: Setup) -> None:
    """The caller's script, under the name that multiprocessing gives it: `if __name__ == "__main__"` stays out."""
    if setup.main is None:
        return
    from multiprocessing.spawn import prepare

    how, what = setup.main
    prepare({f"init_main_from_{how}": what})


# -- the pipe -----------------------------------------------------------------------------------------------------


def _asked(channel: socket.socket) -> Iterator[tuple[int, bytes]]:
    """Units as they come, until the owner has closed its end."""
    buffer = bytearray()
    while True:
        while len(buffer) < ASK.size:
            chunk = channel.recv(CHUNK)
            if not chunk:
                return
            buffer += chunk
        number, length = ASK.unpack_from(buffer)
        end = ASK.size + length
        while len(buffer) < end:
            chunk = channel.recv(max(CHUNK, end - len(buffer)))
            if not chunk:
                return
            buffer += chunk
        payload = bytes(buffer[ASK.size : end])
        del buffer[:end]
        yield number, payload


def _answer(channel: socket.socket, number: int, value: bytes, note: Note | None, memory: int) -> None:
    said = b"" if note is None else encode_note(note)
    channel.sendall(REPLY.pack(number, len(value), len(said), memory) + value + said)


def _flush(libc: Any) -> None:
    """What Python and C have in their buffers belongs to the unit that ends."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    if libc is not None:
        libc.fflush(None)


# -- memory, and the end -------------------------------------------------------------------------------------------


class _Memory:
    """The most memory that this process has had.

    The kernel's figure begins with what its parent had when it started us; until we have had more than that, what we
    have now is the best that is known.
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
        told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        if told > self.floor or self._statm < 0:
            return told
        with suppress(OSError, IndexError, ValueError):  # A unit may have closed it.
            pages = int(os.pread(self._statm, 64, 0).split()[1])
            self._most = max(self._most, pages * mmap.PAGESIZE)
        return self._most


def _die_with(owner: int) -> Any:
    """Let the kernel kill this process when its owner dies (Linux); returns the C library."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        if sys.platform == "linux":
            libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        libc = None
    if os.getppid() != owner:
        os._exit(1)  # It was gone before we could ask.
    return libc


def _watch(lifeline: int) -> None:
    """Wait until the owner's end of the lifeline closes, then end this group, children and all."""
    poll = select.poll()
    poll.register(lifeline, 0)  # Only its end is of interest.
    while not poll.poll():
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
