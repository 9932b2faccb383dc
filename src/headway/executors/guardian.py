"""Ends every worker, and whatever they started, when their owner is gone: also by SIGKILL, which nobody hears of.

A shell of one megabyte in a session of its own. It is told which process groups there are, one line each time that
changes, and does nothing until the pipe that it is told through closes; then it kills those groups, and on Linux whatever
has the mark of their pool in its environment (`kin`), which is how children that left their group are found. Workers look
after themselves too (`worker`), but one that holds the interpreter's lock, or was stopped, or was killed with its owner
cannot kill its children.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

#: The last whole line counts; an empty one says that nobody is left. Signals that a terminal or a service manager sends to
#: everybody are not for it. The looks are as many as in `kin`.
_SCRIPT: Final = """
trap '' INT TERM HUP QUIT
groups=
while read -r line; do groups=$line; done
[ -n "$groups" ] || exit 0
for group in $groups; do kill -s KILL -- "$group" 2>/dev/null; done
for look in 1 2 3 4 5 6 7 8 9 10; do
    found=$(grep -lsF -e "$1" /proc/[0-9]*/environ 2>/dev/null)
    [ -n "$found" ] || exit 0
    for file in $found; do
        pid=${file#/proc/}
        kill -s KILL "${pid%/environ}" 2>/dev/null
    done
done
"""


class Guardian:
    """Knows the process groups that are to die with this process, and their mark."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._shell: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Its process."""
        return None if self._shell is None else self._shell.pid

    def watch(self, groups: Iterable[int]) -> None:
        """These are all. One that was killed is replaced."""
        line = " ".join(f"-{group}" for group in groups).encode() + b"\n"
        for _ in range(2):
            shell = self._shell = self._shell or _start(self._mark)
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


def _start(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT, "headway-guardian", mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )
