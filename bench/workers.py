"""Worker processes: overhead per unit beside ProcessPoolExecutor, and a limit that is only in a log on both. Deaths: `deaths`."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

import headway
from bench import deaths, processes
from bench.deaths import AGENT, EXECUTOR, LOGS, WORKERS

#: Microseconds per no-op unit, without a store.
OVERHEAD_BAR_US: Final = 100.0
NO_OPS: Final = 10_000
ROUNDS: Final = 5


def clock(item: int) -> float:
    """A unit that does nothing but look at the clock, which is the same in all processes."""
    return time.monotonic()


# -- overhead -----------------------------------------------------------------------------------------------------


class Overhead(msgspec.Struct, frozen=True):
    """Microseconds per unit: the medians of several rounds, in turns."""

    map_us: float
    executor_us: float

    @property
    def ratio(self) -> float:
        """The ratio of the medians."""
        return self.map_us / self.executor_us


def overhead(units: int = NO_OPS, rounds: int = ROUNDS) -> Overhead:
    """No-op units through `headway.map` in worker processes, and through a ProcessPoolExecutor, in turns.

    Both start their workers anew each time. The first units are not counted, so that start-up does not count.
    """
    map_us, executor_us = [], []
    context = multiprocessing.get_context("spawn")
    for _ in range(rounds):
        map_us.append(_gap_us(headway.map(clock, range(units), isolation="process", workers=WORKERS)))
        with ProcessPoolExecutor(WORKERS, mp_context=context) as executor:
            executor_us.append(_gap_us(list(executor.map(clock, range(units)))))
    return Overhead(median(map_us), median(executor_us))


def _gap_us(called_at: list[float]) -> float:
    """Microseconds between two units, on average, from the first tenth of the units to the last one."""
    counted = sorted(called_at)[len(called_at) // 10 :]
    return (counted[-1] - counted[0]) / (len(counted) - 1) * 1e6


# -- a limit that is only in a log ----------------------------------------------------------------------------------

_CONFIG: Final = f"""
[providers.agent]
kind = "python"
target = "seed_agent:work"
workers = 4
failure_logs = "{LOGS}"
"""


class LimitInLogs(msgspec.Struct, frozen=True):
    """How many of 15 units each finished, and Headway's message."""

    executor: int
    headway: int
    summary: str


def limit_in_logs() -> LimitInLogs:
    """The limit is reached at the fifth of 15 units; workers exit hard, and the message is only in a log."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        (Path(first) / "seed_agent.py").write_text(AGENT)
        (Path(first) / "executor.py").write_text(EXECUTOR)
        command = [sys.executable, "executor.py"]
        output = subprocess.run(command, cwd=first, capture_output=True, check=True, timeout=60).stdout
        folder = Path(second)
        (folder / "seed_agent.py").write_text(AGENT)
        (folder / "headway.toml").write_text(_CONFIG)
        rows = (json.dumps({"id": f"t{n}", "payload": n}) + "\n" for n in range(15))
        (folder / "in.jsonl").write_text("".join(rows))
        ended = processes.run([*processes.HEADWAY, "run", "in.jsonl"], folder, 60.0)
        lines = (folder / "in.results.jsonl").read_text().splitlines()
        good = sum(json.loads(line)["error"] is None for line in lines)
        messages = [line for line in ended.errors.decode().splitlines() if "limit" in line]
    return LimitInLogs(int(output), good, messages[0].strip() if messages else "")


# -- the section of RESULTS.md ---------------------------------------------------------------------------------------


# -- worker processes ---------------------------------------------------------------------------------------------


def section(missed: list[str]) -> Iterator[str]:
    """The part of bench/RESULTS.md."""
    yield f"## {deaths.WORKERS} worker processes"
    yield ""
    print("workers: overhead …", flush=True)
    cost = overhead()
    yield (
        f"A no-op unit of `headway.map` takes {cost.map_us:.0f} µs (bar: ≤ {OVERHEAD_BAR_US:.0f}); with ProcessPoolExecutor, "
        f"in turns, {cost.executor_us:.0f} µs: {cost.ratio:.2f} times as long. Both with spawned processes, without a store and after start-up."
    )
    if cost.map_us > OVERHEAD_BAR_US:
        missed.append(f"a no-op unit in a worker: {cost.map_us:.0f} µs, the bar is {OVERHEAD_BAR_US:.0f}")
    yield ""
    yield "| deaths | finished | quarantined | attempts repeated | units that ran a wrong number of times | s |"
    yield "|---|---|---|---|---|---|"
    cases: dict[str, tuple[int, int, int]] = {
        f"{deaths.KILLS} SIGKILLs at random": (deaths.KILLS, 1, 0),
        "the whole pool, twice": (2 * deaths.WORKERS, deaths.WORKERS, 0),
        "a unit that always kills": (0, 1, 1),
    }
    for name, (kills, at_once, deadly) in cases.items():
        print(f"workers: {name} …", flush=True)
        case = deaths.deaths(kills, at_once, deadly)
        yield (
            f"| {name} | {case.finished} of {deaths.UNITS} | {case.quarantined} | {case.repeats} | {case.wrong} "
            f"| {case.took_s:.1f} |"
        )
        if case.wrong or case.quarantined != deadly:
            missed.append(f"{name}: {case.finished} finished, {case.wrong} ran a wrong number of times")
    yield ""
    yield from _limit_in_logs(missed)


def _limit_in_logs(missed: list[str]) -> Iterator[str]:
    print("workers: a limit in the logs …", flush=True)
    result = limit_in_logs()
    yield "### A limit at the fifth of 15 units, reported only in the logs of workers that exit hard"
    yield ""
    yield f"ProcessPoolExecutor finishes {result.executor} of 15, Headway {result.headway} of 15 after the reset. Its message:"
    yield f"`{result.summary}`"
    yield ""
    if result.headway != 15 or not result.summary:
        missed.append(f"a limit in the logs: {result.headway} of 15 finished")
