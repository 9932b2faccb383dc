"""What faulthandler wrote when a worker died of a fatal signal: where in the user's code that was.

Its dump names every frame of every thread, deepest first, and ends with those of the worker itself. A unit's error has
room for one: the deepest that is the user's own, neither the standard library's, nor an installed package's, nor ours.
"""

from __future__ import annotations

import os
import re
from typing import Final

import msgspec

_FATAL: Final = re.compile(r"^Fatal Python error: .*$", re.MULTILINE)
_STACK: Final = re.compile(r"^Current thread 0x.*\n((?:  .*(?:\n|\Z))+)", re.MULTILINE)
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PYTHONS: Final = os.path.dirname(os.__file__) + os.sep
_INSTALLED: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


class CrashDump(msgspec.Struct, frozen=True):
    """`before`: what was said until then, and the kind of error. `place`: "pages.py:12 render", or nothing."""

    before: str
    place: str


def read(stderr: str) -> CrashDump | None:
    """The last dump in what a worker said, if there is one."""
    fatals = list(_FATAL.finditer(stderr))
    if not fatals:
        return None
    fatal = fatals[-1]
    stack = _STACK.search(stderr, fatal.end())
    return CrashDump(stderr[: fatal.end()], "" if stack is None else _place(stack[1]))


def _place(stack: str) -> str:
    called: list[tuple[str, str, str]] = []
    for file, line, name in _FRAME.findall(stack):
        if file.startswith(_OURS):
            break  # What follows is how the unit came to be called.
        if not file.startswith("<"):
            called.append((file, line, name))
    if not called:
        return ""
    # Where all of it is installed, what was called first is what the user named.
    file, line, name = next(filter(_is_the_users, called), called[-1])
    return f"{_shown(file)}:{line} {name}"


def _is_the_users(frame: tuple[str, str, str]) -> bool:
    return not (frame[0].startswith(_PYTHONS) or _INSTALLED.search(frame[0]))


def _shown(file: str) -> str:
    """A path from here, if it is below."""
    here = os.getcwd() + os.sep
    return file.removeprefix(here)
