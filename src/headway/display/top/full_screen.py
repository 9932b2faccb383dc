"""A whole terminal for a while: another screen, no cursor, keys one by one; afterwards everything is as before.

A picture is written in one piece, over the one before, and each line erases what was behind it: nothing flickers, and nothing is left
of a picture of another size.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import tty
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Final, Self

from rich.console import Console
from rich.text import Text

from headway.display.lanes.limit_use import has_blocks

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
_LEAVE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST_OF_SCREEN: Final = "\x1b[J"
#: What a terminal sends → the name of the key.
_KEYS: Final = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"k": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"j": "down",
    b"\r": "enter", b"\n": "enter", b"q": "quit", b"Q": "quit", b"\x04": "quit", b"p": "pause", b"y": "yes",
}  # fmt: skip
#: The longest of them.
_LONGEST: Final = 3


class FullScreen:
    """Owns the terminal from `__enter__` to `__exit__`, also if Ctrl-Z stops the process for a while."""

    def __init__(self, console: Console, keys: int | None) -> None:
        """`keys`: the descriptor that keys are read from, a terminal; None if there is none."""
        self._console, self._keys = console, keys
        self._modes: list[object] | None = None
        self._stop_handler: object = None

    def __enter__(self) -> Self:
        self._stop_handler = signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()
        signal.signal(signal.SIGTSTP, self._stop_handler)  # type: ignore[arg-type]

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        size = self._console.size
        return size.width, size.height

    @property
    def has_blocks(self) -> bool:
        """Whether the terminal has characters beyond ASCII."""
        return has_blocks(self._console)

    def draw(self, lines: list[Text]) -> None:
        """Replace the picture."""
        with self._console.capture() as capture:
            for line in lines:
                self._console.print(line, no_wrap=True, overflow="crop", crop=True)
        rows = capture.get().split("\n")[: len(lines)]
        self._write(_HOME + f"{_REST_OF_LINE}\r\n".join(rows) + _REST_OF_LINE + _REST_OF_SCREEN)

    def keys(self, wait_s: float) -> list[str]:
        """The keys that are pressed within this time; returns at the first. Others than ours have the name "other"."""
        if self._keys is None:
            select.select([], [], [], wait_s)
            return []
        if not select.select([self._keys], [], [], wait_s)[0]:
            return []
        data = os.read(self._keys, 64)
        return _names(data) if data else ["quit"]  # The terminal is gone.

    def _take(self) -> None:
        if self._keys is not None:
            self._modes = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        self._write(_ENTER)

    def _give_back(self) -> None:
        with suppress(OSError):
            self._write(_LEAVE)
        if self._keys is not None and self._modes is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._modes)  # type: ignore[arg-type]

    def _write(self, text: str) -> None:
        self._console.file.write(text)
        self._console.file.flush()

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: the shell gets its terminal, and we get ours back when the process goes on."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        self._take()


def _names(data: bytes) -> list[str]:
    names = []
    while data:
        for length in range(min(_LONGEST, len(data)), 0, -1):
            if name := _KEYS.get(data[:length]):
                break
        else:
            name, length = "other", len(data) if data[:1] == b"\x1b" else 1
        names.append(name)
        data = data[length:]
    return names
