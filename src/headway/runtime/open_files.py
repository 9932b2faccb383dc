"""How many files this process may have open; sockets count as files.

The soft limit of a process (`ulimit -n`) is often 1,024 or 256, and any process may raise it up to the hard limit. Headway raises it
once, when the first run begins. The low default exists for programs that use select(), which fails above descriptor 1,023. So
processes that Headway starts, and forked ones, get the original soft limit back.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import Final

if sys.platform != "win32":  # Its sockets have no such limit.
    import resource

#: Where a process lists its open files.
_LISTS: Final = ("/proc/self/fd", "/dev/fd")
#: A hard limit without a number is raised to this at the most: macOS refuses more than its own, smaller maximum.
_NO_NUMBER: Final = 10_240

_lock = threading.Lock()
#: The soft limit before it was raised; None: it was not.
_original: int | None = None


def raise_limit() -> None:
    """Raise the soft limit to the hard one, if this process has not done so before."""
    global _original  # noqa: PLW0603 - one a process
    if sys.platform == "win32":
        return
    with _lock:
        if _original is not None:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _NO_NUMBER if hard == resource.RLIM_INFINITY else hard
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        _original = soft


def limit() -> int | None:
    """The soft limit; None if there is none."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def count() -> int | None:
    """How many files are open now; None if the system does not say."""
    for folder in _LISTS:
        with suppress(OSError):
            return len(os.listdir(folder)) - 1  # The listing itself is one.
    return None


def give_original_limit(pid: int) -> None:
    """Give a process that was just started the soft limit that this one had. Only Linux can do this for another process."""
    if _original is not None and sys.platform == "linux":
        with suppress(OSError, ValueError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (_original, hard))


def _restore() -> None:
    """In a forked process."""
    global _original, _lock  # noqa: PLW0603 - one a process
    _lock = threading.Lock()
    if _original is not None and sys.platform != "win32":
        with suppress(OSError, ValueError):
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (_original, hard))
    _original = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_restore)
