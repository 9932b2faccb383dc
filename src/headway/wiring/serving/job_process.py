"""One job in a process of its own, so that a crash costs one job. The process ends with its engine.

The child has one end of a pipe. When the engine has gone, however it died, the pipe ends: the child starts nothing more, and what is in
flight may finish for some seconds (`end_with`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO, Final

from headway.config import Config
from headway.stores.records import Job

#: How long requests in flight may go on when the engine has died, and then how long the end of the run may take.
DRAIN_S: Final = 5.0
CANCEL_S: Final = 5.0
#: How much of a child's errors is read.
_TAIL: Final = 4_000


class JobProcess:
    """`headway resume JOB` as a child of this process. `flags`: those with which it finds the settings of this one."""

    def __init__(self, config: Config, job: Job, flags: Sequence[str] = ()) -> None:
        self.job = job
        self.started_at = time.monotonic()
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it.
        reading, self._alive = os.pipe()
        # The address may have a password: it is not an argument.
        environ = {
            **os.environ,
            **({"HEADWAY_DB": config.db} if config.db_is_named or "://" in config.db else {}),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "headway", "resume", "--served", str(reading), "--quiet", *flags, "--", job.name],
                env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors,
                pass_fds=(reading,), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(reading)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Its exit code; None: it runs."""
        return self._process.poll()

    def interrupt(self) -> None:
        """As Ctrl-C does: once, nothing new starts; twice, what is in flight is cancelled."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def error(self) -> str:
        """Its last line on standard error, without the name of the program."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _TAIL))
        lines = self._errors.read().decode(errors="replace").splitlines()
        own = [line for line in lines if line.startswith("headway: ")]
        return (own or lines or [""])[-1].removeprefix("headway: ").strip()

    def close(self) -> None:
        """Forget it. If it still runs, it ends as if this process had died."""
        os.close(self._alive)
        self._errors.close()


def end_with(pipe: int) -> None:
    """In the child: end the run when the process at the other end of the pipe has gone."""
    threading.Thread(target=_end_with, args=(pipe,), name="headway-engine-watch", daemon=True).start()


def _end_with(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(DRAIN_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(CANCEL_S)
    os._exit(130)
