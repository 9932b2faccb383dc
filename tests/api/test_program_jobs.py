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


def test_a_budget_counts_calls_in_flight_by_the_most_expensive_one_so_far() -> None:
    """Eight start before any cost is known. Once one has reported $1, the others count as $7: nothing more starts under $5."""
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
def test_a_command_says_that_python_programs_do_not_read_commands(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    db, codes = tmp_path / "it.db", []

    def work(n: int) -> int:
        codes.append(main([*command, "--db", str(db)]))
        return n

    assert headway.map(work, [1], db=db, key=str, name="work", progress=False) == [1]
    assert codes == [2]
    assert "belongs to a Python program (map of" in capfd.readouterr().err


@pytest.mark.parametrize(
    "odd",
    [
        {"error": None}, {"session_id": None}, {"cost_usd": None}, {"conversation": None}, {"output_files": None},
        {"rendered_prompt": None}, {"session_id": 123}, {"cost_usd": float("nan")}, {"cost_usd": -5.0},
        {"cost_usd": float("inf")}, {"cost_usd": "much"}, {"error": "caf\udce9.txt"},
    ],
    ids=str,
)  # fmt: skip
def test_a_field_of_another_type_does_not_change_the_record(tmp_path: Path, odd: dict[str, Any]) -> None:
    class Grader:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return headway.WorkerResult(True, output={"grade": "A"}, **odd)

    seen: list[Any] = []
    for _ in range(2):
        with headway.WorkerPool(
            Grader(),
            store=tmp_path / "it.db",
            on_unit_complete=lambda unit, result: seen.append(result.output),
        ) as pool:
            pool.submit_work_unit("a", "x")
            assert pool.wait_for_completion(20)
    assert seen == [{"grade": "A"}, {"grade": "A"}]
    assert rows(tmp_path / "it.db", "SELECT state, cost_usd FROM jobs") == [("complete", 0.0)]


def test_a_pool_that_starts_again_forgets_how_it_ended_before(tmp_path: Path) -> None:
    class Echo:
        def execute(self, prompt: str, payload: Any, timeout: float) -> headway.WorkerResult:
            return headway.WorkerResult(True, output=prompt)

    pool = headway.WorkerPool(Echo(), "again", tmp_path / "it.db")
    for unit in ("a", "b"):
        pool.start()
        pool.submit_work_unit(unit, unit)
        assert pool.wait_for_completion(20)
        pool._interrupted = unit == "a"
        pool.stop()
    assert rows(tmp_path / "it.db", "SELECT state FROM jobs") == [("complete",)]


@pytest.mark.parametrize("number", [2**63, 1e18, float("inf"), -1])
def test_impossible_usage_is_refused(number: float) -> None:
    with pytest.raises(headway.HeadwayError, match="usage: input_tokens is"):
        headway.usage(input_tokens=number)


STUBBORN = """
import asyncio, headway, os, signal, threading, time
async def stubborn(n):
    while True:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            pass
def interrupt():
    for _ in range(3):
        time.sleep(0.6)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
headway.map(stubborn, range(3))
"""


def test_a_third_interrupt_ends_a_map_whose_calls_ignore_their_cancellation() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUBBORN], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert "KeyboardInterrupt" in done.stderr
