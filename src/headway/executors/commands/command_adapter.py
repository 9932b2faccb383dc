"""Programs and agent CLIs as a provider: each attempt is one run of the program, with the prompt on its standard input."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

import msgspec

from headway.config.settings import CommandConfig
from headway.core.model import Kind, Outcome
from headway.errors import UsageError
from headway.executors.attempt_details import details_of, encode_details
from headway.executors.commands import run_outcome
from headway.executors.commands.agent_lines import AgentLines
from headway.executors.commands.agent_session import AgentSession
from headway.executors.commands.agent_task import AgentTask, task_of
from headway.executors.commands.any_program import filled
from headway.executors.commands.clis.cli_contract import AgentCli
from headway.executors.commands.output_lines import LineReader
from headway.executors.commands.program import Program, ProgramEnd, run_program
from headway.executors.commands.program_environment import ProgramEnvironment
from headway.executors.commands.running_programs import RunningPrograms
from headway.executors.limit_evidence import LimitDetector
from headway.executors.memory.memory_gauge import MemoryGauge
from headway.executors.preflight import PreflightRunner, preflight_command
from headway.executors.process_tree import new_mark
from headway.executors.python_adapter import MOST_STORED
from headway.executors.work_result import WorkResult
from headway.providers.adapter import Admitted, Answer, Request
from headway.providers.attempt_log import AttemptLog, WorkerWatcher
from headway.providers.error_messages import short_message
from headway.providers.scrubber import NO_SECRETS, Scrubber

#: The status of an answer, as of a server.
OK: Final = 200
#: What an agent CLI takes until one was measured: they take 200 to 600 MB.
AGENT_BYTES: Final = 400e6

#: The variable that tells a program of the trace that it is a part of.
TRACEPARENT: Final = b"TRACEPARENT"

Judge = Callable[[ProgramEnd], WorkResult]


class ProgramRunner(Protocol):
    """Runs programs, on this machine or elsewhere."""

    #: What says how many can run (`engine.sharing.cluster_places`); None: they run on this machine.
    hosts: Any

    async def run(
        self, program: Program, reader: LineReader | None, started: Callable[[int], None]
    ) -> ProgramEnd:
        """Run a program. Raises OSError if it cannot be started, `ProgramLost` if it ended elsewhere in an unknown way."""

    async def close(self) -> None:
        """End everything."""


class ProgramLost(Exception):
    """No program can be run there (`not_started`), or the machine that ran it is gone."""

    def __init__(self, text: str, *, not_started: bool = False) -> None:
        super().__init__(text)
        self.not_started = not_started


class _Start(msgspec.Struct, frozen=True):
    """A program to run for a task. `max_output`: the output is the answer, up to so many bytes."""

    argv: tuple[str, ...]
    task: AgentTask
    timeout_s: float
    log: AttemptLog | None
    max_output: int = 0
    traceparent: str = ""


class CommandAdapter:
    """Runs a program for every unit. `cli` is the agent CLI, or None for any other program."""

    #: Requests name the unit and the attempt, and have a log.
    has_sessions: Final = True
    takes_log: Final = True

    def __init__(
        self,
        settings: CommandConfig,
        cli: AgentCli | None,
        model: str,
        root: str,
        withheld: frozenset[str] = frozenset(),
        scrub: Scrubber = NO_SECRETS,
        max_answer_bytes: int = 0,
    ) -> None:
        self._max_answer = max_answer_bytes or MOST_STORED
        self._settings, self._cli, self._model, self._root, self._scrub = settings, cli, model, root, scrub
        self._environment = ProgramEnvironment(settings.env, withheld, None if cli is None else cli.variables)
        self._detector = LimitDetector((), settings.failure_logs, root)
        check = None
        if settings.preflight == "command":
            check = preflight_command(settings.preflight_command, settings.preflight_timeout_s, settings.env)
        self._preflight = PreflightRunner(check, canary=settings.preflight == "canary")
        self._mark = new_mark()
        self._runs = count(1)
        name = os.path.basename(settings.command[0]) if cli is None else cli.name
        self._programs = RunningPrograms(self._mark, name)
        #: Whether Headway chooses the ids of sessions. Older versions of a CLI may take none.
        self._chooses_ids = cli is not None and cli.takes_session_id
        #: What its programs take of the memory, and may take.
        self.memory = MemoryGauge(settings.memory_budget, None if cli is None else AGENT_BYTES)
        #: Where programs run; None: on this machine.
        self._elsewhere: ProgramRunner | None = None

    def use_runner(self, runner: ProgramRunner) -> None:
        """Run programs there. Called before anything else. What they take of a machine's memory is not ours to measure."""
        self._elsewhere = runner
        self.memory = MemoryGauge(0.0, None)
        self._programs = RunningPrograms(self._mark, self._programs.name, guarded=False)

    async def check(self) -> None:
        """Before a run: whether programs can run where they should."""
        if self._elsewhere is not None:
            await self._elsewhere.hosts.connect()

    @property
    def hosts(self) -> Any:
        """What says how many programs can run elsewhere; None: they run on this machine."""
        return None if self._elsewhere is None else self._elsewhere.hosts

    def watch_workers(self, watcher: WorkerWatcher) -> None:
        """Tell `watcher` of every program and its end."""
        self._programs.watcher = watcher

    def withhold(self, names: frozenset[str]) -> None:
        """Programs do not get these variables, unless `env` names them."""
        self._environment.withhold(names)

    async def open(self) -> None:
        """Does nothing: a held lane starts no program."""

    async def close(self) -> None:
        """End the guardian. Every program has ended with its attempt."""
        if self._elsewhere is not None:
            await self._elsewhere.close()
        self.end_guardian()

    def end_guardian(self) -> None:
        """The same, without a loop."""
        self._programs.close()

    async def send(self, request: Request, timeout_s: float, admitted: Admitted) -> Answer:
        """Run the program once."""
        result = await self._preflight.run(
            lambda: self._one(request, timeout_s), lambda: admitted(None, None)
        )
        if len(result.value) > self._max_answer:
            result = run_outcome.too_long(result, self._max_answer)
        note = await encode_details(details_of(result, self._scrub), self._scrub)
        if result.end == "value":
            return Answer(result.outcome, OK, body=self._scrub.body(result.value), note=note)
        outcome = self._scrub.outcome(result.outcome)
        outcome = msgspec.structs.replace(outcome, message=short_message(outcome.message))
        return Answer(outcome, rate_limit=self._scrub.rate_limit(result.rate_limit), note=note)

    async def _one(self, request: Request, timeout_s: float) -> WorkResult:
        try:
            row = msgspec.json.decode(request.body)
            task = task_of(row if isinstance(row, dict) else {}, self._settings, self._model, self._root)
        except UsageError as error:
            return WorkResult("error", outcome=Outcome(Kind.INVALID, message=str(error)))
        if self._cli is None:
            return await self._command(task, request, timeout_s)
        return await self._agent(self._cli, task, request, timeout_s)

    async def _command(self, task: AgentTask, request: Request, timeout_s: float) -> WorkResult:
        """Run any program: exit code 0 is a success."""
        argv, most = filled(self._settings.command, task), self._max_answer

        def judge(end: ProgramEnd) -> WorkResult:
            return run_outcome.of_command(end, self._settings, timeout_s, most)

        result = await self._run(_Start(argv, task, timeout_s, request.log, most, request.traceparent), judge)
        return msgspec.structs.replace(result, directory=task.directory)

    async def _agent(self, cli: AgentCli, task: AgentTask, request: Request, timeout_s: float) -> WorkResult:
        """Run an agent CLI. A session that cannot be resumed, or whose id is taken, is started anew."""
        session = AgentSession(request, self._scrub, chooses=self._chooses_ids)
        task = await session.choose(task, resume=self._settings.resume == "session")
        result = await self._in_session(cli, task, session, timeout_s)
        if result.end != "value" and task.session_id:
            trouble = cli.session_trouble(task, result.outcome.message, result.stderr)
            if trouble:
                self._chooses_ids = self._chooses_ids and trouble != "unsupported"
                task = await session.anew(task, trouble)
                result = await self._in_session(cli, task, session, timeout_s)
        return msgspec.structs.replace(
            result, messages=session.transcript.messages, session_note=session.note, directory=task.directory
        )

    async def _in_session(
        self, cli: AgentCli, task: AgentTask, session: AgentSession, timeout_s: float
    ) -> WorkResult:
        reader = cli.reader()
        lines = AgentLines(reader, session, task.session_id)
        session.transcript.prompt(task.told or task.prompt, own=not task.told)

        def judge(end: ProgramEnd) -> WorkResult:
            if reader.is_over:
                end = msgspec.structs.replace(end, stdout=lines.last_lines)
            return run_outcome.of_agent(cli, reader, end, self._settings, timeout_s)

        try:
            switches = cli.switches(self._environment.plain(), task.args)
            argv = cli.argv((*self._settings.command, *switches), task)
            start = _Start(argv, task, timeout_s, session.log, traceparent=session.traceparent)
            result = await self._run(start, judge, lines)
        finally:
            lines.finish()
        return result if result.session_id else msgspec.structs.replace(result, session_id=task.session_id)

    async def _run(self, start: _Start, judge: Judge, lines: AgentLines | None = None) -> WorkResult:
        """Run a program once."""
        task, mark = start.task, f"{self._mark}-{next(self._runs)}"
        told, environ = (task.told or task.prompt).encode(), self._environment.marked(mark)
        environ[b"PWD"] = os.fsencode(
            task.directory
        )  # Some believe it more than the system: opencode works there.
        if start.traceparent:
            environ[TRACEPARENT] = start.traceparent.encode()
        program = Program(
            start.argv, told, task.directory, environ, mark, start.timeout_s, start.max_output,
            None if lines is None or self._cli is None else self._cli.retries,
        )  # fmt: skip
        marks = await self._detector.begin()
        watch = self._programs.begin(start.log)
        unwatch: list[Callable[[], None]] = []

        def started(group: int) -> None:
            watch.started(group)
            unwatch.append(self.memory.watch(group))
            if lines is not None:
                lines.started(group)

        try:
            run = run_program if self._elsewhere is None else self._elsewhere.run
            result = judge(await run(program, lines, started))
            watch.failed = result.end in ("crash", "timeout")
        except OSError as error:
            return run_outcome.not_started(start.argv[0], task.directory, error)
        except ProgramLost as error:
            return run_outcome.lost(str(error), not_started=error.not_started)
        finally:
            watch.ended()
            for end_measuring in unwatch:
                end_measuring()
        return result if result.end == "value" else self._detector.read(result, marks)


def missing_program(settings: CommandConfig, which: Callable[[str], str | None] = shutil.which) -> str:
    """The name of the program if it is not there; "" if it is."""
    name = settings.command[0]
    found = os.access(name, os.X_OK) if os.sep in name else which(name) is not None
    return "" if found else name
