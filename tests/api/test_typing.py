"""The types of the API, as a type checker sees them. `make check` reads this file; a wrong type there is an error here.

`assert_type` fails where a type is another one, and an ignored error that does not come is an error itself
(`warn_unused_ignores`), so that both directions are held.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import assert_type

import headway
from headway import PoolResult, Result


async def shout(text: str) -> bytes:
    return text.upper().encode()


def test_map_returns_the_type_of_the_callable() -> None:
    assert assert_type(headway.map(len, ["a"]), list[int]) == [1]
    assert assert_type(headway.map(shout, ["a"]), list[bytes]) == [b"A"]
    assert assert_type(headway.map(shout, ["a"], on_error="return"), list[bytes | BaseException]) == [b"A"]
    assert assert_type(headway.map(len, ["a"], on_error="return"), list[int | BaseException]) == [1]
    assert headway.map(len, ["a"], lane=lambda item: item.lower(), progress=False) == [1]


async def test_amap_returns_the_type_of_the_callable() -> None:
    assert assert_type(await headway.amap(shout, ["a"]), list[bytes]) == [b"A"]
    assert assert_type(await headway.amap(len, ["a"]), list[int]) == [1]
    assert assert_type(await headway.amap(len, ["a"], on_error="return"), list[int | BaseException]) == [1]


async def test_a_stream_knows_the_item_and_the_value() -> None:
    async for done in headway.stream(shout, ["a"]):
        assert_type(done, Result[str, bytes])
        assert assert_type(done.get(), bytes) == b"A"


def test_run_pool_counts() -> None:
    assert assert_type(headway.run_pool(["a"], 2, shout), PoolResult) == PoolResult(completed=1)


def wrong_calls() -> None:
    """Never run: what a checker must complain about."""
    headway.map(shout, [1])  # type: ignore[arg-type]
    headway.map(len, ["a"], limit=3)  # type: ignore[call-overload]
    headway.map(len, ["a"], timeout=None)  # type: ignore[call-overload]
    headway.usage(tokens=3)  # type: ignore[call-arg]
    headway.Retry(5)  # type: ignore[call-arg]
    headway.run_pool(["a"], 2, shout, is_interrupted=True)  # type: ignore[arg-type]


def test_mypy_accepts_this_file(tmp_path: Path) -> None:
    """As a user has it: the installed package, found by its `py.typed`."""
    sample = tmp_path / "sample.py"
    sample.write_text(
        "import headway\n"
        "numbers: list[int] = headway.map(len, ['a'])\n"
        "words: list[str] = headway.map(len, ['a'])\n"
        "headway.Limits(rpms=3)\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(sample)]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = [
        line.split(" ", 1)[0].rpartition("sample.py")[2]
        for line in told.stdout.splitlines()
        if "error:" in line
    ]
    assert lines == [":3:", ":4:"], told.stdout + told.stderr
