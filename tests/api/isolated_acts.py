"""What `test_isolation` runs in worker processes, which import this file by its name."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.executors.limit_rows import CLAUDE, EVENT

import headway


def double(n: int) -> int:
    return 2 * n


async def adouble(n: int) -> int:
    await asyncio.sleep(0)
    return 2 * n


async def told(n: int) -> int:
    headway.usage(input_tokens=n)
    return n


def chatty(folder: str) -> str:
    """Fails at first, and prints each time."""
    tries = Path(folder) / "tries"
    number = len(tries.read_text()) + 1 if tries.exists() else 1
    tries.write_text("x" * number)
    sys.stdout.write(f"try {number}\n")
    if number == 1:
        raise ConnectionResetError("not yet")
    return "done"


def picky(n: int) -> int:
    if n < 0:
        raise ValueError(f"{n} is negative")
    return n


class Unpicklable(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("never")


def unpicklable(what: str) -> Any:
    if what == "error":
        raise Unpicklable("this cannot be pickled")
    return threading.Lock()


def counted(n: int) -> int:
    headway.usage(input_tokens=n, cost_usd=0.25)
    headway.usage(cost_usd=0.25)
    return n


def paid_and_dead(n: int) -> None:
    counted(n)
    os._exit(1)


def hungry(_: int) -> None:
    hoard = []
    while True:
        hoard.append(b"x" * 20_000_000)
        time.sleep(0.02)


def limited_once(path: str) -> str:
    if not Path(path).exists():
        Path(path).touch()
        raise headway.RateLimited(retry_after=0.05, reason="once")
    return "through"


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def _begin(unit: int, log: str) -> None:
    with open(log, "ab", buffering=0) as file:
        file.write(f"{unit}\n".encode())


def deadly(item: tuple[int, str, int]) -> int:
    unit, log, killer = item
    _begin(unit, log)
    if unit == killer:
        ctypes.string_at(0)
    return unit


def limited(item: tuple[str, str]) -> Any:
    """Meets a limit once, and reports it in the given way."""
    how, folder = item
    if how == "answer":
        return {"answer": CLAUDE}
    met = Path(folder) / "met"
    if met.exists():
        return "through"
    met.touch()
    return _LIMITED[how](Path(folder))


def appended(item: tuple[str, str]) -> str:
    """Fails, with a line at the end of a log that all units share; where that was a limit it comes through later."""
    line, folder = item
    log = Path(folder) / "agent.log"
    if line == "rate limited" and line in log.read_text():
        return "through"
    with log.open("a") as file:
        file.write(f"{line}\n")
    raise RuntimeError("exit code 1")


def _exit(code: int, *, stdout: str = "", stderr: str = "") -> None:
    sys.stdout.write(stdout)
    sys.stdout.flush()
    sys.stderr.write(stderr)
    os._exit(code)


def _raise(error: BaseException) -> None:
    raise error


def _log(folder: Path) -> None:
    (folder / ".failed").mkdir()
    (folder / ".failed" / "agent.log").write_text("starting\nrate limited\n")
    os._exit(255)


_LIMITED: dict[str, Callable[[Path], Any]] = {
    "exception": lambda _: _raise(RuntimeError("429 rate limit exceeded")),
    "unpicklable": lambda _: _raise(Unpicklable("rate limited")),
    "program": lambda _: _raise(subprocess.CalledProcessError(1, "agent", stderr=b"rate limited")),
    "program's code": lambda _: _raise(subprocess.CalledProcessError(75, "agent")),
    "result": lambda _: {"rate_limit_info": {"retry_after_seconds": 0.1}},
    "stderr": lambda _: _exit(1, stderr="You've hit your limit\n"),
    "stdout": lambda _: _exit(1, stdout=EVENT),
    "exit code": lambda _: os._exit(75),
    "sys.exit": lambda _: sys.exit(75),
    "sys.exit with words": lambda _: sys.exit("429 rate limit exceeded"),
    "log": _log,
}
