"""`--detach`: the run goes on in the background, without a terminal.

The command forks before it reads anything. The child does all of the work; until its run begins it has this terminal, so that errors
of settings and input appear here. When the run begins, it becomes a session of its own, ignores SIGHUP, and writes to `run.log` of
the job. Then it tells the waiting parent, which prints how to follow the job. If the child ends before, its exit code is the
parent's.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from headway.cli.shared.resume_hint import place_flags
from headway.config import Config
from headway.display.log_file import LogFile, LogStyle
from headway.display.stop_advice import shown_path
from headway.display.terminal import echo, echo_json
from headway.stores.files import open_own
from headway.stores.job_lock import JOB_LEVELS
from headway.stores.records import Job, UnknownOutcome
from headway.stores.store import Store
from headway.wiring.store_access import job_folder, open_store

#: The file of a job with the output of its runs in the background.
LOG_NAME: Final = "run.log"
#: What shells add to the number of the signal that ended a process.
_BY_SIGNAL: Final = 128


class DetachedJob(msgspec.Struct, frozen=True):
    """What the child tells its parent when the run has begun."""

    job: str
    pid: int
    log: str
    attach: str
    logs: str


class Detachment:
    """The child's side. It leaves the terminal when the run begins, which its log is told of."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def log(self, config: Config, job: Job, style: LogStyle) -> RunLog:
        """The log of the run, which is also its display."""
        path = job_folder(config, job.name) / LOG_NAME
        flags = place_flags(config)
        news = DetachedJob(
            job.name,
            os.getpid(),
            shown_path(path),
            shlex.join(["headway", "attach", job.name, *flags]),
            shlex.join(["headway", "logs", job.name, "--follow", *flags]),
        )
        return RunLog(
            path, lambda log: self._leave(log, news), style, lambda: open_store(config, read_only=True)
        )

    def _leave(self, log: int, news: DetachedJob) -> None:
        """Leave the terminal, and let the parent go."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os.setsid()
        # A handler, not SIG_IGN: programs that the run starts would inherit that.
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, _nothing)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(descriptor, target)
        os.close(nothing)
        os.write(self._parent, msgspec.json.encode(news))
        os.close(self._parent)


class RunLog(LogFile):
    """The log of a run in the background, and its standard output and error. `leave` gets the open file when the run begins."""

    def __init__(
        self, path: Path, leave: Callable[[int], None], style: LogStyle, open_store: Callable[[], Store]
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = open_own(path, JOB_LEVELS, flags, make=True)
        stream = os.fdopen(file, "a", 1, "utf-8", "backslashreplace")
        super().__init__(path, style, stream, open_store=open_store)
        self._leave: Callable[[int], None] | None = leave

    @property
    def is_in_use(self) -> bool:
        """Whether the run has begun."""
        return self._leave is None

    def began(self, job: Job, unknown: list[UnknownOutcome]) -> None:
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave(self._file.fileno())
        super().began(job, unknown)


def _nothing() -> None:
    """SIGHUP means nothing to a run without a terminal."""


def detachable(run: Callable[[Detachment | None], int], flags: dict[str, Any]) -> int:
    """Run a command here or, with --detach, in the background; returns the exit code of this process."""
    if not flags["detach"]:
        return run(None)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        return run(Detachment(writing))
    os.close(writing)
    return _wait(pid, reading, quiet=flags["quiet"], as_json=flags["as_json"])


def _wait(pid: int, reading: int, *, quiet: bool, as_json: bool) -> int:
    """Wait until the child has begun its run, or has ended."""
    # Ctrl-C reaches the child, too, and it decides. Other signals are passed on.
    signal.signal(signal.SIGINT, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    with open(reading, "rb") as pipe:
        news = pipe.read()
    if not news:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return code if code >= 0 else _BY_SIGNAL - code
    job = msgspec.json.decode(news, type=DetachedJob)
    if as_json:
        echo_json(job, indent=True)
    elif not quiet:
        echo(f"job {job.job} runs in the background (process {job.pid}); its log: {job.log}")
        echo(f"  to watch it: {job.attach}")
        echo(f"  what happened: {job.logs}")
    return 0
