"""Starts a server, waits until it answers, and ends it with all its processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

#: A server ends with the process that started it, even if that was killed; and after this time.
_ENDS_WITH_PARENT: Final = ("setpriv", "--pdeathsig", "KILL")
LONGEST_S: Final = 1_200
#: LiteLLM's proxy takes 10 s to start on an idle machine, and 40 s on a busy one.
STARTS_WITHIN_S: Final = 150.0
_GET: Final = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5).read()"


class Server(msgspec.Struct, frozen=True):
    """A running server: its address, and the command in front of a client's that reaches it."""

    url: str
    folder: Path
    prefix: tuple[str, ...] = ()


@contextmanager
def process(command: list[str], folder: Path, environ: dict[str, str] | None = None) -> Iterator[int]:
    """Run a command in its own process group; yields its process id. Its output goes to server.log."""
    with (folder / "server.log").open("wb") as log:
        started = subprocess.Popen(
            [*_ENDS_WITH_PARENT, "timeout", "--signal=KILL", str(LONGEST_S), *_ENDS_WITH_PARENT, *command],
            cwd=folder,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield started.pid
        finally:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()


def free_port() -> int:
    """A port of loopback without a listener."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def wait_until_it_answers(server: Server, path: str, pid: int) -> None:
    """Get this path until it succeeds. A server that has ended, or does not answer in time, is an error."""
    command = [*server.prefix, sys.executable, "-c", _GET, server.url + path]
    until = time.monotonic() + STARTS_WITHIN_S
    while subprocess.run(command, capture_output=True, timeout=30, check=False).returncode != 0:
        if _ended(pid) or time.monotonic() > until:
            text = (server.folder / "server.log").read_text(errors="replace")
            raise RuntimeError(f"the server did not start: {text[-2000:]}")
        time.sleep(0.05)


def _ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"
