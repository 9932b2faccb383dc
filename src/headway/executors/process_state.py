"""State of a worker's process that a unit can change so that later units fail or give wrong answers.

After every unit it is compared with the state when the worker was ready. Nothing is restored: a worker whose state is
spoiled is replaced. Only state that is cheap to read and known to do harm is compared (about 5 µs a unit); the rule for
users is in docs/reference/python-workers.md.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Any, Final

#: Limits that make calls fail, or end a process, when they are lowered.
_LIMITS: Final = tuple(
    getattr(resource, f"RLIMIT_{name}")
    for name in ("AS", "CPU", "DATA", "FSIZE", "NOFILE", "NPROC")
    if hasattr(resource, f"RLIMIT_{name}")
)


class ProcessState:
    """The state of this process when it is made, for later comparison."""

    def __init__(self) -> None:
        self._limits = [(limit, resource.getrlimit(limit)) for limit in _LIMITS]
        self._directory = _directory()
        self._has_timer = _has_timer()
        self._ignores_children = _ignores_children()

    def is_spoiled(self) -> bool:
        """Whether a unit changed something that would harm the next one."""
        return (
            self._lowered_a_limit()
            or _directory() != self._directory
            or (_has_timer() and not self._has_timer)
            or (_ignores_children() and not self._ignores_children)
            or _is_closed(sys.stdout)
            or _is_closed(sys.stderr)
        )

    def _lowered_a_limit(self) -> bool:
        for limit, before in self._limits:
            now = resource.getrlimit(limit)
            if now != before and (_is_lower(now[0], before[0]) or _is_lower(now[1], before[1])):
                return True
        return False


def _is_lower(now: int, before: int) -> bool:
    if now in (before, resource.RLIM_INFINITY):
        return False
    return before == resource.RLIM_INFINITY or now < before


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # It was removed.
        return ""


def _has_timer() -> bool:
    """Whether a SIGALRM will come, from `signal.alarm` or `signal.setitimer`."""
    return signal.getitimer(signal.ITIMER_REAL)[0] > 0.0


def _ignores_children() -> bool:
    """Whether the exit codes of children are lost: `subprocess` then reports 0 for all of them."""
    return signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


def _is_closed(stream: Any) -> bool:
    """Whether `print` would raise."""
    return stream is None or getattr(stream, "closed", False) is True
