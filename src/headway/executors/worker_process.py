"""One worker process as its owner sees it: its pipe, its output, its death.

Everything happens on the owner's event loop, and nothing here blocks. The thread that runs the loop must start the
process: the kernel kills a worker when the *thread* that started it ends.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import headway
from headway.core.model import Usage
from headway.executors.evidence.capture import Capture, drain
from headway.executors.process_tree import kill_tree, marked_environment
from headway.executors.work_result import Death
from headway.executors.worker_protocol import (
    ASK,
    BEGUN,
    LARGEST,
    PAGE,
    SETUP,
    SIZE,
    STOP,
    BadReply,
    ReplyNote,
    ReplyReader,
    WorkerReply,
    read_usage,
)
from headway.runtime import open_files

#: The folder of this Headway; a worker imports it before it gets its owner's `sys.path`.
_HOME: Final = str(Path(headway.__file__).parent.parent)
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from headway.executors.worker_main import main; "
    "main(*map(int, sys.argv[2:]))"
)
#: A killed process is gone in milliseconds. After this time it is not waited for any longer.
GONE_S: Final = 5.0
#: How long a process may live after it closed its pipe.
CLOSED_S: Final = 0.25
STOPPED: Final = "it was asked to stop"
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024

#: Called with a reply: the unit's number, value and note.
Replied = Callable[["WorkerProcess", int, bytes, ReplyNote | None], None]
#: Called once, when the process is gone and all its output has been read.
Died = Callable[["WorkerProcess", Death], None]


class WorkerProcess:
    """A worker process. `send` gives it one unit at a time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lifeline: int,
        mark: str,
        replied: Replied,
        died: Died,
        env: tuple[str, ...] | None = None,
        max_value: int = LARGEST,
    ) -> None:
        self._loop, self._replied, self._died = loop, replied, died
        #: The variables of our environment that it gets; None: all.
        self._env = env
        #: The most bytes that it may return for a unit.
        self._max_value = max_value
        self.mark = mark
        self.stdout, self.stderr = Capture(), Capture()
        self.memory = 0
        self.units = 0
        #: Whether its process has ended or was killed: it takes no more units.
        self.gone = False
        #: After its death: whether it had begun the unit that was sent last,
        self.had_begun = False
        #: and the usage that this unit had reported.
        self.used: Usage | None = None
        #: Whether a unit spoiled it: then it may be unable to find the processes that it started.
        self.spoiled = False
        self._why = ""
        self._floor = 0
        self._sent_number = 0
        self._ended = False
        #: Whether it sent an unexpected reply: then nothing that it sends counts.
        self._refused = False
        self._unsent = memoryview(b"")
        self._watched: list[int] = []
        self._giving_up: asyncio.TimerHandle | None = None
        self._start(lifeline)

    # -- start ------------------------------------------------------------------------------------------------------

    def _start(self, lifeline: int) -> None:
        self._channel, theirs = socket.socketpair()
        # Read as a file, not mapped: a worker that truncates it must not kill us with SIGBUS.
        self._page = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the worker
        self._page.truncate(PAGE)
        with theirs:
            self._out, out = _pipe()
            self._err, err = _pipe()
            try:
                descriptors = (theirs.fileno(), self._page.fileno(), lifeline)
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _PROGRAM, _HOME, *map(str, descriptors), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    pass_fds=descriptors,
                    start_new_session=True,
                    env=marked_environment(self.mark, self._env),
                )
            except OSError:
                for descriptor in (self._out, self._err):
                    os.close(descriptor)
                self._channel.close()
                self._page.close()
                raise
            finally:
                os.close(out)
                os.close(err)
        self.pid = self._process.pid
        open_files.give_original_limit(self.pid)
        self._replies = ReplyReader(self.pid, self._max_value)
        self._floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT
        self._channel.setblocking(False)
        self._listen()

    def _listen(self) -> None:
        self._watch(self._channel.fileno(), self._readable)
        self._watch(self._out, self._printed, self._out, self.stdout)
        self._watch(self._err, self._printed, self._err, self.stderr)
        self._pidfd = _pidfd(self.pid)
        if self._pidfd is not None:
            self._watch(self._pidfd, self._exited)
        else:
            threading.Thread(target=self._wait, name="headway-worker-exit", daemon=True).start()

    def _watch(self, descriptor: int, act: Callable[..., None], *arguments: Any) -> None:
        self._loop.add_reader(descriptor, act, *arguments)
        self._watched.append(descriptor)

    def _ignore(self, descriptor: int) -> None:
        if descriptor in self._watched:
            self._watched.remove(descriptor)
            self._loop.remove_reader(descriptor)

    # -- the pipe ---------------------------------------------------------------------------------------------------

    def send(self, number: int, payload: bytes) -> None:
        """Send a unit, or the setup. If the worker has just died, its death is reported soon."""
        self._sent_number = number
        self._replies.expect(number)
        self._write(ASK.pack(number, len(payload)) + payload)

    def stop(self) -> None:
        """Let an idle worker end by itself."""
        self._why = self._why or STOPPED
        self._write(ASK.pack(STOP, 0))

    def _write(self, frame: bytes) -> None:
        try:
            sent = self._channel.send(frame)
        except BlockingIOError:
            sent = 0
        except OSError:
            return
        if sent < len(frame):
            self._unsent = memoryview(frame)[sent:]
            self._loop.add_writer(self._channel.fileno(), self._writable)

    def _writable(self) -> None:
        try:
            self._unsent = self._unsent[self._channel.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._loop.remove_writer(self._channel.fileno())

    def _readable(self) -> None:
        if not self._receive():
            self._ignore(self._channel.fileno())
            # The pipe closes when the process ends, too; then its exit code says more.
            self._loop.call_later(CLOSED_S, self.kill, "it closed its pipe to Headway")

    def _receive(self) -> bool:
        """Read what is available. Returns whether more may come."""
        if self._refused:
            return False
        try:
            chunk = self._channel.recv(self._replies.wanted())
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not chunk:
            return False
        reply = None
        try:
            reply = self._replies.feed(chunk)
            self._replies.check()
        except BadReply as error:
            self._refuse(str(error))
        if reply is not None:
            self._take(reply)
        return not self._refused

    def _refuse(self, why: str) -> None:
        """Kill a worker whose pipe has unexpected bytes (from a unit, or a forked process) before they count for another unit."""
        self._refused = True
        self._ignore(self._channel.fileno())
        self._why = self._why or why
        self.kill(why)

    def _take(self, reply: WorkerReply) -> None:
        if reply.number == SETUP:
            self._floor = max(self._floor, reply.memory)
            self.memory = SIZE.unpack(reply.value)[0]
        else:
            self.units += 1
            self.memory = reply.memory
            # Output printed before the reply is already in the pipes.
            drain(self._out, self.stdout)
            drain(self._err, self.stderr)
        self._replied(self, reply.number, reply.value, reply.note)

    def _printed(self, descriptor: int, capture: Capture) -> None:
        if not drain(descriptor, capture):
            self._ignore(descriptor)

    # -- death ------------------------------------------------------------------------------------------------------

    def kill(self, why: str) -> None:
        """Kill it, its process group and everything that it started, now."""
        if self.gone:
            return
        self.gone = True
        self._why = self._why or why
        with suppress(OSError):  # It must start nothing more while we look for its children.
            os.kill(self.pid, signal.SIGSTOP)
        kill_tree("", below=self.pid)
        self._kill_group()
        if self._giving_up is None:
            self._giving_up = self._loop.call_later(GONE_S, self._exited)

    def _kill_group(self) -> None:
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)

    def _exited(self) -> None:
        """The process has ended but is not reaped yet, so its number and its group's cannot be another process's."""
        if self._ended:
            return
        self.gone = self._ended = True
        while self._receive() and self._more():  # It may have replied before it died.
            pass
        page = os.pread(self._page.fileno(), PAGE, 0).ljust(PAGE, b"\0")
        self.had_begun = BEGUN.unpack_from(page)[0] == self._sent_number
        self.used = read_usage(page, self._sent_number)
        self._kill_group()
        drain(self._out, self.stdout)
        drain(self._err, self.stderr)
        code = self._reap()
        self._close()
        self._died(self, Death(code, self._why))

    def _more(self) -> bool:
        try:
            return bool(self._channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _reap(self) -> int | None:
        """Its exit code (minus the signal's number); also updates its peak memory."""
        if self._process.returncode is None:
            with suppress(ChildProcessError):
                pid, status, used = os.wait4(self.pid, os.WNOHANG)
                if pid:
                    self._process.returncode = os.waitstatus_to_exitcode(status)
                    peak = used.ru_maxrss * _RSS_UNIT
                    # The kernel begins to count with the owner's memory: a lower figure says nothing about the worker.
                    if peak > self._floor:
                        self.memory = max(self.memory, peak)
        return self._process.returncode

    def _close(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._unsent:
            self._loop.remove_writer(self._channel.fileno())
        for descriptor in list(self._watched):
            self._ignore(descriptor)
        self._channel.close()
        for number in (self._out, self._err, self._pidfd):
            if number is not None:
                os.close(number)
        self._page.close()

    def _wait(self) -> None:
        """Wait for the exit in a thread, where the loop cannot watch the process."""
        self._process.wait()
        with suppress(RuntimeError):  # The loop is closed.
            self._loop.call_soon_threadsafe(self._exited)


def _pipe() -> tuple[int, int]:
    """A pipe whose reading end does not block."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    return reading, writing


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends (Linux 5.3)."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
