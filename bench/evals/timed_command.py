"""One command with a time limit: its output, its time, and the processor time of it and its processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec


class TimedCommand(msgspec.Struct, frozen=True):
    """A command that has ended. `code` is None if it was stopped after its longest time."""

    code: int | None
    printed: str
    seconds: float
    cpu_s: float


def run_timed(command: list[str], folder: Path, environ: dict[str, str], longest_s: float) -> TimedCommand:
    """Run a command to its end, or stop it."""
    before = os.times()
    code: int | None
    try:
        done = subprocess.run(
            command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, timeout=longest_s, check=False,
        )  # fmt: skip
        code, printed = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        code, printed = None, late.output or b""
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return TimedCommand(code, printed.decode(errors="replace"), after.elapsed - before.elapsed, cpu_s)
