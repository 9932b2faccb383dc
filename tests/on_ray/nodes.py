"""The nodes of the cluster beside which the tests run, and what runs on them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Set by `room.main`.
cluster: Any = None


def processes(*words: bytes) -> list[int]:
    """The processes whose command lines have all of these words."""
    return [pid for pid in _pids() if all(word in _read(pid, "cmdline") for word in words)]


def below(pid: int) -> list[int]:
    """A process and all that it started."""
    children = [one for one in _pids() if _parent(one) == pid]
    return [pid, *(each for child in children for each in below(child))]


def kill_node(node: Any) -> int:
    """SIGKILL the raylet of a node and the workers that it started; how many of them ran units. Processes of units are not touched."""
    raylet = _raylet(node)
    os.kill(raylet, signal.SIGSTOP)
    hosts = hosts_of(node)
    for pid in [one for one in below(raylet) if b"ray::" in _read(one, "cmdline")]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)
    return hosts


def hosts_of(node: Any) -> int:
    """How many hosts of units a node has."""
    return sum(b"ray::UnitHost" in _read(one, "cmdline") for one in below(_raylet(node)))


def other_hosts(node: Any) -> list[int]:
    """The hosts on other nodes than this one."""
    here = set(below(_raylet(node)))
    return [pid for pid in processes(b"ray::UnitHost") if pid not in here]


def _raylet(node: Any) -> int:
    pid: int = node.all_processes["raylet"][0].process.pid
    return pid


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _parent(pid: int) -> int:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""
