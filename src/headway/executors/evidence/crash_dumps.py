"""Reads faulthandler's dump of a worker that died of a fatal signal: where in the user's code it died.

The dump names every frame of every thread, deepest first, and ends with the worker's own frames. A unit's error has room
for one frame: the deepest one of the user's own code, not of the standard library, an installed package or Headway.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import msgspec

_FATAL: Final = re.compile(r"^Fatal Python error: .*$", re.MULTILINE)
_STACK: Final = re.compile(r"^Current thread 0x.*\n((?:  .*(?:\n|\Z))+)", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_OURS: Final = str(Path(__file__).absolute().parents[2]) + os.sep
_PYTHONS: Final = os.path.dirname(os.__file__) + os.sep
_INSTALLED: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


class CrashDump(msgspec.Struct, frozen=True):
    """`before`: the output up to the dump, and the kind of error. `place`: "pages.py:12 render", or ""."""

    before: str
    place: str


def read(stderr: str) -> CrashDump | None:
    """The last dump in a worker's standard error."""
    fatals = list(_FATAL.finditer(stderr))
    if not fatals:
        return None
    fatal = fatals[-1]
    stack = _STACK.search(stderr, fatal.end())
    return CrashDump(stderr[: fatal.end()], "" if stack is None else _place(stack[1]))


def _place(stack: str) -> str:
    frames: list[tuple[str, str, str]] = []
    for file, line, name in _FRAME.findall(stack):
        if file.startswith(_OURS):
            break  # Below are the frames that called the unit.
        if not file.startswith("<"):
            frames.append((file, line, name))
    if not frames:
        return ""
    # If all of it is installed code, take the first call: the function that the user named.
    file, line, name = next(filter(_is_user_code, frames), frames[-1])
    return f"{_relative(file)}:{line} {name}"


def _is_user_code(frame: tuple[str, str, str]) -> bool:
    return not (frame[0].startswith(_PYTHONS) or _INSTALLED.search(frame[0]))


def _relative(file: str) -> str:
    """A path below the working directory as a relative path."""
    return file.removeprefix(os.getcwd() + os.sep)
