"""Carries out a command of the CLI in a process of its own: the same code with the same checks as in a terminal, and nothing of the dashboard in it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from headway.errors import UsageError

#: How long a command may take. One that starts a run in the background reads its input first.
LONGEST_S: Final = 120.0
_PREFIX: Final = "headway: "


class ActionRefused(UsageError):
    """The command did not do what was asked for; its text says why, and what to do."""


def run_command(words: Sequence[str], db: str = "") -> str:
    """What the command printed. Raises `ActionRefused` with its error. `db` goes by the environment; "": the command finds its database itself."""
    if any("\0" in word for word in words):
        raise ActionRefused("a name contains a zero byte")
    environ = {**os.environ, "NO_COLOR": "1", "HEADWAY_DEBUG": "", **({"HEADWAY_DB": db} if db else {})}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headway", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_S,
            env=environ,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ActionRefused(
            f"'headway {words[0]}' has not answered for {LONGEST_S:.0f} s", hint="try it in a terminal"
        ) from None
    except OSError as error:  # Its arguments are longer than the system allows.
        reason = (error.strerror or str(error)).lower()
        raise ActionRefused(
            f"'headway {words[0]}' cannot be started: {reason}", hint="name fewer units"
        ) from None
    said = [part.decode(errors="replace").strip() for part in (done.stdout, done.stderr)]
    if done.returncode == 0:
        return said[0] or said[1]
    raise ActionRefused(_error_in(said[1]) or f"'headway {words[0]}' ended with {done.returncode}")


def _error_in(text: str) -> str:
    """The error of a command: its line, without the name of the program."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.startswith(_PREFIX)), 0)
    return " ".join(lines[first:]).removeprefix(_PREFIX)
