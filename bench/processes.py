"""Other processes, with a time limit: their CPU, their peak memory, their output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from headway.fake.process import FakeProcess

#: How often a running process is sampled.
SAMPLE_EVERY_S: Final = 0.02
_TICKS: Final = os.sysconf("SC_CLK_TCK")
#: Variables with the user's own settings, removed from the environment. Without bytecode every start would compile all modules.
_PRIVATE: Final = (
    "HEADWAY_CONFIG",
    "HEADWAY_DB",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "PYTHONDONTWRITEBYTECODE",
)

#: The tree that is measured, even if another Headway is installed.
ROOT: Final = Path(__file__).parent.parent
HEADWAY: Final = (sys.executable, "-m", "headway")


class Ended(msgspec.Struct, frozen=True):
    """A process that has ended. `samples` are (UTC, CPU seconds until then)."""

    code: int
    began_utc: float
    ended_utc: float
    cpu_s: float
    peak_mb: float
    samples: list[tuple[float, float]]
    out: bytes
    errors: bytes
    #: The most open files, if they were counted.
    most_files: int = 0

    @property
    def wall_s(self) -> float:
        """From its start to its end."""
        return self.ended_utc - self.began_utc

    def cpu_at(self, utc: float) -> float:
        """The CPU seconds that it had used at an instant, as of the last sample."""
        return max((cpu_s for at, cpu_s in self.samples if at <= utc), default=0.0)


class Watched:
    """A process in the background. `wait` returns its result; it is killed after its timeout."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        timeout_s: float,
        keys: dict[str, str] | None = None,
        *,
        count_files: bool = False,
        source: Path = ROOT / "src",
    ) -> None:
        environ = {name: value for name, value in os.environ.items() if name not in _PRIVATE}
        self._out = (folder / f".out-{time.monotonic_ns()}").open("w+b")
        self._errors = (folder / f".err-{time.monotonic_ns()}").open("w+b")
        self._until = time.monotonic() + timeout_s
        self.samples: list[tuple[float, float]] = []
        self.peak_mb = 0.0
        self._count_files, self._most_files = count_files, 0
        self.began_utc = time.time()
        self.began_at = time.monotonic()
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, **(keys or {}), "PYTHONPATH": f"{source}:{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._errors,
        )
        self._ended: Ended | None = None
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._ended is None

    def interrupt(self) -> None:
        """Ctrl-C."""
        if self.running:
            os.kill(self._process.pid, signal.SIGINT)

    def kill(self) -> Ended:
        """SIGKILL, and wait for its end."""
        if self.running:
            os.kill(self._process.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> Ended:
        """Wait for its end."""
        self._watcher.join()
        assert self._ended is not None
        return self._ended

    def wait_for(self, condition: Callable[[], bool], every_s: float = 0.1) -> None:
        """Wait until the condition holds, or the process has ended."""
        while self.running and not condition():
            time.sleep(every_s)

    def _watch(self) -> None:
        pid = self._process.pid
        while True:
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > self._until:
                os.kill(pid, signal.SIGKILL)
            self._sample(pid)
            time.sleep(SAMPLE_EVERY_S)
        self._process.returncode = code = os.waitstatus_to_exitcode(status)
        self._ended = Ended(
            code,
            self.began_utc,
            time.time(),
            used.ru_utime + used.ru_stime,
            self.peak_mb,
            self.samples,
            _rest(self._out),
            _rest(self._errors),
            self._most_files,
        )

    def _sample(self, pid: int) -> None:
        try:
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            self.samples.append((time.time(), (int(fields[11]) + int(fields[12])) / _TICKS))
            for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
                if line.startswith(b"VmHWM"):
                    self.peak_mb = int(line.split()[1]) / 1024.0
            if self._count_files:
                self._most_files = max(self._most_files, len(os.listdir(f"/proc/{pid}/fd")))
        except (OSError, IndexError):
            return  # It has just ended.


def _rest(file: object) -> bytes:
    assert hasattr(file, "seek")
    with file:  # type: ignore[attr-defined]
        file.seek(0)
        return bytes(file.read())  # type: ignore[attr-defined]


def run(command: list[str], folder: Path, timeout_s: float, keys: dict[str, str] | None = None) -> Ended:
    """Run a command and wait for it."""
    return Watched(command, folder, timeout_s, keys).wait()


def first_seen_utc(fake: FakeProcess, account: str) -> float | None:
    """When the fake admitted an account's first request since its last reset."""
    stats = fake.stats()
    at_s = stats["accounts"][account]["first_admission_s"]
    return None if at_s is None else time.time() - (stats["now_s"] - at_s)
