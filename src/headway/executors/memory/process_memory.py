"""The memory of this machine and of process trees (Linux only; elsewhere nothing is known).

A process counts with its proportional share of shared pages (PSS): twenty copies of one CLI share most of its program file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_AVAILABLE: Final = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)
_PSS: Final = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)
#: The limit of a container, and what it uses.
_GROUP: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
#: A tree with more processes is counted up to here.
_MOST: Final = 500


def free_bytes() -> float | None:
    """What may be used now without swapping, also by the limit of a container; None: not known."""
    found = _AVAILABLE.search(_read("/proc/meminfo"))
    if found is None:
        return None
    most, used = (_read(path).strip() for path in _GROUP)
    if most.isdigit() and used.isdigit():
        return min(1024.0 * int(found[1]), max(0.0, float(most) - float(used)))
    return 1024.0 * int(found[1])


def tree_bytes(pid: int) -> float:
    """The memory of a process and of all that it started; 0.0 if it has ended."""
    total, left, seen = 0.0, [pid], 0
    while left and seen < _MOST:
        one = left.pop()
        seen += 1
        total += _process_bytes(one)
        left += _children(one)
    return total


def _process_bytes(pid: int) -> float:
    found = _PSS.search(_read(f"/proc/{pid}/smaps_rollup"))
    if found is not None:
        return 1024.0 * int(found[1])
    fields = _read(f"/proc/{pid}/statm").split()  # Another user's process: its resident pages.
    return float(fields[1]) * _PAGE if len(fields) > 1 else 0.0


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    return [
        int(child) for thread in threads for child in _read(f"/proc/{pid}/task/{thread}/children").split()
    ]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
