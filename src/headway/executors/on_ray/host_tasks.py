"""What a host runs: units in a `ProcessPool`, or programs by `run_program`. The same code as on the machine of the scheduler, so
deadlines, process groups, crashes and limits are handled in the same way.

The guardians are detached: Ray kills the children of an actor's process when it ends, and the guardian must outlive them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Protocol

import msgspec

from headway.executors.commands.clis.agent_clis import AGENT_CLIS
from headway.executors.commands.program import LINGER_S, Program, run_program
from headway.executors.commands.program_environment import ProgramEnvironment
from headway.executors.commands.running_programs import RunningPrograms
from headway.executors.entry_point import EntryPoint
from headway.executors.guardian import Guardian
from headway.executors.limit_evidence import LimitDetector
from headway.executors.on_ray.messages import (
    Began,
    Ended,
    Event,
    PoolSetup,
    PoolTask,
    Process,
    ProgramEnded,
    ProgramLine,
    ProgramSetup,
    ProgramTask,
)
from headway.executors.on_ray.paths import PathMap
from headway.executors.process_pool import ProcessPool
from headway.executors.process_tree import new_mark
from headway.executors.worker_protocol import encode_setup

#: The most bytes of lines that wait to be sent; then the program that prints them is not read.
MOST_UNSENT: Final = 4 * 1024 * 1024

Tell = Callable[[Event], None]


class HostWork(Protocol):
    """The work of a host."""

    async def prepare(self) -> str:
        """Be ready for units. Returns why none can run, or ""."""

    async def run(self, task: Any) -> Event:
        """Run one unit; returns its end."""

    async def close(self) -> None:
        """End everything."""


class _GivenEntry(EntryPoint, frozen=True):
    """An entry point whose first message was made on another machine."""

    encoded: bytes = b""

    def encoded_setup(self) -> bytes:
        return self.encoded


class _HostPool(ProcessPool):
    """A pool whose guardian outlives the actor."""

    def guard_detached(self) -> None:
        """Before the first worker starts."""
        self._guardian = Guardian(self._mark, detached=True)


class PoolWork:
    """Units of Python functions. `units` workers at the most."""

    def __init__(self, setup: PoolSetup, units: int, tell: Tell) -> None:
        from headway.executors.worker_protocol import WorkerSetup

        given = WorkerSetup(setup.entry, setup.arguments, setup.path, setup.argv, setup.main)
        detector = LimitDetector(setup.exit_codes, setup.logs, setup.logs_root, setup.backs_off)
        self._tell = tell
        self._pool = _HostPool(
            _GivenEntry(setup.entry, setup.arguments, encoded=encode_setup(given)),
            units,
            recycle_after=setup.recycle_after,
            memory_ceiling=setup.memory_ceiling,
            memory_limit=setup.memory_limit,
            detector=detector,
            env=setup.env,
            max_value=setup.max_value,
        )
        self._pool.guard_detached()
        self._pool.watch(self)

    def started(self, pid: int, name: str) -> None:
        """A worker process has started."""
        self._tell(Process(pid, name, False, False))

    def ended(self, pid: int, *, failed: bool) -> None:
        """A worker process has ended."""
        self._tell(Process(pid, "", True, failed))

    async def prepare(self) -> str:
        """Start a worker, which imports the function."""
        return await self._pool.warm()

    async def run(self, task: PoolTask) -> Event:
        """Run a unit."""
        result = await self._pool.run(
            task.payload,
            task.timeout_s,
            fresh=task.fresh,
            began=lambda pid: self._tell(Began(task.number, pid)),
        )
        return Ended(task.number, result)

    async def close(self) -> None:
        """End every worker."""
        await self._pool.close()


class ProgramWork:
    """Programs and agent CLIs."""

    def __init__(self, setup: ProgramSetup, paths: PathMap, tell: Tell) -> None:
        cli = AGENT_CLIS.get(setup.cli)
        self._environment = ProgramEnvironment(
            setup.env, setup.withheld, None if cli is None else cli.variables
        )
        self._stops_at = None if cli is None else cli.retries
        self._paths, self._tell = paths, tell
        self._programs = RunningPrograms(new_mark(), setup.cli or "program", detached=True)
        self._readers: dict[int, LineSender] = {}
        self._groups: dict[int, int] = {}

    async def prepare(self) -> str:
        """Programs are started for each unit."""
        return ""

    async def run(self, task: ProgramTask) -> Event:
        """Run a program."""
        sender = LineSender(task.number, self._tell) if task.reads_lines else None
        if sender is not None:
            self._readers[task.number] = sender
        try:
            return await self._run(task, sender)
        except OSError as error:
            told = (error.errno or 0, error.strerror or str(error), self._back(error.filename, task))
            return ProgramEnded(task.number, {}, told)
        finally:
            self._readers.pop(task.number, None)
            self._groups.pop(task.number, None)

    async def _run(self, task: ProgramTask, sender: LineSender | None) -> Event:
        directory = self._paths.there(task.directory)
        mark = f"{self._programs.mark}-{task.mark}"
        environ = self._environment.marked(mark)
        environ |= {os.fsencode(name): os.fsencode(value) for name, value in task.environ.items()}
        environ[b"PWD"] = os.fsencode(directory)
        program = Program(
            tuple(self._paths.there(part) for part in task.argv),
            task.stdin,
            directory,
            environ,
            mark,
            task.timeout_s,
            task.max_output,
            None if sender is None else self._stops_at,
        )
        watch = self._programs.begin()

        def started(group: int) -> None:
            watch.started(group)
            self._groups[task.number] = group
            self._tell(Began(task.number, group))

        try:
            end = await run_program(program, sender, started)
        finally:
            watch.ended()
        return ProgramEnded(task.number, msgspec.structs.asdict(end), None)

    def _back(self, filename: object, task: ProgramTask) -> str:
        """The file that an error names; of the working directory, its name on the other machine."""
        is_directory = filename == self._paths.there(task.directory)
        return task.directory if is_directory else str(filename or "")

    def over(self, number: int) -> None:
        """The last line of this program has come: it may linger for a while."""
        asyncio.get_running_loop().call_later(LINGER_S, self._kill, number)

    def _kill(self, number: int) -> None:
        """Kill a program that is still there: it is not reaped yet, so its group is its own."""
        if (group := self._groups.get(number)) is not None:
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)

    def sent(self, size: int) -> None:
        """So many bytes of lines have left."""
        for sender in self._readers.values():
            sender.sent(size)

    async def close(self) -> None:
        """End the guardian. Every program has ended."""
        self._programs.close()


class LineSender:
    """Sends the lines of one program (`output_lines.LineReader`)."""

    def __init__(self, number: int, tell: Tell) -> None:
        self._number, self._tell = number, tell
        #: Only the reader on the other machine knows which line is the last.
        self.is_over = False
        self._unsent = 0
        self._room: asyncio.Future[None] | None = None

    def take(self, line: bytes, left_out: int) -> Awaitable[None] | None:
        """The next line. If too much waits to be sent, there is something to wait for."""
        self._tell(ProgramLine(self._number, line, left_out))
        self._unsent += len(line)
        if self._unsent <= MOST_UNSENT:
            return None
        self._room = asyncio.get_running_loop().create_future()
        return self._room

    def sent(self, size: int) -> None:
        """So many bytes of lines have left."""
        self._unsent = max(0, self._unsent - size)
        if self._room is not None and not self._room.done() and self._unsent <= MOST_UNSENT // 2:
            self._room.set_result(None)
