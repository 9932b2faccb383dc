"""Ends every worker, and whatever they started, when their owner is gone: also by SIGKILL, which nobody hears of.

A shell of one megabyte in a session of its own. It is told which process groups there are, one line each time that
changes, and does nothing until the pipe that it is told through closes; then it kills those groups. Workers look after
themselves too (`worker`), but one that holds the interpreter's lock, or was stopped, or was killed with its owner
cannot kill its children.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

#: The last whole line counts. Signals that a terminal or a service manager sends to everybody are not for it.
_SCRIPT: Final = """
trap '' INT TERM HUP QUIT
groups=
while read -r line; do groups=$line; done
for group in $groups; do kill -s KILL -- "$group" 2>/dev/null; done
"""


class Guardian:
    """Knows the process groups that are to die with this process."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process."""
        return None if self._shell is None else self._shell.pid

    def watch(self, groups: Iterable[int]) -> None:
        """These are all. One that was killed is replaced."""
        line = " ".join(f"-{group}" for group in groups).encode() + b"\n"
        for _ in range(2):
            shell = self._shell = self._shell or _start()
            assert shell.stdin is not None
            try:
                os.write(shell.stdin.fileno(), line)
                return
            except BrokenPipeError:
                self._end()

    def close(self) -> None:
        """Nobody is left to watch."""
        if self._shell is not None:
            self.watch(())
            self._end()

    def _end(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            with suppress(OSError):
                shell.stdin.close()
            shell.wait()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )
