"""Kills every worker, and everything that workers started, when their owner is gone, even after SIGKILL.

The guardian is a shell (1 MB) in a session of its own. The owner writes the process groups of its workers into a pipe, one
line at each change. When the pipe closes, the shell kills the groups of the last line, and on Linux every process that has the
pool's mark in its environment (`process_tree`): this finds children that left their group. Workers also watch
their owner themselves (`worker_main`), but a worker that holds the interpreter's lock, is stopped, or is killed with its owner
cannot kill its children.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

#: The last whole line counts; an empty one means that no worker is left. Signals that a terminal or a service manager sends
#: to a whole group are ignored. It looks for processes as often as `process_tree` does.
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


#: Starts the script and leaves it: init is its parent then, and nobody who kills the owner's children finds it.
_DETACHED: Final = 'exec 3<&0; /bin/sh -c "$1" headway-guardian "$2" <&3 3<&- & exit 0'


class Guardian:
    """The guardian of one pool. `mark` is the pool's mark. `detached`: it is no child of its owner."""

    def __init__(self, mark: str, *, detached: bool = False) -> None:
        self._mark, self._detached = mark, detached
        self._shell: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The shell's process."""
        return None if self._shell is None else self._shell.pid

    def watch(self, groups: Iterable[int], *, starting: bool = False) -> None:
        """Watch these process groups and no others. A guardian that was killed is started again.

        `starting`: a process is about to start. Its group is not known yet, but its mark is.
        """
        names = [*(f"-{group}" for group in groups), *(["-"] if starting else [])]
        line = " ".join(names).encode() + b"\n"
        for _ in range(2):
            shell = self._shell = self._shell or _start(self._mark, detached=self._detached)
            assert shell.stdin is not None
            try:
                os.write(shell.stdin.fileno(), line)
                return
            except BrokenPipeError:
                self._end()

    def close(self) -> None:
        """End the guardian; no group is killed."""
        if self._shell is not None:
            self.watch(())
            self._end()

    def _end(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            with suppress(OSError):
                shell.stdin.close()
            shell.wait()


def _start(mark: str, *, detached: bool) -> subprocess.Popen[bytes]:
    script = (_DETACHED, "headway-guardian", _SCRIPT) if detached else (_SCRIPT, "headway-guardian")
    return subprocess.Popen(
        ["/bin/sh", "-c", *script, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )
