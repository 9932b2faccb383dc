"""Where a worker died, read from faulthandler's dump."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import headway
from headway.executors.evidence import crash_dumps

STDLIB = Path(os.__file__).parent
OURS = Path(headway.__file__).parent


def dump(*frames: str, others: str = "", after: str = "") -> str:
    stack = "".join(f"  {frame}\n" for frame in frames)
    return (
        "loading\nFatal Python error: Segmentation fault\n\n"
        f"{others}Current thread 0x00007f5 (most recent call first):\n{stack}{after}"
    )


def frame(file: object, line: int, name: str) -> str:
    return f'File "{file}", line {line} in {name}'


SERVED = frame(OURS / "api" / "served.py", 108, "serve")


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        ([frame("/home/me/pages.py", 12, "render"), SERVED], "/home/me/pages.py:12 render"),
        ([frame(Path.cwd() / "lib" / "pages.py", 12, "render"), SERVED], "lib/pages.py:12 render"),
        (
            [frame(STDLIB / "ctypes/__init__.py", 517, "string_at"), frame("/home/me/a.py", 3, "f"), SERVED],
            "/home/me/a.py:3 f",
        ),
        (
            [
                frame("/v/lib/python3.11/site-packages/numpy/core.py", 9, "dot"),
                frame("/v/lib/python3.11/site-packages/mine/work.py", 4, "work"),
                SERVED,
                frame("/home/me/never.py", 1, "never"),
            ],
            "/v/lib/python3.11/site-packages/mine/work.py:4 work",
        ),
        ([frame("<string>", 1, "<module>"), SERVED], ""),
        ([SERVED], ""),
        (["<no Python frame>"], ""),
    ],
)
def test_the_deepest_frame_of_the_users_own_code(frames: list[str], place: str) -> None:
    others = f"Thread 0x00007f4 (most recent call first):\n  {frame('/home/me/other.py', 1, 'other')}\n\n"
    found = crash_dumps.read(
        dump(*frames, others=others, after="\nExtension modules: msgspec._core (total: 1)\n")
    )
    assert found == crash_dumps.CrashDump("loading\nFatal Python error: Segmentation fault", place)


def test_a_truncated_dump_and_text_without_one() -> None:
    assert crash_dumps.read("Fatal Python error: Aborted") == crash_dumps.CrashDump(
        "Fatal Python error: Aborted", ""
    )
    cut = dump(frame("/home/me/a.py", 3, "f")).rstrip("\n")
    assert crash_dumps.read(cut) == crash_dumps.CrashDump(
        "loading\nFatal Python error: Segmentation fault", "/home/me/a.py:3 f"
    )
    assert crash_dumps.read("all is well\n") is None
