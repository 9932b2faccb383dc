"""A command on a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress

from tests.crash.stage import HEADWAY, Stage


def on_terminal(stage: Stage, *args: str, columns: int = 80) -> str:
    """What a command prints on a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**stage.environ(TERM="xterm"), "COLUMNS": str(columns)}
    with os.fdopen(ours, "rb", buffering=0) as screen:
        command = [sys.executable, *HEADWAY, *args]
        with subprocess.Popen(
            command, cwd=stage.root, env=env, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            shown = b""
            with suppress(OSError):  # The terminal is closed when the command ends.
                while piece := screen.read(65_536):
                    shown += piece
            assert process.wait(60) == 0, shown
    return shown.decode()
