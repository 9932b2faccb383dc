"""Errors that say that this process, or this machine, has nothing left: no file, no port, no memory.

They are the fault of neither the provider nor the request. Fewer requests at a time are the remedy, and more files for the process.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from typing import Final

from headway.runtime import open_files

_REASONS: Final = {
    errno.EMFILE: "too many open files",
    errno.ENFILE: "too many open files on this machine",
    errno.ENOMEM: "no memory is left",
    errno.ENOBUFS: "no memory is left for sockets",
    errno.EADDRNOTAVAIL: "no local port is left",
}
#: Causes that are followed: chains are short.
_MOST_LINKS: Final = 16


def exhaustion_text(fault: BaseException, *, connected: bool) -> str:
    """What ran out, and what to do; "" if the error has another cause.

    `connected`: whether the same address was reached before. Otherwise EADDRNOTAVAIL is about the address: a machine without IPv6
    has no way to [::1].
    """
    for error in _chain(fault):
        code = error.errno
        if isinstance(error, socket.gaierror):
            code = _lookup_errno()
        if code in _REASONS and (code != errno.EADDRNOTAVAIL or connected):
            return _with_advice(code)
    return ""


def _with_advice(code: int) -> str:
    if code != errno.EMFILE:
        return _REASONS[code]
    most = open_files.limit()
    allowed = "" if most is None else f" (this process may have {most:,})"
    return f"{_REASONS[code]}{allowed}: raise the limit with 'ulimit -n', or set max_concurrency"


def _chain(fault: BaseException) -> Iterator[OSError]:
    """The system's errors behind an exception."""
    error: BaseException | None = fault
    for _ in range(_MOST_LINKS):
        if error is None:
            return
        inner = getattr(error, "os_error", None)  # aiohttp's
        if isinstance(inner, OSError):
            yield inner
        if isinstance(error, OSError):
            yield error
        # Not `or`: an exception of foreign code may have a `__bool__` that raises.
        error = error.__context__ if error.__cause__ is None else error.__cause__


def _lookup_errno() -> int | None:
    """Why a name lookup failed, if the process has no file left for it: the resolver reports that as an unknown name."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno
    return None
