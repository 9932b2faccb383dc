"""What workers of the tests do. A unit is JSON: `{"do": NAME, …}`; the worker imports this file by its name."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.core.model import Kind, Outcome
from headway.executors.frames import Note

Served = tuple[bytes, Note | None]


def serve(*, broken: bool = False) -> Callable[[bytes], Served]:
    """The entry of the pool."""

    def one(payload: bytes) -> Served:
        asked: dict[str, Any] = json.loads(payload)
        value = globals()[f"do_{asked.pop('do')}"](**asked)
        return (value, None) if isinstance(value, bytes) else (json.dumps(value).encode(), None)

    return one


def cannot() -> Callable[[bytes], Served]:
    raise ImportError("no module named 'nowhere'")


def dies_at_start() -> Callable[[bytes], Served]:
    sys.stderr.write("the licence is missing\n")
    os._exit(7)


def notes() -> Callable[[bytes], Served]:
    return lambda payload: (b"", Note(Outcome(Kind.RATE, message=payload.decode()), spoiled=True))


def do_pid() -> int:
    return os.getpid()


def do_echo(value: Any = None, seconds: float = 0.0, log: str = "") -> Any:
    if log:
        note(log, str(value))
    time.sleep(seconds)
    return value


def note(path: str, line: str) -> None:
    """One line, whole, however many processes write."""
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode() + b"\n")


def do_big(size: int) -> bytes:
    return b"x" * size


def do_exit(code: int) -> None:
    sys.stderr.write("last words\n")
    os._exit(code)


def do_leave(code: int) -> None:
    sys.exit(code)


def do_kill(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def do_segfault() -> None:
    ctypes.string_at(0)


def do_close_pipe() -> None:
    os.closerange(3, 256)
    time.sleep(60)


def do_raise() -> None:
    raise ValueError("not like this")


def do_sleep(seconds: float) -> None:
    time.sleep(seconds)


def do_stubborn(ready: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Path(ready).write_text(str(os.getpid()))
    while True:
        time.sleep(60)


def do_children(file: str, how: str = "return") -> int:
    """Leaves a forked child and a started one behind, both of which would live for a minute."""
    forked = os.fork()
    if not forked:
        time.sleep(60)
        os._exit(0)
    started = subprocess.Popen(["sleep", "60"])
    Path(file).write_text(f"{os.getpid()} {forked} {started.pid}")
    started.returncode = 0  # Not to be complained of.
    if how == "die":
        os._exit(1)
    if how == "hold":  # The interpreter's lock, so that no thread of ours gets a turn.
        ctypes.PyDLL(None).sleep(60)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    return 0


def do_print(megabytes: int) -> int:
    sys.stdout.write("the first line\n")
    for _ in range(megabytes):
        os.write(1, b"y" * 1_000_000)
    sys.stdout.write("the last line\n")
    return megabytes


def do_speak() -> None:
    """As Python and as C, to both streams; C keeps what it says in a buffer of its own."""
    libc = ctypes.CDLL(None)
    libc.printf(b"out of C\n")
    sys.stdout.write("out of Python\n")
    sys.stderr.write("err of Python\n")
    os.write(2, b"err of C\n")


def do_grow(megabytes: int) -> int:
    return len(bytearray(megabytes * 1_000_000))


def do_exhaust() -> int:
    """Memory ends at a limit that the kernel keeps."""
    import resource

    limit = 400_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    hoard = []
    while True:
        hoard.append(bytearray(20_000_000))


def do_oom() -> None:
    """As the kernel's killer does it: much memory, then SIGKILL."""
    hoard = bytearray(150_000_000)
    for at in range(0, len(hoard), 4096):
        hoard[at] = 1
    os.kill(os.getpid(), signal.SIGKILL)
