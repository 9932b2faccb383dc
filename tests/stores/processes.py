"""Real processes for tests: a script with its arguments, talked to over pipes, in a mount namespace if need be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

#: A mount namespace of its own: what is mounted in it goes away with it, and no root is needed to make it.
PRIVATE_MOUNTS = ("unshare", "--map-root-user", "--mount")


@cache
def private_mounts_work() -> bool:
    try:
        mount = [*PRIVATE_MOUNTS, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(script: str, *args: Any, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-c", script, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@contextmanager
def running(script: str, *args: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is there as long as the block; it is killed at its end at the latest."""
    command = [sys.executable, "-c", script, *map(str, args)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    """The next line that the process writes."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    """Let the process go on from where it waits for a line."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
