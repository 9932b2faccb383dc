"""Jobs of Python programs: what the record says after a deadline and a death, and what commands say of them."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli import main


def rows(db: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(sql).fetchall()


def test_calls_that_a_deadline_cuts_short_are_on_record_with_their_cost(tmp_path: Path) -> None:
    """Two have ended, two are in flight when the time is up: all four were called, and paid for."""
    import asyncio

    async def work(n: int) -> int:
        headway.usage(cost_usd=0.5)
        await asyncio.sleep(0 if n < 2 else 60)
        return n

    db = tmp_path / "deadline.db"
    limits = headway.Limits(max_concurrency=2)
    results = headway.map(
        work, range(6), db=db, key=str, limits=limits, max_duration="700ms", on_error="return", name="work"
    )
    assert results[:2] == [0, 1]
    assert rows(db, "SELECT outcome FROM attempts ORDER BY rowid") == [
        ("succeeded",), ("succeeded",), ("cancelled",), ("cancelled",),
    ]  # fmt: skip
    assert rows(db, "SELECT attempts, cost_usd FROM jobs") == [(4, 2.0)]


PROGRAM = """
import headway, os, signal
def work(n):
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return n
if __name__ == "__main__":
    headway.map(work, range(6), db="it.db", key=str, limits=headway.Limits(max_concurrency=1), isolation="inline")
"""


def test_units_that_may_have_been_called_are_named_at_the_start(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    said = [
        subprocess.run(
            [sys.executable, script], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60
        ).stderr
        for _ in range(2)
    ]
    assert "may have been called" not in said[0]
    assert "may have been called when the last process ended, and may be paid for twice: " in said[1]
    assert "3" in said[1].partition("twice: ")[2]


def test_a_cap_counts_what_is_in_flight_by_the_dearest_call_so_far() -> None:
    """Eight start before any cost is known. Once one told $1, the others stand for $7: nothing more starts under $5."""
    import asyncio

    called = []

    async def work(n: int) -> int:
        called.append(n)
        await asyncio.sleep(0.05 if n == 0 else 0.4)
        headway.usage(cost_usd=1.0)
        return n

    results = headway.map(work, range(50), max_cost=5, concurrency=8, on_error="return")
    assert called == list(range(8))
    assert [each for each in results if not isinstance(each, Exception)] == list(range(8))


@pytest.mark.parametrize("command", [("pause",), ("cancel",), ("resume",), ("lanes", "--reopen", "calls")])
def test_a_command_says_that_a_python_program_does_not_hear_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    db, codes = tmp_path / "it.db", []

    def work(n: int) -> int:
        codes.append(main([*command, "--db", str(db)]))
        return n

    assert headway.map(work, [1], db=db, key=str, name="work", progress=False) == [1]
    assert codes == [2]
    assert "is a Python program's (map of" in capfd.readouterr().err
