"""Runs one program to its end.

The program has a process group of its own, and no terminal. Both of its pipes are read all the time, so that it never blocks on a full one, and the
deadline holds whatever the pipes do. When the program has exited, processes that it started may keep a pipe open: they get a
moment, then the group is killed. A reader may say that the last line has come (`is_over`): agent CLIs sometimes linger for
seconds after it, and one that lives for longer than `LINGER_S` is killed without changing its result.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

import msgspec

from headway.executors.commands.exit_watch import ExitWatch
from headway.executors.commands.output_lines import LineReader, OutputLines
from headway.executors.commands.program_pipes import InputPipe, OutputPipe
from headway.executors.evidence.capture import Capture, WholeOutput
from headway.executors.process_tree import kill_tree
from headway.runtime import open_files

#: How long a program may live after its last event.
LINGER_S: Final = 5.0
#: How long pipes are read after the exit, for what other processes of the group still write.
DRAIN_S: Final = 0.25
#: How much of standard error is searched for `Program.stops_at`.
LONGEST_STOP: Final = 8192
#: A killed process is gone in milliseconds. After this time it is not waited for any longer.
GONE_S: Final = 5.0


class Program(msgspec.Struct, frozen=True):
    """What to run. `mark` is in its environment, so that everything it starts can be found (`process_tree`)."""

    argv: tuple[str, ...]
    stdin: bytes
    directory: str
    environ: Mapping[bytes, bytes]
    mark: str
    timeout_s: float
    #: The largest output that is kept as a whole, for programs whose output is the answer; 0: only its beginning and its end.
    max_output: int = 0
    #: Ends the run when standard error has it: the program would wait and retry by itself.
    stops_at: re.Pattern[bytes] | None = None


class ProgramEnd(msgspec.Struct, frozen=True):
    """How it ended. `code` is negative if a signal killed it; `late`: it was killed at its deadline."""

    code: int
    late: bool
    stdout: bytes
    stderr: bytes
    pid: int
    began_utc: float
    took_s: float
    #: Whether it printed more than is kept.
    too_long: bool = False


async def run_program(
    program: Program, reader: LineReader | None, started: Callable[[int], None]
) -> ProgramEnd:
    """Run a program; `started` is called with its process group. Raises OSError if it cannot be started.

    A cancellation kills it first.
    """
    run = _Run(program, reader)
    try:
        started(run.process.pid)
        late = await run.over
    finally:
        await run.end()
    if run.lines is not None:
        await run.lines.finish()
    return run.result(late=late)


class _Run:
    """One program that runs. `over` is set when it has ended, with whether that was at its deadline."""

    def __init__(self, program: Program, reader: LineReader | None) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._program = program
        self.over: asyncio.Future[bool] = loop.create_future()
        self._out: Capture | WholeOutput = (
            WholeOutput(program.max_output) if program.max_output else Capture()
        )
        self._err = Capture()
        self._recent_error = b""
        self.lines = None if reader is None else OutputLines(reader, self._last_line, self._pause)
        self._began_utc, self._began_at = time.time(), time.monotonic()
        self._pipes: list[InputPipe | OutputPipe] = []
        try:
            self._pipes.append(InputPipe(loop, program.stdin))
            self._stdout = OutputPipe(loop, self._take, self._pipe_ended)
            self._pipes.append(self._stdout)
            self._stderr = OutputPipe(loop, self._take_error, self._pipe_ended)
            self._pipes.append(self._stderr)
            self.process = self._start()
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for pipe in self._pipes:
                os.close(pipe.other)
        open_files.give_original_limit(self.process.pid)
        self._timers = [loop.call_later(program.timeout_s, self._settle, True)]
        self._exit = ExitWatch(loop, self.process, self._exited)

    def _start(self) -> subprocess.Popen[bytes]:
        stdin, stdout, stderr = (pipe.other for pipe in self._pipes)
        return subprocess.Popen(
            self._program.argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=self._program.directory,
            env=self._program.environ,
            start_new_session=has_terminal(),
            process_group=None if has_terminal() else 0,
        )

    def _take(self, chunk: bytes) -> None:
        self._out.add(chunk)
        if self.lines is not None:
            self.lines.add(chunk)

    def _take_error(self, chunk: bytes) -> None:
        self._err.add(chunk)
        stops_at = self._program.stops_at
        if stops_at is None or self.over.done():
            return
        self._recent_error = (self._recent_error + chunk)[-LONGEST_STOP:]
        if stops_at.search(self._recent_error):
            self._timers.append(self._loop.call_later(DRAIN_S, self._settle))

    def _pause(self, paused: bool) -> None:
        self._stdout.pause(paused=paused)

    def _last_line(self) -> None:
        """The last line has come: it may linger for a while."""
        if not self.over.done():
            self._timers.append(self._loop.call_later(LINGER_S, self._settle))

    def _exited(self) -> None:
        self._stdout.read_rest()
        self._stderr.read_rest()
        if self._has_open_pipe():
            self._timers.append(self._loop.call_later(DRAIN_S, self._settle))
        else:
            self._settle()

    def _pipe_ended(self) -> None:
        if self._exit.is_over and not self._has_open_pipe():
            self._settle()

    def _has_open_pipe(self) -> bool:
        return self._stdout.is_open or self._stderr.is_open

    def _settle(self, late: bool = False) -> None:
        if not self.over.done():
            self.over.set_result(late)

    async def end(self) -> None:
        """Kill what is left, and wait until the program is gone."""
        for timer in self._timers:
            timer.cancel()
        clean = self._exit.is_over and not self._has_open_pipe()
        try:
            # Before its exit code is collected: until then no other process can have its number.
            _kill_group(self.process.pid)
            # An agent's tools may have left servers behind, in sessions of their own.
            if not clean or self.lines is not None or (self.process.poll() or 0) < 0:
                await asyncio.shield(asyncio.to_thread(kill_tree, self._program.mark))
        finally:
            self._close_pipes()
            await self._exit.wait(GONE_S)

    def _close_pipes(self) -> None:
        for pipe in self._pipes:
            pipe.close()

    def result(self, *, late: bool) -> ProgramEnd:
        """How it ended."""
        code = self.process.returncode
        return ProgramEnd(
            -signal.SIGKILL if code is None else code,
            late,
            self._out.take(),
            self._err.take(),
            self.process.pid,
            self._began_utc,
            time.monotonic() - self._began_at,
            isinstance(self._out, WholeOutput) and self._out.is_too_long,
        )


@cache
def has_terminal() -> bool:
    """Whether a program could read from a terminal. Then it gets a session of its own, which has none: it would be stopped by the
    terminal otherwise. A group of its own is enough in all other cases, and a busy Linux starts it in half the time: each session
    is scheduled by itself (`sched_autogroup`).
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _kill_group(pid: int) -> None:
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
