"""The functions that the tests' workers call. A unit is JSON: `{"do": NAME, …}`; the worker imports this file by its name."""

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

from headway.core.model import Kind, Outcome, Usage
from headway.executors.worker_main import publish_usage, running_unit
from headway.executors.worker_protocol import ReplyNote

Served = tuple[bytes, ReplyNote | None]


def serve(*, broken: bool = False) -> Callable[[bytes], Served]:
    """The entry point of the pool."""

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
    return lambda payload: (b"", ReplyNote(Outcome(Kind.RATE, message=payload.decode()), spoiled=True))


def do_pid() -> int:
    return os.getpid()


def do_echo(value: Any = None, seconds: float = 0.0, log: str = "") -> Any:
    if log:
        note(log, str(value))
    time.sleep(seconds)
    return value


def note(path: str, line: str) -> None:
    """Write one whole line, even if several processes write."""
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
    """Leaves behind a forked child and a started program, which would both live for a minute."""
    forked = os.fork()
    if not forked:
        time.sleep(60)
        os._exit(0)
    started = subprocess.Popen(["sleep", "60"])
    Path(file).write_text(f"{os.getpid()} {forked} {started.pid}")
    started.returncode = 0  # So that Popen does not warn.
    if how == "die":
        os._exit(1)
    if how == "hold":  # Holds the interpreter's lock, so that no other thread runs.
        ctypes.PyDLL(None).sleep(60)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    return 0


def do_strays(file: str, how: str = "return") -> int:
    """Leaves behind three processes outside its group: one with an environment, a daemon, one without an environment."""
    plain = subprocess.Popen(["sleep", "60"], start_new_session=True)
    bare = subprocess.Popen(["sleep", "60"], start_new_session=True, env={})
    reading, writing = os.pipe()
    if not os.fork():
        os.setsid()
        daemon = os.fork()
        if daemon:
            os.write(writing, str(daemon).encode())
            os._exit(0)
        time.sleep(60)
        os._exit(0)
    os.wait()
    daemon = int(os.read(reading, 20))
    plain.returncode = bare.returncode = 0  # So that Popen does not warn.
    Path(file).write_text(f"{plain.pid} {daemon} {bare.pid}")
    if how == "die":
        os._exit(1)
    if how == "hold":
        ctypes.PyDLL(None).sleep(60)
    return 0


def do_print(megabytes: int) -> int:
    sys.stdout.write("the first line\n")
    for _ in range(megabytes):
        os.write(1, b"y" * 1_000_000)
    sys.stdout.write("the last line\n")
    return megabytes


def do_speak() -> None:
    """Prints with Python and with C, to both streams; C has a buffer of its own."""
    libc = ctypes.CDLL(None)
    libc.printf(b"out of C\n")
    sys.stdout.write("out of Python\n")
    sys.stderr.write("err of Python\n")
    os.write(2, b"err of C\n")


def do_grow(megabytes: int) -> int:
    return len(bytearray(megabytes * 1_000_000))


def do_exhaust(calmly: bool = False) -> int:
    """Uses memory up to a limit of the kernel, or until its worker is killed."""
    import resource

    if not calmly:
        limit = 400_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    hoard = []
    while True:
        hoard.append(bytearray(b"x" * 20_000_000))
        if calmly:
            time.sleep(0.02)


def do_allocate() -> None:
    """Like a C library that does not check malloc: the kernel refuses the memory, and it writes there all the same."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    libc.memset(libc.malloc(ctypes.c_size_t(4_000_000_000)), 1, 4_000_000_000)


def do_pay(tokens: int) -> None:
    """Reports its usage twice, and dies."""
    publish_usage(running_unit(), Usage(tokens, 1.0))
    publish_usage(running_unit(), Usage(2 * tokens, 2.0, 3.0, 0.25))
    os._exit(1)


def do_pay_and_hang(tokens: int) -> None:
    publish_usage(running_unit(), Usage(tokens, 0.0))
    time.sleep(60)


def do_oom() -> None:
    """Like the kernel's out-of-memory killer: much memory, then SIGKILL."""
    hoard = bytearray(150_000_000)
    for at in range(0, len(hoard), 4096):
        hoard[at] = 1
    os.kill(os.getpid(), signal.SIGKILL)
