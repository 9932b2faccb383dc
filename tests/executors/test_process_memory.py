"""Memory of programs: measured by process tree, and a ceiling for the number that run at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.crash.stage import wait_for

from headway.config import checks
from headway.executors.memory import memory_gauge
from headway.executors.memory.memory_gauge import MemoryGauge
from headway.executors.memory.process_memory import free_bytes, tree_bytes

MB = 1e6
#: A parent and a child that each hold 60 MB of their own.
HUNGRY = (
    "import subprocess, sys, time; held = bytearray(b'x' * 60_000_000)\n"
    "if len(sys.argv) < 2: subprocess.Popen([sys.executable, '-c', open('/proc/self/cmdline').read().split(chr(0))[2], 'child'])\n"
    "print('ready', flush=True); time.sleep(60)"
)


@pytest.fixture
def hungry() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", HUNGRY], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.readline()
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_a_tree_counts_with_its_children(hungry: subprocess.Popen[bytes]) -> None:
    wait_for("both have their memory", lambda: tree_bytes(hungry.pid) > 120 * MB)
    assert tree_bytes(hungry.pid) < 250 * MB


def test_a_process_that_has_ended_takes_nothing() -> None:
    assert tree_bytes(2**22 - 7) == 0.0


def test_free_memory_is_known_here() -> None:
    free = free_bytes()
    assert free is not None
    assert 10 * MB < free < 1e13


def measured(guess: float | None, sizes: list[float]) -> list[float | None]:
    """What one process is expected to take: before it starts, after all but the last of these measures, and after its end."""

    async def run() -> list[float | None]:
        loop, last, left = asyncio.get_running_loop(), asyncio.Event(), iter(sizes)
        calls = 0

        def measure(pid: int) -> float:
            nonlocal calls
            calls += 1
            if calls == len(sizes):
                loop.call_soon_threadsafe(last.set)
            return next(left, sizes[-1])

        gauge = MemoryGauge(4e9, guess, measure)
        before = gauge.each
        end = gauge.watch(1)
        await last.wait()  # The measures before this one are noted.
        during = gauge.each
        end()
        return [before, during, gauge.each]

    return asyncio.run(run())


def test_a_guess_stands_until_a_process_has_shown_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_gauge, "STEPS_S", (0.0,))
    assert measured(400 * MB, [50 * MB, 300 * MB, 200 * MB]) == [400 * MB, 400 * MB, 300 * MB]


def test_a_process_that_has_run_for_a_while_counts_before_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_gauge, "STEPS_S", (0.0,))
    assert measured(400 * MB, [100 * MB] * 6) == [400 * MB, 100 * MB, 100 * MB]


def test_any_other_program_is_measured_and_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_gauge, "STEPS_S", (0.0,))
    assert measured(None, [70 * MB, 70 * MB]) == [None, 70 * MB, 70 * MB]


@pytest.mark.parametrize(("value", "means"), [("75%", 0.75), ("100 %", 1.0), ("4GB", 4e9), (0, 0.0)])
def test_a_budget_is_a_share_or_a_size(value: object, means: float) -> None:
    assert checks.memory_budget(value) == means


@pytest.mark.parametrize("value", ["0%", "101%", "much", -1, True])
def test_other_budgets_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match='a share such as "75%" or a size such as "4GB"'):
        checks.memory_budget(value)
