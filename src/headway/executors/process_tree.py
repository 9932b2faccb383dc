"""Finds and kills the processes that a worker started: by descent, and by a mark in their environment (Linux only).

The process group is not enough: a child that calls `setsid` leaves it. Descent (the parent of each process) is known while the
worker lives. After its death other processes adopt its children, which are then found by the mark that they inherited. Not
found are processes that cleared their environment and lost their parents, and processes that another program started on
a worker's behalf (a service, a container). On other systems nothing is found here; only the group is killed.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from headway.providers.scrubber import is_secret_variable

#: The environment variable with the mark of a worker, inherited by everything that it starts. The workers of a worker have
#: both marks, so that the outer pool finds them too.
VARIABLE: Final = "HEADWAY_WORKER"
#: Variables that Python and its libraries need to start and to read text. None is secret.
_NEEDED: Final = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|TMP|TEMP|PYTHON.*|VIRTUAL_ENV|(DY)?LD_LIBRARY_PATH"
)
_PROC: Final = "/proc"
_CHUNK: Final = 65_536
#: Scans until nothing new is found. A program that forks as fast as it is killed is given up after these.
_SCANS: Final = 10


def new_mark() -> str:
    """A unique mark for a pool. Its workers append their numbers."""
    return secrets.token_hex(8)


def marked_environment(mark: str, names: Collection[str] | None = None) -> dict[str, str]:
    """The environment of a worker (`limited_environment`), with its mark after those of this process."""
    return {**limited_environment(names), VARIABLE: f"{os.environ.get(VARIABLE, '')}{mark};"}


def limited_environment(names: Collection[str] | None) -> dict[str, str]:
    """This process's environment; with `names` only these variables and those that every program needs."""
    if names is None:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name in names or _is_needed(name)}


def _is_needed(name: str) -> bool:
    """Whether every program gets the variable. One named like a secret, such as PYTHON_REGISTRY_TOKEN, is not passed on."""
    return _NEEDED.fullmatch(name) is not None and not is_secret_variable(name)


def own_mark() -> str:
    """The mark of this process if it is a worker, otherwise ""."""
    return os.environ.get(VARIABLE, "").rstrip(";").rpartition(";")[2]


def kill_tree(mark: str, below: int = 0) -> int:
    """Kill all processes with the mark and all descendants of `below`, but not this process and `below` itself.

    Returns how many were killed.
    """
    spared = {os.getpid(), below}
    killed: set[int] = set()
    for _ in range(_SCANS):
        pids = set(_find(f"{mark};".encode() if mark else b"", below)) - spared - killed
        if not pids:
            break
        for pid in pids:
            killed.add(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return len(killed)


def _find(mark: bytes, below: int) -> Iterator[int]:
    try:
        pids = [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return
    if below:
        yield from _descendants(below, {pid: _parent(pid) for pid in pids})
    for pid in pids:
        if mark and mark in _read(pid, "environ") and _parent(pid):
            yield pid


def _descendants(root: int, parents: dict[int, int]) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    left = [root]
    while left:
        below = children.get(left.pop(), [])
        yield from below
        left += below


def _parent(pid: int) -> int:
    """The parent of a process; 0 if the process is gone. Its name in `stat` may hold brackets."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[0] not in b"ZX" else 0


def _read(pid: int, name: str) -> bytes:
    try:
        descriptor = os.open(f"{_PROC}/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return b""
    content = b""
    try:
        while chunk := os.read(descriptor, _CHUNK):
            content += chunk
    except OSError:  # It has just ended.
        return content
    finally:
        os.close(descriptor)
    return content


def resident_bytes(pid: int) -> int:
    """Resident memory of a process in bytes; 0 if unknown."""
    pages = _read(pid, "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0
