"""Processes that a worker left behind, wherever they went: found by descent, and by a mark in their environment (Linux).

A process group is not enough: whoever calls `setsid` leaves it. Descent (who started whom) is known as long as the worker
lives; after its death its children belong to somebody else, and the mark that they inherited tells. What cannot be found is
a process that has both given up its environment and lost its parents, and one that others started on a worker's behalf (a
service, a container). Elsewhere than on Linux nothing is found here, and the group is all there is.
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

#: The variable that every worker has in its environment, and whatever it starts inherits. A worker's own workers have the
#: marks of both, so that the outer pool finds them too.
VARIABLE: Final = "HEADWAY_WORKER"
#: What Python and its libraries need to start and to read texts; nothing of it is secret.
_NEEDED: Final = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|TMP|TEMP|PYTHON.*|VIRTUAL_ENV|(DY)?LD_LIBRARY_PATH"
)
_PROC: Final = "/proc"
_CHUNK: Final = 65_536
#: Looks until nothing new is found: what forks as fast as it is killed is not chased for ever.
_LOOKS: Final = 10


def new_mark() -> str:
    """One that nobody else has; a pool's. Its workers add their numbers."""
    return secrets.token_hex(8)


def marked_environment(mark: str, names: Collection[str] | None = None) -> dict[str, str]:
    """The environment of a worker (`limited_environment`), and its mark behind those that we have ourselves."""
    return {**limited_environment(names), VARIABLE: f"{os.environ.get(VARIABLE, '')}{mark};"}


def limited_environment(names: Collection[str] | None) -> dict[str, str]:
    """Our own environment, or only the named variables of it and what every program needs."""
    if names is None:
        return dict(os.environ)
    return {name: value for name, value in os.environ.items() if name in names or _is_needed(name)}


def _is_needed(name: str) -> bool:
    """Whether every program gets the variable. None that is named as a secret, such as PYTHON_REGISTRY_TOKEN."""
    return _NEEDED.fullmatch(name) is not None and not is_secret_variable(name)


def own_mark() -> str:
    """The mark of this process, if it is a worker."""
    return os.environ.get(VARIABLE, "").rstrip(";").rpartition(";")[2]


def kill_tree(mark: str, below: int = 0) -> int:
    """Kill whatever has the mark, and whatever descends from `below`, but not this process nor `below`; returns how many."""
    spared = {os.getpid(), below}
    killed: set[int] = set()
    for _ in range(_LOOKS):
        found = set(_found(f"{mark};".encode() if mark else b"", below)) - spared - killed
        if not found:
            break
        for pid in found:
            killed.add(pid)
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return len(killed)


def _found(mark: bytes, below: int) -> Iterator[int]:
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
    """Who started it, or adopted it; 0 where it is gone. Its name may have brackets in it."""
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[0] not in b"ZX" else 0


def _read(pid: int, name: str) -> bytes:
    try:
        descriptor = os.open(f"{_PROC}/{pid}/{name}", os.O_RDONLY)
    except OSError:
        return b""
    found = b""
    try:
        while chunk := os.read(descriptor, _CHUNK):
            found += chunk
    except OSError:  # It has just ended.
        return found
    finally:
        os.close(descriptor)
    return found


def resident_bytes(pid: int) -> int:
    """Bytes of memory that a process has now; 0 where nobody knows."""
    pages = _read(pid, "statm").split()
    return int(pages[1]) * os.sysconf("SC_PAGE_SIZE") if len(pages) > 1 else 0
