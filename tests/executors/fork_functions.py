"""Units that fork, write into Headway's pipe, or change the state of their process: entry points and functions."""

from __future__ import annotations

import atexit
import ctypes
import io
import json
import multiprocessing
import os
import pty
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headway.core.model import Usage
from headway.executors.worker_main import publish_usage, running_unit
from headway.executors.worker_protocol import ReplyNote

Served = tuple[bytes, ReplyNote | None]


def serve() -> Callable[[bytes], Served]:
    """The entry point of the pool."""

    def one(payload: bytes) -> Served:
        asked: dict[str, Any] = json.loads(payload)
        return json.dumps(globals()[f"do_{asked.pop('do')}"](**asked)).encode(), None

    return one


def serve_with_fewer_files() -> Callable[[bytes], Served]:
    """Sets limits before the first unit: they belong to the worker."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    return serve()


def forks_at_start() -> Callable[[bytes], Served]:
    """Forks during the setup; the child returns, too."""
    os.fork()
    return serve()


def do_pid(n: int = 0) -> list[int]:
    return [n, os.getpid()]


# -- forks ----------------------------------------------------------------------------------------------------------


def do_return_twice(n: int) -> list[int]:
    """Child and parent both return. The parent returns first, the child after the unit has ended."""
    reading, writing = os.pipe()
    if not os.fork():
        os.close(writing)
        os.read(reading, 1)
        return [n, -1]
    os.close(reading)
    threading.Timer(0.05, os.close, [writing]).start()
    return [n, os.getpid()]


def do_child_first(n: int, how: str) -> list[int]:
    """The child returns first; its parent then returns the child's exit code."""
    fork = ctypes.PyDLL(None).fork if how == "in C" else os.fork
    child = fork()
    if not child:
        if how == "raise":
            raise ValueError("in the child")
        if how == "usage":
            publish_usage(running_unit(), Usage(1000.0, 1000.0))
        return [n, -1]
    _, status = os.waitpid(child, 0)
    if how == "usage":
        os._exit(3)
    return [n, os.waitstatus_to_exitcode(status)]


def do_missing_program(n: int) -> list[Any]:
    child, terminal = pty.fork()
    if not child:
        os.execvp("no-such-program", ["no-such-program"])
    said = b""
    with suppress(OSError):  # The terminal of a process that has ended.
        while chunk := os.read(terminal, 4096):
            said += chunk
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return [n, os.waitstatus_to_exitcode(status), "FileNotFoundError" in said.decode()]


def do_daemon(n: int) -> list[int]:
    """A daemon returns: its parent has ended by then, and it has a session of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(reading)
        return [n, -1]
    os.close(writing)
    os.waitpid(child, 0)
    os.read(reading, 1)  # Until the daemon has ended.
    os.close(reading)
    return [n, os.getpid()]


def do_unfinished_line(path: str) -> int:
    """Forks with half a line in a buffer and a registered exit handler."""

    def write() -> None:
        with open(path, "a") as file:
            file.write("x")

    atexit.register(write)
    sys.stdout.write("half a line")
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return 0


def _square(queue: Any, n: int) -> None:
    queue.put(n * n)


def do_multiprocessing(n: int) -> int:
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=_square, args=(queue, n))
    process.start()
    got: int = queue.get()
    process.join()
    assert process.exitcode == 0
    return got


def do_inherited() -> list[str]:
    """The kinds of descriptors above 2 that a started program inherits."""
    program = "import os,stat\nfor d in range(3, 4096):\n  try: print(stat.S_IFMT(os.fstat(d).st_mode))\n  except OSError: pass"
    found = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, close_fds=False, check=True
    )
    return found.stdout.decode().split()


# -- the pipe -------------------------------------------------------------------------------------------------------


def _sockets() -> list[int]:
    found = []
    for descriptor in range(3, 4096):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                found.append(descriptor)
    return found


def do_junk(size: int) -> int:
    for descriptor in _sockets():
        os.write(descriptor, b"A" * size)
    return 0


def do_truncate() -> None:
    """Truncates every open file, then dies as a unit that had begun."""
    for descriptor in range(3, 4096):
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
    os._exit(1)


def do_replace_pipe(path: str) -> int:
    """Closes all descriptors and opens a file of its own at each of their numbers."""
    taken = _sockets()
    for number in taken:
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    return 0


def do_replace_pipe_and_fork(path: str) -> str:
    """Opens a file at the pipe's number, forks (the child must keep the file), and restores the pipe."""
    (link,) = _sockets()
    kept = os.dup(link)
    file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
    os.dup2(file, link)
    child = os.fork()
    if not child:
        os.write(link, b"from the child")
        os._exit(0)
    os.waitpid(child, 0)
    os.dup2(kept, link)
    os.close(kept)
    return "put back"


# -- threads of earlier units ---------------------------------------------------------------------------------------

_go = threading.Event()
_threads: list[threading.Thread] = []


def do_leave_thread() -> int:
    number = running_unit()

    def later() -> None:
        _go.wait(60)
        publish_usage(number, Usage(1000.0, 1000.0))

    _threads.append(threading.Thread(target=later, daemon=True))
    _threads[-1].start()
    return os.getpid()


def do_die_after_thread(tokens: float) -> None:
    if tokens:
        publish_usage(running_unit(), Usage(tokens, 0.0))
    _go.set()
    _threads[-1].join()
    os._exit(1)


# -- state ----------------------------------------------------------------------------------------------------------


def _lower(name: str, to: int) -> None:
    limit = getattr(resource, f"RLIMIT_{name}")
    resource.setrlimit(limit, (to, resource.getrlimit(limit)[1]))


_kept: list[object] = []

CHANGES: dict[str, Callable[[], object]] = {
    "address space": lambda: _lower("AS", 2**40),
    "CPU time": lambda: _lower("CPU", 1000),
    "data": lambda: _lower("DATA", 2**40),
    "file size": lambda: _lower("FSIZE", 1000),
    "open files": lambda: _lower("NOFILE", 0),
    "processes": lambda: _lower("NPROC", 1),
    "hard limit": lambda: resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6)),
    "alarm": lambda: signal.alarm(1000),
    "timer": lambda: signal.setitimer(signal.ITIMER_REAL, 0.2),
    "directory": lambda: os.chdir("/"),
    "ignored children": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "closed stdout": lambda: sys.stdout.close(),  # noqa: PLW0108 - stdout as it is at the call
    "no stderr": lambda: setattr(sys, "stderr", None),
    # These do no harm.
    "nothing": lambda: None,
    "cancelled alarm": lambda: (signal.alarm(1000), signal.alarm(0)),
    "more core": lambda: _lower("CORE", 0),
    "captured stdout": lambda: setattr(sys, "stdout", io.StringIO()),
    "handler": lambda: signal.signal(signal.SIGALRM, lambda *_: None),
    "open files are kept": lambda: _kept.append(socket.socketpair()),
}


def do_change(change: str) -> int:
    CHANGES[change]()
    return os.getpid()


def do_stray_and_lower(file: str) -> int:
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    child.returncode = 0  # So that Popen does not warn.
    Path(file).write_text(str(child.pid))
    _lower("NOFILE", 0)
    return 0


def do_wait(seconds: float) -> int:
    threading.Event().wait(seconds)
    return os.getpid()
