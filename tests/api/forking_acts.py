"""Callables that fork in a worker process, and whose child comes back. Workers import this file by its name."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress

import headway


def child_returns(n: int) -> tuple[str, int]:
    """Every third call forks, and does not wait for the child."""
    if n % 3 == 0 and not os.fork():
        return "child", n
    return "worker", n


async def child_returns_later(n: int) -> tuple[str, int]:
    return child_returns(n)


def child_has_no_program(n: int) -> tuple[str, int]:
    if n % 3:
        return "worker", n
    child, terminal = pty.fork()
    if not child:
        os.execvp("no-such-program", ["no-such-program"])
    with suppress(OSError):  # The terminal of a process that has ended.
        while os.read(terminal, 4096):
            pass
    os.close(terminal)
    os.waitpid(child, 0)
    return "worker", n


def child_exits(code: int) -> int:
    """`sys.exit` in the child, which also reports usage: neither counts for its parent."""
    child = os.fork()
    if not child:
        headway.usage(output_tokens=1000)
        sys.exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def row(payload: dict[str, int]) -> dict[str, object]:
    """For `headway run`."""
    who, n = child_returns(payload["n"])
    return {"who": who, "n": n}


def row_without_program(payload: dict[str, int]) -> dict[str, object]:
    who, n = child_has_no_program(payload["n"])
    return {"who": who, "n": n}
